"""The available drives and layers."""

from __future__ import annotations

import json
from typing import Any

from . import _native
from .rows import Record
from .words import options, text


class Drive:
    """A drive model, or a stack of several.

    ``str(drive)`` is the text for the command line. A drive can be pickled::

        Drive("qlc-64k", capacity="4g", over_provisioning_percent=12)
        Drive("4*tlc:capacity=2g")

    Args:
        name: A built-in name (see :func:`drives`), a file (TOML, or XML of MQSim), or a complete
            text.
        given: Keys with new values, as in docs/DRIVES.md.

    Raises:
        UsageError: The drive is unknown.
        StudyError: A key or its value is invalid, or the file can't be read.
    """

    def __init__(self, name: Any, **given: Any):
        self.text = ":".join([text(name), *options(given)])
        self._about = json.loads(_native.drive(self.text), object_hook=Record)

    @property
    def devices(self) -> list[Record]:
        """The figures of each device: ``exported_bytes``, ``physical_bytes``, ``nominal_bytes`` of
        the real drive (None if unknown), ``map_unit_bytes``, ``placements``, ``dies``, rated
        ``cycles`` of a block, ``raw``, ``flash``, and ``model_bytes`` of memory."""
        found: list[Record] = self._about["devices"]
        return found

    @property
    def exported_bytes(self) -> int:
        """Bytes for data, of which a study exports a share."""
        return int(self._about["exported_bytes"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Drive({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drive) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def drives() -> list[str]:
    """Returns the names of the built-in drive models."""
    return _native.drives()


def layers() -> list[Record]:
    """Returns the layers like ``hostftl layers --json``: ``layer``, ``about``, ``devices``,
    ``parameters``."""
    found: list[Record] = json.loads(_native.layers(), object_hook=Record)
    return found


def layer(name: str, **given: Any) -> str:
    """Returns the text of a layer with its parameters: ``layer("log", gc="greedy")`` is
    ``"log:gc=greedy"``.

    ``True`` and ``False`` become ``yes`` and ``no``. Underscores in keys become hyphens.

    Raises:
        UsageError: The layer or a parameter is unknown.
    """
    words = {True: "yes", False: "no"}
    given = {
        key.replace("_", "-"): words[it] if isinstance(it, bool) else it
        for key, it in given.items()
    }
    whole = ":".join([name, *options(given)])
    _native.layer(whole)
    return whole
