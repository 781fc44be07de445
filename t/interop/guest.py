# SPDX-License-Identifier: MIT
"""guest.py - a Linux kernel with soft-RoCE in QEMU, as a host for programs beside those of lab.py.

    wire = guest.Wire(host, mtu)			the interface of the daemon's host, and the relay behind it
    peer = guest.Guest(wire, kernel, initrd)		boots, and makes rxe0
    peer.start(argv) -> a program, with the words of lab.Prog

A Guest stands where lab.End expects a daemon. Everything is ended with the sandbox, whatever happens.
"""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import lab
import sandbox

ACCEL = os.environ.get("INTEROP_ACCEL", "tcg,thread=multi")
CPUS = os.environ.get("INTEROP_CPUS", "2")
MAC = "02:00:0a:4d:00:02"
QEMU = "qemu-system-x86_64"


class Wire:
    """veth1 for the daemon; what leaves it goes through the relay into the guest's network card."""

    def __init__(self, host, mtu):
        self.host, self.mtu = host, mtu
        self.other = lab.host_new("relay")
        # How many frames may wait for the guest; counted when the sockets are made.
        with open("/proc/sys/net/unix/max_dgram_qlen", "w") as f:
            f.write("1000")
        lab.run("ip", "link", "add", "veth1", "mtu", str(mtu), "type", "veth", "peer", "name", "veth2", "mtu", str(mtu))
        # The relay must read the packets as a wire carries them: no segments left to cut, no checksum left to make.
        for dev in ("veth1", "veth2"):
            lab.run("ethtool", "-K", dev, "tx", "off", "tx-udp-segmentation", "off", "tso", "off", "gso", "off", "gro", "off")
        self.other.take("veth2")
        self.other.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/veth2/disable_ipv6; exec ip link set veth2 arp off up")
        host.run("ip", "addr", "add", lab.v4(1) + "/24", "dev", "veth1")
        host.run("ip", "addr", "add", lab.v6(1) + "/64", "dev", "veth1", "nodad")
        host.run("ip", "link", "set", "veth1", "up")
        host.run("ip", "route", "replace", "224.0.0.0/4", "dev", "veth1")
        lab.until("veth1 to be up", lambda: "state UP" in host.run("ip", "link", "show", "veth1")
                  and "tentative" not in host.run("ip", "-6", "addr", "show", "dev", "veth1"))
        self.open_relay()

    def open_relay(self):
        relay_end, self.guest_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for s in (relay_end, self.guest_end):
            for what in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                s.setsockopt(socket.SOL_SOCKET, what, 4 << 20)

        with self.other.inside():
            self.relay = subprocess.Popen([os.path.join(lab.BUILD, "t/interop/relay"), "veth2", str(relay_end.fileno())], text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[relay_end.fileno()])
        relay_end.close()
        self._answer("to start")

    def _answer(self, to):
        line = self.relay.stdout.readline().split()
        if not line or line[0] != "ok":
            raise lab.Failed("the relay, asked %s: %s" % (to, " ".join(line) or "it ended with %s" % self.relay.wait()))
        return [int(n) for n in line[1:]]

    def order(self, text):
        self.relay.stdin.write(text + "\n")
        self.relay.stdin.flush()
        return self._answer(text)

    def open(self, path):
        self.order("open " + path)

    def close(self):
        """How many RoCEv2 packets were recorded, lost, doubled, damaged, late"""
        return self.order("close")

    def faults(self, out, back):
        """Of what goes to the guest, and what comes from it; None: none"""
        self.order("fault off")
        for way, spec in (("out", out), ("in", back)):
            if spec:
                self.order("fault %s %s" % (way, spec))

    def stop(self):
        self.relay.kill()
        self.relay.wait()
        self.guest_end.close()
        lab.unlink(self.host)
        self.other.close()


class GuestProg:
    """A program in the guest; see lab.Prog."""

    def __init__(self, peer, argv, env, limit, name=None):
        self.peer, self.argv, self.name = peer, argv, name or os.path.basename(argv[0])
        self.end = time.monotonic() + limit * lab.PATIENCE
        self.text, self.status, self.done = "", None, threading.Event()
        self.since = None
        self.id = peer.register(self)
        peer.say(id=self.id, run=argv, env=env)

    def output(self):
        return self.text

    def ended(self):
        return self.done.is_set() or self.peer.gone()

    def wait(self):
        while not self.done.wait(min(1.0, max(0.0, self.end - time.monotonic()))):
            if self.peer.gone():
                raise lab.Failed("the guest ended under %s\n%s" % (self.describe(), self.peer.console()))
            if time.monotonic() >= self.end:
                where = self.where()
                self.kill()
                raise lab.Failed("%s did not end in time; it was here:\n%s" % (self.describe(), where))
        return self.status

    def where(self):
        """What it does in the kernel, and what that has to say of its neighbours"""
        try:
            text = self.peer.ask(where=self.id) or "it has ended"
            for argv in (["rdma", "resource", "show", "qp"], ["rdma", "resource", "show", "cm_id"], ["ip", "neigh"]):
                text += "\n" + self.peer.run(*argv).strip()
        except lab.Failed as e:
            text = str(e)
        return "\n".join("      : " + line for line in text.splitlines())

    def settled(self):
        """What it was doing is done: its first thread waits, or runs for long."""
        ticks = None if self.ended() else self.peer.ask(busy=self.id)
        if ticks is not None and self.since is None:
            self.since = ticks
        return ticks is None or ticks >= self.since + 5

    def kill(self, sig=signal.SIGKILL):
        if not self.ended():
            self.peer.say(id=self.id, kill=int(sig))
            if sig == signal.SIGKILL:
                self.done.wait(20)

    def describe(self):
        self.done.wait(1)	# it may have ended, and its last words be under way
        text = self.text.strip().splitlines()
        return "rxe: `%s`%s" % (" ".join(self.argv), "".join("\n      | " + line for line in text[-12:]))

    def listening(self, port):
        return self.peer.ask(listens=port)


