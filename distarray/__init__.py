"""NumPy-like arrays spread over MPI ranks, stencils without communication code, and I/O for both.

The layers, each built on those before it:

errors, spans, progress                        what went wrong, where time went, how far a run is
decomposition, regions, layout, geometry       who owns what, and where it lies in space
stencil                                        kernels traced, analysed, run by NumPy or as C text
backends, comm, transports                     the device, the ranks, and messages between devices
block, topology, halo, boundary, redistribute  memory of a rank, kept fresh, filled and moved
deferred, fused, contributions, pending        values that are computed when they are needed
array, grid                                    the distributed array and the grid it lives on
random, fft, lines, linalg, points, kernels    what is done with arrays,
iterate, tiling, graphs, io                    many times over, and kept in files
report, timeline, tensorboard                  where the time went, and curves of scalars
tuning, bench, model, doctor                   what suits a machine, how fast it is, what it offers
cli, programs, view, testing                   programs, and helpers for tests

Importing this package initialises neither MPI nor a device. `save`, `load`, `Snapshot` and
`Checkpointer` are files and restarts; they load h5py at their first use.
"""

import os
from typing import TYPE_CHECKING, Any

from distarray import fft, random
from distarray.array import DistArray
from distarray.boundary import (
    Condition,
    Custom,
    Dirichlet,
    Extrapolate,
    Neumann,
    Outflow,
    Piecewise,
    Robin,
    Symmetry,
)
from distarray.creation import asarray, empty, from_root, full, ones, zeros
from distarray.decomposition import Decomposition
from distarray.errors import (
    ArrayError,
    BackendError,
    BoundaryError,
    CommunicationError,
    DecompositionError,
    DistArrayError,
    FileError,
    GridError,
    IndexingError,
    SolverError,
    StencilError,
    UnsupportedError,
)
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.kernels.apply import StencilKernel, stencil
from distarray.linalg import begin_dot, begin_norm, dot, norm
from distarray.lines import map_lines
from distarray.logging import log
from distarray.pending import Pending
from distarray.placement import map_along
from distarray.point_stages import Adding, Recording
from distarray.points import Points
from distarray.profile import Profile
from distarray.reductions import (
    begin_all,
    begin_any,
    begin_max,
    begin_mean,
    begin_min,
    begin_prod,
    begin_sum,
)
from distarray.report import Report, report
from distarray.stencil.language import coordinate, index, reduce, spacing, where
from distarray.tensorboard import TensorBoard
from distarray.timeline import timeline

if TYPE_CHECKING:
    from distarray.io import Checkpointer, Snapshot, load, save

__version__ = "0.1.0"

if os.environ.get("DISTARRAY_TIMELINE"):
    from distarray.timeline import begin_for_program

    begin_for_program(os.environ["DISTARRAY_TIMELINE"])

#: Names that load h5py, at their first use.
_FILES = ("Checkpointer", "Snapshot", "load", "save")

__all__ = [
    "Adding",
    "ArrayError",
    "BackendError",
    "BoundaryError",
    "Checkpointer",
    "CommunicationError",
    "Condition",
    "Custom",
    "Decomposition",
    "DecompositionError",
    "Dirichlet",
    "DistArray",
    "DistArrayError",
    "Extrapolate",
    "FileError",
    "Grid",
    "GridError",
    "IndexingError",
    "Neumann",
    "Outflow",
    "Pending",
    "Piecewise",
    "Points",
    "Profile",
    "Recording",
    "Report",
    "Robin",
    "Snapshot",
    "SolverError",
    "StencilError",
    "StencilKernel",
    "Symmetry",
    "TensorBoard",
    "UnsupportedError",
    "asarray",
    "begin_all",
    "begin_any",
    "begin_dot",
    "begin_max",
    "begin_mean",
    "begin_min",
    "begin_norm",
    "begin_prod",
    "begin_sum",
    "coordinate",
    "dot",
    "empty",
    "fft",
    "from_root",
    "full",
    "index",
    "iterate",
    "load",
    "log",
    "map_along",
    "map_lines",
    "norm",
    "ones",
    "random",
    "reduce",
    "report",
    "save",
    "spacing",
    "stencil",
    "timeline",
    "where",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in _FILES:
        from distarray import io

        return getattr(io, name)
    raise AttributeError(f"module 'distarray' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "Any"})
