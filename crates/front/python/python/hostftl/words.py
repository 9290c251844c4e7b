"""Conversion of Python values to texts of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .errors import UsageError


def texts(what: Any) -> list[str]:
    """Returns one or several values as texts."""
    if isinstance(what, (str, os.PathLike)) or not isinstance(what, Iterable):
        what = [what]
    found = [text(it) for it in what]
    if not found:
        raise UsageError("an empty list: there is nothing to compare")
    return found


def text(what: Any) -> str:
    """Returns the text of a value such as a path, a trace or a drive."""
    return os.fspath(what) if isinstance(what, os.PathLike) else str(what)


def one(what: Any, name: str) -> str:
    """Returns the only text of ``what``, an option ``name`` of a function that accepts a single
    one."""
    found = texts(what)
    if len(found) != 1:
        raise UsageError(f"this takes one {name}; compare takes several")
    return found[0]


def share(value: str | float | int | None) -> str | None:
    """Formats the share 0.8 as ``80%``. Texts and integers, which are bytes, are unchanged."""
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise UsageError(f"`{value}` is no share; write one above 0 and up to 1, as in 0.8")
        return f"{value * 100:.10g}%"
    return maybe(value)


def maybe(value: Any) -> str | None:
    """Returns the text of a value, or None."""
    return None if value is None else text(value)


def options(given: dict[str, Any]) -> list[str]:
    """Returns ``KEY=VALUE`` for each option with a value. Underscores in keys are unchanged."""
    words = {True: "true", False: "false"}
    pairs = [(key, it) for key, it in given.items() if it is not None]
    return [f"{key}={words[it] if isinstance(it, bool) else text(it)}" for key, it in pairs]
