# SPDX-License-Identifier: MIT
"""agent.py - the first process of the guest: runs what it is told over a virtio port.

Lines of JSON, both ways. Orders:
    {"id": 7, "run": [argv], "env": {...}}	starts a program; many run at once
    {"id": 7, "kill": 9}			sends it a signal
    {"id": 8, "listens": 4711}			is there a TCP listener on the port?
    {"id": 8, "busy": 7}			for how many ticks of the clock program 7 has run, null if its first thread waits
    {"id": 8, "where": 7}			where in the kernel its threads are, as text
    {"id": 9, "halt": true}			power off
Answers: {"id": 7, "out": text}..., {"id": 7, "exit": status}; {"id": 8, "answer": ...}. {"hello": true} comes first.
"""
import ctypes
import glob
import json
import os
import selectors
import subprocess
import time

POWER_OFF = 0x4321fedc


class Agent:
    def __init__(self, path):
        self.port = os.open(path, os.O_RDWR)
        self.left = b""
        self.running = {}	# id: Popen
        self.by_pid = {}
        self.ready = selectors.DefaultSelector()

    def say(self, **words):
        data = json.dumps(words).encode() + b"\n"
        while data:
            data = data[os.write(self.port, data):]

    def start(self, ident, argv, env):
        try:
            p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env=dict(os.environ, **env), start_new_session=True)
        except OSError as e:
            self.say(id=ident, out="%s: %s\n" % (argv[0], e))
            self.say(id=ident, exit=127)
            return
        self.running[ident] = p
        self.ready.register(p.stdout, selectors.EVENT_READ, ident)

    def heard(self, ident):
        p = self.running[ident]
        data = os.read(p.stdout.fileno(), 65536)
        if data:
            self.say(id=ident, out=data.decode(errors="replace"))
            return
        self.ready.unregister(p.stdout)
        p.stdout.close()
        del self.running[ident]
        self.say(id=ident, exit=p.wait())

    def listens(self, port):
        for table in ("tcp", "tcp6"):
            with open("/proc/net/" + table) as f:
                if any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in f.readlines()[1:]):
                    return True
        return False

    def busy(self, ident):
        if ident not in self.running:
            return None
        with open("/proc/%d/stat" % self.running[ident].pid) as f:
            stat = f.read().rsplit(")", 1)[1].split()
        return None if stat[0] in "SZ" else int(stat[11]) + int(stat[12])

    def where(self, ident):
        text = []
        if ident in self.running:
            for task in sorted(glob.glob("/proc/%d/task/*" % self.running[ident].pid)):
                for name in ("stat", "stack"):
                    with open("%s/%s" % (task, name), errors="replace") as f:
                        text.append(f.read(800).strip())
        return "\n".join(text)

    def ask(self, fn, ident):
        try:
            return fn(ident)
        except OSError:		# it ends just now
            return None

    def order(self, o):
        if "run" in o:
            self.start(o["id"], o["run"], o.get("env", {}))
        elif "kill" in o:
            if o["id"] in self.running:
                try:
                    os.killpg(self.running[o["id"]].pid, o["kill"])
                except ProcessLookupError:
                    pass
        elif "listens" in o:
            self.say(id=o["id"], answer=self.listens(o["listens"]))
        elif "busy" in o:
            self.say(id=o["id"], answer=self.ask(self.busy, o["busy"]))
        elif "where" in o:
            self.say(id=o["id"], answer=self.ask(self.where, o["where"]))
        elif "halt" in o:
            ctypes.CDLL(None).reboot(POWER_OFF)

    def orders(self):
        data = os.read(self.port, 65536)
        if not data:
            os._exit(0)		# the host is gone; the kernel panics, and the machine ends
        *lines, self.left = (self.left + data).split(b"\n")
        for line in lines:
            self.order(json.loads(line))

    def loop(self):
        self.ready.register(self.port, selectors.EVENT_READ, None)
        self.say(hello=True)
        while True:
            for key, _ in self.ready.select():
                if key.data is None:
                    self.orders()
                else:
                    self.heard(key.data)


while not glob.glob("/dev/vport*p1"):
    time.sleep(0.05)
Agent(glob.glob("/dev/vport*p1")[0]).loop()
