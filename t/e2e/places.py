# SPDX-License-Identifier: MIT
"""places.py - where the cases run: one device, two devices of a daemon, two daemons on two hosts.

    places.main(title, *places)    the body of a .test

The tests of `make check` sweep over all sizes with one tool each; E2E=full runs every combination, with io_uring and with epoll; E2E_IO=uring|epoll picks one.
"""
import os
import sys

import cases
import lab
import sandbox

FULL = os.environ.get("E2E") == "full"

TWO_DEVICES = """\
device left { addresses = {"127.0.0.2", "fd77::a"} }
device right { addresses = {"127.0.0.3", "fd77::b"} }
"""

TWO_DEVICES_V4 = """\
device left { addresses = {"127.0.0.2"} }
device right { addresses = {"127.0.0.3"} }
"""


def ios(quick):
    only = os.environ.get("E2E_IO")
    return [only] if only else ["uring", "epoll"] if FULL else [quick]


def everything(tally, where, a, b, mtu, sweep, brief):
    cases.pingpongs(tally, where, a, b, FULL, mtu)
    cases.perftests(tally, where, a, b, FULL, mtu, sweep, brief)
    cases.vdata(tally, where, a, b, FULL)
    cases.errors(tally, where, a, b)


def counted(daemon):
    """Nothing leaves a device that talks to itself."""
    local, sent = daemon.counter("local_trains"), daemon.counter("sent_trains")
    if not sent or local != sent:
        raise lab.Failed("%d trains sent, %d of them local" % (sent, local))


def one_device(tally, gids=("127.0.0.1",), quick_io="uring", sweep=("ib_write_bw",), brief=False):
    host = lab.host_here()
    for io in ios(quick_io):
        daemon = lab.Daemon(host, io=io)
        where = "one device, %s" % io
        cases.listing(tally, where, daemon, ["rdmad0"])
        for gid in gids:
            end = lab.End(daemon, "rdmad0", gid, "127.0.0.1")
            everything(tally, "%s, %s" % (where, gid), end, end, 4096, sweep, brief)
        tally.case("%s: trains counted" % where, counted, daemon)
        cases.clean(tally, where, [daemon])


def two_devices(tally, gids=(("127.0.0.2", "127.0.0.3"),), quick_io="epoll", sweep=("ib_read_bw",), brief=False):
    host = lab.host_here()
    for address in ("fd77::a/128", "fd77::b/128"):
        host.run("ip", "addr", "replace", address, "dev", "lo")
    for io in ios(quick_io):
        daemon = lab.Daemon(host, conf=TWO_DEVICES, io=io)
        where = "two devices, %s" % io
        cases.listing(tally, where, daemon, ["left", "right"])
        for ga, gb in gids:
            a = lab.End(daemon, "left", ga, "127.0.0.1")
            b = lab.End(daemon, "right", gb, "127.0.0.1")
            everything(tally, "%s, %s" % (where, ga), a, b, 4096, sweep, brief)
        cases.clean(tally, where, [daemon])


def wire_open(mtu, io=None, offload=True, options=()):
    """Two hosts, a veth pair, a daemon on each: (hosts, daemons)."""
    here, there = lab.host_here(), lab.host_new("there")
    lab.link(here, there, mtu, offload)
    return (here, there), (lab.Daemon(here, io=io, options=options), lab.Daemon(there, io=io, options=options))


def wire_ends(daemons, v6=False):
    name = lab.v6 if v6 else lab.v4
    return (lab.End(daemons[0], "rdmad0", name(1), lab.v4(1)), lab.End(daemons[1], "rdmad0", name(2), lab.v4(2)))


def wire_address(v6=False):
    """Of the host that captures."""
    return (lab.v6 if v6 else lab.v4)(1)


def wire_close(hosts):
    lab.unlink(hosts[0])
    hosts[1].close()


def wire(mtu, v6=False, quick_io="uring", sweep=(), brief=False):
    def place(tally):
        for io in ios(quick_io):
            hosts, daemons = wire_open(mtu, io)
            where = "two daemons, MTU %d, IPv%d, %s" % (mtu, 6 if v6 else 4, io)
            for d in daemons:
                cases.listing(tally, where, d, ["rdmad0"])
            # The server on the other host, so that both ends of the wire see a client.
            b, a = wire_ends(daemons, v6)
            everything(tally, where, a, b, 4096 if mtu >= 4176 else 1024, sweep, brief)
            cases.clean(tally, where, daemons)
            wire_close(hosts)
    return place


def missing():
    """Why nothing can be run here, or None."""
    for path in ("/usr/bin/ib_write_bw", "/usr/bin/ibv_rc_pingpong"):
        if not os.path.exists(path):
            return "%s is not installed (Debian: perftest, ibverbs-utils)" % path
    if not os.path.exists(os.path.join(lab.BUILD, "rdmad")):
        return "no rdmad in %s" % lab.BUILD
    return None


def main(title, *run):
    why = missing()
    isolated = False if why else sandbox.enter()
    if not why and not isolated:
        why = "no namespaces of its own are allowed here (root, or unprivileged user namespaces)"
    tally = lab.Tally(title)
    if why:
        tally.skip(title, why)
        # Where all of it must run, as in CI, a test that cannot run has failed.
        sys.exit(1 if os.environ.get("E2E_MUST") else tally.status())
    for place in run:
        try:
            place(tally)
        except lab.Failed as e:
            tally.failed += 1
            print("not ok - %s: %s" % (title, e), flush=True)
    sys.exit(tally.status())
