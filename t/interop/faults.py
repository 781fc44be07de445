# SPDX-License-Identifier: MIT
"""faults.py - the wire between the two made worse on purpose, both ways; and mistakes, with what each end makes of them."""
import re
import threading

import cases
import lab
import peers
import rows

FAULTS = [
    ("loss=2%", False), ("dup=3%", False), ("reorder=3%", False), ("corrupt=2%", False), ("delay=3ms", False),
    ("loss=1%,dup=1%,reorder=1%,corrupt=1%,delay=1ms", True),
]


# ---- a bad wire -------------------------------------------------------------------------

def programs(server):
    """(name, what runs it); with UC and UD messages may be missing, what arrives must be right"""
    a = server.ip
    few = rows.FEW + ["-u", "18"]	# an emulated processor takes its time to answer a window sent again
    verbs = [["-t", "uc", "-n", "15", "-s", "10000", "-l"], ["-t", "ud", "-n", "10", "-l"]]
    for n, options in enumerate(verbs):
        options = options + ["-u", "18", "-S", str(50 + n)]
        yield "vdata " + " ".join(options), lambda s, c, o=options: lab.pair(s, c, rows.vdata_argv(o), 120)
    for tool, options in ((cases.BW["send"], ["-s", "30000"]), (cases.BW["write"], ["-s", "30000", "-q", "4"]), (cases.BW["read"], ["-s", "30000"]),
                          (cases.BW["atomic"], [])):
        options = few + options
        yield "%s %s" % (tool, " ".join(options)), lambda s, c, t=tool, o=options: cases.perftest(s, c, t, o, 1, 120)
    for size in ("100", "3000", "40000"):	# SEND, READ and WRITE, compared by the client
        s = ["rping", "-s", "-a", a, "-V", "-C", "20", "-S", size]
        c = ["rping", "-c", "-a", a, "-V", "-C", "20", "-S", size]
        yield " ".join(s), lambda server, client, s=s, c=c: peers.cm_pair(server, client, s, c, limit=180)


def bad_wire(bench, full):
    totals = [0] * 5
    bench.tally.skip("vdata -t rc over a bad wire", "rxe forgets requests when both ends send and packets come again, see rdmad-interop(7)")
    for spec, brief in FAULTS:
        for seed in (1, 2, 3) if full else (1,) if brief else ():
            for server, client, where in bench.ways():
                for name, fn in programs(server):
                    text = "%s,seed=%d" % (spec, seed)

                    def suffering():
                        bench.wire.faults(text, text)
                        try:
                            fn(server, client)
                        finally:
                            bench.wire.faults(None, None)
                            totals[:] = [a + b for a, b in zip(totals, bench.wire.order("fault off"))]
                    bench.case("%s: %s: %s" % (where, text, name), suffering, damaged=True)
    bench.tally.case("packets were lost, doubled, damaged and late: %s" % totals[1:], lambda: shown(totals))


def shown(totals):
    if not all(totals[1:]):
        raise lab.Failed("was there any fault at all?")


def outage(bench):
    """A wire that is cut for a while: what was on its way comes again."""
    def cut(server, client):
        bench.wire.order("cut")
        mend = threading.Timer(0.7, bench.wire.order, ["mend"])
        mend.start()
        try:
            lab.pair(server, client, rows.vdata_argv(["-t", "rc", "-n", "10", "-s", "20000", "-u", "17"]), 60)
        finally:
            mend.join()
    for server, client, where in bench.ways():
        bench.case("%s: 0.7 s without a wire: vdata -t rc" % where, cut, server, client)


# ---- mistakes -----------------------------------------------------------------------------

NO_ACCESS_EVENT = "no asynchronous event; expected: local access violation work queue error"
NO_REQ_EVENT = "no asynchronous event; expected: invalid request local work queue error"
# A window of rxe lets everything of its region pass.
BEYOND = ["wr_id 1: success (0); expected wr_id 1: remote access error (10)", "the QP is in state 3, not 6"]
WRITTEN = [NO_ACCESS_EVENT, "the QP is in state 3, not 6", "what came through the window is wrong", "something was written beside the window"]

