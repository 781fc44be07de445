# SPDX-License-Identifier: MIT
"""cases.py - what unmodified programs are made to do between two ends.

The programs are those of Debian's ibverbs-utils and perftest, and vdata, which is linked with the
system's libibverbs. quick is what `make check` runs; full is every combination.
"""
import os
import re

import lab

SMALL = 5	# perftest's fewest iterations
MTUS = (256, 512, 1024, 2048, 4096)


# ---- pingpongs -------------------------------------------------------------------

def pingpong(a, b, tool, options, iters, limit=20):
    def argv(end, port, peer):
        return ([tool, "-d", end.device, "-g", str(end.gid_index), "-p", str(port), "-n", str(iters)]
                + options + ([peer] if peer else []))

    for p in lab.pair(a, b, argv, limit):
        out = p.output()
        if not re.search(r"^%d iters in " % iters, out, re.M):
            raise lab.Failed("no result: %s" % p.describe())
        if re.search(r"invalid data|Failed|Couldn't", out):
            raise lab.Failed("it complains: %s" % p.describe())


def pingpongs(tally, where, a, b, full, mtu, iters=200):
    rows = [("ibv_rc_pingpong", ["-c"]), ("ibv_rc_pingpong", ["-e", "-c", "-s", "40000"]),
            ("ibv_rc_pingpong", ["-N", "-c"]), ("ibv_uc_pingpong", ["-c"]), ("ibv_uc_pingpong", ["-e"]),
            ("ibv_ud_pingpong", ["-c", "-s", "1024"]), ("ibv_ud_pingpong", ["-e", "-s", "1000"]),
            ("ibv_srq_pingpong", ["-c"]), ("ibv_srq_pingpong", ["-e"])]
    if full:
        for m in MTUS:
            for tool in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"):
                if m <= mtu:
                    rows.append((tool, ["-c", "-m", str(m), "-s", "10001"]))
        rows += [("ibv_rc_pingpong", ["-c", "-s", "4194304", "-r", "8"]), ("ibv_rc_pingpong", ["-t", "-c"])]
    for tool, options in rows:
        n = 20 if "4194304" in options else iters
        tally.case("%s: %s %s" % (where, tool, " ".join(options)), pingpong, a, b, tool, options, n)


def rping(a, b, address):
    """Three messages over a connection to that address of a. The one client comes when its server listens: there is one REQ."""
    server = a.daemon.start(["rping", "-s", "-P", "-a", address])
    try:
        lab.until("the server to listen: " + server.describe(), lambda: server.ended() or a.daemon.cm()["listeners"])
        client = b.daemon.start(["rping", "-c", "-C", "3", "-a", address])
        if client.wait():
            raise lab.Failed("%s\n%s" % (client.describe(), server.describe()))
    finally:
        server.kill()


# ---- perftest ---------------------------------------------------------------------

def rows_of(text):
    """perftest's lines of results. Remarks on the machine's clocks can come in the middle of one."""
    text = re.sub(r"(Correlation coefficient|Conflicting CPU frequency)[^\n]*\n", "", text)
    # ("inf": it could not make out how fast the processor is.)
    return re.findall(r"^\s*\d+\s+\d+\s+(?:[0-9.]+|inf)\s+.*$", text, re.M)


def perftest(a, b, tool, options, rows=1, limit=30):
    """rows: how many lines of results it must print."""
    def argv(end, port, peer):
        return ([tool, "-d", end.device, "-x", str(end.gid_index), "-p", str(port), "-F"]
                + options + ([peer] if peer else []))

    server, client = lab.pair(a, b, argv, limit)
    for p in (client, server):
        text = p.output()
        if re.search(r"Failed|failed|Couldn't|Completion with error|Unable", text):
            raise lab.Failed("it complains: %s" % p.describe())
    got = rows_of(client.output())
    if len(got) != rows:
        raise lab.Failed("%d rows of results instead of %d: %s" % (len(got), rows, client.describe()))


ALL_SIZES = 23		# of -a: 2 bytes to 8 MiB; with UD as many as fit a packet

BW = {"send": "ib_send_bw", "write": "ib_write_bw", "read": "ib_read_bw", "atomic": "ib_atomic_bw"}
LAT = {"send": "ib_send_lat", "write": "ib_write_lat", "read": "ib_read_lat", "atomic": "ib_atomic_lat"}


