# SPDX-License-Identifier: MIT
"""rows.py - what is run between the two, each row for either as the server."""
import os
import re

import cases
import lab
import peers

BOTH, QUICK, FULL = 2, 1, 0	# in the brief run by IPv4 and IPv6, by IPv4, not at all
FEW = ["-n", "5"]		# perftest's fewest: the guest's processor is emulated


def wanted(quick, full, v6):
    return full or quick > bool(v6)


# ---- verbs: vdata compares every byte, the pingpongs with -c do ------------------------

VDATA = [
    (BOTH, ["-t", "rc", "-n", "20", "-s", "60000"]),
    (FULL, ["-t", "rc", "-n", "6", "-s", "1048576"]),
    (FULL, ["-t", "rc", "-n", "12", "-s", "60000", "-T", "4"]),
    (QUICK, ["-t", "rc", "-n", "12", "-s", "60000", "-e", "-q"]),
    (QUICK, ["-t", "rc", "-n", "12", "-s", "20000", "-m", "256"]),
    (FULL, ["-t", "rc", "-n", "12", "-s", "40000", "-m", "512"]),
    (BOTH, ["-t", "uc", "-n", "20", "-s", "20000"]),
    (FULL, ["-t", "uc", "-n", "12", "-s", "20000", "-m", "256"]),
    (FULL, ["-t", "uc", "-n", "12", "-s", "20000", "-m", "512", "-e"]),
    (BOTH, ["-t", "ud", "-n", "10", "-l"]),
    (FULL, ["-t", "ud", "-n", "10", "-l", "-e", "-q", "-m", "256"]),
]



def vdata_argv(options):
    """The provider of rxe in rdma-core 44 loses requests that are made by ibv_wr_*(), also between two rxe."""
    usual = cases.vdata_argv(options)
    return lambda end, port, peer: usual(end, port, peer)[:1] + ([] if isinstance(end.daemon, lab.Daemon) else ["-x", "e"]) + usual(end, port, peer)[1:]


PINGPONGS = [
    (BOTH, "ibv_rc_pingpong", ["-c"]),
    (FULL, "ibv_rc_pingpong", ["-c", "-e", "-s", "1048576", "-r", "8"]),
    (FULL, "ibv_rc_pingpong", ["-c", "-N", "-m", "256", "-s", "10001"]),
    (FULL, "ibv_rc_pingpong", ["-c", "-m", "512", "-s", "1"]),
    (QUICK, "ibv_uc_pingpong", ["-c"]),
    (FULL, "ibv_uc_pingpong", ["-c", "-e", "-m", "256", "-s", "10001"]),
    (QUICK, "ibv_ud_pingpong", ["-c", "-s", "1000"]),
    (FULL, "ibv_ud_pingpong", ["-c", "-e", "-s", "1"]),
    (QUICK, "ibv_srq_pingpong", ["-c"]),
    (FULL, "ibv_srq_pingpong", ["-c", "-e", "-q", "4", "-m", "512", "-s", "5000"]),
]


def verbs(bench, full, v6):
    for server, client, where in bench.ways(v6):
        for n, (quick, options) in enumerate(VDATA):
            if wanted(quick, full, v6):
                options = options + ["-S", str(1 + n), "-u", "17"]
                bench.case("%s: vdata %s" % (where, " ".join(options)), lab.pair, server, client, vdata_argv(options), 120)
        for quick, tool, options in PINGPONGS:
            if wanted(quick, full, v6):
                n = 3 if "1048576" in options else 50
                bench.case("%s: %s %s" % (where, tool, " ".join(options)), cases.pingpong, server, client, tool, options, n, 60)


# ---- perftest -------------------------------------------------------------------------------

SIZES = (1, 64, 1024, 1025, 65536, 1048576)


