"""A volume of `log` over files: its server, its commands and its devices."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib

from model import Wrong
from nbd import Client

PATIENCE = 180


class Volume:
    """Commands run the program; the server runs until `kill` or `stop`."""

    def __init__(self, program, folder, kind, devices):
        self.program, self.folder = program, folder
        self.file = os.path.join(folder, "v.toml")
        self.made = 0
        self.server = None
        names = [self.new_device() for _ in range(devices)]
        arguments = [word for name in names for word in ("--device", name)]
        self.run("create", self.file, *arguments, "--size", "40M", "--layer", "log", *kind, ok=(0,))

    def new_device(self):
        """Returns a path that no device has had."""
        self.made += 1
        return os.path.join(self.folder, f"d{self.made}")

    def devices(self):
        """The devices in the order of the volume file."""
        with open(self.file, "rb") as file:
            return tomllib.load(file)["devices"]

    def permute(self, dice):
        """Writes the devices to the volume file in another order, as moved device names would."""
        names = self.devices()
        dice.shuffle(names)
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?m)^devices = .*$", lambda _: "devices = " + json.dumps(names), text)
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words, ok=None):
        """Runs a command and returns its exit code and output; `ok` are the codes that must come."""
        try:
            done = subprocess.run(
                [self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=PATIENCE, check=False,
            )
        except subprocess.TimeoutExpired as late:
            if words[0] == "status":
                raise
            state = self.run("status", self.file, "--json")[1]
            raise Wrong(f"{' '.join(words)}: no end after {PATIENCE} s: {state}") from late
        if ok is not None and done.returncode not in ok or done.returncode in (3, 101):
            raise Wrong(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout[-2000:]}")
        return done.returncode, done.stdout.strip()

    def status(self):
        """The state of the volume, as `status --json` prints it."""
        text = self.run("status", self.file, "--json", ok=(0, 4))[1]
        # Behind it stands what needs a hand, from the standard error.
        return json.JSONDecoder().raw_decode(text)[0]

    def start(self, *words):
        """Starts the server and returns a connected client."""
        socket = os.path.join(self.folder, "s")
        if os.path.exists(socket):
            os.unlink(socket)
        out, log = os.path.join(self.folder, "serve.out"), os.path.join(self.folder, "serve.log")
        with open(out, "wb") as stdout, open(log, "ab") as stderr:
            self.server = subprocess.Popen(
                [self.program, "serve", self.file, "--nbd", f"unix:{socket}", "--wait-devices", "0",
                 *words],
                stdout=stdout, stderr=stderr,
            )
        for _ in range(PATIENCE * 20):
            with open(out, encoding="utf-8") as file:
                ready = re.search(r"^ready (\S+)\n", file.read(), re.M)
            if ready:
                return Client(ready[1], PATIENCE)
            if self.server.poll() is not None:
                break
            time.sleep(0.05)
        with open(log, encoding="utf-8") as file:
            raise Wrong(f"the server does not start: {file.read()[-1500:]}")

    def kill(self):
        """Ends the server at once."""
        self.server.send_signal(signal.SIGKILL)
        self.server.wait(PATIENCE)

    def stop(self):
        """Ends the server in order, which must succeed."""
        self.server.send_signal(signal.SIGTERM)
        code = self.server.wait(PATIENCE)
        if code != 0:
            raise Wrong(f"the server ended with exit code {code} after SIGTERM")

    def save(self):
        """Copies everything beside the folder; the server must not run."""
        aside = self.folder + ".saved"
        shutil.rmtree(aside, ignore_errors=True)
        subprocess.run(["cp", "-a", "--sparse=always", self.folder, aside], check=True)

    def restore(self):
        """Puts the copy back, in the same folder."""
        shutil.rmtree(self.folder)
        os.rename(self.folder + ".saved", self.folder)
