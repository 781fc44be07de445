# SPDX-License-Identifier: MIT
"""pytest_rdmad - tests of RDMA programs without RDMA hardware, with faults.

    import pytest_rdmad as rdma

    @rdma.faults("lossy.yaml")              # or the rules themselves; rdmad-fault(5)
    def test_survives(rdma):
        rdma.run(["./my-program"])

Tests that want the fixture `rdma` or have faults run under `rdmad-run --own`: if pytest does not, it starts itself again, so
pyverbs within the test and programs that it starts both use rdmad's libibverbs.  All tests share the daemon and its device;
rules, causes and captures are those of one test.
"""
import contextlib
import hashlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
import warnings

import pytest

AGAIN = "RDMAD_PYTEST"  # in the environment: pytest was started again, by us
PATIENCE_S = 60
CAPTURE = ["--quiet", "--snaplen", "320", "--file-size", "32M", "--files", "2"]


def faults(rules, seed=None):
    """A mark: these rules (text, or a file's name, as seen from the test's directory) are in force during the test."""
    return pytest.mark.rdma_faults(rules, seed=seed)


class RdmadError(Exception):
    """rdmactl, or rdmad, could not do what was asked for."""


# ---- pytest ---------------------------------------------------------------------------


def pytest_addoption(parser):
    group = parser.getgroup("rdmad", "RDMA without hardware")
    group.addoption("--rdmad-run", metavar="PATH", default=os.environ.get("RDMAD_RUN_PATH", "rdmad-run"),
                    help="rdmad-run, if it is not in PATH (default: $RDMAD_RUN_PATH)")
    group.addoption("--rdmad-arg", metavar="ARG", action="append", default=[],
                    help="another argument for rdmad-run, e.g. --rdmad-arg=--as=cx7 (once for each)")
    group.addoption("--rdmad-report", metavar="DIR",
                    help="for each test that fails, leave a directory in DIR: capture, diagram, reasons, rules")


def pytest_configure(config):
    config.addinivalue_line("markers", "rdma_faults(rules, seed=None): rules of rdmad-fault(5) that disturb the test's packets")


def fixtures(item):
    return getattr(item, "fixturenames", [])


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item):
    if item.get_closest_marker("rdma_faults") and hasattr(item, "fixturenames") and "rdma" not in item.fixturenames:
        item.fixturenames.insert(0, "rdma")


def pytest_collection_finish(session):
    """What -k, -m and the like have left of them is known now."""
    config = session.config
    if config.option.collectonly or session.testsfailed or not any("rdma" in fixtures(item) for item in session.items):
        return
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("pytest-rdmad: tests of RDMA share a device and run one after the other: without -n (xdist), "
                                "or those without RDMA in a run of their own")
    if not runs_under_rdmad():
        start_again(config)


def runs_under_rdmad():
    return AGAIN in os.environ or ("RDMAD_SOCKET" in os.environ and "ibverbs" in os.environ.get("LD_PRELOAD", ""))


def find_run(config):
    path = shutil.which(config.getoption("--rdmad-run"))
    if not path:
        raise pytest.UsageError("pytest-rdmad: there is no %s: install rdmad, or say where it is by --rdmad-run" % config.getoption("--rdmad-run"))
    return path


def start_again(config):
    """Becomes rdmad-run with this same pytest in it; returns only by an exception."""
    run = find_run(config)
    args = [str(a) for a in config.invocation_params.args]
    if args != sys.argv[1:]:
        raise pytest.UsageError("pytest-rdmad: pytest was called by a program, and cannot be started again: run that as rdmad-run --own PROGRAM")
    itself = ["-m", "pytest"] if os.path.basename(sys.argv[0]) == "__main__.py" else [sys.argv[0]]
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.stop_global_capturing()
    print("\npytest-rdmad: again, under rdmad-run", flush=True)
    os.chdir(str(config.invocation_params.dir))
    os.environ[AGAIN] = "1"
    argv = [run, "--own", *config.getoption("--rdmad-arg"), sys.executable, *itself, *args]
    os.execv(run, argv)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    test = getattr(item, "rdmad_test", None)
    if test and report.failed:
        test.failed = True
        with contextlib.suppress(RdmadError, OSError):
            report.sections.append(("rdmad: what went wrong", test.why_text() or "nothing that rdmad knows of\n"))
            if test.rules:
                report.sections.append(("rdmad: rules", test.ctl("fault", "list")))


