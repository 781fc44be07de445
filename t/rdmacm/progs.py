# SPDX-License-Identifier: MIT
"""progs.py - unmodified programs that connect by librdmacm: how they are called, and what must come of it.

A Place is where the two ends of a connection are: a daemon and an address each. talk() runs a server and a client, holds
both to their exit status and to what they print, and then looks whether anything of them is left in the daemons. A client
starts when its server listens, as the daemon tells (or its namespace, of TCP): nothing waits for a time.
"""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import cases
import lab
import places
import sandbox


class Place:
    """name; the server's and the client's daemon and address. Both daemons may be one."""

    def __init__(self, name, daemons, addresses):
        self.name = name
        self.server, self.client = daemons
        self.s, self.c = addresses
        self.v6 = ":" in self.s

    def daemons(self):
        return list(dict.fromkeys((self.server, self.client)))

    def fill(self, argv):
        return [a.format(s=self.s, c=self.c) for a in argv.split()]


def one_device():
    """(daemon, places): 127.0.0.1 and ::1 of one device."""
    d = lab.Daemon(lab.host_here())
    return d, [Place(a, (d, d), (a, a)) for a in ("127.0.0.1", "::1")]


def wire(mtu=1500, options=()):
    """(hosts, daemons, places): two daemons over veth, by IPv4 and IPv6."""
    hosts, daemons = places.wire_open(mtu, options=options)
    return hosts, daemons, [Place("veth %s" % v(1), daemons, (v(1), v(2))) for v in (lab.v4, lab.v6)]


def cm(daemon, what):
    return daemon.ctl("stats")["daemon"]["cm"][what]


def left(daemon):
    """What programs have in it now; an empty dict is nothing."""
    found = dict(daemon.objects())
    found.update({k: n for k, n in daemon.ctl("stats")["daemon"]["cm"].items() if k != "agent_ids"})
    return {k: n for k, n in found.items() if n}


def nothing_left(*daemons, limit=10.0):
    for d in daemons:
        try:
            lab.until("nothing of the programs to be left", lambda: not left(d), limit, 0.02)
        except lab.Failed as e:
            raise lab.Failed("%s: %s, %s" % (e, left(d), d.ctl("qps")))


def is_up(daemon, what, prog):
    """Does the server listen? what: a count of the daemon's, or a TCP port."""
    if prog.ended():
        raise lab.Failed("the server ended with %d: %s" % (prog.wait(), prog.describe()))
    return prog.listening(what) if isinstance(what, int) else cm(daemon, what)


def talk(place, server, client, what="listeners", limit=60.0, check=None, ends=True, clients=1):
    """ends: the server ends by itself, with 0; else it is ended. check(text of the server, text of the client)."""
    s = place.server.start(place.fill(server), limit * 2)
    c = None
    try:
        lab.until("the server to listen: " + s.describe(), lambda: is_up(place.server, what, s), 20)
        for _ in range(clients):
            c = place.client.start(place.fill(client), limit)
            status = c.wait()
            if status:
                raise lab.Failed("the client ended with %d: %s\n    the server: %s" % (status, c.describe(), s.describe()))
        if ends:
            status = s.wait()
            if status:
                raise lab.Failed("the server ended with %d: %s\n    the client: %s" % (status, s.describe(), c.describe()))
        if check:
            check(s.output(), c.output())
    finally:
        s.kill()
        if c:
            c.kill()
    nothing_left(*place.daemons())


def both_say(pattern):
    """A check: a line of each of the two."""
    def check(*texts):
        for text in texts:
            if not re.search(pattern, text, re.M):
                raise lab.Failed("no %r in: %s" % (pattern, text[-1500:]))
    return check


def client_says(pattern):
    return lambda server, client: both_say(pattern)(client)


def rows_have(n):
    """A check for perftest: so many rows of results, and no complaint."""
    def check(server, client):
        if re.search(r"Failed|failed|Couldn't|Completion with error|Unable", client + server):
            raise lab.Failed("it complains: %s%s" % (server, client))
        if len(cases.rows_of(client)) != n:
            raise lab.Failed("not %d rows: %s" % (n, client))
    return check


# ---- the programs ------------------------------------------------------------------

RPING = "rping -s -a {s} -v -V -C %s", "rping -c -a {s} -v -V -C %s"


def rping(options, count=20):
    return (RPING[0] % count + options, RPING[1] % count + options)


def pings(n):
    """Each end prints what it got, and -V compares it. (What it says of the end may fall into the last line.)"""
    def check(*texts):
        for text in texts:
            got = len(set(re.findall(r"rdma-ping-\d+: ", text)))
            if got < n - 1:
                raise lab.Failed("%d pings of %d: %s" % (got, n, text[-1500:]))
    return check


SIZES = (64, 100, 1024, 4095, 4096, 10000, 65535)
SIZES_FULL = sorted({s + d for s in (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65535) for d in (-1, 0, 1)}
                    - {65536})


