"""What an HDF5 file of this library says about itself, read and checked by one process.

Nothing in a file is trusted: a damaged one is an error that names it, whatever its entries say.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from distarray.errors import FileError
from distarray.io.attributes import numeric_dtype
from distarray.io.checksums import DIGEST_SIZE
from distarray.io.hdf5 import h5py_module, reason
from distarray.io.record import (
    FORMAT_VERSION,
    ArrayRecord,
    FileRecord,
    GridRecord,
    halo_problem,
    points_of,
)
from distarray.io.tiles import tile_counts


def read_record(path: str) -> FileRecord:
    """What a file says about itself, checked against its size. Local.

    Raises
    ------
    FileError
        The file is missing, no HDF5, not from this library, of a newer version or damaged.
    """
    h5py = h5py_module()
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise FileError(
            f"The file '{path}' is a device, pipe or socket; give the path of a file written by "
            "save."
        )
    try:
        with h5py.File(path, "r", locking=False) as file:
            return _read(path, file, _require_version(path, file))
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(
            f"The file '{path}' does not exist; give the path of a file written by save."
        ) from None
    except OSError as error:
        raise FileError(_opening_problem(path, error)) from error
    except Exception as error:  # what h5py and NumPy make of damaged entries is of any class
        raise damaged(path, reason(error)) from error


def _opening_problem(path: str, error: OSError) -> str:
    text = reason(error)
    if "truncated file" in text:
        return f"The file '{path}' is cut short ({text}); use an older file or copy it again."
    if "signature not found" in text:
        return f"The file '{path}' is not an HDF5 file; give the path of a file written by save."
    return f"The file '{path}' cannot be read: {text}"


def damaged(path: str, what: str) -> FileError:
    """The error for a file whose content contradicts itself."""
    return FileError(f"The file '{path}' is damaged: {what}; use an older file or copy it again.")


def replaced(path: str) -> FileError:
    """The error for a file that did not stay the same for long enough to be read."""
    return FileError(
        f"The file '{path}' was replaced while it was read, also at a second attempt; "
        "read it when nothing writes it."
    )


def _require_version(path: str, file: Any) -> int:
    """The version of the file's layout, refused if this library does not know it."""
    if "distarray_format" not in file.attrs:
        raise FileError(
            f"The file '{path}' is HDF5 but was not written by save "
            "(it has no attribute distarray_format); read it with h5py."
        )
    version = int(file.attrs["distarray_format"])
    if version < 1:
        raise ValueError(f"it has format version {version}")
    if version > FORMAT_VERSION:
        raise FileError(
            f"The file '{path}' has format version {version}, "
            f"this library reads up to {FORMAT_VERSION}; read it with a newer version of distarray."
        )
    return version


def _read(path: str, file: Any, version: int) -> FileRecord:
    grid = _read_grid(file)
    names = _strings(file.attrs["arrays"])
    step, time = file.attrs.get("step"), file.attrs.get("time")
    return FileRecord(
        grid=grid,
        arrays=tuple(_read_array(path, file, name, grid, version) for name in names),
        step=None if step is None else int(step),
        time=None if time is None else float(time),
        attrs=_text(file, "distarray/attrs"),
        library_version=_strings(file.attrs["library_version"])[0],
        version=version,
        digest=_place(file, "distarray/digest", (DIGEST_SIZE,)) if version > 1 else 0,
    )


def _strings(values: Any) -> tuple[str, ...]:
    """The texts of an attribute or dataset."""
    return tuple(bytes(value).decode() for value in np.atleast_1d(values).astype(np.bytes_).flat)


def _place(file: Any, name: str, shape: tuple[int, ...]) -> int:
    """Where the bytes of a dataset of the library start."""
    dataset = file[name]
    if not isinstance(dataset, h5py_module().Dataset) or dataset.shape != shape:
        raise ValueError(f"'{name}' is no dataset of shape {shape}")
    offset = dataset.id.get_offset() or 0  # none for what does not lie in one run
    if not offset and dataset.size:
        raise ValueError(f"'{name}' is not stored in one run of this file")
    return int(offset)


def _text(file: Any, name: str) -> str:
    """The text of a scalar dataset."""
    dataset = file[name]
    if not isinstance(dataset, h5py_module().Dataset) or dataset.shape != ():
        raise ValueError(f"'{name}' is no text")
    _require_room(dataset)
    return _strings(dataset[()])[0]


