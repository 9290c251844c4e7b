#!/usr/bin/env python3
"""Operates a volume of `log` over files for a time, and breaks its devices, as people and disks do.

Each round draws an action: writes, a kill, a stop, devices in another order, damaged and failing
devices, scrubs and every device command. All data is compared with a model. Each claim of *can
lose* N is put to the test: the server is killed and N devices are removed from a copy.

soak.py PROGRAM [--minutes M] [--seed S] [--keep]
"""

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import time

from model import BLOCK, Model, Wrong
from nbd import Disconnected, Refused
from volume import Volume

KINDS = {"parity": (["--parity"], 4), "two parities": (["--parity", "2"], 5), "mirror": (["--mirror"], 2)}


class Soak:
    """One volume, its model, and the actions."""

    def __init__(self, program, folder, seed):
        self.dice = random.Random(seed)
        self.name = self.dice.choice(list(KINDS))
        self.kind, self.devices = KINDS[self.name]
        self.volume = Volume(program, folder, self.kind, self.devices)
        self.client = self.volume.start()
        self.model = Model(self.client.size // BLOCK * 6 // 10, seed)
        self.counts = collections.Counter()
        self.damaged = False
        self.log = []

    def round(self):
        """Writes something, and then carries out one action."""
        self.writes()
        action = self.dice.choice([
            self.kill, self.stop, self.rot, self.fail, self.failing, self.offline, self.replace,
            self.replace, self.add_and_remove, self.spare, self.claim, self.claim,
        ])
        self.note(action.__name__)
        action()
        if self.dice.random() < 0.3:
            self.verify()

    def note(self, text):
        """Keeps a line for the report of a failure, and counts it."""
        self.log.append(f"{time.strftime('%H:%M:%S')} {text}")
        self.counts[text.split(":")[0]] += 1

    def writes(self):
        """Writes runs of blocks and perhaps flushes."""
        for _ in range(self.dice.randrange(50, 400)):
            count = self.dice.choice([1, 1, 2, 4, 16, 64])
            first = self.dice.randrange(len(self.model.latest) - count)
            self.client.write(first * BLOCK, self.model.begin(first, count))
            self.model.acknowledged(first, count)
        if self.dice.random() < 0.6:
            self.flush()

    def flush(self):
        """Flushes."""
        self.client.flush()
        self.model.flushed()

    def verify(self, recovered=False):
        """Reads and compares everything."""
        step = 256
        for first in range(0, len(self.model.latest), step):
            count = min(step, len(self.model.latest) - first)
            self.model.check(first, self.client.read(first * BLOCK, count * BLOCK), recovered)
        # Damage that was found is kept over a kill within half a second.
        time.sleep(0.5)

    def restart(self, *consent):
        """Starts the server again, perhaps with the devices in another order."""
        if self.dice.random() < 0.4:
            self.volume.permute(self.dice)
        self.client = self.volume.start(*consent)
        self.verify(recovered=True)

    def kill(self):
        """Kills the server while a write is under way."""
        first = self.dice.randrange(len(self.model.latest) - 4)
        self.model.begin(first, 4)
        self.volume.kill()
        self.restart()

    def stop(self):
        """Stops the server in order; then every acknowledged write is durable."""
        self.client.close()
        self.volume.stop()
        self.model.flushed()
        self.restart()

    def can_lose(self):
        """The claim of `status`."""
        return self.volume.status()["space"]["failures_tolerated"]

    def settle(self):
        """Waits for background work; exit code 4 says that it ended undone."""
        self.volume.run("wait", self.volume.file, ok=(0, 4))

    def command(self, *words):
        """Runs a device command and counts its outcome."""
        verb, rest = words[0], [os.path.basename(word) for word in words[1:]]
        code, text = self.volume.run("device", verb, self.volume.file, *words[1:], ok=(0, 1, 2, 4))
        self.note(f"device {verb} {'done' if code in (0, 4) else 'refused'}: {rest}: {text}")
        return code in (0, 4)

    def victim(self):
        """One device of the volume file that was not cut short."""
        whole = lambda device: os.path.isfile(device) and os.path.getsize(device) > 0
        return self.dice.choice(list(filter(whole, self.volume.devices())))

    def number(self, device):
        """The member number of a device, whose superblocks may be gone."""
        known = self.volume.status()["devices"]
        return next(str(one["number"]) for one in known if one["name"] == device)

    def rot(self):
        """Overwrites parts of one device, which a scrub must repair durably."""
        # A scrub that is under way, as after a kill, does not read again what it has passed.
        self.settle()
        if self.can_lose() < 1:
            return
        self.flush()
        with open(self.victim(), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for _ in range(self.dice.randrange(1, 200)):
                file.seek(self.dice.randrange(256, size // BLOCK - 64) * BLOCK)
                file.write(self.dice.randbytes(BLOCK))
        self.volume.run("scrub", self.volume.file, "--wait", ok=(0, 4))
        self.claim()

    def fail(self):
        """Makes every read of one device fail while it is in use, and replaces it."""
        if self.can_lose() < 1:
            return
        self.flush()
        device = self.victim()
        os.truncate(device, 0)
        self.writes()
        self.verify()
        # Its superblocks are gone too, so that a start needs consent.
        self.claim("--degraded")
        if self.command("replace", self.number(device), self.volume.new_device()):
            self.settle()
        self.claim()

    def failing(self):
        """Overwrites most of one device in use; the others must not go if they are needed."""
        if self.can_lose() < 1:
            return
        self.flush()
        device = self.victim()
        with open(device, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for block in range(512, size // BLOCK - 512):
                if self.dice.random() < 0.9:
                    file.seek(block * BLOCK)
                    file.write(self.dice.randbytes(BLOCK))
        self.verify()
        other = self.dice.choice([one for one in self.volume.devices() if one != device])
        if self.command("offline", other):
            # It was accepted, so that nothing may be missing without it.
            self.verify()
            self.command("online", other)
            self.settle()
        self.claim()
        if self.command("replace", self.number(device), self.volume.new_device()):
            self.settle()
        self.claim()

    def offline(self):
        """Takes a device offline, writes, and takes it back."""
        device = self.victim()
        if self.command("offline", device):
            self.writes()
            self.claim()
            self.command("online", device)
            self.settle()

    def replace(self):
        """Replaces a device, perhaps with a kill in the middle."""
        if self.command("replace", self.victim(), self.volume.new_device()):
            if self.dice.random() < 0.5:
                self.writes()
                self.kill()
            self.settle()

    def add_and_remove(self):
        """Adds a device and removes another one."""
        if self.name != "mirror" and len(self.volume.devices()) < self.devices + 3:
            self.command("add", self.volume.new_device())
            self.settle()
        if len(self.volume.devices()) > self.devices:
            self.command("remove", self.victim())
            self.settle()

    def spare(self):
        """Adds a hot spare, which takes the place of the next lost device."""
        if len(self.volume.devices()) < self.devices + 2:
            self.command("spare", self.volume.new_device())
            self.settle()

    def claim(self, *consent):
        """Kills the server and really loses as many devices as `status` says may be lost."""
        if self.dice.random() < 0.5:
            self.flush()
        failures_tolerated = self.can_lose()
        self.note(f"claim can lose {failures_tolerated}")
        self.volume.kill()
        self.volume.save()
        lost = self.dice.sample(self.volume.devices(), failures_tolerated)
        for device in lost:
            os.unlink(device)
        saved = (
            [set(versions) for versions in self.model.accepted],
            list(self.model.latest), set(self.model.dirty),
        )
        try:
            self.client = self.volume.start("--degraded")
            self.verify(recovered=True)
        except (Wrong, Refused, Disconnected) as error:
            names = [os.path.basename(device) for device in lost]
            raise Wrong(f"status claimed that {failures_tolerated} devices may be lost; without {names}: {error}") from error
        self.volume.kill()
        self.volume.restore()
        self.model.accepted, self.model.latest, self.model.dirty = saved
        self.restart(*consent)


def main():
    """Runs volumes of drawn kinds, a few minutes each, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a failure")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    end, seed, total = time.time() + options.minutes * 60, options.seed, collections.Counter()
    while time.time() < end:
        base = tempfile.mkdtemp(prefix="hostftl-soak")
        os.mkdir(f"{base}/v")
        soak = Soak(program, f"{base}/v", seed)
        try:
            until = min(end, time.time() + 240)
            while time.time() < until:
                soak.round()
            soak.stop()
        except Exception as error:  # noqa: BLE001: each failure is reported with its history
            print(f"\nFAILED seed {seed} ({soak.name}): {type(error).__name__}: {error}")
            print("\n".join(soak.log[-25:]))
            soak.volume.server.kill()
            if options.keep:
                print(f"kept: {base}")
            else:
                shutil.rmtree(base)
            sys.exit(1)
        soak.volume.stop()
        total += soak.counts
        shutil.rmtree(base)
        seed += 1
    print(f"soak: passed, {seed - options.seed} volumes")
    for text, count in sorted(total.items()):
        print(f"  {count:6} {text}")


if __name__ == "__main__":
    main()