def perftest_rows(mtu, full, sweep):
    """(tool, options, rows of results). mtu: the active one of the ports, in bytes. sweep: tools run with all sizes."""
    few = ["-n", "100"]
    rows = []
    for verb in ("send", "write", "read"):
        for tool in (BW[verb], LAT[verb]):
            if full or tool in sweep:
                rows.append((tool, ["-a", "-n", str(20 if full else SMALL)], ALL_SIZES))
            else:
                rows.append((tool, few + ["-s", "2"], 1))
        rows.append((LAT[verb], ["-s", "8388608", "-n", str(SMALL)], 1))
    for atype in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        rows.append((BW["atomic"], few + ["-A", atype], 1))
        rows.append((LAT["atomic"], few + ["-A", atype], 1))
    for verb in ("send", "write"):
        rows.append((BW[verb], few + ["-c", "UC", "-s", "4096"], 1))
        rows.append((LAT[verb], few + ["-c", "UC", "-s", "64"], 1))
    rows.append((BW["send"], few + ["-c", "UD", "-s", str(mtu)], 1))
    rows.append((LAT["send"], few + ["-c", "UD", "-s", "64"], 1))
    for verb in BW:
        rows.append((BW[verb], few + ["-c", "XRC"] + ([] if verb == "atomic" else ["-s", "20000"]), 1))
    rows.append((LAT["send"], few + ["-c", "XRC", "-s", "64"], 1))
    for verb in BW:
        size = [] if verb == "atomic" else ["-s", "20000"]
        rows.append((BW[verb], few + size + ["-q", "8"], 1))
        rows.append((BW[verb], few + size + ["-b"], 1))
        if verb != "write":	# perftest offers events where the server has completions
            rows.append((BW[verb], few + size + ["-e"], 1))
    rows += [(LAT["send"], few + ["-e"], 1), (LAT["read"], few + ["-e"], 1),
             (BW["send"], few + ["--use-srq", "-q", "4"], 1), (LAT["send"], few + ["--use-srq"], 1),
             (BW["read"], few + ["--use_old_post_send"], 1), (BW["send"], few + ["-l", "10"], 1),
             (BW["send"], few + ["-I", "64", "-s", "64"], 1), (BW["write"], few + ["-Q", "10", "-s", "64"], 1),
             (BW["send"], few + ["-c", "UD", "-q", "4", "-s", "512"], 1)]
    if full:
        rows += _rows_full(mtu, few)
    for m in MTUS:
        if m <= mtu and (full or m == 256):
            for verb in ("send", "write", "read"):
                rows.append((BW[verb], few + ["-m", str(m), "-s", "100001"], 1))
    return rows


def _rows_full(mtu, few):
    rows = []
    for verb in ("send", "write"):
        # UC has no acknowledgements to slow it: what is on the way must fit a socket buffer, should the receiver get no core.
        rows.append((BW[verb], ["-c", "UC", "-a", "-n", str(SMALL)], ALL_SIZES))
        rows.append((LAT[verb], ["-c", "UC", "-a", "-n", str(SMALL)], ALL_SIZES))
        rows.append((BW[verb], few + ["-c", "UC", "-b", "-q", "4", "-s", "4096"], 1))
    for size in (2, 64, 512, 1024, 2048, 4096):
        if size <= mtu:
            rows.append((BW["send"], few + ["-c", "UD", "-s", str(size)], 1))
            rows.append((LAT["send"], few + ["-c", "UD", "-s", str(size)], 1))
    for verb in BW:
        size = [] if verb == "atomic" else ["-s", "4096"]
        # With -b for SENDs perftest polls a part of what came, once, for each event: with several QPs it would wait for ever.
        events = [["-b", "-q", "8", "-e"]] if verb in ("read", "atomic") else [["-b", "-e"], ["-q", "8", "-e"]] if verb == "send" else []
        for options in events + [["-b", "-q", "8"]]:
            rows.append((BW[verb], few + size + options, 1))
        rows.append((BW[verb], few + size + ["--mr_per_qp", "-q", "3"], 1))
        if verb != "atomic":
            rows.append((BW[verb], ["-a", "-b", "-n", "20"], ALL_SIZES))
            rows.append((BW[verb], few + ["-s", "8388608", "-n", "10"], 1))
    rows.append((BW["send"], ["-a", "-n", "20", "--use-srq"], ALL_SIZES))
    rows += [(LAT["send"], ["-a", "-n", "20", "--use-srq"], ALL_SIZES), (LAT["atomic"], few + ["-e"], 1)]
    return rows + _rows_dgram(mtu, few)


def _rows_dgram(mtu, few):
    """Services without acknowledgements, with every option."""
    rows = []
    for verb in ("send", "write"):
        for m in MTUS:
            if m <= mtu:
                rows.append((BW[verb], few + ["-c", "UC", "-m", str(m), "-s", "10001"], 1))
        rows.append((BW[verb], few + ["-c", "UC", "-q", "8", "-s", "2048"], 1))
        rows.append((BW[verb], few + ["-c", "UC", "-b", "-s", "4096"], 1))
    for service, size in (("UC", 4096), ("UD", 1024)):
        few_sized = few + ["-c", service, "-s", str(size)]
        rows += [(BW["send"], few_sized + ["-e"], 1), (LAT["send"], few_sized + ["-e"], 1),
                 (BW["send"], few_sized + ["--use-srq"], 1), (LAT["send"], few_sized + ["--use-srq"], 1)]
    rows += [(BW["send"], few + ["-c", "UD", "-b", "-s", "512"], 1), (BW["send"], few + ["-c", "UD", "-q", "8", "-s", "512"], 1)]
    sizes = mtu.bit_length() - 1
    rows += [(tool, ["-c", "UD", "-a", "-n", str(SMALL)], sizes) for tool in (BW["send"], LAT["send"])]
    return rows


