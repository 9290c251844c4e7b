"""Python's values as the words that the command line takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .errors import UsageError


def texts(what: Any) -> list[str]:
    """One text or several, as the command line takes them."""
    if isinstance(what, (str, os.PathLike)) or not isinstance(what, Iterable):
        what = [what]
    found = [text(it) for it in what]
    if not found:
        raise UsageError("an empty list: there is nothing to compare")
    return found


def text(what: Any) -> str:
    """One text: of a path, a trace, a drive."""
    return os.fspath(what) if isinstance(what, os.PathLike) else str(what)


def one(what: Any, name: str) -> str:
    """The only text of ``what``, which is an option ``name`` of who takes one alone."""
    found = texts(what)
    if len(found) != 1:
        raise UsageError(f"this takes one {name}; compare takes several")
    return found[0]


def share(value: str | float | int | None) -> str | None:
    """A share of 0.8 as ``80%``; texts and whole numbers, which are bytes, as they are."""
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise UsageError(f"`{value}` is no share; write one above 0 and up to 1, as in 0.8")
        return f"{value * 100:.10g}%"
    return maybe(value)


def maybe(value: Any) -> str | None:
    """A value's text, where there is one."""
    return None if value is None else text(value)


def options(given: dict[str, Any]) -> list[str]:
    """``KEY=VALUE`` for each option that has a value; underscores are as the key has them."""
    words = {True: "true", False: "false"}
    pairs = [(key, it) for key, it in given.items() if it is not None]
    return [f"{key}={words[it] if isinstance(it, bool) else text(it)}" for key, it in pairs]
