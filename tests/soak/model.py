"""The versions that each block of a volume may hold, and the bytes of a version."""

import random
import struct

BLOCK = 4096


class Wrong(Exception):
    """The volume broke a promise."""


class Model:
    """Accepts a version of a block if it is the last durable one or was written after it.

    While one server runs, a read must return the last acknowledged version. After a kill it may
    return any version since the last durable one; after recovery the returned version is durable.
    """

    def __init__(self, blocks, seed):
        self.accepted = [{0} for _ in range(blocks)]
        self.latest = [0] * blocks
        self.dirty = set()
        self.next = 1
        bodies = random.Random(seed)
        self.bodies = [bodies.randbytes(BLOCK - 24) for _ in range(24)]
        self.bodies += [bytes([n]) * (BLOCK - 24) for n in range(8)]

    def content(self, block, version):
        """The bytes of a version; version 0 is the zeros of a block that was never written."""
        if version == 0:
            return bytes(BLOCK)
        body = self.bodies[(block * 7 + version) % len(self.bodies)]
        return struct.pack(">QQ", block, version) + body + struct.pack(">Q", version)

    def begin(self, first, count):
        """Returns the bytes of a new write, which may be lost or found from now on."""
        data = b""
        for block in range(first, first + count):
            self.accepted[block].add(self.next)
            self.dirty.add(block)
            data += self.content(block, self.next)
        self.next += 1
        return data

    def acknowledged(self, first, count):
        """The write that was begun last is acknowledged."""
        for block in range(first, first + count):
            self.latest[block] = self.next - 1

    def flushed(self):
        """Every acknowledged write is durable."""
        for block in self.dirty:
            self.accepted[block] = {self.latest[block]}
        self.dirty.clear()

    def check(self, first, data, recovered=False):
        """Compares bytes that were read with the accepted versions."""
        for n in range(len(data) // BLOCK):
            block, part = first + n, data[n * BLOCK : (n + 1) * BLOCK]
            allowed = self.accepted[block] if recovered else {self.latest[block]}
            found = next((v for v in allowed if part == self.content(block, v)), None)
            if found is None:
                names, version = struct.unpack(">QQ", part[:16])
                raise Wrong(
                    f"block {block}: found block {names}, version {version}; allowed {allowed}"
                )
            if recovered:
                self.latest[block] = found
                self.accepted[block] = {found}
        if recovered:
            self.dirty.clear()
