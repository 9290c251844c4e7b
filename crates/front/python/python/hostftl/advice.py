"""Advice on the layer for a workload on a drive, or none."""

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
    """An advice, as printed by ``hostftl advise --json``.

    ``verdict`` and ``runner_up`` are texts of layers; ``"passthrough"`` means no layer. ``verdict``
    is None if no layer meets the limits. ``offers`` has the figures of each layer. ``is_sure`` is
    true if the verdict is better than the runner-up with every seed.
    """

    def __repr__(self) -> str:
        sure = "sure" if self["is_sure"] else "not sure"
        return f"Advice(verdict={self['verdict']!r}, runner_up={self['runner_up']!r}, {sure})"


def advise(
    trace: Any,
    drive: Any,
    *,
    fill: str | float = 0.7,
    hot: str | float | None = None,
    export: str | float | int | None = None,
    ram: str | int | None = None,
    life: str | float | None = None,
    p99: str | None = None,
    min_speed: float = 0.9,
    max_latency: float = 1.5,
    scale_to: str | None = None,
    load: str = "1x",
    layers: Any = None,
    seeds: int = 3,
    seed: int = 1,
    quick: bool = False,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike[str] | None = None,
) -> Advice:
    """Runs a trace on all layers that support a drive, and recommends the one that wears the flash
    least within the limits. This is ``hostftl advise``.

    Args:
        trace: The workload; addresses of a trace are packed.
        drive: The drive. The study runs on a slice of it.
        fill: The share of the exported capacity that holds data.
        hot: The share of the exported capacity that is data of the trace; None means all of the
            data on the drive.
        export: The exported capacity: a share, or a size in bytes or as ``"1g"``.
        ram: The maximum memory of the layer, in bytes or as ``"2G"``.
        life: The minimum life of the drive at this load, in years.
        p99: The maximum 99th percentile of reads and of writes, as ``"5ms"``.
        min_speed: The minimum of the sustained requests per second, relative to those without a
            layer.
        max_latency: The maximum 99th percentile, relative to that without a layer, at 70 % of the
            rate that the drive sustains without a layer.
        scale_to: The capacity of the drive, if it is not that of the model, as ``"61.44TB"``.
        load: The amount that the host writes to it, as ``"12TB/day"``, ``"200MB/s"``,
            ``"0.3dwpd"``, or a multiple of the workload, as ``"40x"``.
        layers: The layers to compare besides none; None selects all that support the drive.
        seeds: The number of seeds for the decision between the first two.
        seed: The first seed.
        quick: Answer in seconds: count wear after brief ageing, and time nothing.
        threads, memory, warm_cache: The parameters of :func:`compare`.

    Raises:
        UsageError, StudyError: As in :func:`compare`. A failed row raises no exception: it is
            listed in ``failures`` with a warning, and the verdict is based on the others.
    """
    asked = {
        "trace": one(trace, "trace"),
        "drive": one(drive, "drive"),
        "fill": share(fill),
        "hot": share(hot),
        "export": share(export),
        "ram": maybe(ram),
        "life": maybe(life),
        "p99": p99,
        "min_speed": min_speed,
        "max_latency": max_latency,
        "scale_to": scale_to,
        "load": load,
        "layers": None if layers is None else texts(layers),
        "seeds": seeds,
        "seed": seed,
        "quick": quick,
        "cache": warm_cache,
        "threads": threads,
        "memory": maybe(memory),
    }
    answer, noticed = _native.advise(asked)
    for told in noticed:
        warnings.warn(told, TraceWarning, stacklevel=2)
    return Advice(json.loads(answer, object_hook=Record))
