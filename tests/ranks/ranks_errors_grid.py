"""Grids that are described wrongly."""

from __future__ import annotations

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_the_shape_and_the_halo() -> None:
    refuse(
        da.GridError,
        {
            "da.Grid(())": (
                "A shape must be one or more whole numbers of at least 1, got (); correct it."
            ),
            "da.Grid(None)": (
                "A shape must be one or more whole numbers of at least 1, got None; correct it."
            ),
            'da.Grid("abc")': (
                "A shape must be one or more whole numbers of at least 1, got 'abc'; correct it."
            ),
            "da.Grid((8, 0))": (
                "A shape must be one or more whole numbers of at least 1, got (8, 0); correct it."
            ),
            "da.Grid((8.0, 8))": (
                "A shape must be one or more whole numbers of at least 1, got (8.0, 8); correct it."
            ),
            "da.Grid((8, 8), halo=-1)": (
                "Halo widths must be whole numbers from 0, got halo=-1; use 0 for none."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            "da.Grid((8, 8), halo=1.5)": (
                "halo must be whole numbers, one or one per axis, not 1.5; correct it."
            ),
            'da.Grid((8, 8), halo="1")': (
                "halo must be whole numbers, one or one per axis, not '1'; correct it."
            ),
            "da.Grid((8, 8), halo=(1, 2, 3))": (
                "halo has 3 values for 2 axes; give one value or one per axis."
            ),
            "da.Grid((2 * SIZE, 4), halo=(2 * SIZE + 1, 1), ranks=(SIZE, 1), periodic=True)": (
                "Halo width $wide along axis 0 exceeds the narrowest block, 2 cells (ranks=($size, "
                "1)); use at least $wide cells there or a smaller halo."
            ),
            'da.Grid((8, 8), periodic="no")': (
                "periodic must be True or False, one or one per axis, not 'no'; correct it."
            ),
            "da.Grid((8, 8), periodic=None)": (
                "periodic must be True or False, one or one per axis, not None; correct it."
            ),
            "da.Grid((8, 8), periodic=2)": (
                "periodic must be True or False, one or one per axis, not 2; correct it."
            ),
            "da.Grid((8, 8), periodic=(True,))": (
                "periodic has 1 values for 2 axes; give one value or one per axis."
            ),
        },
    )
    refuse(
        da.BackendError,
        {
            "da.Grid((10**10, 10**10)).zeros()": (
                "An array of shape (10000000000, 10000000000) of float64 does not fit into "
                "memory (ranks=($size, 1)); use more nodes or fewer cells."
            ),
        },
    )


def test_the_process_grid() -> None:
    refuse(
        da.DecompositionError,
        {
            "da.Grid((8, 8), ranks=(SIZE + 1, 1))": (
                "The process grid ($more, 1) has $more ranks, the communicator has $size; "
                "make their numbers equal or leave an axis free with 0."
            ),
            "da.Grid((8, 8), ranks=(SIZE + 1, 0))": (
                "The process grid ($more, 0) cannot be completed to $size ranks; its fixed "
                "axes must divide $size."
            ),
            "da.Grid((8, 8), ranks=(-1, 0))": (
                "The process grid (-1, 0) cannot be completed to $size ranks; its fixed axes "
                "must divide $size."
            ),
            "da.Grid((8, 8), ranks=(1.5, SIZE))": (
                "ranks must be whole numbers, one or one per axis, not (1.5, $size); correct it."
            ),
            'da.Grid((8, 8), ranks="ab")': (
                "ranks must be whole numbers, one or one per axis, not 'ab'; correct it."
            ),
            "da.Grid((8, 8), ranks=(None, None))": (
                "ranks must be whole numbers, one or one per axis, not (None, None); correct it."
            ),
            "da.Grid((8, 8), ranks=(SIZE,))": (
                "ranks has 1 values for 2 axes; give one value or one per axis."
            ),
            "da.Decomposition((4, 4), (1,))": (
                "The process grid (1,) has 1 axes, the shape (4, 4) has 2; give one number "
                "of ranks per axis."
            ),
            "da.Decomposition((4, -4), (1, 1))": (
                "Axis 1 has -4 cells over 1 ranks; cells must not be negative and ranks must "
                "be at least 1."
            ),
            "da.Decomposition((4, 4), (1, 0))": (
                "Axis 1 has 4 cells over 0 ranks; cells must not be negative and ranks must "
                "be at least 1."
            ),
            "da.Decomposition((4, 4), (5, 1))": (
                "Axis 0 has 4 cells, fewer than its 5 ranks (ranks=(5, 1)); use at most 4 "
                "ranks there."
            ),
            "da.Decomposition((4, 4), (2, 1), halo=3)": (
                "Halo width 3 along axis 0 exceeds the narrowest block, 2 cells (ranks=(2, "
                "1)); use at most 1 ranks there or a smaller halo."
            ),
            "da.Decomposition((4, 4), (1, 1), halo=-1)": (
                "Halo widths must not be negative, got halo=-1; use 0 for none."
            ),
            "da.Decomposition((4.5, 4), (1, 1))": (
                "shape of a decomposition must be whole numbers, one per axis, not (4.5, 4); "
                "correct it."
            ),
            "da.Decomposition(None, (1, 1))": (
                "shape of a decomposition must be whole numbers, one per axis, not None; "
                "correct it."
            ),
            'da.Decomposition((4, 4), (1, 1), periodic="xy")': (
                "periodic must be True or False, one or one per axis, not 'xy'; correct it."
            ),
        },
    )


def test_bounds_and_coordinates() -> None:
    refuse(
        da.GridError,
        {
            "da.Grid((8, 8), bounds=5)": (
                "bounds must be a list of pairs (low, high), got 5; give one per axis."
            ),
            "da.Grid((8, 8), bounds=[(0, 1)])": (
                "bounds has 1 entries for 2 axes; give one (low, high) per axis."
            ),
            "da.Grid((8, 8), bounds=[(0, 1), (1, 0)])": (
                "Bounds of axis y must be two finite numbers, low below high, got (1, 0); "
                "correct them."
            ),
            'da.Grid((8, 8), bounds=[(0, 1), (float("nan"), 1)])': (
                "Bounds of axis y must be two finite numbers, low below high, got (nan, 1); "
                "correct them."
            ),
            'da.Grid((8, 8), bounds=[(0, 1), "ab"])': (
                "Bounds of axis y must be two finite numbers, low below high, got 'ab'; "
                "correct them."
            ),
            "da.Grid((8, 8), coordinates=[1, 2])": (
                "coordinates must be a dict from names of axes to face positions, got [1, "
                "2]; write coordinates={'x': positions}."
            ),
            'da.Grid((8, 8), coordinates={"q": [1]})': (
                "coordinates name the axis 'q'; use one of x, y."
            ),
            'da.Grid((8, 8), coordinates={"x": [1]})': (
                "Axis x has 8 cells and needs 9 face positions in coordinates, got shape "
                "(1,); give one per face, both ends counted."
            ),
            'da.Grid((8, 8), coordinates={"x": np.zeros(9)})': (
                "Face positions of axis x must be finite and increase from face to face; sort them."
            ),
            'da.Grid((8, 8), coordinates={"x": "positions"})': (
                "Face positions of axis x must be numbers of at most 64 bits or arrays of "
                "them, got 'positions'; convert what you give."
            ),
            'da.Grid((8, 8), coordinates={"x": 1j * np.arange(9)})': (
                "Face positions of axis x are complex; give real ones."
            ),
            'da.Grid((8, 8), coordinates={"x": np.arange(9.0)}, bounds=[(0, 1), (0, 1)])': (
                "Bounds (0, 1) of axis x differ from the ends (0.0, 8.0) of its face "
                "positions; give one of both."
            ),
            "da.Grid((2, 2, 2, 2))": (
                "axes=('x', 'y', 'z') names 3 axes of 4; give one letter per axis."
            ),
            'da.Grid((8, 8), axes="xx")': (
                "Names of axes must be different single letters, got axes='xx'; rename them."
            ),
            "da.Grid((8, 8), axes=None)": "axes=None names 0 axes of 2; give one letter per axis.",
            'da.Grid((8, 8), axes=("r", "theta"))': (
                "Names of axes must be different single letters, got axes=('r', 'theta'); "
                "rename them."
            ),
        },
    )


def test_the_device_and_the_communicator() -> None:
    refuse(
        da.BackendError,
        {
            'da.Grid((8, 8), device="tpu")': (
                "device='tpu' is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'."
            ),
            "da.Grid((8, 8), device=None)": (
                "device=None is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'."
            ),
        },
    )
    refuse(
        da.CommunicationError,
        {
            "da.Grid((8, 8), comm=3)": (
                "comm must be an mpi4py intracommunicator or None, not 3; pass "
                "mpi4py.MPI.COMM_WORLD, a part of it, or None."
            ),
            'da.Grid((8, 8), comm="world")': (
                "comm must be an mpi4py intracommunicator or None, not 'world'; pass "
                "mpi4py.MPI.COMM_WORLD, a part of it, or None."
            ),
            "da.Grid((8, 8), comm=MPI.COMM_NULL)": (
                "comm must be an mpi4py intracommunicator or None, not a Comm; pass "
                "mpi4py.MPI.COMM_WORLD, a part of it, or None."
            ),
            "da.zeros((3, 3), comm=object())": (
                "comm must be an mpi4py intracommunicator or None, not an object; pass "
                "mpi4py.MPI.COMM_WORLD, a part of it, or None."
            ),
            "da.log(comm=3)": (
                "comm must be an mpi4py intracommunicator or None, not 3; pass "
                "mpi4py.MPI.COMM_WORLD, a part of it, or None."
            ),
        },
    )
