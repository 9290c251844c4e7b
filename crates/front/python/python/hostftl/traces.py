"""Traces and synthetic workloads."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _native
from .errors import TraceWarning, UsageError
from .rows import Record
from .words import options, text

#: Operations, indexed by the codes of ``to_numpy``.
OPS = ("read", "write", "flush", "discard")
#: Value of ``saved`` for data of unknown compressibility.
UNKNOWN = 255


class Trace:
    """A trace in a file, or a synthetic workload. Nothing is read before it is needed.

    ``str(trace)`` is the text for the command line. A trace can be pickled.
    """

    def __init__(self, text_: str | os.PathLike[str], *, skip_bad: bool = False):
        self.text = text(text_)
        self.skip_bad = skip_bad

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        dev: int | str | None = None,
        time: str | None = None,
        op: str | None = None,
        id: str | None = None,
        shift: int | None = None,
        loop: int | None = None,
        compress: float | str | None = None,
        skip_bad: bool = False,
    ) -> Trace:
        """Opens a trace file. The format is detected from the content unless it is given.

        Args:
            path: The file, which may be compressed.
            format: The name of its format, as in docs/TRACES.md.
            dev: The only device whose requests are used, a number or ``"major:minor"``.
            time: The unit of its times: ``"ns"``, ``"us"``, ``"ms"``, ``"s"``.
            op: ``"R"`` or ``"W"``, for a format without operations.
            id: ``"sectors"`` or ``"bytes"``, for a format with objects.
            shift: Bytes added to every address, a multiple of 512.
            loop: The number of repetitions.
            compress: The compressibility of the written data: 2.9 is a ratio, ``"67%"`` a saving.
            skip_bad: Count and skip invalid lines.

        Raises:
            StudyError: The file does not exist.
            UsageError: An option is invalid.
        """
        keys = ("format", "dev", "time", "op", "id", "shift", "loop", "compress")
        values = (format, dev, time, op, id, shift, loop, compress)
        words = options(dict(zip(keys, values)))
        trace = cls(":".join([text(path), ",".join(words)]) if words else path, skip_bad=skip_bad)
        trace.to_numpy(limit=1)
        return trace

    @classmethod
    def synth(cls, pattern: str = "uniform", **given: Any) -> Trace:
        """Creates a synthetic workload: ``Trace.synth("zipf", size="4k", span="1g",
        count=100_000)``.

        Args:
            pattern: ``uniform``, ``zipf``, ``skew``, ``moving``, ``sequential``,
                ``permutation``, ``mix``, or ``like`` with the name of a volume as ``volume``.
            given: The options in docs/TRACES.md, such as ``size``, ``span``, ``count``, ``read``
                (per cent), ``iops``, ``flush``, ``theta``, ``hot``, ``share``, ``compress``.
        """
        volume = given.pop("volume", None)
        words = ([] if volume is None else [text(volume)]) + options(given)
        trace = cls(":".join(["synth", pattern, ",".join(words)]).rstrip(":"))
        trace.to_numpy(limit=1)
        return trace

    @classmethod
    def write(cls, path: str | os.PathLike[str], columns: Mapping[str, Any]) -> Trace:
        """Writes a trace file that must not exist: ``.csv``, ``.hft`` or ``.flat``, optionally with
        ``.zst``.

        Args:
            path: The file.
            columns: Arrays of one shape (requests,): ``lba`` and ``sectors`` in sectors of 512
                bytes; optionally ``t_ns`` (default 0), ``op`` as a code of ``hostftl.OPS`` (default
                write), ``dev`` (default 0), ``saved`` (percentage saved by compression; 255, the
                default, is unknown).
        """
        kinds = {"t_ns": "u8", "op": "u1", "dev": "u4", "lba": "u8", "sectors": "u8", "saved": "u1"}
        unknown = set(columns) - set(kinds)
        if unknown or not {"lba", "sectors"} <= set(columns):
            raise UsageError(f"columns are lba, sectors, and perhaps {', '.join(kinds)}")
        given = {name: _whole(name, kinds[name], values) for name, values in columns.items()}
        shape = given["lba"].shape
        if len(shape) != 1 or any(values.shape != shape for values in given.values()):
            raise UsageError("all columns have one shape, (requests,)")
        given.setdefault("t_ns", np.zeros(shape, "u8"))
        given.setdefault("op", np.ones(shape, "u1"))
        given.setdefault("dev", np.zeros(shape, "u4"))
        lists = {name: values.tolist() for name, values in given.items()}
        _native.trace_write(os.fspath(path), {"saved": None} | lists)
        return cls(path)

    def info(self, *, seed: int = 1) -> Record:
        """Returns the properties of the trace, like ``hostftl trace info --json``: mix, sizes in
        bytes, working set, times in ns, and the number of writes per page of 4 KiB."""
        info: Record = json.loads(_native.trace_info(self._asked(seed)), object_hook=Record)
        for told in info["warnings"]:
            warnings.warn(told, TraceWarning, stacklevel=2)
        return info

    def to_numpy(
        self, *, compact: bool = False, limit: int | None = None, seed: int = 1
    ) -> dict[str, np.ndarray]:
        """Returns the requests as read-only arrays of shape (requests,).

        ``t_ns`` uint64, from the trace's own zero; ``op`` uint8, an index into ``hostftl.OPS``;
        ``dev`` uint32; ``lba`` and ``sectors`` uint64, in sectors of 512 bytes, 0 for a flush;
        ``saved`` uint8, the percentage saved by compression, 255 if unknown.

        Args:
            compact: Pack the addresses densely.
            limit: The maximum number of requests.
            seed: The seed of random choices in a synthetic workload.
        """
        columns = _native.trace_columns(self._asked(seed, compact, limit))
        return {name: np.frombuffer(data, kind) for name, kind, data in columns}

    def _asked(self, seed: int, compact: bool = False, limit: int | None = None) -> dict[str, Any]:
        return {
            "text": self.text,
            "skip_bad": self.skip_bad,
            "seed": seed,
            "compact": compact,
            "limit": limit,
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Trace({self.text!r})"

    def __eq__(self, other: object) -> bool:
        mine = (self.text, self.skip_bad)
        return isinstance(other, Trace) and mine == (other.text, other.skip_bad)

    def __hash__(self) -> int:
        return hash((self.text, self.skip_bad))


def _whole(name: str, kind: str, values: Any) -> np.ndarray:
    """Returns the values of a column as integers of its type."""
    found = np.asarray(values)
    if found.size and (found.dtype.kind not in "iub" or found.min() < 0):
        raise UsageError(f"{name}: whole numbers from 0 are expected")
    if found.size and found.max() > np.iinfo(kind).max:
        raise UsageError(f"{name}: a number is above {np.iinfo(kind).max}")
    return found.astype(kind)
