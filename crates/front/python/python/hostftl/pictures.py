"""Charts of results with matplotlib, if it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .rows import Row, Table

#: Purposes of busy time and programmed bytes, with their labels and colours, as on the page of
#: ``hostftl compare --html``.
COLOURS = {
    "read": "#0072b2",
    "request": "#d55e00",
    "copyback": "#009e73",
    "vgc": "#cc79a7",
    "map": "#56b4e9",
    "padding": "#e69f00",
    "parity": "#5b5b5b",
    "journal": "#b8a800",
}
#: Label of each cause of a programmed byte.
WORDS = {
    "host": "request",
    "rmw": "copyback",
    "drive-gc": "copyback",
    "gc": "vgc",
    "map": "map",
    "checkpoint": "map",
    "list": "map",
    "pad": "padding",
    "parity": "parity",
    "journal": "journal",
}


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def _names(rows: list[Row]) -> list[str]:
    """Returns labels that distinguish the rows: the layer, and the drive, state and workload if
    they differ."""
    keys = ["layer"]
    keys += [it for it in ("drive", "warm", "workload") if len({row[it] for row in rows}) > 1]
    return ["\n".join(str(row[key]) for key in keys) for row in rows]


def programmed(table: Table, axes: Any = None) -> Any:
    """Plots the bytes programmed per byte written by the host, by cause: a bar for each row with
    writes."""
    rows = [row for row in table if row["host_write_bytes"] > 0]
    axes = _axes(axes, (8, 1.2 + 0.5 * max(len(rows), 1)))
    left, places = np.zeros(len(rows)), np.arange(len(rows))
    for word, colour in COLOURS.items():
        causes = [cause for cause in WORDS if WORDS[cause] == word]
        programmed = [sum(row["programmed_bytes"][cause] for cause in causes) for row in rows]
        values = np.array([it / row["host_write_bytes"] for it, row in zip(programmed, rows)])
        if values.any():
            axes.barh(places, values, left=left, label=word, color=colour)
            left += values
    axes.set_yticks(places, _names(rows))
    axes.invert_yaxis()
    axes.set_xlabel("bytes programmed for each byte that the host wrote")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def latencies(table: Table, kind: str = "write", axes: Any = None) -> Any:
    """Plots percentiles of the latency of reads, writes or flushes: a line for each row that has
    them."""
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
    """Plots a figure of a row's series over simulated time, such as ``waf``, ``iops`` or
    ``p99_ns``."""
    axes = _axes(axes, (7, 3))
    series = [it for it in row["series"] if it[figure] is not None]
    axes.step([it["at_ns"] / 1e9 for it in series], [it[figure] for it in series], where="post")
    axes.set_xlabel("seconds")
    axes.set_ylabel(figure)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
