# SPDX-License-Identifier: MIT
"""The manifests of contrib/kubernetes without a cluster.

    kubernetes.py check FILE...             their structure: fields that exist, what refers to something else
    kubernetes.py pod POD PLUGIN            runs the pod's command in a mount namespace of its own, in which of /run only what the
                                            plugin mounts is there
"""
import os
import subprocess
import sys

import yaml

META = {"name", "namespace", "labels"}
TOP = {"apiVersion", "kind", "metadata", "spec"}
POD = {"hostNetwork", "hostPID", "terminationGracePeriodSeconds", "tolerations", "containers", "volumes", "priorityClassName", "restartPolicy"}
CONTAINER = {"name", "image", "imagePullPolicy", "command", "args", "env", "securityContext", "readinessProbe", "volumeMounts", "resources"}
SECURITY = {"runAsUser", "allowPrivilegeEscalation", "capabilities", "privileged"}
PATH = {"path", "mountPath", "type", "readOnly"}


def known(what, have, fields):
    if not isinstance(have, dict) or set(have) - fields:
        sys.exit("%s has %s" % (what, have))


def container_check(c, volumes):
    known("a container", c, CONTAINER)
    known("a security context", c.get("securityContext", {}), SECURITY)
    for m in c.get("volumeMounts", []):
        known("a mount", m, {"name", "mountPath", "readOnly"})
        if m["name"] not in volumes or not m["mountPath"].startswith("/"):
            sys.exit("a mount of nothing: %s" % m)
    for e in c.get("env", []):
        known("a variable", e, {"name", "value"})
    if not all(isinstance(a, str) for a in c.get("command", []) + c.get("args", [])):
        sys.exit("a command that is no text: %s" % c)


def pod_check(spec):
    known("a pod", spec, POD)
    volumes = set()
    for v in spec.get("volumes", []):
        known("a volume", v, {"name", "hostPath"})
        known("a path of the host", v["hostPath"], {"path", "type"})
        if v["hostPath"].get("type", "") not in ("", "Directory", "DirectoryOrCreate"):
            sys.exit("a volume: %s" % v)
        volumes.add(v["name"])
    for c in spec["containers"]:
        container_check(c, volumes)
        volumes -= {m["name"] for m in c.get("volumeMounts", [])}
    if volumes:
        sys.exit("volumes that nobody mounts: %s" % volumes)


def check(path):
    with open(path) as f:
        doc = yaml.safe_load(f)
    known(path, doc, TOP)
    known(path, doc["metadata"], META)
    if (doc["apiVersion"], doc["kind"]) == ("v1", "Pod"):
        return pod_check(doc["spec"])
    if (doc["apiVersion"], doc["kind"]) != ("apps/v1", "DaemonSet"):
        sys.exit("%s is a %s of %s" % (path, doc["kind"], doc["apiVersion"]))
    known(path, doc["spec"], {"selector", "template"})
    known(path, doc["spec"]["template"], {"metadata", "spec"})
    labels = doc["spec"]["template"]["metadata"]["labels"]
    if doc["spec"]["selector"]["matchLabels"].items() - labels.items():
        sys.exit("%s: its pods are not those that it selects" % path)
    return pod_check(doc["spec"]["template"]["spec"])


def plugin_paths(path):
    with open(path) as f:
        args = yaml.safe_load(f)["spec"]["template"]["spec"]["containers"][0]["args"]
    devices = [yaml.safe_load(args[i + 1]) for i, a in enumerate(args) if a == "--device"]
    device, = devices
    if device["name"] != "rdmad":
        sys.exit("the plugin's device is %s" % device["name"])
    group, = device["groups"]
    for p in group["paths"]:
        known("a path of the plugin", p, PATH)
        if p["type"] != "Mount":
            sys.exit("no device: %s" % p)
    return [p["path"] for p in group["paths"]]


def pod(path, plugin):
    with open(path) as f:
        c, = yaml.safe_load(f)["spec"]["containers"]
    if c["resources"]["limits"] != {"squat.ai/rdmad": 1}:
        sys.exit("the pod asks for %s" % c["resources"])
    os.makedirs("/mnt", exist_ok=True)
    subprocess.run(["mount", "--rbind", "/run", "/mnt"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    for p in plugin_paths(plugin):
        os.makedirs(p)
        subprocess.run(["mount", "--bind", p.replace("/run", "/mnt", 1), p], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", p], check=True)
    env = {e["name"]: e["value"] for e in c["env"]}
    os.execvpe(c["command"][0], c["command"], dict(env, PATH=os.environ["PATH"]))


if sys.argv[1] == "check":
    for file in sys.argv[2:]:
        check(file)
else:
    pod(*sys.argv[2:])
