"""Faults as exceptions, with the texts of the command line and its exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .rows import Table


class Error(Exception):
    """Every fault that HostFTL tells. The text names the file, line or drive, and says what to do.

    Attributes:
        code: The exit code that the command line has for it.
    """

    code = 1


class UsageError(Error, ValueError):
    """What was asked makes no sense, such as a drive that there is not."""

    code = 2


class StudyError(Error, RuntimeError):
    """The work could not be done, such as a trace that can't be read."""


class ViolationError(Error, ArithmeticError):
    """A conservation law does not hold: figures of that row would mean nothing.

    Attributes:
        table: What was made in spite of it, or None.
    """

    code = 3
    table: Table | None = None


class FaultError(Error):
    """A fault of HostFTL itself."""

    code = 101


class TraceWarning(UserWarning):
    """What was noticed about a trace, such as requests that are no whole sectors."""
