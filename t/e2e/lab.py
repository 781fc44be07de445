# SPDX-License-Identifier: MIT
"""lab.py - hosts, daemons and programs for the end-to-end tests.

A Host is a network namespace with addresses. A Daemon runs on a host. A Prog is a
program under test, with its output in a file and a time limit. pair() runs a server and a
client and holds both to their exit status. Nothing here sleeps and hopes: until() waits for a
condition, and fails when its time is up.
"""
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import textwrap
import time

import sandbox

BUILD = os.environ.get("RDMAD_BUILD", os.getcwd())
PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))	# scales every limit: sanitizers and busy machines


def sanitized():
    """A build with a sanitizer looks at what is ours: the work of others is for the other builds."""
    config = os.path.join(BUILD, "config.h")
    if not os.path.exists(config):
        return False
    with open(config) as f:
        return "#define REPEATS_LESS 1\n" in f.read()


class Failed(Exception):
    """A case did not go as it must. progs: whose output tells more."""

    def __init__(self, text, progs=()):
        super().__init__(text)
        self.progs = progs


def until(what, cond, limit=10.0, pause=0.005):
    """The first true value of cond(); Failed after limit seconds.  It looks less often the longer it takes."""
    end = time.monotonic() + limit * PATIENCE
    while True:
        value = cond()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed("waited %.0f s in vain for %s" % (limit * PATIENCE, what))
        time.sleep(pause)
        pause = min(1.2 * pause, 0.05)


def output_of(p, limit):
    """All that it says; Failed if it does not end well, and in time."""
    with p:
        try:
            said = p.communicate(timeout=limit * PATIENCE)[0]
        except subprocess.TimeoutExpired:
            p.kill()
            raise Failed("%s: did not end in time" % " ".join(p.args))
        except BaseException:
            p.kill()
            raise
    if p.returncode:
        raise Failed("%s: exit %d: %s" % (" ".join(p.args), p.returncode, said.strip()))
    return said


def run(*argv, limit=20.0):
    return output_of(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True), limit)


# ---- hosts -------------------------------------------------------------------

class Host:
    """A network namespace; fd None is the one this process is in."""

    def __init__(self, name, fd=None):
        self.name, self.fd = name, fd

    @contextlib.contextmanager
    def inside(self):
        """What this thread begins and opens meanwhile is on the host. A child that entered by itself would be a copy of Python first."""
        if self.fd is None:
            yield
            return
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            sandbox.setns(self.fd, sandbox.CLONE_NEWNET)
            try:
                yield
            finally:
                sandbox.setns(here, sandbox.CLONE_NEWNET)
        finally:
            os.close(here)

    def run(self, *argv, limit=20.0):
        with self.inside():
            p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return output_of(p, limit)

    def take(self, dev):
        """An end of a link, of the namespace that this thread is in, is the host's from now on."""
        subprocess.run(["ip", "link", "set", dev, "netns", "/proc/self/fd/%d" % self.fd], check=True, pass_fds=[self.fd])

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def host_here():
    run("ip", "link", "set", "lo", "up")
    return Host("here")


def host_new(name):
    """Another namespace. Nothing but the descriptor holds it."""
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go_w)
            sandbox.die_with_parent()
            sandbox.unshare(sandbox.CLONE_NEWNET)
            os.write(ready_w, b"1")
            os.read(go_r, 1)
        finally:
            os._exit(0)
    os.close(ready_w)
    os.close(go_r)
    made = os.read(ready_r, 1)
    fd = os.open("/proc/%d/ns/net" % pid, os.O_RDONLY | os.O_CLOEXEC)
    os.close(go_w)
    os.close(ready_r)
    os.waitpid(pid, 0)
    if not made:
        raise Failed("no second network namespace")
    host = Host(name, fd)
    host.run("ip", "link", "set", "lo", "up")
    return host


# Of host n (1, 2): what both tests and captures go by.
def v4(n):
    return "10.77.0.%d" % n


def v6(n):
    return "fd77::%d" % n