def rpings(tally, place, full):
    tally.case("%s: rping -C 1000" % place.name, talk, place, *rping("", 1000), check=pings(1000))
    for size in SIZES_FULL if full else SIZES:
        tally.case("%s: rping -S %d" % (place.name, size), talk, place, *rping(" -S %d" % size), check=pings(20))
    tally.case("%s: rping -q" % place.name, talk, place, *rping(" -S 64 -q"), check=pings(20))
    tally.case("%s: rping -q -S 65535" % place.name, talk, place, *rping(" -S 65535 -q"), check=pings(20))
    n = 50 if full else 10
    tally.case("%s: rping -P, %d clients in turn" % (place.name, n), talk, place, "rping -s -P -a {s}",
               "rping -c -a {s} -V -C 10", ends=False, clients=n)


def ucmatoses(tally, place, full):
    rows = ["", " -c 50 -C 5 -S 1000", " -m", " -t 8"]
    if not place.v6:
        rows += [" -f name", " -f ip", " -f ip -P ib -t 8"]
    for row in rows:
        server = "ucmatose -b {s}" if "-f" not in row else "ucmatose -f ip" if "-P" in row else "ucmatose"
        tally.case("%s: ucmatose%s" % (place.name, row), talk, place, server + re.sub(r" -f name", "", row),
                   "ucmatose -s {s}" + row, check=both_say(r"^return status 0$"))


# server, client, how many rows of what (a check), and whether IPv6 is in the tool
SIMPLE = (
    ("rdma_server", "rdma_client -s {s}", both_say(r": end 0$"), False),
    ("rdma_server -s {s}", "rdma_client -s {s}", both_say(r": end 0$"), True),
    ("rdma_xserver -c r", "rdma_xclient -s {s} -c r", both_say(r": end 0$"), False),
    ("rdma_xserver -c x", "rdma_xclient -s {s} -c x", both_say(r": end 0$"), False),
    ("udaddy -b {s}", "udaddy -s {s}", both_say(r"^return status 0$"), True),
    ("udaddy -b {s} -c 10 -C 20 -S 100", "udaddy -s {s} -c 10 -C 20 -S 100", both_say(r"^return status 0$"), True),
    ("udaddy -b {s} -p 0x0002", "udaddy -s {s} -p 0x0002", both_say(r"^return status 0$"), True),
)

PERFTEST = (
    ("ib_send_bw", "-s 65536 -n 200"), ("ib_write_lat", "-n 200"), ("ib_write_bw", "-s 100000 -n 100 -q 4"),
    ("ib_read_lat", "-n 200"), ("ib_send_lat", "-n 200 -e"), ("ib_atomic_bw", "-n 200"),
    ("ib_send_bw", "-c UD -s 1000 -n 200"), ("ib_send_bw", "-b -s 65536 -n 200"),
)


def perftests(tally, place, full):
    for tool, options in PERFTEST:
        server = "%s -F -R %s -p %d" % (tool, options, lab.port_next())
        tally.case("%s: %s -R %s" % (place.name, tool, options), talk, place, server, server + " {s}", check=rows_have(1))


def simples(tally, place, full):
    for server, client, check, v6 in SIMPLE:
        if v6 or not place.v6:
            tally.case("%s: %s" % (place.name, client.format(s="...")), talk, place, server, client, check=check)


def cmtimes(tally, place, full):
    n = 500
    tally.case("%s: cmtime -c %d" % (place.name, n), talk, place, "cmtime -b {s}", "cmtime -s {s} -c %d" % n, limit=120,
               ends=False, check=client_says(r"^destroy\s*:"))


# ---- multicast ----------------------------------------------------------------------

