"""Studies: layers on modelled drives under a virtual clock."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

from . import _native
from .errors import TraceWarning, UsageError, ViolationError
from .rows import Progress, Row, Table

#: The states of a drive that ``compare`` shows unless told otherwise, as on the command line.
STATES = tuple(_native.STATES.split(","))


def _texts(what: Any) -> list[str]:
    """One text or several, as the command line takes them."""
    if isinstance(what, (str, os.PathLike)) or not isinstance(what, Iterable):
        what = [what]
    texts = [os.fspath(it) if isinstance(it, os.PathLike) else str(it) for it in what]
    if not texts:
        raise UsageError("an empty list: there is nothing to compare")
    return texts


def _share(value: str | float | None) -> str | None:
    """A share of 0.8 as ``80%``; texts and numbers of bytes as they are."""
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise UsageError(f"`{value}` is no share; write one above 0 and up to 1, as in 0.8")
        return f"{value * 100:g}%"
    return None if value is None else str(value)


def compare(
    traces: Any,
    drives: Any = "hatl-2g",
    layers: Any = None,
    *,
    warm: Any = STATES,
    export: str | float | int | None = None,
    closed_loop: int | None = None,
    compact: bool = False,
    skip_bad: bool = False,
    seed: int = 1,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike | None = None,
    progress: Progress | None = None,
) -> Table:
    """Runs each trace through each layer over a model of each drive, in each state.

    This is ``hostftl compare``: the same figures to the last digit, the same defaults. The
    interpreter's lock is free meanwhile, and Ctrl-C ends it.

    Args:
        traces: Traces and synthetic workloads, one or several: a path, a text such as
            ``"file.csv:format=msr,dev=0"`` or ``"synth:uniform:size=4k,span=64m,count=100000"``.
        drives: Drive models and stacks, one or several: ``"tlc"``, ``"4*tlc"``, a TOML file.
        layers: Layers, one or several, perhaps with parameters as in ``"hard:spare=10"``; those
            that suit the drives when it is None.
        warm: What the drive holds before: ``"new"``, ``"fill=70%"``, ``"steady"``, ``"self=70%"``,
            one or several.
        export: What the host can address in every row: a share as 0.8 or ``"80%"``, or a size in
            bytes or as ``"1g"``.
        closed_loop: Keep so many requests under way instead of following the trace's times.
        compact: Pack the addresses that the trace touches.
        skip_bad: Count bad lines of a trace and leave them out.
        seed: Fixes everything that is chosen at random.
        threads: Rows made at the same time; one per core when it is None.
        memory: Memory that all rows under way may take, in bytes or as ``"2g"``.
        warm_cache: A folder that keeps aged stacks.
        progress: Called about twenty times a second with the share of the requests that was played,
            from 0 to 1; what it raises ends the study.

    Raises:
        UsageError: What was asked makes no sense.
        StudyError: A trace can't be read, or no row could be made.
        ViolationError: A conservation law does not hold.
    """
    asked = {
        "workloads": _texts(traces),
        "drives": _texts(drives),
        "layers": None if layers is None else _texts(layers),
        "warm": _texts(warm),
        "export": _share(export),
        "cache": warm_cache,
        "closed_loop": closed_loop,
        "compact": compact,
        "skip_bad": skip_bad,
        "seed": seed,
        "threads": threads,
        "memory": None if memory is None else str(memory),
    }
    answer = _native.compare(asked, progress)
    for text in answer["warnings"]:
        warnings.warn(text, TraceWarning, stacklevel=2)
    table = Table(answer["json"], answer["columns"])
    if answer["violation"] is not None:
        error = ViolationError(answer["violation"])
        error.table = table
        raise error
    return table


def run(
    trace: Any, drive: Any = "hatl-2g", layer: Any = "none", *, warm: Any = "new", **options: Any
) -> Row:
    """Runs one trace through one layer on one drive: one row of :func:`compare`, whose other
    options it takes.

    Raises:
        UsageError, StudyError, ViolationError: As :func:`compare`.
    """
    for name, value in (("trace", trace), ("drive", drive), ("layer", layer), ("warm", warm)):
        if len(_texts(value)) != 1:
            raise UsageError(f"run takes one {name}; compare takes several")
    return compare(trace, drive, layer, warm=warm, **options)[0]