# ---- the fixture -------------------------------------------------------------------------


@pytest.fixture
def rdma(request):
    """The device and its daemon, as this test sees them: class Rdma."""
    test = Rdma(request.config, request.node)
    request.node.rdmad_test = test
    try:
        test.begin()
        for mark in reversed(list(request.node.iter_markers("rdma_faults"))):
            test.faults(*mark.args, **mark.kwargs)
        yield test
    finally:
        test.end()


def directory_name(nodeid):
    """A name for a test's directory; where it is cut, or could be another test's as well, with a hash behind it."""
    name = re.sub(r"[^\w.\[\]-]+", "-", nodeid)
    short = name.encode("utf-8")[:200].decode("utf-8", "ignore")
    if short == name and re.fullmatch(r"[\w./]+(::\w+)*(\[[\w.-]+\])?", nodeid):
        return short
    return "%s-%s" % (short, hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:8])


class Rdma:
    """A test's view of rdmad.

    device      "rdmad0"
    address     that of the device, as text
    faults()    puts rules into force, until the test ends or clear()
    why()       what went wrong since the test began, a dict each
    run()       subprocess.run() of a program, with standard output and error as text
    ctl()       standard output of rdmactl
    """

    def __init__(self, config, item):
        run = os.path.realpath(find_run(config))
        beside = os.path.join(os.path.dirname(run), "rdmactl")
        self.rdmactl = beside if os.access(beside, os.X_OK) else "rdmactl"
        self.here = os.path.dirname(str(item.fspath))
        self.rules = []
        self.failed = False
        self.since_ns = time.time_ns()
        self.started = []
        self.capture = None
        top = config.getoption("--rdmad-report")
        top = top and os.path.join(str(config.invocation_params.dir), top)  # a test may go elsewhere
        self.dir = os.path.join(top, directory_name(item.nodeid)) if top else None

    # -- what tests use --

    @property
    def device(self):
        return self.json("devices")["devices"][0]["name"]

    @property
    def address(self):
        gids = self.json("devices")["devices"][0]["gids"]
        return next((g["address"] for g in gids if g["wire"]), gids[0]["address"])

    def faults(self, rules, seed=None):
        """Rules: text in YAML, or the name of a file. Their ids."""
        text = rules
        if "\n" not in rules and not rules.lstrip().startswith(("rules:", "{")):
            path = os.path.join(self.here, rules)
            try:
                with open(path, encoding="utf-8") as f:
                    text = f.read()
            except OSError as err:
                raise RdmadError("faults: %s: %s (rules as text begin with \"rules:\")" % (path, err.strerror)) from None
        before = {r["id"] for r in self.json("fault", "list")["rules"]}
        self.ctl("fault", "add", *(["--seed", str(seed)] if seed is not None else []), "-", stdin=text)
        new = [r["id"] for r in self.json("fault", "list")["rules"] if r["id"] not in before]
        self.rules += new
        return new

    def hits(self):
        """How many packets the rules of this test have disturbed."""
        return sum(r["hits"] for r in self.json("fault", "list")["rules"] if r["id"] in self.rules)

    def clear(self):
        """No rule of this test is in force any more."""
        for rule in self.rules:
            self.ctl("fault", "clear", str(rule))
        self.rules = []

    def why(self):
        return [c for c in self.json("why")["causes"] if c["time_ns"] >= self.since_ns]

    def why_text(self):
        text = ""
        for c in self.why():
            if c["grade"] != "error":
                continue
            text += "%s (pid %d) on %s: %s\n" % (c.get("program", "?"), c.get("pid", 0), c.get("device", "?"), c["cause"])
            for key, before in (("rules", ""), ("text", ""), ("there", "there: "), ("hint", "hint: ")):
                if c.get(key):
                    text += "  " + before + c[key] + "\n"
        return text

    def run(self, argv, timeout=PATIENCE_S, check=True, **more):
        """A program, to its end; CalledProcessError if it fails."""
        more.setdefault("capture_output", True)
        more.setdefault("text", True)
        try:
            return subprocess.run(argv, timeout=timeout, check=check, **more)
        except subprocess.CalledProcessError as err:
            sys.stderr.write("%s\n%s" % (err.stdout or "", err.stderr or ""))
            raise

    def start(self, argv, **more):
        """A program that runs beside the test: Popen(). It is ended when the test ends."""
        self.started.append(subprocess.Popen(argv, **more))
        return self.started[-1]

    def ctl(self, *argv, stdin=None):
        p = subprocess.run([self.rdmactl, *argv], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if p.returncode:
            raise RdmadError(p.stderr.strip() or "rdmactl %s: status %d" % (" ".join(argv), p.returncode))
        return p.stdout

    def json(self, *argv):
        return json.loads(self.ctl("--json", *argv))

    # -- around a test --

    def begin(self):
        if not self.dir:
            return
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        ours, theirs = socket.socketpair()
        with theirs:
            self.capture = (ours, subprocess.Popen(
                [self.rdmactl, "capture", "--write", os.path.join(self.dir, "capture.pcapng"), "--ready", str(theirs.fileno()), *CAPTURE],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL))
        if not self.word(ours):
            raise RdmadError("the capture in %s has not begun" % self.dir)

    def word(self, ours):
        """A byte from the capture, in time."""
        return bool(select.select([ours], [], [], PATIENCE_S)[0]) and len(ours.recv(1)) == 1

    def end(self):
        for p in self.started:
            if p.poll() is None:
                p.terminate()
                try:
                    p.wait(5)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
        idle = []
        for step in (self.capture_end, self.keep, lambda: idle.extend(self.idle()), self.clear):
            try:  # if the daemon died, the capture is there all the same
                step()
            except (RdmadError, OSError, ValueError, subprocess.TimeoutExpired) as err:
                warnings.warn("rdmad: %s" % err)
        if self.dir and not self.failed:
            shutil.rmtree(self.dir, ignore_errors=True)
        for r in idle:
            warnings.warn("rdmad: no packet of this test met rule %d%s" % (r["id"], " (%s)" % r["name"] if r["name"] else ""))

    def idle(self):
        return [r for r in self.json("fault", "list")["rules"] if r["id"] in self.rules and not r["matches"]] if self.rules else []

    def capture_end(self):
        if not self.capture:
            return
        ours, process = self.capture
        self.capture, whole = None, False
        try:
            with ours:
                ours.shutdown(socket.SHUT_WR)
                whole = self.word(ours)
        finally:
            if not whole:
                process.kill()
            process.wait()
        if not whole:
            warnings.warn("rdmad: the capture in %s is not complete" % self.dir)

    def keep(self):
        """If the test has failed, all that is known of it goes to its directory."""
        if not self.dir or not self.failed:
            return
        for name, get in (("why.txt", self.why_text), ("rules.txt", lambda: self.ctl("fault", "list", "--log") if self.rules else "")):
            try:
                text = get()
            except RdmadError as err:
                text = "%s\n" % err
            if text:
                with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
                    f.write(text)
        files = sorted(os.path.join(self.dir, f) for f in os.listdir(self.dir) if f.endswith(".pcapng"))
        with contextlib.suppress(RdmadError):  # it has passed no packet
            self.ctl("ladder", "-o", os.path.join(self.dir, "ladder.html"), *files)
