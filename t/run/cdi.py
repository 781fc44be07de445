# SPDX-License-Identifier: MIT
"""A container runtime of the least kind: cdi.py SPECIFICATION ROOT COMMAND... runs the command in the root, with the edits of the
specification's only device done to it. To be called in a mount namespace of its own."""
import json
import os
import subprocess
import sys

KNOWN = {"env", "mounts"}
OPTIONS = {"ro", "rw", "nosuid", "nodev", "noexec", "bind", "rbind"}

spec_file, root, *command = sys.argv[1:]
with open(spec_file) as f:
    spec = json.load(f)
if set(spec) != {"cdiVersion", "kind", "devices"} or spec["cdiVersion"] != "0.5.0" or spec["kind"].count("/") != 1:
    sys.exit("not a specification: %s" % sorted(spec))
device, = spec["devices"]
edits = device["containerEdits"]
if set(device) != {"name", "containerEdits"} or set(edits) - KNOWN:
    sys.exit("unknown edits: %s" % sorted(edits))
env = {"PATH": "/bin", "HOME": "/"}
for entry in edits["env"]:
    name, value = entry.split("=", 1)
    env[name] = value
for mount in edits["mounts"]:
    if set(mount) != {"hostPath", "containerPath", "options"} or set(mount["options"]) - OPTIONS:
        sys.exit("unknown mount: %s" % mount)
    to = root + mount["containerPath"]
    if os.path.isdir(mount["hostPath"]):
        os.makedirs(to, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        open(to, "a").close()
    subprocess.run(["mount", "--rbind", mount["hostPath"], to], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", to], check=False, stderr=subprocess.DEVNULL)
for kernel in ("/proc", "/dev"):
    subprocess.run(["mount", "--rbind", kernel, root + kernel], check=True)
os.chroot(root)
os.chdir("/")
os.execvpe(command[0], command, env)