def perftest_rows(full, mtu, v6):
    """(tool, options)"""
    if v6 and not full:
        return [(cases.BW[verb], ["-s", "20000"]) for verb in ("send", "read")]
    rows = []
    for verb in ("send", "write", "read"):
        for size in SIZES if full else (65536,):
            rows.append((cases.BW[verb], ["-s", str(size)]))
            if full:
                rows.append((cases.LAT[verb], ["-s", str(size)]))
        rows.append((cases.BW[verb], ["-s", "20000", "-q", "4"]))
    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        rows.append((cases.BW["atomic"], ["-A", kind]))
        if full:
            rows.append((cases.LAT["atomic"], ["-A", kind]))
    for verb in ("send", "write"):
        for size in (1, 1024, 20000) if full else (5000,):
            rows.append((cases.BW[verb], ["-c", "UC", "-s", str(size)]))
            if full:
                rows.append((cases.LAT[verb], ["-c", "UC", "-s", str(size)]))
    for size in (1, 64, mtu) if full else (mtu,):
        rows.append((cases.BW["send"], ["-c", "UD", "-s", str(size)]))
        if full:
            rows.append((cases.LAT["send"], ["-c", "UD", "-s", str(size)]))
    if full:
        rows += [(cases.BW["atomic"], ["-q", "4"]), (cases.BW["send"], ["-c", "UC", "-s", "5000", "-q", "4"]),
                 (cases.BW["send"], ["-b", "-s", "20000"]), (cases.BW["write"], ["-b", "-s", "20000"]), (cases.BW["read"], ["-b", "-s", "20000"]),
                 (cases.BW["send"], ["-e", "-s", "20000"]), (cases.LAT["send"], ["--use-srq", "-s", "3000"])]
        rows += [(cases.BW[verb], ["-m", str(m), "-s", "30001"]) for m in (256, 512, 1024, 2048, 4096) if m <= mtu
                 for verb in ("send", "write", "read")]
    return rows


def perftest_cm_rows(full):
    rows = [(cases.BW["send"], ["-s", "20000"])]
    if full:
        rows += [(cases.BW["write"], ["-s", "20000", "-q", "4"]), (cases.LAT["read"], ["-s", "20000"]), (cases.BW["atomic"], []),
                 (cases.LAT["send"], ["-s", "64"]), (cases.BW["send"], ["-c", "UD", "-s", "512"])]	# it refuses UC there
    return rows


def perftest_cm(server, client, tool, options, limit, wire):
    """
    perftest with -R connects twice, and between the two its server stops listening and begins again. In an emulated machine that
    takes longer than the client needs to ask again: so what it asks is late.
    """
    if not isinstance(server.daemon, lab.Daemon):
        wire.order("late 2000")
    try:
        perftest_cm_now(server, client, tool, options, limit)
    finally:
        wire.order("late 0")


def perftest_cm_now(server, client, tool, options, limit):
    port = str(lab.port_next())

    def argv(end):
        return [tool, "-d", end.device, "-R", "-p", port, "-F"] + options
    for p in peers.cm_pair(server, client, argv(server), argv(client) + [server.ip], limit=limit):
        if re.search(r"Failed|failed|Couldn't|Completion with error|Unable", p.output()):
            raise lab.Failed("it complains: %s" % p.describe())


def perftests(bench, full, v6):
    mtu = 4096 if bench.mtu >= 4176 else 1024
    for server, client, where in bench.ways(v6):
        for tool, options in perftest_rows(full, mtu, v6):
            options = FEW + options
            bench.case("%s: %s %s" % (where, tool, " ".join(options)), cases.perftest, server, client, tool, options, 1, 60)
        if v6:		# perftest takes only IPv4 addresses with -R
            continue
        for tool, options in perftest_cm_rows(full):
            options = FEW + options
            bench.case("%s: %s -R %s" % (where, tool, " ".join(options)), perftest_cm, server, client, tool, options, 60, bench.wire)


# ---- the connection manager -------------------------------------------------------------------