def mckey(place, group):
    """Two receivers, one at each end, and a sender."""
    def receiver(d, address):
        return d.start(["mckey", "-m", group, "-b", address, "-c", "2"], 60)

    progs = [receiver(place.server, place.s), receiver(place.client, place.c)]
    try:
        for d in place.daemons():
            lab.until("the receivers to be in the group", lambda: cm(d, "groups") == 2 * 2 // len(place.daemons()), 20)
        progs.append(place.client.start(["mckey", "-m", group, "-b", place.c, "-s", "-c", "2"], 60))
        for p in reversed(progs):
            if p.wait():
                raise lab.Failed("one ended with %d: %s" % (p.wait(), p.describe()))
            both_say(r"^return status 0$")(p.output())
    finally:
        for p in progs:
            p.kill()
    nothing_left(*place.daemons())


# ---- qperf, fio, dapl ---------------------------------------------------------------------

QPERF = ("rc_bw", "rc_lat", "rc_bi_bw", "rc_rdma_write_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "rc_rdma_read_bw",
         "rc_rdma_read_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add")


def qperf(place, tests, seconds):
    port = lab.port_next()
    talk(place, "qperf -lp %d" % port, "qperf -lp %d -cm 1 -t %d {s} %s" % (port, seconds, " ".join(tests)), port, ends=False,
         limit=20 + len(tests) * (seconds + 3),
         check=client_says("(?s)" + ".*".join(r"%s:\n    (bw|latency|msg_rate) +=" % t for t in tests)))


def qperf_datagrams(place):
    """Its tests of UC and UD switch -cm off and know no GRH: what every RoCE device refuses, ours does with the same errno."""
    try:
        qperf(place, ("ud_lat",), 1)
    except lab.Failed as e:
        # If the server is the first it may be gone before it has told the client all of its words.
        if "failed to create address handle: Invalid argument" not in str(e) and not re.search(r"(?m)^\W*server: *$", str(e)):
            raise
        return nothing_left(*place.daemons())
    raise lab.Failed("an address handle without a GRH was made")


def qperfs(tally, place, full):
    tests = QPERF if full else ("rc_lat", "rc_rdma_write_bw", "ver_rc_fetch_add")
    tally.case("%s: qperf -cm 1 %s" % (place.name, " ".join(tests)), qperf, place, tests, 1)
    tally.case("%s: qperf ud_lat is refused" % place.name, qperf_datagrams, place)


FIO = "fio --name=x --thread --ioengine=rdma --port=%d --bs=64k --size=4m --verify_state_save=0 --output-format=normal "


def fio(place, verb, extra):
    """As many receives as there are messages: fio tells its peer to give up at the first RNR NAK."""
    port = lab.port_next()
    head = FIO % port
    talk(place, head + "--rw=read --iodepth=64" + extra, head + "--hostname={s} --verb=%s --rw=write --iodepth=1%s" % (verb, extra),
         check=client_says(r"(?s)err= 0.*WRITE: bw=.*io=4096KiB"))


def fio_differs(place):
    """The receiver does compare."""
    try:
        port = lab.port_next()
        talk(place, FIO % port + "--rw=read --iodepth=64 --verify=crc32c",
             FIO % port + "--hostname={s} --verb=send --rw=write --iodepth=1")
    except lab.Failed as e:
        if "verify" in str(e):
            return nothing_left(*place.daemons())
        raise
    raise lab.Failed("other data than expected were taken for right")


def fios(tally, place, full):
    for verb, extra in (("write", ""), ("read", ""), ("send", ""), ("send", " --verify=crc32c")):
        tally.case("%s: fio --verb=%s%s" % (place.name, verb, extra), fio, place, verb, extra)
    if full:
        tally.case("%s: fio notices other data" % place.name, fio_differs, place)


DTEST_PORT = 15828		# TCP, for what the two say to each other before they connect


def dat_conf(daemon, address):
    """One provider, at this address of this daemon. (Both ends must give it one name.)"""
    daemon.env["DAT_OVERRIDE"] = path = os.path.join(sandbox.work_dir, "dat.%s" % address)
    with open(path, "w") as f:
        f.write('here u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "%s 0" ""\n' % address)


def dtest(place, options):
    dat_conf(place.server, place.s)
    dat_conf(place.client, place.c)
    talk(place, "dtest -P here " + options, "dtest -P here -h {s} " + options, DTEST_PORT, limit=180,
         check=both_say(r"DAPL Test Complete\. PASSED"))


def dtests(tally, place, full):
    for options in ("-b 65536 -B 10", "-W -b 4096 -B 100") + (("-B 100", "-w -B 100") if full else ()):
        tally.case("%s: dtest %s" % (place.name, options), dtest, place, options)


# ---- all of them ------------------------------------------------------------------------------

def family(tally, place, full, tools, run):
    """tools: {program: Debian package}; one that is not installed is a skip with a name."""
    for tool, package in tools.items():
        if not shutil.which(tool):
            tally.skip("%s: %s" % (place.name, tool), "%s is not installed (Debian: %s)" % (tool, package))
            return
    run(tally, place, full)


def everything(tally, place, full):
    utils = "rdmacm-utils"
    family(tally, place, full, {"rping": utils}, rpings)
    family(tally, place, full, {"ucmatose": utils}, ucmatoses)
    family(tally, place, full, {"rdma_server": utils, "udaddy": utils}, simples)
    family(tally, place, full, {"cmtime": utils}, cmtimes)
    if place.s == "::1":
        tally.skip("%s: mckey" % place.name, "Linux routes no groups of IPv6 over the loopback interface")
    else:
        tally.case("%s: mckey, two receivers" % place.name, mckey, place, "ff15::77" if place.v6 else "239.7.7.7")
    if place.v6:	# the others know IPv4 only
        return
    family(tally, place, full, {"ib_send_bw": "perftest"}, perftests)
    family(tally, place, full, {"qperf": "qperf"}, qperfs)
    family(tally, place, full, {"fio": "fio"}, fios)
    family(tally, place, full, {"dtest": "dapl2-utils"}, dtests)
