# SPDX-License-Identifier: MIT
"""
bench_loss - what is left of a stream when packets are lost: rows of contrib/bench, --only loss.

    near ---- relay ---- far

The relay forwards packets by their addresses and drops some of them, by rules of iptables: so RDMA and TCP lose alike. Both cross it
packet by packet, as on a wire: the hosts take long sends apart before they leave (neither TSO nor UDP segmentation by the device),
and the relay puts nothing together (no GRO); a drop would otherwise be of up to 64 KiB at once. The MTU is one that a RoCE packet of
4096 bytes and a TCP segment both fill. The hosts join what they receive, as they do with an adapter.

A rule takes the relay time for each packet, a twelfth of the stream or so. So without loss there is one, too, which never drops a
packet; bursts need ten.
"""
import lab

MTU = 4200
NEAR, FAR = "10.78.1.1", "10.78.2.1"
SECONDS = 3
EVERY, LENGTH = 10000, 10
NONE, RANDOM = ("loss none", 0), [("loss 0.01 %", 0.0001), ("loss 0.1 %", 0.001), ("loss 1 %", 0.01)]
BURSTS = "loss of %d in a row, once in %d" % (LENGTH, EVERY)
RDMA = "two daemons, %s: ib_write_bw 1 MiB"
TCP = "relay, %s: iperf3 %s"
CONTROLS = ("cubic", "bbr")


def controls():
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as f:
        have = f.read().split()
    return [c for c in CONTROLS if c in have]


def between(host, address, relay, other):
    """A veth pair, named alike at both ends; the host's way to all others goes through the relay."""
    name = "veth-" + host.name
    host.run("ip", "link", "add", name, "mtu", str(MTU), "type", "veth", "peer", "name", name + "-r", "mtu", str(MTU))
    with host.inside():
        relay.take(name + "-r")
    for end, dev, ip in ((host, name, address), (relay, name + "-r", other)):
        end.run("ip", "addr", "add", ip + "/24", "dev", dev)
        end.run("ethtool", "-K", dev, "tso", "off", "tx-udp-segmentation", "off", "gro", "off" if end is relay else "on")
        end.run("ip", "link", "set", dev, "up")
    host.run("ip", "route", "add", "default", "via", other)


class Relay:
    """Opened when the first row is measured."""

    def __init__(self, io, write_bw, machine):
        self.io, self.write_bw, self.machine = io, write_bw, machine
        self.ends = None

    def open(self):
        self.near, self.relay, self.far = (lab.host_new(n) for n in ("near", "relay", "far"))
        between(self.near, NEAR, self.relay, "10.78.1.2")
        between(self.far, FAR, self.relay, "10.78.2.2")
        with self.relay.inside(), open("/proc/sys/net/ipv4/ip_forward", "w") as f:
            f.write("1")
        self.daemons = [lab.Daemon(h, io=self.io) for h in (self.near, self.far)]
        self.ends = [lab.End(d, "rdmad0", ip, ip) for d, ip in zip(self.daemons, (NEAR, FAR))]
        self.tcp = self.machine((self.near, self.far), FAR)

    def rules(self, loss):
        if loss == BURSTS:
            return [["--mode", "nth", "--every", str(EVERY), "--packet", str(n)] for n in range(LENGTH)]
        return [["--mode", "random", "--probability", str(p)] for name, p in [NONE] + RANDOM if name == loss]

    def lossy(self, loss, measure):
        if not self.ends:
            self.open()
        for r in self.rules(loss):
            self.relay.run("iptables", "-A", "FORWARD", "-m", "statistic", *r, "-j", "DROP")
        try:
            return measure()
        finally:
            self.relay.run("iptables", "-F", "FORWARD")

    def rows(self):
        rows = []
        for loss in [name for name, _ in [NONE] + RANDOM] + [BURSTS]:
            rows.append((RDMA % loss, "GB/s", lambda x=loss: self.lossy(x, lambda: self.write_bw((self.ends[1], self.ends[0]), SECONDS))))
            for c in controls():
                rows.append((TCP % (loss, c), "GB/s", lambda x=loss, k=c: self.lossy(x, lambda: self.tcp.iperf3(SECONDS, ["-C", k]))))
        return rows


def marks():
    """Of 0.1 % nine tenths of what is there without, or of TCP's; of 1 % no less than TCP's."""
    some, many = RANDOM[1][0], RANDOM[2][0]
    out = [(RDMA % some, RDMA % NONE[0], ">=", 0.9)]
    for c in CONTROLS:
        out += [(RDMA % some, TCP % (some, c), ">=", 0.9), (RDMA % many, TCP % (many, c), ">=", 1.0)]
        out += [(RDMA % x, TCP % (x, c), None, None) for x in (NONE[0], RANDOM[0][0], BURSTS)]
    return out