# Of rping (-V), rstream and riostream (-T v) the programs compare the data.
def cm_rows(a):
    """(quick, server, client's command line, what shows that the server is ready); a: the address of the server"""
    on, to = ["-b", a], ["-s", a]
    rows = [
        (BOTH, ["rping", "-s", "-a", a, "-v", "-V", "-C", "20"], ["rping", "-c", "-a", a, "-v", "-V", "-C", "20"]),
        (FULL, ["rping", "-s", "-a", a, "-V", "-C", "10", "-S", "65535"], ["rping", "-c", "-a", a, "-V", "-C", "10", "-S", "65535"]),
        (FULL, ["rping", "-s", "-a", a, "-V", "-C", "10", "-S", "64", "-q"], ["rping", "-c", "-a", a, "-V", "-C", "10", "-S", "64", "-q"]),
        (QUICK, ["ucmatose"] + on, ["ucmatose"] + to),
        (FULL, ["ucmatose"] + on + ["-c", "8", "-C", "5", "-S", "5000"], ["ucmatose"] + to + ["-c", "8", "-C", "5", "-S", "5000"]),
        (FULL, ["ucmatose", "-m"] + on, ["ucmatose", "-m"] + to),
        (BOTH, ["udaddy"] + on, ["udaddy"] + to),
        (FULL, ["udaddy"] + on + ["-c", "5", "-C", "5", "-S", "1000"], ["udaddy"] + to + ["-c", "5", "-C", "5", "-S", "1000"]),
        (BOTH, ["rstream", "-T", "v", "-S", "1000", "-C", "20", "-I", "2"] + on, ["rstream", "-T", "v", "-S", "1000", "-C", "20", "-I", "2"] + to),
        (FULL, ["rstream", "-T", "v", "-S", "100000", "-C", "3", "-I", "2"] + on, ["rstream", "-T", "v", "-S", "100000", "-C", "3", "-I", "2"] + to),
        (FULL, ["rstream", "-T", "n", "-S", "all", "-C", "2", "-I", "2"] + on, ["rstream", "-T", "n", "-S", "all", "-C", "2", "-I", "2"] + to),
        (FULL, ["riostream", "-T", "v", "-S", "1000", "-C", "5", "-I", "2"] + on, ["riostream", "-T", "v", "-S", "1000", "-C", "5", "-I", "2"] + to),
    ]
    if ":" not in a:	# rdma_server has no option for IPv6
        rows.append((QUICK, ["rdma_server"], ["rdma_client"] + to))
        rows.append((FULL, ["rdma_xserver", "-c", "r"], ["rdma_xclient", "-c", "r"] + to))
    return rows


def cm(bench, full, v6):
    for server, client, where in bench.ways(v6):
        for quick, s, c in cm_rows(server.ip):
            if wanted(quick, full, v6):
                bench.case("%s: %s | %s" % (where, " ".join(s), " ".join(c)), peers.cm_pair, server, client, s, c)
        if not v6:
            s = ["mckey", "-m", "239.7.7.7", "-b", server.ip, "-C", "5", "-S", "500"]
            c = ["mckey", "-m", "239.7.7.7", "-b", client.ip, "-C", "5", "-S", "500", "-s"]
            title = "%s: %s | %s" % (where, " ".join(s), " ".join(c))
            if bench.linux >= 7 and client is bench.ends["rxe", v6]:
                bench.tally.skip(title, "of messages to a group that are posted at once rxe sends the first only")
            else:
                bench.case(title, peers.cm_pair, server, client, s, c, peers.groups)
            bench.case("%s: rping where nobody listens" % where, refused, client, server.ip)


def refused(client, address):
    p = client.daemon.start(["rping", "-c", "-a", address, "-C", "1", "-p", "7999"], 60)
    p.wait()
    if not re.search(r"REJECTED.*error 8", p.output()):
        raise lab.Failed("it was not refused: %s" % p.describe())
