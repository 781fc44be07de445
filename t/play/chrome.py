# SPDX-License-Identifier: MIT
"""
A page in headless Chromium, driven by the DevTools protocol over a pipe: no driver, no port, nothing but the browser itself.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# key: (code, Windows key code, text)
NAMED = {"Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), "Space": ("Space", 32, " "), "ArrowDown": ("ArrowDown", 40, ""),
         "ArrowUp": ("ArrowUp", 38, ""), "ArrowRight": ("ArrowRight", 39, ""), "ArrowLeft": ("ArrowLeft", 37, ""), "Backspace": ("Backspace", 8, "")}


class Chrome:
    def __init__(self, width=1280, height=900):
        self.dir = tempfile.mkdtemp(prefix="play.")
        out_r, self.out = os.pipe()
        self.input, in_w = os.pipe()

        def ends():			# the browser reads from 3 and writes to 4
            a, b = fcntl.fcntl(out_r, fcntl.F_DUPFD, 10), fcntl.fcntl(in_w, fcntl.F_DUPFD, 10)
            for fd, to in ((a, 3), (b, 4)):
                os.dup2(fd, to)
                os.close(fd)

        argv = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir=" + self.dir, "--window-size=%d,%d" % (width, height), "about:blank"]
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.process = subprocess.Popen(argv, preexec_fn=ends, close_fds=False, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(out_r)
        os.close(in_w)
        self.rest, self.id, self.session, self.thrown = b"", 0, None, []
        try:
            self.begin(width, height)
        except Exception:
            self.process.kill()
            self.close()
            raise

    def begin(self, width, height):
        until, pages = time.monotonic() + 60 * PATIENCE, []
        while not pages:
            pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            if not pages:
                if time.monotonic() > until:
                    raise TimeoutError("the browser shows no page")
                time.sleep(0.02)
        page = pages[0]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.size(width, height)

    def message(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.input], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.input, 1 << 16)
            if not got:
                raise EOFError("the browser has ended")
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.id += 1
        what = {"id": self.id, "method": method, "params": params}
        if self.session:
            what["sessionId"] = self.session
        os.write(self.out, json.dumps(what).encode() + b"\0")
        until = time.monotonic() + 60 * PATIENCE
        while True:
            m = self.message(until)
            if m.get("method") == "Runtime.exceptionThrown":
                d = m["params"]["exceptionDetails"]
                self.thrown.append(d.get("exception", {}).get("description") or d["text"])
            if m.get("id") == self.id:
                assert "error" not in m, (method, m["error"])
                return m["result"]

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, media="", scheme="light"):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def go(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement && document.documentElement.dataset.ready !== undefined")

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(text + ": " + str(r["exceptionDetails"].get("exception", {}).get("description")))
        return r["result"].get("value")

    def wait(self, condition):
        until = time.monotonic() + 60 * PATIENCE
        while not self.js(condition):
            if time.monotonic() > until:
                raise TimeoutError("it never came true: " + condition)
            time.sleep(0.02)

    def key(self, *names):
        for name in names:
            shift = name.startswith("Shift+")
            k = name[6:] if shift else name
            code, number, text = NAMED.get(k, ("", ord(k[0].upper()), k))
            if k == "Space":
                k = " "
            common = {"key": k, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (AssertionError, EOFError, TimeoutError, OSError):
            self.process.kill()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        os.close(self.out)
        os.close(self.input)
        shutil.rmtree(self.dir, ignore_errors=True)


def start():
    """A browser may fail to start on a machine that is short of everything: once more."""
    try:
        return Chrome()
    except (EOFError, TimeoutError, OSError):
        return Chrome()
