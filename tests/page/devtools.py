"""A headless Chromium that is told what to do over its DevTools pipe: JSON, a zero byte behind each.

Nothing but the standard library is needed, and no port is opened.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

# What a browser may be called, the smallest first.
NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
# How long an answer may take, in seconds.
PATIENCE = 300


def find():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one tab. It reaches only the host `reaches`, if there is one."""

    def __init__(self, path, reaches=None):
        self.folder = tempfile.TemporaryDirectory(prefix="hostftl-page.")
        hear, say = os.pipe(), os.pipe()
        flags = [
            "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
            "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
            "--force-color-profile=srgb", f"--user-data-dir={self.folder.name}",
            # Requests to all other hosts fail.
            "--host-resolver-rules=MAP * ~NOTFOUND" + (f", EXCLUDE {reaches}" if reaches else ""),
            "--proxy-server=127.0.0.1:9",
        ]

        def plug():
            # The browser reads from 3 and writes to 4; neither end may be the other's number.
            reads, writes = os.dup(say[0]), os.dup(hear[1])
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [path, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=plug, pass_fds=(3, 4))
        os.close(say[0])
        os.close(hear[1])
        self.hear, self.say = hear[0], say[1]
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=tab, flatten=True)
        self.session = attached["sessionId"]
        for part in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{part}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.hear)
        os.close(self.say)
        # What the browser's other processes still write is not waited for.
        shutil.rmtree(self.folder.name, ignore_errors=True)
        self.folder.cleanup = lambda: None
        self.folder._finalizer.detach()

    def message(self):
        """The next message."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.hear], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.hear, 1 << 16) if ready else b""
            if not piece:
                raise RuntimeError(f"the browser says nothing; it ended with {self.process.poll()}")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        """Calls a method and waits for its answer; events on the way are kept."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        rest = json.dumps(asked).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.say, rest):]
        while True:
            told = self.message()
            if told.get("id") == self.number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']['message']}")
                return told["result"]
            self.events.append(told)

    def show(self, url, width, height):
        """Opens a page at a size and waits until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def run(self, script):
        """What an expression of JavaScript comes to in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(told["exceptionDetails"]["exception"]["description"])
        return told["result"].get("value")

    def click(self, x, y):
        """A click of the mouse."""
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=1)