def link(a, b, mtu, offload=True):
    """A veth pair between two hosts, a being the one this process is in."""
    run("ip", "link", "add", "veth1", "mtu", str(mtu), "type", "veth", "peer", "name", "veth2", "mtu", str(mtu))
    b.take("veth2")
    for n, host in ((1, a), (2, b)):
        dev = "veth%d" % n
        host.run("ip", "addr", "add", v4(n) + "/24", "dev", dev)
        host.run("ip", "addr", "add", v6(n) + "/64", "dev", dev, "nodad")
        if not offload:
            host.run("ethtool", "-K", dev, "tx-udp-segmentation", "off", "tso", "off", "gso", "off", "gro", "off")
        host.run("ip", "link", "set", dev, "up")
    for n, host in ((1, a), (2, b)):
        # A link-local address that is still being probed cannot be bound to.
        until("veth%d to be up" % n, lambda h=host, d="veth%d" % n:
              "state UP" in h.run("ip", "link", "show", d) and "tentative" not in h.run("ip", "-6", "addr", "show", "dev", d))


def unlink(a):
    a.run("ip", "link", "del", "veth1")


# ---- programs ------------------------------------------------------------------

def library_env():
    """What makes a program take the libraries of the build tree, also those built with a sanitizer."""
    lib = os.path.join(BUILD, "lib/verbs/.libs")
    env = dict(os.environ, LD_LIBRARY_PATH="%s:%s" % (lib, os.path.join(BUILD, "lib/rdmacm/.libs")))
    env.pop("RDMAD_SOCKET", None)
    needed = subprocess.run(["ldd", os.path.join(lib, "libibverbs.so.1")], stdout=subprocess.PIPE, text=True).stdout
    san = re.findall(r"=> (\S*lib[at]san\S*)", needed)
    if san:
        env["LD_PRELOAD"] = " ".join(san)
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"	# the programs' own
    return env


# perftest spins at its end to measure the processor's clock: for a twentieth of the time by this one (clock.c), which spoils its
# figures.  None where they count.
PERFTEST = re.compile(r"(ib|raw_ethernet)_\w*(bw|lat)$")
CLOCK = os.path.join(BUILD, "t/e2e/.libs/clock.so")


class Prog:
    """A process of a test; killed when its time is up or when the test no longer wants it."""
    count = 0

    def __init__(self, host, argv, env=None, limit=60.0, name=None):
        Prog.count += 1
        self.argv = argv
        self.name = name or os.path.basename(argv[0])
        self.out_path = os.path.join(sandbox.work_dir, "%04d.%s" % (Prog.count, self.name))
        self.end = time.monotonic() + limit * PATIENCE
        out = open(self.out_path, "wb")

        with host.inside():
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
        out.close()

    @property
    def pid(self):
        return self.proc.pid

    def output(self):
        with open(self.out_path, "rb") as f:
            return f.read().decode(errors="replace")

    def ended(self):
        return self.proc.poll() is not None

    def wait(self):
        """The exit status; Failed when time is up."""
        fd = os.pidfd_open(self.pid) if self.proc.poll() is None else -1
        if fd >= 0:
            ready = select.select([fd], [], [], max(0.0, self.end - time.monotonic()))[0]
            os.close(fd)
            if not ready and self.proc.poll() is None:
                self.kill()
                raise Failed("%s did not end in time" % self.describe())
        return self.proc.wait()

    def kill(self, sig=signal.SIGKILL):
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
            if sig == signal.SIGKILL:
                self.proc.wait()

    def describe(self):
        text = self.output().strip().splitlines()
        # Unbuffered output stands above buffered output.
        said = [line for line in text[:-12] if re.search("fail|error|couldn|unable", line, re.I)]
        return "`%s`%s" % (" ".join(self.argv), "".join("\n      | " + line for line in said[:6] + text[-12:]))

    def listening(self, port):
        """Whether a socket of its namespace listens on the port, IPv4 or IPv6."""
        for table in ("tcp", "tcp6"):
            try:
                with open("/proc/%d/net/%s" % (self.pid, table)) as f:
                    for line in f:
                        col = line.split()
                        if len(col) > 3 and col[3] == "0A" and col[1].endswith(":%04X" % port):
                            return True
            except OSError:
                pass
        return False


