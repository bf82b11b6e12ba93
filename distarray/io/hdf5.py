"""The HDF5 side of a file, done by one process with the serial h5py: lay it out, read what it says.

    /                         attributes: distarray_format, library_version, arrays (their names),
                              shape (cells), bounds (low and high of each axis in turn), axes,
                              periodic (0 or 1), and step, time where given
    /NAME                     one contiguous dataset per array, C order, components first
                              attributes: location ("" for centres), components, halo
    /x, /x_face, ...          positions along the axes, as dimension scales (see `scales`)
    /VTKHDF                   the same arrays for ParaView (see `vtk`)
    /distarray/view/NAME      an array in the form that VTK reads, where that is another
    /distarray/mesh/...       coordinates for an XDMF file (see `xdmf`)
    /distarray/attrs          JSON text of the attributes given by the user
    /distarray/boundary/NAME  JSON text of the conditions of an array
    /distarray/faces_X        face positions of a stretched axis X
    /distarray/checksums/NAME CRC-32 of each tile of an array, uint32; attribute: tile (its extents)
    /distarray/digest         BLAKE2b of all bytes outside the arrays and the digest

Space for values, checksums and digest is allocated when the file is laid out and never filled; they
are written there afterwards. bool arrays are h5py's enumeration of int8, complex ones its compound
of r and i, so h5py alone reads every array. There are no time stamps: the same arrays give the same
bytes. Texts have a fixed length (h5py gives bytes, UTF-8), since HDF5 keeps those of variable
length without a checksum and was seen to crash on damaged ones. Files of version 1 have neither
checksums nor a digest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import FileError
from distarray.io import scales, vtk, xdmf
from distarray.io.agreement import agreed
from distarray.io.checksums import DIGEST_SIZE
from distarray.io.place import create
from distarray.io.plain import numeric_dtype
from distarray.io.record import (
    FORMAT_VERSION,
    ArrayRecord,
    FileRecord,
    GridRecord,
    halo_problem,
    points_of,
)
from distarray.io.tiles import tile_counts

#: Large datasets start at multiples of this, so that ranks write whole pages.
ALIGNMENT = 4096


def _h5py() -> Any:
    """h5py, loaded at first use so that importing the library does not."""
    try:
        import h5py  # type: ignore[import-untyped]
    except ImportError as error:
        raise FileError(
            f"Files need h5py, which cannot be imported ({error}); run: pip install h5py"
        ) from error
    return h5py


def lay_out(
    path: str,
    record: FileRecord,
    *,
    meshes: bool = False,
    created: Callable[[], None] | None = None,
) -> FileRecord:
    """Create the file with everything but values, checksums and digest. Local.

    Parameters
    ----------
    meshes : bool
        Whether the coordinates that an XDMF file needs are put in.
    created : function, optional
        Called once the empty file is there.

    Returns
    -------
    FileRecord
        The record with the bytes at which these start; 0 for arrays without elements.
    """
    h5py = _h5py()
    try:
        # h5py alone would follow a link of this name and empty what it points to.
        create(path)
        if created is not None:
            created()
        # One writer, and nobody else knows the name yet: no lock is needed.
        with h5py.File(
            path,
            "w",
            locking=False,
            libver=("v110", "v110"),  # whose headers carry checksums
            alignment_threshold=ALIGNMENT,
            alignment_interval=ALIGNMENT,
        ) as file:
            digest = _write_header(file, record, h5py)
            arrays = tuple(_create(file, array, h5py) for array in record.arrays)
            scales.attach(file, record)
            vtk.add(file, record, h5py)
            if meshes:
                xdmf.add_meshes(file, record, h5py)
    except FileError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"The file '{path}' cannot be created: {_reason(error)}") from error
    return replace(record, arrays=arrays, digest=digest)


def _write_header(file: Any, record: FileRecord, h5py: Any) -> int:
    """What a file says of itself; the byte offset of its digest."""
    grid = record.grid
    file.attrs["distarray_format"] = np.int64(FORMAT_VERSION)
    file.attrs["library_version"] = _octets(record.library_version)[0, ...]
    file.attrs["shape"] = np.array(grid.cells, np.int64)
    file.attrs["bounds"] = np.array(grid.bounds, np.float64).reshape(-1)  # as netCDF needs
    file.attrs["axes"] = _octets(*grid.axes)
    file.attrs["periodic"] = np.array(grid.periodic, np.int8)
    file.attrs["arrays"] = _octets(*(array.name for array in record.arrays))
    if record.step is not None:
        file.attrs["step"] = np.int64(record.step)
    if record.time is not None:
        file.attrs["time"] = np.float64(record.time)
    group = file.create_group("distarray")
    group.create_dataset("attrs", data=_octets(record.attrs)[0, ...])
    for axis, faces in zip(grid.axes, grid.faces, strict=True):
        if faces is not None:
            group.create_dataset(f"faces_{axis}", data=np.array(faces, np.float64))
    digest = _reserve(file, "distarray/digest", (DIGEST_SIZE,), np.uint8, h5py)
    return int(digest.id.get_offset())


def _octets(*texts: str) -> np.ndarray[Any, Any]:
    """Texts as UTF-8 of a fixed length, filled up with zeros."""
    return np.array([text.encode() for text in texts], np.bytes_)


def _strings(values: Any) -> tuple[str, ...]:
    """The texts of an attribute or dataset."""
    return tuple(bytes(value).decode() for value in np.atleast_1d(values).astype(np.bytes_).flat)


def _create(file: Any, array: ArrayRecord, h5py: Any) -> ArrayRecord:
    """Datasets for an array and its checksums, with attributes; the array with their offsets."""
    dataset = _reserve(file, array.name, array.shape, array.dtype, h5py)
    dataset.attrs["location"] = _octets(array.location or "")[0, ...]
    dataset.attrs.create(
        "components", np.array(array.components, np.int64), (len(array.components),)
    )
    dataset.attrs["halo"] = np.array(array.halo, np.int64)
    # Conditions may hold values over a face, more than the 64 KiB of an attribute.
    group = file["distarray"].require_group("boundary")
    group.create_dataset(array.name, data=_octets(array.boundary)[0, ...])
    counts = tile_counts(array.shape, array.tile)
    table = _reserve(file, f"distarray/checksums/{array.name}", counts, np.uint32, h5py)
    table.attrs["tile"] = np.array(array.tile, np.int64)
    return array.at(dataset.id.get_offset() or 0, table.id.get_offset() or 0)


def _reserve(file: Any, name: str, shape: tuple[int, ...], dtype: Any, h5py: Any) -> Any:
    """A contiguous dataset whose space is allocated and not written."""
    h5p, h5d = h5py.h5p, h5py.h5d
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    identity = h5d.create(file.id, None, kind, h5py.h5s.create_simple(shape), creation)
    group, _, own = name.rpartition("/")
    dataset = h5py.Dataset(identity)
    (file.require_group(group) if group else file)[own] = dataset
    return dataset


def is_parallel() -> bool:
    """Whether the installed h5py was built for MPI. Local."""
    return bool(_h5py().get_config().mpi)


def write_blocks(
    path: str, record: FileRecord, communicator: Communicator, pieces: Iterable[BlockPiece]
) -> None:
    """As `Communicator.write_blocks`, by an h5py that was built for MPI. Collective.

    Ranks write independently of one another: each has its own number of pieces, of any array.
    """
    h5py = _h5py()
    names = {array.offset: array.name for array in record.arrays if array.nbytes}
    options = {"driver": "mpio", "comm": communicator.handle, "locking": False}
    # All ranks open and close together, also after an error.
    with (
        agreed(communicator, f"The file '{path}' cannot be written"),
        h5py.File(path, "r+", **options) as file,
    ):
        for piece in pieces:
            file[names[piece.offset]][piece.box.slices()] = piece.values


def read_record(path: str) -> FileRecord:
    """What a file says about itself, checked against its size. Local.

    Raises
    ------
    FileError
        The file is missing, no HDF5, not from this library, of a newer version or damaged.
    """
    h5py = _h5py()
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
        raise damaged(path, _reason(error)) from error


def _opening_problem(path: str, error: OSError) -> str:
    text = _reason(error)
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


def _reason(error: BaseException) -> str:
    """What an error says, without the numbers and addresses that HDF5 adds to an operating system's
    own.
    """
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}; check the path, its folder and the free space."
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip("'\"")


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


def _place(file: Any, name: str, shape: tuple[int, ...]) -> int:
    """Where the bytes of a dataset of the library start."""
    dataset = file[name]
    if not isinstance(dataset, _h5py().Dataset) or dataset.shape != shape:
        raise ValueError(f"'{name}' is no dataset of shape {shape}")
    offset = dataset.id.get_offset() or 0  # none for what does not lie in one run
    if not offset and dataset.size:
        raise ValueError(f"'{name}' is not stored in one run of this file")
    return int(offset)


def _text(file: Any, name: str) -> str:
    """The text of a scalar dataset."""
    dataset = file[name]
    if not isinstance(dataset, _h5py().Dataset) or dataset.shape != ():
        raise ValueError(f"'{name}' is no text")
    _require_room(dataset)
    return _strings(dataset[()])[0]


def _faces(group: Any, axis: str, cells: int) -> tuple[float, ...] | None:
    """The face positions of an axis; None if it is uniform."""
    if f"faces_{axis}" not in group:
        return None
    dataset = group[f"faces_{axis}"]
    if not isinstance(dataset, _h5py().Dataset) or dataset.shape != (cells + 1,):
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
    contiguous = creation.get_layout() == _h5py().h5d.CONTIGUOUS
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
    h5py = _h5py()
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