class Guest:
    """Boots at once. Failed if it does not come up."""
    env = {}

    def __init__(self, wire, kernel, initrd, limit=300):
        self.wire = wire
        self.progs, self.answers, self.count = {}, {}, 0
        self.lock, self.news = threading.Lock(), threading.Condition()
        self.log = os.path.join(sandbox.work_dir, "console.%d" % id(self))
        ours, theirs = socket.socketpair()
        self.port = ours
        # no_timer_check: an emulated timer may be late, and Linux would take it for broken.
        argv = [QEMU, "-nodefaults", "-no-user-config", "-machine", "q35", "-accel", ACCEL, "-cpu", "max", "-smp", CPUS, "-m", "1024",
                "-display", "none", "-no-reboot", "-kernel", kernel, "-initrd", initrd,
                "-append", "console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0 mitigations=off ipv6.autoconf=0 LC_ALL=C",
                "-serial", "file:" + self.log,
                "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
                "-netdev", "dgram,id=net,local.type=fd,local.str=%d" % wire.guest_end.fileno(),
                "-device", "virtio-net-pci,netdev=net,mac=%s,host_mtu=%d,romfile=" % (MAC, wire.mtu),
                "-device", "virtio-serial-pci", "-chardev", "socket,id=agent,fd=%d" % theirs.fileno(),
                "-device", "virtserialport,chardev=agent,name=agent"]
        with open(self.log + ".qemu", "wb") as out:
            self.qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                         pass_fds=[wire.guest_end.fileno(), theirs.fileno()], preexec_fn=sandbox.die_with_parent)
        theirs.close()
        self.up = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        end = time.monotonic() + limit * lab.PATIENCE
        while not self.up.wait(0.2):
            if self.gone() or time.monotonic() > end:
                raise lab.Failed("the guest did not come up\n" + self.console())
        self._rxe()

    # ---- the wire to the agent

    def _listen(self):
        with self.port.makefile("rb") as f:
            for line in f:
                try:
                    self._heard(json.loads(line))
                except (ValueError, KeyError):
                    pass
        with self.news:
            self.news.notify_all()

    def _heard(self, m):
        if "hello" in m:
            self.up.set()
        elif "answer" in m:
            with self.news:
                self.answers[m["id"]] = m["answer"]
                self.news.notify_all()
        elif "out" in m:
            self.progs[m["id"]].text += m["out"]
        elif "exit" in m:
            p = self.progs.pop(m["id"])
            p.status = m["exit"]
            p.done.set()

    def say(self, **words):
        with self.lock:
            try:
                self.port.sendall(json.dumps(words).encode() + b"\n")
            except OSError as e:
                raise lab.Failed("the guest is gone: %s\n%s" % (e, self.console()))

    def _next(self):
        with self.lock:
            self.count += 1
            return self.count

    def register(self, prog):
        ident = self._next()
        self.progs[ident] = prog
        return ident

    def ask(self, limit=30, **words):
        ident = self._next()
        self.say(id=ident, **words)
        with self.news:
            if not self.news.wait_for(lambda: ident in self.answers or self.gone(), limit * lab.PATIENCE) or ident not in self.answers:
                raise lab.Failed("the guest does not answer\n" + self.console())
            return self.answers.pop(ident)

    # ---- what lab.End and the cases want of a daemon

    def start(self, argv, limit=60.0, **env):
        return GuestProg(self, argv, env, limit)

    def run(self, *argv, limit=60.0):
        p = self.start(list(argv), limit)
        if p.wait():
            raise lab.Failed("in the guest: %s" % p.describe())
        return p.output()

    def devinfo(self):
        return lab.gids_of(self.run("ibv_devinfo", "-v"))

    def gone(self):
        return self.qemu.poll() is not None

    def console(self):
        """What the kernel and QEMU said last"""
        lines = []
        for path in (self.log, self.log + ".qemu"):
            with open(path, errors="replace") as f:
                lines += f.read().splitlines()[-25:]
        return "\n".join("      # " + line for line in lines)

    def oops(self):
        """A line of the kernel's console that no sound kernel prints, or None"""
        with open(self.log, errors="replace") as f:
            found = re.search(r"^.*(BUG:|Oops|Kernel panic|general protection|WARNING: CPU|soft lockup).*$", f.read(), re.M)
        return found.group(0).strip() if found else None

    def _rxe(self):
        self.run("sh", "-ec", """
            ip link set lo up; echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
            ip link set eth0 mtu %d
            ip addr add %s/24 dev eth0
            ip addr add %s/64 dev eth0 nodad
            ip link set eth0 up
            ip route add 224.0.0.0/4 dev eth0
            rdma link add rxe0 type rxe netdev eth0""" % (self.wire.mtu, lab.v4(2), lab.v6(2)))
        lab.until("rxe0 to have its addresses", lambda: lab.gid_text(lab.v6(2)) in self.devinfo().get("rxe0", {}), 30, 0.2)

    def stop(self):
        """An orderly end; QEMU's exit status is 0."""
        self.say(halt=True)
        try:
            status = self.qemu.wait(30 * lab.PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise lab.Failed("the guest does not power off\n" + self.console())
        if status:
            raise lab.Failed("QEMU ended with %d\n%s" % (status, self.console()))

    def kill(self):
        self.qemu.kill()
        self.qemu.wait()
