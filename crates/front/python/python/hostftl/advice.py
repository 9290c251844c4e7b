"""Which layer to take for a workload on a drive, or none."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from . import _native
from .errors import TraceWarning
from .rows import Record
from .words import maybe, one, share, texts


class Advice(Record):
    """What is advised, as ``hostftl advise --json``.

    ``verdict`` and ``runner_up`` are texts of layers: ``"passthrough"`` is none, and a verdict of
    None says that nothing keeps the limits. ``offers`` has what each layer comes to; ``is_sure``
    whether the verdict is ahead with every seed.
    """

    def __repr__(self) -> str:
        sure = "sure" if self["is_sure"] else "not sure"
        return f"Advice(verdict={self['verdict']!r}, runner_up={self['runner_up']!r}, {sure})"


def advise(
    trace: Any,
    drive: Any,
    *,
    fill: str | float = 0.7,
    export: str | float | int | None = None,
    ram: str | int | None = None,
    life: str | float | None = None,
    p99: str | None = None,
    scale_to: str | None = None,
    load: str = "1x",
    layers: Any = None,
    seeds: int = 3,
    seed: int = 1,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike[str] | None = None,
) -> Advice:
    """Runs a trace through all layers that suit a drive, and names the one that wears the flash least
    within the limits. This is ``hostftl advise``.

    Args:
        trace: The workload; addresses of a trace are packed.
        drive: The drive, of which a slice will do.
        fill: The share of what is exported that holds data.
        export: What the host can address: a share, or a size in bytes or as ``"1g"``.
        ram: The most memory that the layer may take, in bytes or as ``"2G"``.
        life: The shortest life of the drive at this load, in years.
        p99: The longest 99th percentile of reads and of writes, as ``"5ms"``.
        scale_to: The capacity of the real drive, as ``"61.44TB"``.
        load: The amount that the host writes to it, as ``"12TB/day"``, ``"200MB/s"``, ``"0.3dwpd"``,
            or a multiple of the workload, as ``"40x"``.
        layers: The layers to ask beside none; all that suit the drive when it is None.
        seeds: How many seeds decide between the first two.
        seed: The first of them.
        threads, memory, warm_cache: As :func:`compare`.

    Raises:
        UsageError, StudyError: As :func:`compare`. A row that fails raises nothing: it is in
            ``failures``, with a warning, and the verdict is given on the others.
    """
    asked = {
        "trace": one(trace, "trace"),
        "drive": one(drive, "drive"),
        "fill": share(fill),
        "export": share(export),
        "ram": maybe(ram),
        "life": maybe(life),
        "p99": p99,
        "scale_to": scale_to,
        "load": load,
        "layers": None if layers is None else texts(layers),
        "seeds": seeds,
        "seed": seed,
        "cache": warm_cache,
        "threads": threads,
        "memory": maybe(memory),
    }
    answer, noticed = _native.advise(asked)
    for told in noticed:
        warnings.warn(told, TraceWarning, stacklevel=2)
    return Advice(json.loads(answer, object_hook=Record))
