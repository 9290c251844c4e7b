"""Types of results. Every class is a dictionary whose keys are also attributes, with underscores
for hyphens. Figures that end with ``_ns`` are nanoseconds of simulated time, those with ``_bytes``
bytes. A figure is None if its divisor is zero or there was no such request."""

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

Progress = Callable[[float], object]

class Record(dict[str, Any]):
    """A part of a result: a dictionary whose keys are also attributes."""

    def __getattr__(self, name: str) -> Any: ...

class Legs(Record):
    """Breakdown of a mean latency, in ns; the legs add up to it."""

    layer: int
    """In the layer and before it."""
    map: int
    """In a device, for a command that reads or writes the layer's map."""
    queue: int
    """Waiting for a die behind other commands, or for room in the drive's write buffer."""
    gc: int
    """Waiting for a die behind the drive's own collection."""
    rmw: int
    """Reading the rest of a map unit first."""
    bus: int
    """On the bus and waiting for it."""
    die: int
    """In the die."""

class Latency(Record):
    """A distribution of latencies, in ns."""

    mean: int
    p50: int
    p90: int
    p99: int
    p999: int
    p9999: int
    max: int
    legs: Legs
    """Where the mean went."""
    legs_p99: Legs
    """Where the mean of those about p99 and above went."""

class LatencyNs(Record):
    """Latencies by kind of request; None if there was none."""

    read: Latency | None
    write: Latency | None
    flush: Latency | None

class Busy(Record):
    """Busy time of the dies in ns, by purpose."""

    read: int
    """Reading for the host."""
    request: int
    """Writing what the host asked for."""
    copyback: int
    """The drive's read-modify-write and its own collection."""
    vgc: int
    """The layer's collection."""
    map: int
    """The layer's map log and checkpoints."""
    padding: int
    parity: int
    journal: int

class ByCause(Record):
    """A figure by the cause of a programmed byte."""

    host: int
    gc: int
    """The layer's collection."""
    pad: int
    map: int
    checkpoint: int
    rmw: int
    """The drive's read-modify-write."""
    drive_gc: int
    """The drive's own collection."""
    parity: int
    list: int
    journal: int

class DeviceRow(Record):
    """Results of one device of the stack."""

    drive: str
    role: Literal["data", "fast", "slow", "journal"]
    sent_bytes: int
    programmed_bytes: int
    waf: float | None
    """Bytes programmed for each that was sent to it."""
    busy_ns: int
    worn_mean: float
    """Erases of a segment in the mean; of a memory, writes of a sector."""
    worn_max: int
    cycles: int
    """How many of them it survives."""
    host_tb: float | None
    """What the host can write until it is worn out, with even wear, in 10^12 bytes."""
    host_tb_by_most_worn: float | None

class Bar(Record):
    """Number of segments with ``from`` to ``to`` erases; use ``bar["from"]``, because ``from`` is a
    keyword of Python."""

    to: int
    segments: int

class Erases(Record):
    """Erases per segment during the run."""

    mean: float
    p50: int
    p90: int
    p99: int
    max: int
    histogram: list[Bar]

class Life(Record):
    """Amount of data that the host can write until the flash is worn out, in 10^12 bytes."""

    cycles: int
    """Erases that a block survives."""
    host_tb: float | None
    """With even wear."""
    host_tb_by_erases: float | None
    host_tb_by_most_erased: float | None
    """Until the segment that was erased most is worn out."""

class Energy(Record):
    """Energy of the flash."""

    mj: float
    mj_per_host_gb: float | None
    nj_by_cause: ByCause

class Interval(Record):
    """An interval of the simulated time."""

    at_ns: int
    iops: float
    waf: float | None
    p99_ns: int | None
    p999_ns: int | None
    busy: float
    """The part of the time that a die worked, on average."""

