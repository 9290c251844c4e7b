"""Drives and layers: what there is to choose from."""

from __future__ import annotations

import json
from typing import Any

from . import _native
from .rows import Record
from .words import options, text


class Drive:
    """A drive model, or a stack of several.

    It is the text that the command line takes, ``str(drive)``, and can be pickled::

        Drive("qlc-64k", capacity="4g", over_provisioning_percent=12)
        Drive("4*tlc:capacity=2g")

    Args:
        name: A built-in name (see :func:`drives`), a file (TOML, or MQSim's XML), or a whole text.
        given: Keys that are set anew, as docs/DRIVES.md has them.

    Raises:
        UsageError: There is no such drive.
        StudyError: A key or its value is wrong, or the file can't be read.
    """

    def __init__(self, name: Any, **given: Any):
        self.text = ":".join([text(name), *options(given)])
        self._about = json.loads(_native.drive(self.text), object_hook=Record)

    @property
    def devices(self) -> list[Record]:
        """What each device is: ``exported_bytes``, ``physical_bytes``, ``map_unit_bytes``, ``dies``,
        ``cycles`` that a block endures, ``raw``, ``flash``, ``model_bytes`` of memory."""
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
    """The names of the built-in drive models."""
    return _native.drives()


def layers() -> list[Record]:
    """The layers as ``hostftl layers --json``: ``layer``, ``about``, ``devices``, ``parameters``."""
    found: list[Record] = json.loads(_native.layers(), object_hook=Record)
    return found


def layer(name: str, **given: Any) -> str:
    """The text of a layer with its parameters: ``layer("log", gc="greedy")`` is ``"log:gc=greedy"``.

    ``True`` and ``False`` are ``yes`` and ``no``; an underscore stands for a hyphen in a key.

    Raises:
        UsageError: There is no such layer or parameter.
    """
    words = {True: "yes", False: "no"}
    given = {
        key.replace("_", "-"): words[it] if isinstance(it, bool) else it
        for key, it in given.items()
    }
    whole = ":".join([name, *options(given)])
    _native.layer(whole)
    return whole
