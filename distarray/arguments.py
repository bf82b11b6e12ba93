"""What users may give to describe grids and arrays: checks that raise the same error on every
rank.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Backend
from distarray.backends.cpu import CpuBackend
from distarray.comm.base import Communicator
from distarray.decomposition import choose_ranks, largest_factorisations, per_axis
from distarray.errors import (
    ArrayError,
    BackendError,
    CommunicationError,
    DecompositionError,
    DistArrayError,
    FileError,
    GridError,
    UnsupportedError,
    shown,
)
from distarray.geometry import AxisGeometry
from distarray.signatures import require_call

_ITEM_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (4, 8), "c": (8, 16)}


def check_shape(shape: Sequence[int] | int, *, least: int) -> tuple[int, ...]:
    """A shape as a tuple of ints, each at least `least`."""
    try:
        cells = tuple(
            map(operator.index, shape if isinstance(shape, Sequence | np.ndarray) else (shape,))
        )
    except TypeError:
        cells = ()
    if not cells or min(cells) < least:
        raise GridError(
            f"A shape must be one or more whole numbers of at least {least}, got {shown(shape)}; "
            "correct it."
        )
    return cells


def check_halo(halo: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Halo widths per axis."""
    widths = per_axis(halo, ndim, operator.index, "halo")
    if min(widths) < 0:
        raise GridError(
            f"Halo widths must be whole numbers from 0, got halo={shown(halo)}; use 0 for none."
        )
    return widths


def check_components(components: int | Sequence[int]) -> tuple[int, ...]:
    """Extents of component axes."""
    try:
        counts = tuple(
            map(operator.index, components if isinstance(components, Sequence) else (components,))
        )
    except TypeError:
        counts = (0,)
    if min(counts, default=1) < 1:
        raise GridError(
            f"Components must be whole numbers of at least 1, got components={shown(components)}; "
            "use () for none."
        )
    return counts


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """An element type that arrays can have, in native byte order."""
    try:
        found: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        found = np.dtype(object)
    if found.itemsize not in _ITEM_SIZES.get(found.kind, ()):
        raise UnsupportedError(
            f"Element type {dtype!r} is not supported; use bool, an integer type, float32, "
            "float64, complex64 or complex128."
        )
    return found


def backend_for(device: str) -> Backend:
    """The backend of a device; "auto" is what DISTARRAY_DEVICE names, else CUDA where it works.
    Local.

    Raises
    ------
    BackendError
        There is no such device, or it does not work here.
    """
    subject = f"device={shown(device)}"
    if device == "auto":
        device = os.environ.get("DISTARRAY_DEVICE") or "auto"
        subject = f"DISTARRAY_DEVICE={device}"
    if device == "auto":
        from distarray.backends.cuda import available

        device = "cuda" if available()[0] else "cpu"
    if device == "cpu":
        return CpuBackend()
    if device not in ("cuda", "simulated"):
        raise BackendError(f"{subject} is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'.")
    return _accelerator(device)


def unused_gpu(device: str) -> str:
    """Why "auto" takes no GPU though the driver offers one, as a sentence; empty where there is
    none, where one is taken, and where a device was named. Local.
    """
    if device != "auto" or (os.environ.get("DISTARRAY_DEVICE") or "auto") != "auto":
        return ""
    from distarray.backends import cuda, nvidia

    return "" if nvidia.look().problem else cuda.available()[1]


@functools.cache
def _accelerator(name: str) -> Backend:
    """The one accelerator of this process, so that arrays of all grids lie on it."""
    from distarray.backends.accelerator import AcceleratorBackend

    if name == "simulated":
        from distarray.backends.simulated.driver import SimulatedDriver

        return AcceleratorBackend(SimulatedDriver())
    from distarray.backends.cuda import driver

    return AcceleratorBackend(driver())


def axis_names(axes: Sequence[str], ndim: int) -> tuple[str, ...]:
    """One letter per axis."""
    names = tuple(axes)[:ndim] if hasattr(axes, "__iter__") else ()
    if len(names) < ndim:
        raise GridError(
            f"axes={shown(axes)} names {len(names)} axes of {ndim}; give one letter per axis."
        )
    for name in names:
        if (
            not (isinstance(name, str) and len(name) == 1 and name.isalpha())
            or names.count(name) > 1
        ):
            raise GridError(
                f"Names of axes must be different single letters, got axes={shown(axes)}; rename "
                "them."
            )
    return names