class Row(Record):
    """Results of one layer on one drive, in one state, under one workload."""

    layer: str
    """The layer with its parameters; ``passthrough`` is none."""
    ack: Literal["buffer", "media", "durable"]
    """When a write is answered."""
    drive: str
    workload: str
    seed: int
    """What fixed everything that is chosen at random."""
    parameters: dict[str, str]
    """Everything that can be chosen, with the word that stands for it: ``workload_…``, ``drive_…``,
    ``layer_…`` and ``study_…``."""
    command: str
    """The command that makes the row alone again, for a shell."""
    partial: bool
    warm: str
    """The state of the drive before; ``(not reached)`` behind it when waf did not settle."""
    warm_overwrites: float | None
    """How often the exported capacity was overwritten to age the drive."""
    warm_rounds: int | None
    """How often the workload itself was repeated to age the drive."""
    requests: int
    widened: int
    """Requests that were not whole sectors and were widened."""
    exported_bytes: int
    host_write_bytes: int
    host_read_bytes: int
    waf_layer: float | None
    """Bytes sent to the device / bytes that the host wrote."""
    waf_drive: float | None
    """Bytes programmed in flash / bytes sent to the device."""
    waf_total: float | None
    """Bytes programmed in flash / bytes that the host wrote."""
    gc_runs: int
    pages_copied: int
    """Pages of 4 KiB that the layer's collection wrote again."""
    padding_bytes: int
    parity_bytes: int
    map_bytes_written: int
    journal_bytes: int
    flushes: int
    busy_ns: Busy
    drive_gc_ns: int
    busy_ratio: float | None
    """Busy time relative to that of the row of ``base``."""
    base: str | None
    latency_ns: LatencyNs
    iops: float | None
    """Reads and writes answered per second of simulated time."""
    map_bytes: int
    """Host memory of the layer's map."""
    meta_bytes: int
    """Host memory of the layer beside its map."""
    model_bytes: int
    """Host memory that the simulation of the row takes."""
    rmw_units: int
    page_operations: int
    """NAND pages read and programmed."""
    programmed_bytes: ByCause
    devices: list[DeviceRow]
    erases: Erases
    life: Life
    energy: Energy
    series: list[Interval]
    conserved: bool
    """Whether every conservation law held; a row without it is never shown."""
    saturated: bool
    """Whether the trace's own rate was missed: requests had to wait because 256 were under way, and
    the last was answered later than the trace's end by more than 5 % of the trace's length. Never so
    of a workload without a clock."""
    workload_ns: int
    """How long the workload takes by its own clock; 0 when it has none."""
    simulated_ns: int
    steps: int
    remarks: list[str]
    digest: str
    """One number for everything that the layer and its drive did, in hex."""

class Hole(Record):
    """A combination without a row."""

    layer: str
    drive: str
    workload: str
    warm: str
    seed: int
    parameters: dict[str, str]
    command: str
    failed: str
    """The reason."""

class Columns:
    """Figures as columns of equal length."""

    def __init__(self, columns: list[tuple[str, str, list[Any]]]) -> None: ...
    def __len__(self) -> int: ...
    def to_numpy(self) -> dict[str, np.ndarray]:
        """Returns an array of shape (lines,) for each column of ``--csv``."""
    def to_pandas(self) -> Any:
        """Returns a ``pandas.DataFrame`` of the same columns."""
    def to_polars(self) -> Any:
        """Returns a ``polars.DataFrame`` of the same columns."""
    def write_csv(self, path: str | os.PathLike[str]) -> None: ...
    def write_parquet(self, path: str | os.PathLike[str]) -> None: ...

class Table(Columns):
    """Rows in the order of workloads, drives, states and layers, with holes between them."""

    summary: list[Record]
    alike: list[Record]
    judgements: list[Record]
    def __init__(
        self,
        text: str,
        columns: list[tuple[str, str, list[Any]]],
        summary: str | None = None,
        alike: str | None = None,
        judgements: str | None = None,
    ) -> None: ...
    @property
    def rows(self) -> list[Row]: ...
    @property
    def holes(self) -> list[Hole]: ...
    def __iter__(self) -> Iterator[Row]: ...
    def __getitem__(self, index: int) -> Row: ...
    def __add__(self, other: Table) -> Table: ...
    def where(self, **wanted: object) -> list[Row]: ...
    def to_list(self) -> list[dict[str, Any]]: ...
