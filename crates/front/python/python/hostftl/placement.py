"""Rules of placement and of collection in Python, tried on a log of segments.

The log has no clock and no drive: blocks of 4 KiB are appended to the open segment of their class,
and segments are collected when few are free. What comes out is write amplification. A rule that
proves itself here can be written as a policy of ``log`` (docs/HACKING.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from .errors import UsageError
from .rows import Record
from .words import one

#: The age of a block that was never written.
NEVER = np.iinfo(np.uint64).max


class Placement:
    """Which segments writes and copies go to. Derive from it, and override ``write`` and ``copy``.

    Rules are asked in batches: about the next writes of the host, several thousand at once, and
    about what is valid in a segment that is collected. So ``write`` may answer for writes that come
    a little after what ``collected`` told last.
    """

    #: How many classes there are, from 1 to 32; each has an open segment.
    classes: int = 1

    def write(self, lba: np.ndarray, age: np.ndarray) -> np.ndarray:
        """The class of each of the next writes of the host.

        Args:
            lba: The blocks, uint32 of shape (writes,).
            age: Blocks that the host wrote since each was written last, uint64 of that shape;
                :data:`NEVER` where it is new.

        Returns:
            Integers from 0 to ``classes - 1`` of that shape.
        """
        return np.zeros(len(lba), np.uint8)

    def copy(self, lba: np.ndarray, age: np.ndarray, source: int) -> np.ndarray:
        """The class of each valid block of a segment of class ``source`` that is collected; arguments
        and result as those of :meth:`write`."""
        return np.zeros(len(lba), np.uint8)

    def collected(self, source: int, lifespan: int) -> None:
        """A segment of class ``source`` was collected, ``lifespan`` blocks of the host's after it
        got its first one."""

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
    """Which segments are collected. Derive from it, and override ``choose``."""

    def choose(self, valid: np.ndarray, age: np.ndarray, classes: np.ndarray) -> Any:
        """Which of the sealed segments to collect, the first first.

        Args:
            valid: Valid blocks of each, uint32 of shape (segments,).
            age: Blocks that the host wrote since each was sealed, uint64 of that shape.
            classes: The class of each, uint8 of that shape.

        Returns:
            A place in the arrays, or several: they are collected in this order until enough is
            free, so that several ask less often.
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
    """Writes a workload's blocks to a log of segments.

    Addresses are packed, and only writes count. The log is as large as what the workload writes, and
    ``spare`` more.

    Args:
        trace: A trace or synthetic workload, as :func:`hostftl.compare` takes it.
        placement: ``"none"``, ``"two"`` (copies have a class of their own), ``"sepbit"`` (Wang et
            al., FAST 2022), ``"frequency"`` (how often a block is written), ``"hazard"``
            (the same, with a byte for each block), ``"rates"`` and ``"future"`` (which know how
            often, and when, each block is written), or a rule of one's own.
        gc: ``"greedy"``, ``"fifo"``, ``"random"``, ``"cost-benefit"``, ``"declining-cost"``,
            ``"d-choices:10"``, or a rule of one's own.
        segment: Blocks of 4 KiB of a segment.
        spare: The share of the log that is spare.
        rounds: How often the workload is played; the last time counts.
        fill: Whether everything is written once, in order, before.
        batch: Writes that a rule of placement is asked about at once.
        seed: Fixes everything that is chosen at random.

    Returns:
        ``waf``, ``written_blocks``, ``copied_blocks``, ``collected_segments``, ``blocks`` (how many
        there are), and ``seconds`` of real time.

    Raises:
        UsageError, StudyError: As :func:`hostftl.compare`; and what a rule raises.
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
