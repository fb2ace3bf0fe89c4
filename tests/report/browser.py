"""Headless Chromium, controlled through its pipe; no driver and no library is needed."""

import contextlib
import json
import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The path of a browser; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of one browser: calls of the DevTools protocol and their answers, in turn."""

    def __init__(self, program, folder):
        # what the browser reads, what it writes
        ours = os.pipe()
        theirs = os.pipe()
        self.out = ours[1]
        self.seen = []
        self.count = 0
        self.session = None
        self.back = theirs[0]
        self.rest = b""
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "bash",
             program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(ours[0], theirs[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """The result of a call; events that come meanwhile are kept in ``seen``."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            output = self._next()
            if output.get("id") == self.count:
                assert "error" not in output, output
                return output["result"]
            self.seen.append(output)

    def _next(self):
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 16)
            assert piece, "the browser has stopped"
            self.rest += piece
        output, self.rest = self.rest.split(b"\0", 1)
        return json.loads(output)

    def open(self, path, *, width=1100, height=900, dark=False, media="", scripts=True):
        """Load a file or an address, maybe with a hash, at a size; what was seen before is forgotten."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        wanted = str(path) if str(path).startswith("http") else f"file://{path}"
        for url in ("about:blank", wanted):  # a hash alone would be no load
            self.seen.clear()
            self.call("Page.navigate", url=url)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.seen):
                self.seen.append(self._next())

    def run(self, code):
        """The value of an expression in the page; promises are waited for."""
        output = self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in output, output
        return output["result"].get("value")

    def wait(self, condition):
        """Until an expression is true."""
        code = (
            f"new Promise((done, fail) => {{ let n = 0; const look = () => ({condition}) ? done(true) : "
            "n++ > 400 ? fail(new Error('waited in vain')) : setTimeout(look, 25); look(); })"
        )
        self.run(code)

    def faults(self):
        """Return the complaints of the page: errors, and refusals of its policy."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown")
        return [event["params"] for event in self.seen if event.get("method") in kinds]

    def requests(self):
        """Addresses that were asked for."""
        sent = [
            event["params"]
            for event in self.seen
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [event["request"]["url"] for event in sent]

    def close(self):
        self.session = None
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.back)
