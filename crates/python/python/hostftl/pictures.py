"""Pictures of results; matplotlib makes them, where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .rows import Row, Table

#: A colour for each cause of a programmed byte; a cause has one in every picture.
COLOURS = {
    "host": "#0072b2",
    "gc": "#d55e00",
    "drive-gc": "#e69f00",
    "rmw": "#cc79a7",
    "map": "#009e73",
    "pad": "#999999",
    "parity": "#56b4e9",
    "journal": "#f0e442",
    "checkpoint": "#004d40",
    "list": "#5d3a9b",
}


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def _names(rows: list[Row]) -> list[str]:
    """What tells the rows apart: the layer, and the drive, state and workload where they differ."""
    keys = ["layer"]
    keys += [it for it in ("drive", "warm", "workload") if len({row[it] for row in rows}) > 1]
    return ["\n".join(str(row[key]) for key in keys) for row in rows]


def programmed(table: Table, axes: Any = None) -> Any:
    """Bytes programmed for each byte that the host wrote, by cause: a bar for each row that wrote."""
    rows = [row for row in table if row["host_write_bytes"] > 0]
    axes = _axes(axes, (8, 1.2 + 0.5 * max(len(rows), 1)))
    left, places = np.zeros(len(rows)), np.arange(len(rows))
    causes = list(rows[0]["programmed_bytes"]) if rows else []
    for number, cause in enumerate(causes):
        values = np.array([row["programmed_bytes"][cause] / row["host_write_bytes"] for row in rows])
        if values.any():
            colour = COLOURS.get(cause, f"C{number}")
            axes.barh(places, values, left=left, label=cause, color=colour)
            left += values
    axes.set_yticks(places, _names(rows))
    axes.invert_yaxis()
    axes.set_xlabel("bytes programmed for each byte that the host wrote")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def latencies(table: Table, kind: str = "write", axes: Any = None) -> Any:
    """Percentiles of the latency of reads, writes or flushes: a line for each row that has some."""
    axes = _axes(axes, (7, 4))
    shares = {"p50": 0.301, "p90": 1.0, "p99": 2.0, "p999": 3.0, "p9999": 4.0}
    rows = [row for row in table if row["latency_ns"][kind] is not None]
    for row, name in zip(rows, _names(rows)):
        values = [row["latency_ns"][kind][key] / 1e6 for key in shares]
        axes.plot(list(shares.values()), values, marker="o", label=name.replace("\n", ", "))
    axes.set_xticks(list(shares.values()), ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
    axes.set_yscale("log")
    axes.set_xlabel(f"{kind}s that took no longer")
    axes.set_ylabel("latency, ms")
    if rows:
        axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def over_time(row: Row, figure: str = "waf", axes: Any = None) -> Any:
    """A figure of a row's series over simulated time, such as ``waf``, ``iops`` or ``p99_ns``."""
    axes = _axes(axes, (7, 3))
    series = [it for it in row["series"] if it[figure] is not None]
    axes.step([it["at_ns"] / 1e9 for it in series], [it[figure] for it in series], where="post")
    axes.set_xlabel("seconds")
    axes.set_ylabel(figure)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
