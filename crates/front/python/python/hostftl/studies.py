"""Studies: layers on modelled drives under a virtual clock."""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import _native
from .errors import TraceWarning, ViolationError
from .rows import Progress, Row, Table
from .words import maybe, one, share, texts

#: The states of a drive that ``compare`` shows unless told otherwise, as on the command line.
STATES = tuple(_native.STATES.split(","))


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
    seeds: int = 1,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Table:
    """Runs each trace through each layer over a model of each drive, in each state.

    This is ``hostftl compare``: the same figures to the last digit, the same defaults. The
    interpreter's lock is free meanwhile, and Ctrl-C ends it.

    Args:
        traces: Traces and synthetic workloads, one or several: a :class:`Trace`, a path, a text
            such as ``"file.csv:format=msr,dev=0"`` or ``"synth:uniform:size=4k,span=64m"``.
        drives: Drive models and stacks, one or several: a :class:`Drive`, ``"tlc"``, ``"4*tlc"``, a TOML file.
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
        seeds: Make every row with so many seeds, from ``seed`` on: ``table.summary`` has what they
            come to, and ``table.alike`` which layers do not differ.
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
        "workloads": texts(traces),
        "drives": texts(drives),
        "layers": None if layers is None else texts(layers),
        "warm": texts(warm),
        "export": share(export),
        "cache": warm_cache,
        "closed_loop": closed_loop,
        "compact": compact,
        "skip_bad": skip_bad,
        "seed": seed,
        "seeds": seeds,
        "threads": threads,
        "memory": maybe(memory),
    }
    answer = _native.compare(asked, progress)
    for text in answer["warnings"]:
        warnings.warn(text, TraceWarning, stacklevel=2)
    table = Table(answer["json"], answer["columns"], answer["summary"], answer["alike"])
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
    trace, drive = one(trace, "trace"), one(drive, "drive")
    layer, warm = one(layer, "layer"), one(warm, "state")
    return compare(trace, drive, layer, warm=warm, **options)[0]