def geometry_of(
    cells: tuple[int, ...],
    names: tuple[str, ...],
    periodic: tuple[bool, ...],
    bounds: Sequence[tuple[float, float]] | None,
    coordinates: Mapping[str, Any] | None,
) -> tuple[AxisGeometry, ...]:
    """The geometry of each axis, from its bounds or its face positions."""
    if coordinates is not None and not isinstance(coordinates, Mapping):
        raise GridError(
            "coordinates must be a dict from names of axes to face positions, got "
            f"{shown(coordinates)}; write coordinates={{'{names[0]}': positions}}."
        )
    faces = dict(coordinates or {})
    if unknown := [name for name in faces if name not in names]:
        raise GridError(
            f"coordinates name the axis {shown(unknown[0])}; use one of {', '.join(names)}."
        )
    if bounds is not None and not hasattr(bounds, "__iter__"):
        raise GridError(
            f"bounds must be a list of pairs (low, high), got {shown(bounds)}; give one per axis."
        )
    ends = [None] * len(cells) if bounds is None else list(bounds)
    if len(ends) != len(cells):
        raise GridError(
            f"bounds has {len(ends)} entries for {len(cells)} axes; give one (low, high) per axis."
        )
    return tuple(
        _stretched(n, name, wraps, end, faces[name])
        if name in faces
        else _uniform(n, name, wraps, end)
        for n, name, wraps, end in zip(cells, names, periodic, ends, strict=True)
    )


def _uniform(cells: int, name: str, periodic: bool, ends: Any) -> AxisGeometry:
    low, high = (0.0, 1.0) if ends is None else _check_ends(name, ends)
    return AxisGeometry(cells, low, high, periodic)


def _check_ends(name: str, ends: Any) -> tuple[float, float]:
    try:
        low, high = map(float, ends)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise GridError(
            f"Bounds of axis {name} must be two finite numbers, low below high, got {shown(ends)}; "
            "correct them."
        )
    return low, high


def _stretched(cells: int, name: str, periodic: bool, ends: Any, positions: Any) -> AxisGeometry:
    found = host_values(positions, f"Face positions of axis {name}", GridError)
    if found.dtype.kind == "c":
        raise GridError(f"Face positions of axis {name} are complex; give real ones.")
    faces = np.array(found, np.float64)
    if faces.shape != (cells + 1,):
        raise GridError(
            f"Axis {name} has {cells} cells and needs {cells + 1} face positions in coordinates, "
            f"got shape {faces.shape}; give one per face, both ends counted."
        )
    if not np.all(np.isfinite(faces)) or not np.all(np.diff(faces) > 0):
        raise GridError(
            f"Face positions of axis {name} must be finite and increase from face to face; sort "
            "them."
        )
    low, high = float(faces[0]), float(faces[-1])
    if ends is not None and _check_ends(name, ends) != (low, high):
        raise GridError(
            f"Bounds {shown(ends)} of axis {name} differ from the ends ({low}, {high}) of its face "
            "positions; give one of both."
        )
    faces.flags.writeable = False
    return AxisGeometry(cells, low, high, periodic, faces)


