"""A small blocking NBD client: newstyle handshake, simple replies, one request at a time."""

import socket
import struct
from urllib.parse import parse_qs, unquote, urlparse

READ, WRITE, DISCONNECT, FLUSH, TRIM = range(5)


class Disconnected(Exception):
    """The server is gone. A request under way may or may not have been carried out."""


class Refused(Exception):
    """The server answered a request with an error."""


class Client:
    """One connection to the export of a `ready` URI (nbd+unix:///NAME?socket=PATH)."""

    def __init__(self, uri, timeout=180):
        parts = urlparse(uri)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(parse_qs(parts.query)["socket"][0])
        self.size = self._handshake(unquote(parts.path).lstrip("/").encode())

    def _handshake(self, name):
        greeting = self._receive(18)
        assert greeting[:16] == b"NBDMAGICIHAVEOPT", greeting
        self._send(struct.pack(">I", 3))
        option = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self._send(b"IHAVEOPT" + struct.pack(">II", 7, len(option)) + option)
        size = None
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._receive(20))
            data = self._receive(length)
            if kind & 1 << 31:
                raise Refused(data.decode(errors="replace"))
            if kind == 1:
                return size
            if data[:2] == b"\0\0":
                size = struct.unpack(">Q", data[2:10])[0]

    def read(self, offset, length):
        """Returns the bytes at the offset."""
        self._request(READ, offset, length)
        return self._receive(length)

    def write(self, offset, data):
        """Writes the bytes; durable after the next flush."""
        self._request(WRITE, offset, len(data), data)

    def flush(self):
        """Makes every acknowledged write durable."""
        self._request(FLUSH, 0, 0)

    def close(self):
        """Disconnects."""
        self.socket.close()

    def _request(self, kind, offset, length, data=b""):
        self._send(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, length) + data)
        magic, error, _ = struct.unpack(">IIQ", self._receive(16))
        assert magic == 0x67446698, f"reply magic {magic:x}"
        if error:
            raise Refused(f"request {kind} at {offset}: error {error}")

    def _send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Disconnected(str(error)) from error

    def _receive(self, length):
        data = bytearray()
        while len(data) < length:
            try:
                part = self.socket.recv(length - len(data))
            except TimeoutError:
                raise
            except OSError as error:
                raise Disconnected(str(error)) from error
            if not part:
                raise Disconnected("end of the connection")
            data += part
        return bytes(data)