def perftest_brief(mtu, sweep):
    """Each tool, each service and each option once, where the place is a variation of another."""
    few = ["-n", "100"]
    rows = [(LAT[verb], few + ["-s", "4097"], 1) for verb in ("send", "write", "read")]
    rows += [(BW["send"], few + ["-s", "100001", "-q", "8", "-b"], 1), (BW["read"], few + ["-s", "8388608", "-n", "10"], 1),
             (BW["atomic"], few + ["-q", "3"], 1), (LAT["atomic"], few, 1), (BW["send"], few + ["-c", "UC", "-s", "20000"], 1),
             (BW["write"], few + ["-c", "UC", "-s", "20000"], 1), (BW["send"], few + ["-c", "UD", "-s", str(mtu)], 1),
             (LAT["send"], few + ["-e", "--use-srq"], 1), (BW["send"], few + ["-m", "256", "-s", "100001"], 1)]
    return rows + [(tool, ["-a", "-n", str(SMALL)], ALL_SIZES) for tool in sweep]


def perftests(tally, where, a, b, full, mtu, sweep, brief=False):
    for tool, options, rows in perftest_brief(mtu, sweep) if brief and not full else perftest_rows(mtu, full, sweep):
        tally.case("%s: %s %s" % (where, tool, " ".join(options)), perftest, a, b, tool, options, rows,
                   30 if rows == 1 else 180)	# for each row perftest measures the clock anew


# ---- vdata --------------------------------------------------------------------------

def vdata_argv(options):
    def argv(end, port, peer):
        return ([os.path.join(lab.BUILD, "t/e2e/vdata"), "-d", end.device, "-g", str(end.gid_index), "-p", str(port)]
                + options + ([peer] if peer else []))
    return argv


def vdata_pair(a, b, options, limit=60, **env):
    lab.pair(a, b, vdata_argv(options), limit, **env)


def vdata(tally, where, a, b, full, seed=1):
    rows = [["-t", "rc", "-n", "150"], ["-t", "rc", "-n", "60", "-T", "4", "-s", "100000"],
            ["-t", "rc", "-n", "60", "-e", "-q"], ["-t", "uc", "-n", "60", "-s", "200000"],
            ["-t", "ud", "-n", "20"], ["-t", "ud", "-n", "10", "-e", "-q", "-T", "2"]]
    if full:
        rows += [["-t", "rc", "-n", "20", "-s", "8388608"], ["-t", "rc", "-n", "200", "-m", "256", "-s", "50000"],
                 ["-t", "rc", "-n", "100", "-T", "8", "-e"], ["-t", "uc", "-n", "50", "-T", "4", "-q"],
                 ["-t", "ud", "-n", "50", "-T", "4", "-m", "256"]]
    for n, options in enumerate(rows):
        options = options + ["-S", str(seed + n)]
        tally.case("%s: vdata %s" % (where, " ".join(options)), vdata_pair, a, b, options)
    # The other way into the programs' memory.
    for options in rows if full else rows[:1]:
        tally.case("%s: RDMAD_MAP=0 vdata %s" % (where, " ".join(options)), vdata_pair, a, b, options, RDMAD_MAP="0")


def error_names():
    return lab.run(os.path.join(lab.BUILD, "t/e2e/vdata"), "-L").split()


def errors(tally, where, a, b):
    for name in error_names():
        tally.case("%s: vdata -E %s" % (where, name), vdata_pair, a, b, ["-E", name], limit=30)


# ---- listing ---------------------------------------------------------------------------

def _listing(daemon, devices):
    p = daemon.start(["ibv_devices"])
    if p.wait() or not all(re.search(r"^\s+%s\s+[0-9a-f]{16}$" % d, p.output(), re.M) for d in devices):
        raise lab.Failed("ibv_devices: %s" % p.describe())
    found = daemon.devinfo()
    if sorted(found) != sorted(devices):
        raise lab.Failed("ibv_devinfo -v: %s" % sorted(found))
    p = daemon.start(["ibv_devinfo", "-v"])
    if p.wait() or p.output().count("PORT_ACTIVE (4)") != len(devices) or "RoCE v2" not in p.output():
        raise lab.Failed("ibv_devinfo: %s" % p.describe())


def listing(tally, where, daemon, devices):
    tally.case("%s: ibv_devices, ibv_devinfo -v" % where, _listing, daemon, devices)


def empty(daemon, limit):
    """Waits until no object is left in it."""
    try:
        lab.until("no object to be left", lambda: not any(daemon.objects().values()), limit)
    except lab.Failed:
        raise lab.Failed("left: %s\n%s\n%s\n%s" % (daemon.objects(), daemon.ctl("qps"), sorted(daemon.fd_names()),
                                                  daemon.prog.output()[-2000:]))


def clean(tally, where, daemons):
    """After all of it no object is left, and the daemon ends as asked."""
    def check():
        for d in daemons:
            empty(d, 5)
            d.stop()
    tally.case("%s: nothing is left" % where, check)
