# SPDX-License-Identifier: MIT
"""sandbox.py - a place of its own for a test: fresh user, network, mount and process namespaces.

    if not sandbox.enter(): ...the machine allows none

enter() forks. The child goes on as process 1 of its own pid namespace; the parent
waits for it and exits as it does. If anything happens to either - a failed test, SIGTERM,
SIGKILL - the kernel ends every process of the namespace, and with the last of them go
the interfaces: there is no cleaning up that a test could forget. Needs no root where
unprivileged user namespaces are allowed.
"""
import ctypes
import os
import shutil
import signal
import sys
import tempfile

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x4000, 0x40000, 2, 4, 8
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
work_dir = None		# a temporary directory of this test, removed at the end


def _call(name, *args):
    if getattr(_libc, name)(*args) != 0:
        err = ctypes.get_errno()
        raise OSError(err, "%s: %s" % (name, os.strerror(err)))


def unshare(flags):
    _call("unshare", flags)


def setns(fd, kind):
    _call("setns", fd, kind)


def die_with_parent():
    """For a child between fork and exec."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _unshare_as_anyone():
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        try:
            unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS)
            return
        except PermissionError:
            pass		# root of a container without CAP_SYS_ADMIN: as the others
    unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS)
    with open("/proc/self/setgroups", "w") as f:
        f.write("deny")
    with open("/proc/self/uid_map", "w") as f:
        f.write("0 %d 1" % uid)
    with open("/proc/self/gid_map", "w") as f:
        f.write("0 %d 1" % gid)


def _child_begin():
    """Process 1 of the new namespace: its own /proc, so that pids seen there are its own."""
    die_with_parent()
    try:
        _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        _call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    except OSError as e:
        return e
    return None


def _parent_wait(pid):
    def stop(sig, frame):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass	# the same signal has ended it

    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, stop)
    _, status = os.waitpid(pid, 0)
    shutil.rmtree(work_dir, ignore_errors=True)
    sys.stdout.flush()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def enter():
    """True: the caller is alone in new namespaces. False: not allowed here; nothing has changed but work_dir."""
    global work_dir
    work_dir = tempfile.mkdtemp(prefix="rdmad-e2e.")
    ready_r, ready_w = os.pipe()
    sys.stdout.flush()
    keeper = os.fork()		# unshare() in a child, so that a refusal leaves this process as it was
    if keeper == 0:
        os.close(ready_r)
        die_with_parent()
        try:
            _unshare_as_anyone()
        except OSError as e:
            print("# no namespaces: %s" % e)
            sys.stdout.flush()
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            failed = _child_begin()
            if failed:
                print("# no namespaces: %s" % failed)
                sys.stdout.flush()
                os._exit(0)
            os.write(ready_w, b"1")
            os.close(ready_w)
            return True
        os.close(ready_w)
        _keep(pid)
    os.close(ready_w)
    if os.read(ready_r, 1) == b"1":
        _parent_wait(keeper)
    os.waitpid(keeper, 0)
    os.close(ready_r)
    return False


def _keep(pid):
    """The process between: dies with the parent, and the namespace with it."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
