"""Studies of host-based flash translation layers on modelled drives.

The figures are those of the command ``hostftl``, computed by the same code::

    import hostftl
    row = hostftl.run("synth:uniform:size=4k,span=1g,count=100000", "hatl-2g", "hard")
    row.waf_total, row.latency_ns.write.p99
"""

from . import pictures, theory
from ._native import VERSION as __version__
from .advice import Advice, advise
from .drives import Drive, drives, layer, layers
from .errors import Error, FaultError, StudyError, TraceWarning, UsageError, ViolationError
from .placement import NEVER, Collection, Placement, place
from .rows import Columns, Hole, Record, Row, Table
from .studies import STATES, compare, run
from .sweeps import Cells, sweep
from .traces import OPS, Trace

__all__ = [
    "NEVER",
    "OPS",
    "STATES",
    "Advice",
    "Cells",
    "Collection",
    "Columns",
    "Drive",
    "Error",
    "FaultError",
    "Hole",
    "Placement",
    "Record",
    "Row",
    "StudyError",
    "Table",
    "Trace",
    "TraceWarning",
    "UsageError",
    "ViolationError",
    "__version__",
    "advise",
    "compare",
    "drives",
    "layer",
    "layers",
    "pictures",
    "place",
    "run",
    "sweep",
    "theory",
]
