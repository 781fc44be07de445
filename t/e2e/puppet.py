# SPDX-License-Identifier: MIT
"""puppet.py - a queue pair that does as it is told (puppet.c), and the scripted peer that it may be connected to (roce.py)."""
import os
import subprocess
import threading
import time

import lab
from roce import ACK, WRITE_ONLY, aeth, pkt, reth

CONF = 'device d { addresses = {"127.0.0.2", "fd77::a"} }\n'
ENDS = (("127.0.0.3", "127.0.0.2"), ("fd77::b", "fd77::a"))	# the peer's address, the device's
LIMIT = 10 * lab.PATIENCE
WC_SEND, WC_WRITE, WC_READ, WC_RECV = 0, 1, 2, 128
SUCCESS = 0


def host():
    here = lab.host_here()
    for address in ("fd77::a/128", "fd77::b/128"):
        here.run("ip", "addr", "replace", address, "dev", "lo")
    return here


def must(ok, text):
    if not ok:
        raise lab.Failed(text() if callable(text) else text)


class Told:
    """The program: a line to it, a line from it."""

    def __init__(self, daemon, device, gid_index):
        self.proc = subprocess.Popen([os.path.join(lab.BUILD, "t/e2e/puppet"), "-d", device, "-g", str(gid_index)], env=daemon.env,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        word = self._line().split()
        self.qpn, self.addr, self.rkey = int(word[1]), int(word[3]), int(word[5])

    def _line(self):
        """It answers at once, but for poll, which waits as long as it is told. One that does not is ended, and says nothing."""
        watch = threading.Timer(2 * LIMIT, self.proc.kill)
        watch.start()
        try:
            line = self.proc.stdout.readline().strip()
        finally:
            watch.cancel()
        must(line and not line.startswith("error"), "the puppet says %r" % line)
        return line

    def __call__(self, text):
        self.proc.stdin.write(text + "\n")
        return self._line()

    def done(self, opcode, status=SUCCESS):
        """The next completion is this one."""
        got = self("poll %d" % (LIMIT * 1000)).split()
        must(got[:3] == ["wc", str(opcode), str(status)], "completion: %s" % got)
        return int(got[3])

    def idle(self):
        must(self("poll 0") == "none", "a completion too many")

    def end(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            must(self.proc.wait(LIMIT) == 0, "the puppet ended with %s" % self.proc.poll())
        self.proc.stdout.close()

    def kill(self):
        self.proc.kill()
        self.proc.wait()


class Puppet(Told):
    """And the peer of its queue pair: what we send next is psn, what it sends next is its_psn."""
    count = 0

    def __init__(self, daemon, wire, psn=0xfffffd, its_psn=0xfffffb, timeout=19, tclass=0):
        super().__init__(daemon, "d", daemon.devinfo()["d"][lab.gid_text(str(wire.device))])
        Puppet.count += 1
        self.wire, self.psn, self.its_psn, self.our_qpn = wire, psn, its_psn, 0x100 + Puppet.count
        self("connect %d %s %d %d %d %d" % (self.our_qpn, wire.gid, psn, its_psn, timeout, tclass))

    def send(self, opcode, ext=b"", payload=b"", psn=None, how=None, **bth):
        """The next packet, or one of another PSN."""
        self.wire.send(pkt(opcode, self.qpn, self.psn if psn is None else psn, ext, payload, **bth), **(how or {}))
        if psn is None:
            self.psn += 1

    def ack(self, psn, syndrome=0x1f, **how):
        self.send(ACK, aeth(syndrome, 0), psn=psn, how=how)

    def hear(self, what, cond=lambda p: True):
        """Up to the packet wanted; only of this queue pair."""
        return self.wire.hear_until(what, lambda p: p.qpn == self.our_qpn and cond(p), LIMIT)

    def probe(self):
        """What has come until an empty WRITE is acknowledged, without that ACK."""
        self.send(WRITE_ONLY, reth(self.addr, self.rkey, 0), ackreq=True)
        psn = (self.psn - 1) & 0xffffff
        return self.hear("ACK of the probe", lambda p: p.opcode == ACK and p.psn == psn)[:-1]

    def clock(self):
        return time.monotonic()


def with_puppet(daemon, wire, fn, *args, **kw):
    """fn(puppet, *args); kw are the puppet's."""
    q = Puppet(daemon, wire, **kw)
    try:
        fn(q, *args)
        q.end()
    except TimeoutError as e:
        raise lab.Failed(str(e))
    finally:
        q.kill()
