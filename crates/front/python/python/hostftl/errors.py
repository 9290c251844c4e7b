"""Errors as exceptions, with the messages and the exit codes of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .rows import Table


class Error(Exception):
    """Base class of all errors of HostFTL. The message names the file, line or drive, and suggests
    an action.

    Attributes:
        code: The exit code of the command line for this error.
    """

    code = 1


class UsageError(Error, ValueError):
    """The request is invalid, for example because of an unknown drive."""

    code = 2


class StudyError(Error, RuntimeError):
    """The work failed, for example because of an unreadable trace."""


class ViolationError(Error, ArithmeticError):
    """A conservation law was violated, so the figures of that row are invalid.

    Attributes:
        table: The other results, or None.
    """

    code = 3
    table: Table | None = None


class FaultError(Error):
    """An internal error of HostFTL."""

    code = 101


class TraceWarning(UserWarning):
    """A warning on a trace, a drive's file or a parameter without effect."""