def fewer_ranks(
    shape: tuple[int, ...],
    size: int,
    ranks: int | Sequence[int] | None = None,
    *,
    periodic: bool | Sequence[bool] = False,
    halo: int | Sequence[int] = 1,
) -> tuple[int, ...]:
    """A process grid of at most `size` ranks; 0 leaves an axis free, and as many ranks as fit are
    used.

    Raises
    ------
    DecompositionError
        More ranks are asked for than there are, or no process grid fits.
    """
    fixed = per_axis(0 if ranks is None else ranks, len(shape), operator.index, "ranks")
    least = math.prod(max(1, n) for n in fixed)
    if min(fixed) < 0 or least > size:
        raise DecompositionError(
            f"The process grid {fixed} does not fit the {size} ranks of the communicator; "
            "use whole numbers whose product is not larger, or 0 for a free axis."
        )
    widths = per_axis(halo, len(shape), operator.index, "halo")
    most = [
        max(1, cells // max(1, width))
        for cells, width, parts in zip(shape, widths, fixed, strict=True)
        if parts == 0
    ]
    count = least * math.prod(largest_factorisations(size // least, most)[0])
    with contextlib.suppress(DecompositionError):
        return choose_ranks(shape, count, ranks=fixed, periodic=periodic, halo=halo)
    return choose_ranks(shape, least, ranks=fixed, periodic=periodic, halo=halo)


def host_values(values: Any, subject: str, kind: type[DistArrayError] = ArrayError) -> HostArray:
    """The numbers that a user gave, as a host array; `subject` names them in the error."""
    try:
        found = np.asarray(values)
    except (ValueError, TypeError):  # lists of unequal lengths
        found = np.empty(0, object)
    if found.dtype.kind not in "biufc":
        raise kind(
            f"{subject} must be numbers of at most 64 bits or arrays of them, got {shown(values)}; "
            "convert what you give."
        )
    return found


def alike(communicator: Communicator, value: str) -> bool:
    """Whether all ranks have the same text. Collective; one small message."""
    if communicator.size == 1:
        return True
    digest = hashlib.blake2b(value.encode(), digest_size=7).digest()
    number = int.from_bytes(digest, "little")
    highest, lowest = communicator.allreduce(np.array([number, -number], np.int64), "max")
    return bool(highest == -lowest)


def require_alike(communicator: Communicator, subject: str, value: str) -> None:
    """Refuse what ranks describe differently. Collective; one small message."""
    if alike(communicator, value):
        return
    values = communicator.allgather(value)
    other = next(rank for rank, found in enumerate(values) if found != values[0])
    raise CommunicationError(
        f"{subject} differs between ranks, rank 0 has {values[0]} and rank {other} has "
        f"{values[other]}; pass the same on all ranks."
    )


def require_function(function: Any, caller: str, *given: str) -> None:
    """Refuse what cannot be called, and functions that do not take arguments of these names."""
    if not callable(function):
        raise ArrayError(f"{caller} takes a function, got {shown(function)}; pass one.")
    if given:
        require_call(function, f"The function of {caller}", given)


def check_root(root: Any, size: int, caller: str, otherwise: str = "") -> int:
    """The number of a rank."""
    number = -1 if isinstance(root, bool) or not hasattr(root, "__index__") else int(root)
    if not 0 <= number < size:
        raise ArrayError(
            f"{caller}(root={shown(root)}) names no rank; use a number from 0 to {size - 1}"
            f"{otherwise}."
        )
    return number


def check_fits(values: HostArray, dtype: np.dtype[Any], subject: str) -> None:
    """Refuse numbers that integers of `dtype` cannot hold, and complex ones for real arrays."""
    if values.dtype.kind == "c" and dtype.kind != "c":
        raise ArrayError(f"{subject} are complex and do not fit {dtype}; take their real part.")
    if dtype.kind not in "iu" or not values.size or np.can_cast(values.dtype, dtype):
        return
    limits, ends = np.iinfo(dtype), (values.min(), values.max())
    if not all(np.isfinite(end) and limits.min <= int(end) <= limits.max for end in ends):
        reach = f"{ends[0]}" if values.ndim == 0 else f"{ends[0]} to {ends[1]}"
        raise ArrayError(
            f"{subject} ({reach}) do not fit {dtype}, which holds {limits.min} to {limits.max}; "
            "use another element type."
        )


def assign_broadcast(target: Any, values: Any, component_axes: int) -> None:
    """Fill owned values with what a user's function returned: broadcast, cast, one entry per
    component in a sequence.
    """
    if component_axes and isinstance(values, list | tuple):
        if len(values) != len(target):
            raise ArrayError(
                f"A function gave {len(values)} values for {len(target)} components; give one for "
                "each."
            )
        for part, value in zip(target, values, strict=True):
            assign_broadcast(part, value, component_axes - 1)
        return
    values = host_values(values, "Values of a function")
    check_fits(values, target.dtype, "Values of a function")
    try:
        fitting = np.broadcast_to(values, target.shape)
    except ValueError:
        raise ArrayError(
            f"Values of shape {values.shape} do not broadcast to this rank's block of shape "
            f"{target.shape}; "
            "build them from the coordinates given."
        ) from None
    with np.errstate(all="ignore"):
        target[...] = fitting


def path_of(path: Any, caller: str, *, folder: bool = False) -> str:
    """A path as text, of a file unless a folder is asked for. Local."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise FileError(
            f"{caller} takes a path, received {shown(path)}; give a string or a pathlib.Path."
        ) from None
    try:
        valid = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        valid = False
    if not valid:
        raise FileError(
            f"{caller} takes a path of characters that file names can have, "
            f"received {shown(text)}; give a path without zero bytes and lone surrogates."
        )
    if not text or (text.endswith("/") and not folder):
        kind = "folder" if folder else "file"
        raise FileError(f"{caller} takes the path of a {kind}, received {text!r}; give its name.")
    return text


def unwritable(path: str | os.PathLike[str]) -> str:
    """Why a file cannot be written, as the system says, or nothing; it is left as it is. Local."""
    known = os.path.lexists(path)
    try:
        with open(path, "a"):
            pass
        if not known:
            os.unlink(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""
