"""Placement rules and victim policies in Python, evaluated on a segment log.

The log has no clock and no drive: blocks of 4 KiB are appended to the open segment of their class,
and segments are collected when few are free. The result is write amplification. A rule with good
results can be implemented as a policy of ``log`` (docs/HACKING.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from .errors import UsageError
from .rows import Record
from .words import one

#: Age of a block that was never written.
NEVER = np.iinfo(np.uint64).max


class Placement:
    """A rule that assigns writes and copies to classes. Subclasses override ``write`` and ``copy``.

    Rules are called in batches: for several thousand upcoming writes of the host, and for all valid
    blocks of a collected segment. Therefore ``write`` may return classes for writes that happen
    shortly after the latest call of ``collected``.
    """

    #: Number of classes, from 1 to 32. Each has an open segment.
    classes: int = 1

    def write(self, lba: np.ndarray, age: np.ndarray) -> np.ndarray:
        """Returns the class of each of the next writes of the host.

        Args:
            lba: The blocks, uint32 of shape (writes,).
            age: Number of blocks that the host wrote since the last write of each, uint64 of that
                shape; :data:`NEVER` for a new block.

        Returns:
            Integers from 0 to ``classes - 1`` of that shape.
        """
        return np.zeros(len(lba), np.uint8)

    def copy(self, lba: np.ndarray, age: np.ndarray, source: int) -> np.ndarray:
        """Returns the class of each valid block of a collected segment of class ``source``.
        Arguments and result are those of :meth:`write`."""
        return np.zeros(len(lba), np.uint8)

    def collected(self, source: int, lifespan: int) -> None:
        """Reports that a segment of class ``source`` was collected, ``lifespan`` host blocks after
        its first one."""

    def _write(self, lba: bytes, age: bytes) -> bytes:
        return _classes(self.write(np.frombuffer(lba, np.uint32), np.frombuffer(age, np.uint64)))

    def _copy(self, lba: bytes, age: bytes, source: int) -> bytes:
        lba, age = np.frombuffer(lba, np.uint32), np.frombuffer(age, np.uint64)
        return _classes(self.copy(lba, age, source))


def _classes(answer: Any) -> bytes:
    answer = np.asarray(answer)
    if answer.size and (answer.min() < 0 or answer.max() > 255):
        raise UsageError("a class is from 0 to 31")
    return answer.astype(np.uint8).tobytes()


class Collection:
    """A victim policy. Subclasses override ``choose``."""

    def choose(self, valid: np.ndarray, age: np.ndarray, classes: np.ndarray) -> Any:
        """Returns the sealed segments to collect, in order.

        Args:
            valid: Valid blocks of each segment, uint32 of shape (segments,).
            age: Number of blocks that the host wrote since each was sealed, uint64 of that shape.
            classes: The class of each, uint8 of that shape.

        Returns:
            One or several indices into the arrays. The segments are collected in this order until
            enough are free, so several indices reduce the number of calls.
        """
        raise NotImplementedError

    def _choose(self, valid: bytes, age: bytes, classes: bytes) -> list[int]:
        chosen = self.choose(
            np.frombuffer(valid, np.uint32),
            np.frombuffer(age, np.uint64),
            np.frombuffer(classes, np.uint8),
        )
        return [int(at) for at in np.atleast_1d(chosen)]


def place(
    trace: Any,
    placement: str | Placement = "none",
    gc: str | Collection = "greedy",
    *,
    segment: int = 1024,
    spare: float = 0.2,
    rounds: int = 1,
    fill: bool = True,
    batch: int = 4096,
    seed: int = 1,
) -> Record:
    """Writes the blocks of a workload to a segment log.

    Addresses are packed, and only writes are used. The log has the size of the written addresses
    plus ``spare``.

    Args:
        trace: A trace or synthetic workload, as for :func:`hostftl.compare`.
        placement: ``"none"``, ``"two"`` (a separate class for copies), ``"sepbit"`` (Wang et al.,
            FAST 2022), ``"frequency"`` (by write frequency), ``"hazard"`` (the same, with one byte
            per block), ``"rates"`` and ``"future"`` (with perfect knowledge of the frequency, or
            the time of the next write, of each block), or a :class:`Placement`.
        gc: ``"greedy"``, ``"fifo"``, ``"random"``, ``"cost-benefit"``, ``"declining-cost"``,
            ``"d-choices:10"``, or a :class:`Collection`.
        segment: Blocks of 4 KiB per segment.
        spare: The share of the log that is over-provisioning.
        rounds: The number of repetitions of the workload; the last one is measured.
        fill: Whether every block is written once, in order, before.
        batch: The number of writes per call of a placement rule.
        seed: The seed of all random choices.

    Returns:
        ``waf``, ``written_blocks``, ``copied_blocks``, ``collected_segments``, ``blocks`` (their
        number), and ``seconds`` of real time.

    Raises:
        UsageError, StudyError: As in :func:`hostftl.compare`; and exceptions of a rule.
    """
    if not 0 < spare <= 0.9 or rounds < 1 or batch < 1:
        raise UsageError("spare is above 0 and up to 0.9; rounds and batch are at least 1")
    asked = {
        "trace": one(trace, "trace"),
        "seed": seed,
        "segment": segment,
        "spare": round(spare * 1000),
        "rounds": rounds,
        "batch": batch,
        "fill": fill,
        "placement": placement,
        "gc": gc,
    }
    written, copied, collected, blocks, seconds = _native.place(asked)
    return Record(
        waf=1 + copied / written,
        written_blocks=written,
        copied_blocks=copied,
        collected_segments=collected,
        blocks=blocks,
        seconds=seconds,
    )
