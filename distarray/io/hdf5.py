"""The HDF5 side of a file, laid out by one process with the serial h5py.

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

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import FileError, system_text
from distarray.io import place, scales, vtk, xdmf
from distarray.io.agreement import agreed
from distarray.io.checksums import DIGEST_SIZE
from distarray.io.image import Image
from distarray.io.record import (
    FORMAT_VERSION,
    ArrayRecord,
    FileRecord,
)
from distarray.io.tiles import tile_counts

#: Large datasets start at multiples of this, so that ranks write whole pages.
ALIGNMENT = 4096


def h5py_module() -> Any:
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
    h5py = h5py_module()
    try:
        # h5py alone would follow a link of this name and empty what it points to.
        place.create(path)
        if created is not None:
            created()
        with place.opened(path, write=True) as descriptor:
            image = Image(descriptor)
            digest, arrays = _fill(image, record, h5py, meshes=meshes)
            image.store()
    except FileError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"The file '{path}' cannot be created: {reason(error)}") from error
    return replace(record, arrays=arrays, digest=digest)


def _fill(
    image: Image, record: FileRecord, h5py: Any, *, meshes: bool
) -> tuple[int, tuple[ArrayRecord, ...]]:
    """All of a file but values, checksums and digest; the byte offset of its digest, and the arrays
    with theirs.
    """
    with h5py.File(
        image,
        "w",
        driver="fileobj",
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
    return digest, arrays


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


def reason(error: BaseException) -> str:
    """What an error says."""
    if isinstance(error, OSError) and error.errno:
        return system_text(error)
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip("'\"")


def is_parallel() -> bool:
    """Whether the installed h5py was built for MPI. Local."""
    return bool(h5py_module().get_config().mpi)


def write_blocks(
    path: str, record: FileRecord, communicator: Communicator, pieces: Iterable[BlockPiece]
) -> None:
    """As `Communicator.write_blocks`, by an h5py that was built for MPI. Collective.

    Ranks write independently of one another: each has its own number of pieces, of any array.
    """
    h5py = h5py_module()
    names = {array.offset: array.name for array in record.arrays if array.nbytes}
    options = {"driver": "mpio", "comm": communicator.handle, "locking": False}
    # All ranks open and close together, also after an error.
    with (
        agreed(communicator, f"The file '{path}' cannot be written"),
        h5py.File(path, "r+", **options) as file,
    ):
        for piece in pieces:
            file[names[piece.offset]][piece.box.slices()] = piece.values
