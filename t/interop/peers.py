# SPDX-License-Identifier: MIT
"""peers.py - rdmad and a kernel with soft-RoCE on one wire, and how a case between them is judged.

A case passes when its programs do, and when the wire says nothing else: every RoCEv2 packet of its capture has a right
ICRC by an independent computation, and `rdmactl check` finds nothing to say against rdmad. The captures are kept in
the directory interop/captures of the build, one for each case.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import time

import guest
import icrc
import lab
import pulse

CAPTURES = os.path.join(lab.BUILD, "interop", "captures")


def captures_begin():
    shutil.rmtree(CAPTURES, ignore_errors=True)
    os.makedirs(CAPTURES)


def check_capture(path, sender, damaged):
    """(whether the sender sent anything, what the project's own checker says of it; None: nothing)"""
    argv = [os.path.join(lab.BUILD, "rdmactl"), "check", "--from", sender] + (["--path", "loss,dup,reorder"] if damaged else [])
    done = subprocess.run(argv + [path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode == 0:
        return True, None
    if done.returncode == 2 and "no packet of the sender of --from" in done.stdout:	# of UC and UD, who receives is silent
        return False, None
    lines = [line for line in done.stdout.splitlines() if ": packet " in line]
    return True, "\n".join(lines[:5]) if done.returncode == 1 else done.stdout


def last_packet(path):
    """When the last packet of a capture of the relay was recorded, in seconds; 0: none"""
    when = 0.0
    with open(path, "rb") as f:
        f.seek(24)
        while True:
            head = f.read(16)
            if len(head) < 16:
                return when
            sec, us, size, _ = struct.unpack("<4I", head)
            when = sec + us / 1e6
            f.seek(size, 1)


def stalled(text, path):
    """
    Has rxe forgotten a request? The requester of Linux 6.1 does at times, when both ends send and packets come again: it
    waits for a send, its timeout is half a second, and it has sent nothing for a long time. A requester that is not
    answered would have repeated itself, so this is not for want of anything from rdmad.
    """
    waits = re.search(r"rxe: `[^`]*vdata[^`]*`(?:\n +\| .*)*?\n +\| .*no completion; waiting for send (\d+), receive (\d+) of (\d+)", text)
    return bool(waits) and int(waits.group(1)) < int(waits.group(3)) and time.time() - last_packet(path) > 20


class Bench:
    """The wire, the daemon, the guest; ends of both for IPv4 and IPv6."""

    def __init__(self, tally, image, mtu):
        self.tally, self.image, self.mtu = tally, image, mtu
        self.host = lab.host_here()
        self.wire = guest.Wire(self.host, mtu)
        self.guest = self.daemon = None
        self.oops = None
        self.judged = 0	# captures with packets of rdmad
        self.linux = int(re.search(r"\d+", image[2] + " 0").group())	# the guest's first number
        self.pulse = pulse.Pulse()
        try:
            self.daemon = lab.Daemon(self.host)
            self.boot()
        except lab.Failed:
            self.close()
            raise

    def boot(self):
        self.guest = guest.Guest(self.wire, *self.image[:2])
        self.ends = {}
        for v6 in (False, True):
            name = lab.v6 if v6 else lab.v4
            # The second address is for what the programs tell each other by TCP.
            self.ends["rdmad", v6] = lab.End(self.daemon, "rdmad0", name(1), lab.v4(1))
            self.ends["rxe", v6] = lab.End(self.guest, "rxe0", name(2), lab.v4(2))
        for way in ("rdmad", "rxe"):
            for v6 in (False, True):
                self.ends[way, v6].ip = (lab.v6 if v6 else lab.v4)(1 if way == "rdmad" else 2)

    def ways(self, v6=False):
        """(server, client, their names)"""
        a, b = self.ends["rdmad", v6], self.ends["rxe", v6]
        family = 6 if v6 else 4
        return [(a, b, "rdmad serves rxe, IPv%d, MTU %d" % (family, self.mtu)), (b, a, "rxe serves rdmad, IPv%d, MTU %d" % (family, self.mtu))]

    def case(self, name, fn, *args, damaged=False, packets=1, **kw):
        """damaged: by the relay on purpose, so what the capture shows is not what was sent."""
        if self.tally.only and not re.search(self.tally.only, name):
            return
        path = os.path.join(CAPTURES, re.sub(r"[^A-Za-z0-9=.]+", "-", name)[:180] + ".pcap")
        before = self.tally.failed
        self.name = name
        self.tally.case(name, self._unless_stalled, path, fn, args, kw, damaged, packets)
        if self.tally.failed != before:
            self._sound_again()

    def _unless_stalled(self, path, *judged):
        for left in (2, 1, 0):
            began = time.monotonic()
            try:
                return self._judged(path, *judged)
            except lab.Failed as e:
                stood = self.pulse.longest_since(began - pulse.BEFORE)
                why = "this machine stood still for %.0f s" % stood if stood > pulse.LONG else \
                      "rxe has forgotten a request" if stalled(str(e), path) else None
                if not left or not why:
                    raise
                print("# %s: %s; once more" % (self.name, why), flush=True)
                os.rename(path, path + ".stalled")
                self._sound_again()

    def _judged(self, path, fn, args, kw, damaged, packets):
        self.wire.open(path)
        try:
            fn(*args, **kw)
        finally:
            recorded = self.wire.close()[0]
        if recorded < packets:
            raise lab.Failed("%d RoCEv2 packets were on the wire, which is too few" % recorded)
        if not damaged:
            seen, bad, _ = icrc.file_check(path)
            if bad or seen != recorded:
                raise lab.Failed("%d of %d packets are wrong: %s" % (len(bad), seen, "; ".join(bad[:3])))
        sent, said = check_capture(path, (lab.v6 if "IPv6" in path else lab.v4)(1), damaged) if recorded else (False, None)
        self.judged += sent
        if said:
            raise lab.Failed("rdmactl check %s:\n%s" % (path, said))
        oops = self.guest.oops()
        if oops and oops != self.oops:
            self.oops = oops
            raise lab.Failed("the kernel of the guest says: %s" % oops)

    def _sound_again(self):
        """After a failure: a fresh kernel, should the last one be gone or unwell."""
        self.wire.faults(None, None)
        self.wire.order("mend")
        try:
            if not self.guest.gone() and not self.guest.oops():
                self.guest.ask(limit=20, listens=1)
                return
        except lab.Failed:
            pass
        print("# the guest is booted anew", flush=True)
        self.guest.kill()
        self.boot()

    def close(self):
        if self.guest:
            self.guest.kill()
        # The next wire has the same addresses, and this daemon would take them: two of them, and the second has no port.
        if self.daemon:
            self.daemon.prog.kill()
        self.wire.stop()

    def end(self):
        """In order: nothing is left in the daemon, and the guest powers off."""
        def clean():
            lab.until("no object to be left in rdmad: %s" % self.daemon.objects(), lambda: not any(self.daemon.objects().values()), 10)
            self.daemon.stop()

        def heard():
            if not self.judged and not self.tally.only:
                raise lab.Failed("in no capture was a packet of rdmad: its address is not the one that is checked")

        def off():
            self.guest.stop()
        self.tally.case("MTU %d: rdmactl check has seen what rdmad sent" % self.mtu, heard)
        self.tally.case("MTU %d: nothing is left in rdmad" % self.mtu, clean)
        self.tally.case("MTU %d: the guest powers off" % self.mtu, off)
        self.close()


# ---- programs of the connection manager ---------------------------------------------

def listeners(end):
    """How many listeners of the connection manager there are at this end"""
    if isinstance(end.daemon, lab.Daemon):
        return end.daemon.cm()["listeners"]
    return sum(i.get("state") == "LISTEN" for i in json.loads(end.daemon.run("rdma", "-j", "resource", "show", "cm_id") or "[]"))


def groups(end):
    """How many multicast groups were joined at this end"""
    if isinstance(end.daemon, lab.Daemon):
        return end.daemon.cm()["groups"]
    return end.daemon.run("ip", "maddr", "show", "dev", "eth0").count("inet  239.")


def cm_pair(server, client, server_argv, client_argv, count=listeners, limit=60):
    """Both programs to their end; the client starts when the server can be reached."""
    before = count(server)
    s = server.daemon.start(server_argv, limit)
    c = None
    try:
        lab.until("the server to listen: " + s.describe(), lambda: s.ended() or count(server) > before, limit, 0.05)
        # Linux shows the state of a listener before it can be reached.
        if count is listeners and not isinstance(server.daemon, lab.Daemon):
            lab.until("the server to wait for clients: " + s.describe(), s.settled, limit, 0.05)
        c = client.daemon.start(client_argv, limit)
        for p, role in ((c, "client"), (s, "server")):
            try:
                status = p.wait()
            except lab.Failed as e:
                raise lab.Failed("%s; the other: %s" % (e, (s if p is c else c).describe()))
            if status:
                raise lab.Failed("the %s ended with %d: %s\n    the other: %s" % (role, status, p.describe(), (s if p is c else c).describe()), (s, c))
        return s, c
    finally:
        s.kill()
        if c:
            c.kill()