# Where soft-RoCE is not as specified. By the case, who is its server, and whose words they are: what vdata -k prints.
DIFFERS = {
    # rxe makes the mistake: what it says of itself
    ("send-bad-lkey", "rdmad", "rxe"): ["wr_id 1: local QP operation error (2); expected wr_id 1: local protection error (4)"],
    ("send-other-pd", "rdmad", "rxe"): ["wr_id 1: local QP operation error (2); expected wr_id 1: local protection error (4)"],
    ("flush", "rdmad", "rxe"): ["no completion; wr_id 60 should: Work Request Flushed Error"],
    ("cq-overrun", "rdmad", "rxe"): ["the QP is in state 3, not 6"],
    ("ud-too-long", "rdmad", "rxe"): ["wr_id 1: success (0); expected wr_id 1: local length error (1)",
                                      "wr_id 2: success (0); expected wr_id 2: Work Request Flushed Error (5)", "the QP is in state 3, not 5"],
    # rxe is its victim
    ("send-too-long", "rxe", "rdmad"): ["wr_id 1: remote operation error (11); expected wr_id 1: remote invalid request error (9)"],
    ("send-many-packets-too-long", "rxe", "rdmad"): ["wr_id 1: remote operation error (11); expected wr_id 1: remote invalid request error (9)"],
    ("send-too-long", "rxe", "rxe"): ["wr_id 50: local QP operation error (2); expected wr_id 50: local length error (1)"],
    ("send-many-packets-too-long", "rxe", "rxe"): ["wr_id 50: local QP operation error (2); expected wr_id 50: local length error (1)"],
    ("recv-bad-lkey", "rxe", "rxe"): ["wr_id 50: local QP operation error (2); expected wr_id 50: local protection error (4)"],
    ("window-type1", "rxe", "rdmad"): BEYOND,
    ("window-beyond-end", "rxe", "rdmad"): BEYOND,
    ("window-type1", "rxe", "rxe"): WRITTEN,
    ("window-beyond-end", "rxe", "rxe"): WRITTEN,
    ("window-closed-by-send", "rxe", "rxe"): ["flags 5, without IBV_WC_WITH_INV", NO_ACCESS_EVENT],
    ("last-wqe", "rxe", "rxe"): ["no asynchronous event; expected: last WQE reached"],
}
for _name in ["write-bad-rkey", "read-bad-rkey", "atomic-bad-rkey", "write-beyond-end", "write-address-wraps", "write-other-pd",
              "write-region-without-right", "read-region-without-right", "write-deregistered", "window-closed-by-owner"]:
    DIFFERS[_name, "rxe", "rxe"] = [NO_ACCESS_EVENT]
for _name in ["write-qp-without-right", "read-qp-without-right", "read-without-resources", "atomic-misaligned"]:
    DIFFERS[_name, "rxe", "rxe"] = [NO_REQ_EVENT]

# So it is since Linux 7.2.
FLUSHED = ["wr_id 1: Work Request Flushed Error (5); expected wr_id 1: local protection error (4)"]
SINCE_7 = dict(DIFFERS)
for _name in ["send-bad-lkey", "send-beyond-end", "send-other-pd"]:
    SINCE_7[_name, "rdmad", "rxe"] = FLUSHED
for _key in [key for key, said in DIFFERS.items() if said == [NO_ACCESS_EVENT]] + [("last-wqe", "rxe", "rxe")]:
    del SINCE_7[_key]
SINCE_7["window-closed-by-send", "rxe", "rxe"] = ["flags 5, without IBV_WC_WITH_INV"]

# Mistakes that rxe does not let its program make.
NOT_BY_RXE = {"atomic-misaligned": "rxe's library refuses to post it"}


def mistake(server, client, name, differs):
    def argv(end, port, peer):
        usual = cases.vdata_argv(["-E", name])(end, port, peer)
        return usual[:1] + ["-k"] + usual[1:]

    def whose(end):
        return "rdmad" if isinstance(end.daemon, lab.Daemon) else "rxe"

    for end, p in zip((server, client), lab.pair(server, client, argv, 60)):
        said = re.findall(r"^differs: (.*)$", p.output(), re.M)
        want = differs.get((name, whose(server), whose(end)), [])
        if said != want:
            raise lab.Failed("%s says: %s; expected was: %s" % (whose(end), said, want))


def mistakes(bench):
    differs = SINCE_7 if bench.linux >= 7 else DIFFERS
    names = lab.run(cases.vdata_argv([])(bench.ends["rdmad", False], 1, None)[0], "-L").split()
    for server, client, where in bench.ways():
        for name in names:
            title = "%s: vdata -E %s" % (where, name)
            if name in NOT_BY_RXE and isinstance(server.daemon, lab.Daemon):
                bench.tally.skip(title, NOT_BY_RXE[name])
            else:
                bench.case(title, mistake, server, client, name, differs, packets=0)


def run(bench, full):
    if bench.mtu > 1500:
        return
    mistakes(bench)
    outage(bench)
    bad_wire(bench, full)