_ports = iter(range(20000, 60000))


def port_next():
    """A TCP port that no other case of this test uses."""
    return next(_ports)


# ---- daemons -------------------------------------------------------------------

def held(address):
    """What holds the private daemon there, which ends when nobody does: until its standard input is closed."""
    p = subprocess.Popen([os.path.join(BUILD, "rdmad-run"), "-s", address, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(b"\n")
    p.stdin.flush()
    if not p.stdout.readline():
        raise Failed("the daemon at %s cannot be held" % address)
    return p


class Daemon:
    count = 0
    private = False     # for the user who runs it alone: it need not keep users apart

    def __init__(self, host, conf=None, io=None, options=(), program="rdmad"):
        Daemon.count += 1
        self.host = host
        self.socket = os.path.join(sandbox.work_dir, "d%d.sock" % Daemon.count)
        argv = [os.path.join(BUILD, program), "--socket", self.socket]
        if conf is not None:
            path = os.path.join(sandbox.work_dir, "d%d.conf" % Daemon.count)
            with open(path, "w") as f:
                f.write(conf)
            argv += ["--config", path]
        if io:
            argv += ["--io", io]
        argv += list(options) + ["--private"] * self.private
        self.prog = Prog(host, argv, limit=86400)
        self.env = dict(library_env(), RDMAD_SOCKET=self.socket)
        until("rdmad to answer: " + self.prog.describe(), self.answers)
        if self.private:    # it lives as long as somebody holds it
            self.holder = Prog(host, [os.path.join(BUILD, "rdmad-run"), "-s", self.socket, "sleep", "86400"], limit=86400)

    def answers(self):
        if self.prog.ended():
            raise Failed("rdmad ended at once: %s" % self.prog.describe())
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            s.connect(self.socket)
            return True
        except OSError:
            return False
        finally:
            s.close()

    def start(self, argv, limit=60.0, **env):
        env = dict(self.env, **env)
        if CLOCK and PERFTEST.match(os.path.basename(argv[0])):
            env["LD_PRELOAD"] = ("%s %s" % (env.get("LD_PRELOAD", ""), CLOCK)).strip()
        return Prog(self.host, argv, env=env, limit=limit)

    def devinfo(self):
        """{device: {gid as text: index}}"""
        p = self.start(["ibv_devinfo", "-v"])
        if p.wait():
            raise Failed("ibv_devinfo fails: %s" % p.describe())
        return gids_of(p.output())

    def ctl(self, what):
        """rdmactl WHAT --json, parsed."""
        p = self.start([os.path.join(BUILD, "rdmactl"), what, "--json"])
        if p.wait():
            raise Failed("rdmactl fails: %s" % p.describe())
        return json.loads(p.output())

    def objects(self):
        """{kind: how many}, over all devices"""
        total = {}
        for device in self.ctl("stats")["devices"]:
            for kind, n in device["objects"].items():
                total[kind] = total.get(kind, 0) + n
        return total

    def cm(self):
        """What the connection manager has, by kind"""
        return self.ctl("stats")["daemon"]["cm"]

    def counter(self, name):
        return sum(d["counters"][name] for d in self.ctl("stats")["devices"])

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.prog.pid))

    def fd_names(self):
        where = "/proc/%d/fd" % self.prog.pid
        names = []
        for n in os.listdir(where):
            try:
                names.append("%s:%s" % (n, os.readlink(os.path.join(where, n))))
            except FileNotFoundError:	# closed in between
                pass
        return names

    def maps(self):
        """Mapped memory of clients: memfds, each once however often the kernel splits it."""
        with open("/proc/%d/maps" % self.prog.pid) as f:
            return len({line.split()[4] for line in f if "memfd:" in line})

    def stop(self):
        """An orderly end: SIGTERM, exit status 0."""
        self.prog.end = time.monotonic() + 10 * PATIENCE
        self.prog.kill(signal.SIGTERM)
        status = self.prog.wait()
        if status:
            raise Failed("rdmad ended with %d: %s" % (status, self.prog.describe()))


