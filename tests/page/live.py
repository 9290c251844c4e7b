#!/usr/bin/env python3
"""Checks the page of a served volume in a browser: live.py [--shots FOLDER] [--load COMMAND] HOSTFTL SOCKET VOLUME…

The command accesses the volumes after each start of the server. The page is shown on a desk and on a phone, in light and dark colours, while the server is killed and
started again. It must obey checks.js, run no script of a label, and connect to no other server. Exit
code 77: there is no browser.
"""

import argparse
import pathlib
import socket
import subprocess
import sys
import time

import devtools
from look import CHECKS, HEIGHT, WIDTHS, capture

# Time limit for a change on the page, in seconds.
PATIENCE = 60
# Text of the line about the connection.
CONNECTION = "document.getElementById('connection').textContent"
# Whether each volume is shown with its devices and its events.
COMPLETE = """[...document.querySelectorAll("section")].length === %d &&
    [...document.querySelectorAll("section")].every((it) =>
        it.querySelectorAll("table").length >= 2 && it.querySelector(".events tbody tr")) &&
    document.querySelector(".histogram")"""
# Time from the navigation to the first update, in ms.
LOADED = """(async () => {
    while (!document.querySelector("section") && performance.now() < %d) {
        await new Promise((done) => setTimeout(done, 1));
    }
    return Math.round(performance.now());
})()""" % (1000 * PATIENCE)
# Errors of a request that the policy of the page refuses, and of a script that was inserted.
REFUSED = """(async () => {
    const refused = await fetch("http://127.0.0.1:1/").then(() => "answered", () => "refused");
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    script.remove();
    return [refused, window.ran === true];
})()"""
# Numbers of elements after half an hour and after an hour of updates with new figures and events.
HOUR = """(() => {
    const all = [...volumes.values()].map((it) => structuredClone(it.status));
    const pass = (from, to) => {
        for (let number = from; number < to; number += 1) {
            const event = { number, unix_ms: Date.now(), count: 1, level: "info", kind: "note", text: "x" };
            show(all.map((status) => {
                status.traffic.requests_answered += number;
                status.devices[0].written_bytes += 4096;
                return { status: structuredClone(status), events: [event] };
            }));
        }
        return document.querySelectorAll("*").length;
    };
    return [pass(0, 1800), pass(1800, 3600)];
})()"""


class Server:
    """A server of volumes with a page on a fixed port."""

    def __init__(self, hostftl, nbd, volumes, load):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.command = [hostftl, "serve", *volumes, "--nbd", f"unix:{nbd}", "--http",
                        f"127.0.0.1:{self.port}", "--reuse-export-name"]
        self.process, self.load = None, load

    def start(self):
        """Starts the server, waits until clients can connect, and runs the load."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("ready "):
            raise RuntimeError("the server is not ready")
        subprocess.run(self.load, shell=True, check=True)

    def kill(self):
        """Kills the server."""
        self.process.kill()
        self.process.wait()


def await_page(browser, script, reason):
    """Waits until an expression is true in the page. Returns a list of faults."""
    end = time.monotonic() + PATIENCE
    while not browser.run(f"Boolean({script})"):
        if time.monotonic() > end:
            return [f"{reason}: {browser.run(CONNECTION)}"]
        time.sleep(0.1)
    return []


def noise(browser, url):
    """Returns exceptions of the page, and requests to other servers."""
    faults = []
    for event in browser.events:
        params, method = event.get("params", {}), event.get("method")
        if method == "Runtime.exceptionThrown":
            faults.append(f"exception: {params['exceptionDetails']['text']}")
        elif method == "Network.requestWillBeSent":
            place = params["request"]["url"]
            if not place.startswith((url, "data:")):
                faults.append(f"request: {place}")
        elif method == "Log.entryAdded" and params["entry"]["source"] in ("security", "violation"):
            faults.append(f"policy: {params['entry']['text']}")
        elif method == "Page.javascriptDialogOpening":
            faults.append("a label ran a script")
    return faults


def check(browser, server, count, width, shots):
    """Returns the faults of the page at a width, before, during and after a failure of the server."""
    browser.show(server.url, width, HEIGHT)
    print(f"{width} px: first update after {browser.run(LOADED)} ms")
    faults = await_page(browser, COMPLETE % count, "the page is incomplete")
    # The first rates follow from the second update.
    faults += await_page(browser, "document.body.innerText.includes('requests/s')", "no rates")
    faults += [": ".join(it) for it in browser.run(CHECKS)]
    if shots:
        capture(browser, width, shots, "live")
    server.kill()
    faults += await_page(browser, f"{CONNECTION}.startsWith('No connection')", "a killed server is live")
    faults += [": ".join(it) for it in browser.run(CHECKS)]
    if shots:
        capture(browser, width, shots, "killed")
    server.start()
    faults += await_page(browser, f"{CONNECTION}.startsWith('live')", "no new connection")
    faults += await_page(browser, COMPLETE % count, "the page is incomplete after a restart")
    return [f"{width} px: {it}" for it in faults + noise(browser, server.url)]


def missed(browser, server):
    """Returns the planted faults that were not found."""
    faults = []
    browser.events.clear()
    refused, has_run = browser.run(REFUSED)
    if refused != "refused" or has_run:
        faults.append(f"the policy permits a request ({refused}) or a script ({has_run})")
    if not any(it.startswith("policy: ") for it in noise(browser, server.url)):
        faults.append("a violation of the policy is not noticed")
    browser.run("document.querySelector('h1').style.width = '3000px'")
    if not browser.run(CHECKS):
        faults.append("a heading that is too wide is not noticed")
    return faults


def main():
    """Checks the page at each width."""
    args = argparse.ArgumentParser()
    args.add_argument("--shots", type=pathlib.Path)
    args.add_argument("--load", default="true")
    args.add_argument("hostftl")
    args.add_argument("nbd")
    args.add_argument("volumes", nargs="+")
    args = args.parse_args()
    path = devtools.find()
    if path is None:
        sys.exit(77)
    server = Server(args.hostftl, args.nbd, args.volumes, args.load)
    server.start()
    try:
        with devtools.Browser(path, "127.0.0.1") as browser:
            faults = []
            for width in WIDTHS:
                faults += check(browser, server, len(args.volumes), width, args.shots)
            half, whole = browser.run(HOUR)
            if whole > half:
                faults.append(f"the page grows from {half} to {whole} elements within half an hour")
            faults += missed(browser, server)
    finally:
        server.kill()
    print("\n".join(faults))
    print(f"{len(args.volumes)} volumes at {' and '.join(map(str, WIDTHS))} px, two restarts")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