def _faces(group: Any, axis: str, cells: int) -> tuple[float, ...] | None:
    """The face positions of an axis; None if it is uniform."""
    if f"faces_{axis}" not in group:
        return None
    dataset = group[f"faces_{axis}"]
    if not isinstance(dataset, h5py_module().Dataset) or dataset.shape != (cells + 1,):
        shape = getattr(dataset, "shape", None)
        raise ValueError(f"axis {axis} has {cells} cells and face positions of shape {shape}")
    _require_room(dataset)
    positions = np.asarray(dataset[()], np.float64)
    if not _ascend(positions):
        raise ValueError(f"the face positions of axis {axis} are not finite and ascending")
    return tuple(positions.tolist())


def _ascend(positions: np.ndarray[Any, Any]) -> bool:
    return bool(np.isfinite(positions).all() and (np.diff(positions) > 0).all())


def _require_room(dataset: Any) -> None:
    """Refuse a dataset that does not lie in one run inside the file, before memory is taken for it:
    a small file can promise any number of elements.
    """
    creation = dataset.id.get_create_plist()
    contiguous = creation.get_layout() == h5py_module().h5d.CONTIGUOUS
    if not contiguous or creation.get_external_count():
        raise ValueError(f"the dataset '{dataset.name}' is not stored in one run of this file")
    nbytes = dataset.size * dataset.id.get_type().get_size()
    if nbytes + (dataset.id.get_offset() or 0) > dataset.file.id.get_filesize():
        raise ValueError(f"the dataset '{dataset.name}' ends beyond the file")


def _read_grid(file: Any) -> GridRecord:
    axes = _strings(file.attrs["axes"])
    cells = tuple(map(int, file.attrs["shape"]))
    bounds = tuple(
        (float(low), float(high)) for low, high in np.reshape(file.attrs["bounds"], (-1, 2))
    )
    periodic = tuple(map(bool, file.attrs["periodic"]))
    if not len(cells) == len(bounds) == len(axes) == len(periodic):
        raise ValueError("the attributes shape, bounds, axes and periodic have different lengths")
    if not all(_ascend(np.array(pair)) for pair in bounds):
        raise ValueError(f"the bounds {bounds} are not finite and ascending")
    group = file["distarray"]
    faces = tuple(_faces(group, axis, count) for axis, count in zip(axes, cells, strict=True))
    return GridRecord(cells, bounds, axes, periodic, faces)


def _read_array(path: str, file: Any, name: str, grid: GridRecord, version: int) -> ArrayRecord:
    size = os.path.getsize(path)
    dataset = _plain_dataset(path, file, name)
    location = _strings(dataset.attrs["location"])[0] or None
    array = ArrayRecord(
        name=name,
        dtype=numeric_dtype(dataset.dtype.str).str,
        location=location,
        components=tuple(map(int, dataset.attrs["components"])),
        points=points_of(grid, location),
        halo=tuple(map(int, dataset.attrs["halo"])),
        boundary=_text(file, f"distarray/boundary/{name}"),
        offset=dataset.id.get_offset() or 0,
    )
    if problem := halo_problem(grid, array.halo):
        raise ValueError(f"the array '{name}' has halo {array.halo}, {problem}")
    if not dataset.dtype.isnative:
        raise ValueError(
            f"the array '{name}' has the byte order of another machine ({dataset.dtype.str})"
        )
    if dataset.shape != array.shape:
        raise ValueError(
            f"the array '{name}' has shape {dataset.shape} "
            f"where the grid and its location say {array.shape}"
        )
    if array.nbytes and not 0 < array.offset <= size - array.nbytes:
        raise ValueError(f"the array '{name}' ends beyond the {size} bytes of the file")
    if version < 2:
        return array
    counts = tile_counts(array.shape, array.tile)
    return array.at(array.offset, _place(file, f"distarray/checksums/{name}", counts))


def _plain_dataset(path: str, file: Any, name: str) -> Any:
    """The dataset of an array, only if its values lie in this very file, unpacked, in one run."""
    h5py = h5py_module()
    link = file.get(name, getlink=True)
    if link is None:
        raise FileError(
            f"The file '{path}' lists the array '{name}' but does not hold it; use an older file."
        )
    dataset = file[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(f"the array '{name}' is no dataset of this file")
    creation = dataset.id.get_create_plist()
    if creation.get_layout() != h5py.h5d.CONTIGUOUS or creation.get_external_count():
        raise ValueError(f"the values of the array '{name}' are not stored in one run of this file")
    return dataset
