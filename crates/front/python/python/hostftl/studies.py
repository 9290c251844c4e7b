"""Studies: layers on modelled drives under a virtual clock."""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import _native
from .errors import TraceWarning, ViolationError
from .rows import Progress, Row, Table
from .words import maybe, one, share, texts

#: Default states of a drive for ``compare``, as on the command line.
STATES = tuple(_native.STATES.split(","))


def compare(
    traces: Any,
    drives: Any = "hatl-2g",
    layers: Any = None,
    *,
    warm: Any = STATES,
    export: str | float | int | None = None,
    closed_loop: int | None = None,
    hot: str | float | None = None,
    ram: str | int | None = None,
    p99: str | None = None,
    min_speed: float = 0.9,
    max_latency: float = 1.5,
    compact: bool = False,
    skip_bad: bool = False,
    seed: int = 1,
    seeds: int = 1,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Table:
    """Runs each trace on each layer over a model of each drive, in each state.

    This is ``hostftl compare``, with the same figures to the last digit and the same defaults. The
    interpreter's lock is released during the work, and Ctrl-C cancels it.

    Args:
        traces: Traces and synthetic workloads, one or several: a :class:`Trace`, a path, or a text
            such as ``"file.csv:format=msr,dev=0"`` or ``"synth:uniform:size=4k,span=64m"``.
        drives: Drive models and stacks, one or several: a :class:`Drive`, ``"tlc"``, ``"4*tlc"``,
            or a TOML file.
        layers: Layers, one or several, with optional parameters as in ``"hard:spare=10"``; None
            selects defaults for the drives.
        warm: The state of the drive before the workload: ``"new"``, ``"fill=70%"``, ``"steady"``,
            ``"self=70%"``, one or several.
        export: The exported capacity of every row: a share as 0.8 or ``"80%"``, or a size in bytes
            or as ``"1g"``.
        closed_loop: The queue depth of a closed loop, which replaces the trace's times.
        hot: Use a slice of each drive on which the data of the only trace is this share of the
            exported capacity, as 0.2 or ``"20%"``; its addresses are then packed.
        ram, p99, min_speed, max_latency: The limits of :func:`advise`, which ``table.judgements``
            applies to the figures of this run.
        compact: Pack the addresses that the trace touches.
        skip_bad: Count and skip invalid lines of a trace.
        seed: The seed of all random choices.
        seeds: Run every row with this number of seeds, starting at ``seed``: ``table.summary`` has
            their statistics, and ``table.alike`` the layers without a significant difference.
        threads: The maximum number of rows in progress; None means one per core.
        memory: The memory limit for all rows in progress, in bytes or as ``"2g"``.
        warm_cache: A folder for preconditioned stacks.
        progress: Called about twenty times per second with the share of the requests that was
            played, from 0 to 1; an exception cancels the study.

    Raises:
        UsageError: The request is invalid.
        StudyError: A trace can't be read, or no row succeeded.
        ViolationError: A conservation law was violated.
    """
    asked = {
        "workloads": texts(traces),
        "drives": texts(drives),
        "layers": None if layers is None else texts(layers),
        "warm": texts(warm),
        "export": share(export),
        "cache": warm_cache,
        "closed_loop": closed_loop,
        "hot": share(hot),
        "ram": maybe(ram),
        "p99": p99,
        "min_speed": min_speed,
        "max_latency": max_latency,
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
    parts = ("json", "columns", "summary", "alike", "judgements")
    table = Table(*(answer[part] for part in parts))
    if answer["violation"] is not None:
        error = ViolationError(answer["violation"])
        error.table = table
        raise error
    return table


def run(
    trace: Any, drive: Any = "hatl-2g", layer: Any = "none", *, warm: Any = "new", **options: Any
) -> Row:
    """Runs one trace on one layer and one drive: a single row of :func:`compare`, with the same
    options.

    Raises:
        UsageError, StudyError, ViolationError: As in :func:`compare`.
    """
    trace, drive = one(trace, "trace"), one(drive, "drive")
    layer, warm = one(layer, "layer"), one(warm, "state")
    return compare(trace, drive, layer, warm=warm, **options)[0]