def gids_of(text):
    """{device: {gid as text: index}} of what ibv_devinfo -v printed"""
    devices, at = {}, None
    for line in text.splitlines():
        m = re.match(r"hca_id:\s*(\S+)", line)
        if m:
            at = devices.setdefault(m.group(1), {})
        m = re.match(r"\s*GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)", line)
        if m and at is not None:
            at[gid_text(m.group(2))] = int(m.group(1))
    return devices


def gid_text(text):
    """One spelling of an IP address or GID."""
    if ":" not in text:
        text = "::ffff:" + text
    return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))


class End:
    """Where one program of a pair runs: a daemon, a device of it, a row of its GID table, an address to be reached at."""

    def __init__(self, daemon, device, gid, address):
        self.daemon, self.device, self.address = daemon, device, address
        seen = {}

        def shown():	# the kernel tells of an address when it has given it
            seen.update(daemon.devinfo())
            return gid_text(gid) in seen.get(device, {})

        try:
            until("the GID", shown)
        except Failed:
            raise Failed("%s has no GID %s; there are %s" % (device, gid, {d: sorted(t) for d, t in seen.items()})) from None
        self.gid = gid
        self.gid_index = seen[device][gid_text(gid)]


def pair(server, client, argv_of, limit=60.0, **env):
    """
    Runs argv_of(end, port, peer address or None) at both ends, the server first, and the client once it
    listens. (server, client) when both ended with 0; Failed if not.
    """
    port = port_next()
    s = server.daemon.start(argv_of(server, port, None), limit, **env)
    c = None
    try:
        until("the server: " + s.describe(), lambda: s.listening(port) or s.ended(), limit)
        if s.ended():
            raise Failed("the server ended with %d: %s" % (s.wait(), s.describe()))
        c = client.daemon.start(argv_of(client, port, server.address), limit, **env)
        for p, role in ((c, "client"), (s, "server")):
            try:
                status = p.wait()
            except Failed as e:
                raise Failed("%s; the other: %s" % (e, (s if p is c else c).describe()))
            if status:
                raise Failed("the %s ended with %d: %s\n    the other: %s" % (
                    role, status, p.describe(), (s if p is c else c).describe()), (s, c))
        return s, c
    finally:
        s.kill()
        if c:
            c.kill()


# ---- counting ------------------------------------------------------------------

def causes(args):
    """What the daemons among a case's arguments, or in lists there, say of what went wrong last."""
    daemons = [d for a in args for d in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(d, Daemon)]
    text = ""
    for d in dict.fromkeys(daemons):
        try:
            p = d.start([os.path.join(BUILD, "rdmactl"), "why"], 10)
            p.wait()
            text += "\nrdmactl why of %s\n%s" % (d.socket, "\n".join(p.output().strip().splitlines()[-30:]))
        except (Failed, OSError) as e:
            text += "\nrdmactl why of %s: %s" % (d.socket, e)
    return text


class Tally:
    """Runs cases, prints a line for each, and knows the exit status of the test."""

    def __init__(self, title):
        self.title, self.passed, self.failed, self.skipped = title, 0, 0, 0
        self.only = os.environ.get("E2E_ONLY")		# a regular expression

    def case(self, name, fn, *args, **kw):
        if self.only and not re.search(self.only, name):
            return
        start = time.monotonic()
        try:
            fn(*args, **kw)
        except (Failed, OSError, subprocess.SubprocessError) as e:
            self.failed += 1
            print("not ok - %s\n%s" % (name, textwrap.indent(str(e) + causes(args), "    ")), flush=True)
            return
        self.passed += 1
        print("ok - %s (%.1f s)" % (name, time.monotonic() - start), flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print("ok - %s # SKIP %s" % (name, why), flush=True)

    def status(self):
        print("%s: %d passed, %d failed, %d skipped" % (self.title, self.passed, self.failed, self.skipped), flush=True)
        if self.failed or not self.passed + self.skipped:
            return 1
        return 0 if self.passed else 77
