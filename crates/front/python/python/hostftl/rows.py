"""Results of a study: rows with attributes, and tables of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _native


class Record(dict):
    """A part of a result: a dictionary whose keys are also attributes, with underscores for
    hyphens."""

    def __getattr__(self, name: str) -> Any:
        for key in (name, name.replace("_", "-")):
            if key in self:
                return self[key]
        raise AttributeError(f"there is no {name!r}; there are: {', '.join(self)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key.replace("-", "_") for key in self)]


class Row(Record):
    """Results of one combination. The names end with their units; the type stub lists all of them.
    """

    def __repr__(self) -> str:
        waf = self["waf_total"]
        waf = "no writes" if waf is None else f"waf_total={waf:.3f}"
        names = ", ".join(f"{key}={self[key]!r}" for key in ("layer", "drive", "workload", "warm"))
        return f"Row({names}, {waf})"


class Hole(Record):
    """A combination without a row: its names, and the reason as ``failed``."""

    def __repr__(self) -> str:
        return f"Hole({self['failed']!r}, warm={self['warm']!r})"


def _read(text: str) -> list[Row | Hole]:
    """Parses the rows and holes of the command line's JSON, in order."""
    values = json.loads(text, object_hook=Record)
    return [Hole(value) if "failed" in value else Row(value) for value in values]


class Columns:
    """Figures as columns of equal length, the lines of ``hostftl compare --csv``."""

    def __init__(self, columns: list[tuple[str, str, list]]):
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0][2]) if self._columns else 0

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Returns the columns of ``hostftl compare --csv``, each as an array of shape (rows and
        holes,).

        Texts are objects, flags bool, counts int64 and measures float64. A column of counts with
        missing values is float64 with NaN.
        """
        return {name: _array(kind, cells) for name, kind, cells in self._columns}

    def to_pandas(self) -> Any:
        """Returns the same columns as a ``pandas.DataFrame``; counts with missing values are
        ``Int64``."""
        import pandas

        kinds = {"flag": "bool", "text": "object", "whole": "Int64", "real": "float64"}
        columns = {
            name: pandas.array(cells, dtype=kinds[kind]) if kind == "whole" else _array(kind, cells)
            for name, kind, cells in self._columns
        }
        return pandas.DataFrame(columns)

    def to_polars(self) -> Any:
        """Returns the same columns as a ``polars.DataFrame``; missing values are null."""
        import polars

        kinds = {
            "flag": polars.Boolean,
            "text": polars.String,
            "whole": polars.Int64,
            "real": polars.Float64,
        }
        return polars.DataFrame(
            [polars.Series(name, cells, dtype=kinds[kind]) for name, kind, cells in self._columns]
        )

    def write_csv(self, path: str | os.PathLike) -> None:
        """Writes the file of ``hostftl compare --csv``."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(_native.csv(self._columns))

    def write_parquet(self, path: str | os.PathLike) -> None:
        """Writes the file of ``hostftl compare --parquet``."""
        with open(path, "wb") as file:
            file.write(_native.parquet(self._columns))


class Table(Columns):
    """Rows in the order of workloads, drives, states and layers. Combinations that failed are holes
    between them.

    Tables can be pickled, and tables of the same version can be added.

    Attributes:
        summary: With several seeds, the statistics of each combination: ``layer``, ``drive``,
            ``workload``, ``warm``, and for ``waf``, ``busy_ratio``, ``iops``, ``read_p99_ns`` and
            ``write_p99_ns`` a record of ``mean``, ``deviation``, ``half_interval`` (of the 95 %
            confidence interval) and ``seeds``, or None. The sum of two tables has those of both.
        alike: With several seeds, the pairs of ``layers`` without a significant difference in
            ``waf``: the 95 % ``interval`` of their paired difference contains zero.
        judgements: For each workload, drive and state, the recommended layer as ``verdict`` (the
            ``base`` means none), the ``runner_up``, and ``layers`` with ``wear``, ``speed`` and
            ``latency`` relative to the base and the limits that are ``broken``.
    """

    def __init__(
        self,
        text: str,
        columns: list[tuple[str, str, list]],
        summary: str | None = None,
        alike: str | None = None,
        judgements: str | None = None,
    ):
        super().__init__(columns)
        self._all = _read(text)
        self.summary: list[Record] = json.loads(summary or "[]", object_hook=Record)
        self.alike: list[Record] = json.loads(alike or "[]", object_hook=Record)
        self.judgements: list[Record] = json.loads(judgements or "[]", object_hook=Record)

    @property
    def rows(self) -> list[Row]:
        """The finished rows."""
        return [it for it in self._all if isinstance(it, Row)]

    @property
    def holes(self) -> list[Hole]:
        """The combinations without a row, with the reasons."""
        return [it for it in self._all if isinstance(it, Hole)]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def __add__(self, other: Table) -> Table:
        if not isinstance(other, Table):
            return NotImplemented
        sum_ = Table("[]", _joined(self._columns, len(self._all), other._columns, len(other._all)))
        sum_._all = self._all + other._all
        sum_.summary = self.summary + other.summary
        sum_.alike = self.alike + other.alike
        sum_.judgements = self.judgements + other.judgements
        return sum_

    def __repr__(self) -> str:
        lines = [repr(it) for it in self._all]
        return f"Table of {len(self.rows)} rows and {len(self.holes)} holes\n" + "\n".join(lines)

    def where(self, **wanted: Any) -> list[Row]:
        """Returns the rows with these values, as in ``table.where(layer="log", warm="steady")``."""
        return [row for row in self.rows if all(row[key] == it for key, it in wanted.items())]

    def to_list(self) -> list[dict]:
        """Returns rows and holes in order, like ``hostftl compare --json``."""
        return list(self._all)


def _array(kind: str, cells: list) -> np.ndarray:
    if kind == "text":
        return np.array(cells, dtype=object)
    if kind == "flag":
        return np.array(cells, dtype=bool)
    if kind == "whole" and None not in cells:
        return np.array(cells, dtype=np.int64)
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


def _joined(
    one: list[tuple[str, str, list]], ones: int, two: list[tuple[str, str, list]], twos: int
) -> list[tuple[str, str, list]]:
    """Concatenates the columns of two tables. Columns that only one has are parameters, and empty
    in the other. Parameters are sorted by name, between the figures and the reason of a hole."""
    kinds = {name: kind for name, kind, _ in [*one, *two]}
    has_one, has_two = ({name: cells for name, _, cells in it} for it in (one, two))
    figures = [name for name, _, _ in one if name in has_two and name != "failed"]
    others = sorted(name for name in kinds if name not in figures and name != "failed")
    if any(kinds[name] != "text" for name in others):
        raise ValueError("the tables have other columns: they are of two versions")
    last = ["failed"] if "failed" in kinds else []
    cells = lambda it, name, count: it.get(name, [""] * count)
    return [
        (name, kinds[name], cells(has_one, name, ones) + cells(has_two, name, twos))
        for name in [*figures, *others, *last]
    ]


Progress = Callable[[float], object]
