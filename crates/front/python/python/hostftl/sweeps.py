"""Sweeps: all combinations of a grid with several seeds. Each is a cell, run by threads of this
process or by any executor."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import lru_cache
from typing import Any

from . import _native
from .errors import Error, StudyError, TraceWarning, UsageError, ViolationError
from .rows import Columns, Progress, Record
from .words import maybe, share, text

#: Number of retries of a cell whose worker died.
RETRIES = 2

_KEYS = {"traces", "drives", "layers", "warm", "export", "closed_loop", "hot", "seeds", "compact", "skip_bad"}


class Cells(Columns):
    """All cells of a sweep, one line each, in the order of the grid with seeds last.

    Attributes:
        summary: Statistics of each combination over its seeds: ``layer``, ``drive``, ``workload``,
            ``warm``, and for ``waf``, ``busy_ratio``, ``iops``, ``read_p99_ns`` and
            ``write_p99_ns`` a record of ``mean``, ``deviation``, ``half_interval`` (of the 95 %
            confidence interval) and ``seeds``, or None.
    """

    def __init__(self, columns: list[tuple[str, str, list]], summary: list[Record]):
        super().__init__(columns)
        self.summary = summary

    def __repr__(self) -> str:
        failed = sum(bool(why) for why in self.to_numpy()["failed"])
        return f"Cells({len(self)} cells, of which {failed} can't be)"


def sweep(
    grid: Mapping[str, Any] | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    executor: Any = None,
    threads: int | None = None,
    memory: str | int | None = None,
    warm_cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Cells:
    """Runs every cell of ``grid`` that is not yet in the folder ``out``, and joins all cells.

    The cells equal those of ``hostftl sweep`` with the same plan, to the byte. An interrupted sweep
    continues at its first missing cell, whichever program started it.

    Args:
        grid: A plan as in docs/STUDIES.md: the path of a TOML file, or a mapping with ``traces``
            and optional ``drives``, ``layers``, ``warm``, ``export``, ``closed_loop``, ``hot``, ``seeds`` (a
            number, or a list), ``compact``, ``skip_bad``. ``{a,b}`` in a text expands to one text
            for each alternative.
        out: The folder of the cells.
        executor: An object with ``submit(function, *arguments)`` that returns futures of
            ``concurrent.futures``, such as a process pool, joblib's loky, or Dask's
            ``client.get_executor()``. Each cell is a task that returns about 30 KB. The workers
            need the package and the traces, but no shared folder. A cell whose worker died is run
            again elsewhere. None uses threads of this process.
        threads: The maximum number of cells in progress in this process; None means one per core.
        memory: The memory limit for the cells of a process, in bytes or as ``"2g"``.
        warm_cache: A folder for preconditioned stacks.
        progress: Called with the completed share of the missing cells, from 0 to 1.

    Raises:
        UsageError: The plan is invalid.
        StudyError: A trace can't be read, or cells failed on this machine; finished cells are kept.
        ViolationError: A conservation law was violated.
    """
    plan, out = _plan(grid), os.fspath(out)
    means = (maybe(memory), None if warm_cache is None else os.fspath(warm_cache))
    opened = _native.Sweep(plan, threads, *means)
    for noticed in opened.warnings():
        warnings.warn(noticed, TraceWarning, stacklevel=2)
    missing = opened.missing(out)
    if executor is None:
        _, not_here, violation = opened.make(missing, out, progress)
        _check(not_here, violation)
    else:
        _distribute(plan, means, missing, executor, out, progress)
    columns, summary = opened.collect(out)
    return Cells(columns, json.loads(summary, object_hook=Record))


def _distribute(
    plan: str, means: tuple, missing: list[int], executor: Any, out: str, progress: Progress | None
) -> None:
    """Runs the missing cells with the executor, and stores each when it is done."""
    left: dict[Future, tuple[int, int]] = {}
    not_here: list[str] = []
    violation = None

    def submit(index: int, attempt: int) -> None:
        left[executor.submit(make_cell, plan, means, index)] = (index, attempt)

    try:
        for index in missing:
            submit(index, 0)
        while left:
            ended, _ = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ended:
                index, attempt = left.pop(future)
                try:
                    cells, why, broken = future.result()
                except Error:
                    raise
                except Exception as error:
                    if attempt >= RETRIES:
                        text = f"cell {index} was lost {attempt + 1} times with its worker: {error!r}"
                        raise StudyError(text) from error
                    submit(index, attempt + 1)
                    continue
                for name, content in cells:
                    _native.keep_cell(out, name, content)
                not_here += why
                violation = violation or broken
            if progress is not None:
                progress(1 - len(left) / len(missing))
    except BaseException:
        for future in left:
            future.cancel()
        raise
    _check(not_here, violation)


def make_cell(plan: str, means: tuple, index: int) -> tuple[list[tuple[str, bytes]], list[str], Any]:
    """The task of a worker. Runs cell ``index``, and returns its name and bytes, the failures of
    this machine, and a violated law."""
    return _opened(plan, means).make([index])


@lru_cache(maxsize=1)
def _opened(plan: str, means: tuple) -> Any:
    """Returns the plan with its workloads, which each worker reads once."""
    return _native.Sweep(plan, 1, *means)


def _check(not_here: list[str], violation: str | None) -> None:
    if violation is not None:
        raise ViolationError(violation)
    if not_here:
        raise StudyError(f"{len(not_here)} cells could not be made here, the first: {not_here[0]}")


def _plan(grid: Any) -> str:
    """Formats the plan as TOML."""
    if not isinstance(grid, Mapping):
        with open(grid, encoding="utf-8") as file:
            return file.read()
    unknown = set(grid) - _KEYS
    if unknown:
        raise UsageError(f"no key {min(unknown)!r} of a plan; there are: {', '.join(sorted(_KEYS))}")
    lines = [f"{key.replace('_', '-')} = {_value(key, it)}\n" for key, it in grid.items() if it is not None]
    return "".join(lines)


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if key == "seeds" and isinstance(value, int):
        return str(value)
    one = isinstance(value, (str, os.PathLike)) or not hasattr(value, "__iter__")
    words = [value] if one else list(value)
    if key in ("closed_loop", "seeds"):
        return json.dumps([int(word) for word in words])
    word = share if key == "export" else text
    # A JSON string is a valid TOML string.
    return json.dumps([word(it) for it in words], ensure_ascii=False)
