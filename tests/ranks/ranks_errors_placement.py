"""Arrays that cannot be gathered, moved or made from what is given."""

from __future__ import annotations

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_gather_and_redistribute() -> None:
    refuse(
        da.ArrayError,
        {
            "u.gather(root=SIZE)": (
                "gather(root=$size) names no rank; use a number from 0 to $last or None for all."
            ),
            "u.gather(root=-1)": (
                "gather(root=-1) names no rank; use a number from 0 to $last or None for all."
            ),
            'u.gather(root="a")': (
                "gather(root='a') names no rank; use a number from 0 to $last or None for all."
            ),
            "u.gather(root=0.0)": (
                "gather(root=0.0) names no rank; use a number from 0 to $last or None for all."
            ),
            "u.gather(root=True)": (
                "gather(root=True) names no rank; use a number from 0 to $last or None for all."
            ),
            "u.redistribute()": (
                "redistribute takes either ranks= or like=, got ranks=None and like=None; "
                "pass one of them."
            ),
            "u.redistribute((1, 1), like=v)": (
                "redistribute takes either ranks= or like=, got ranks=(1, 1) and like=a "
                "DistArray; pass one of them."
            ),
            "u.redistribute(like=3)": (
                "redistribute(like=3) is neither array nor grid; pass one of these."
            ),
            "u.redistribute(like=np.zeros((9, 8)))": (
                "redistribute(like=an array of float64) is neither array nor grid; pass one "
                "of these."
            ),
            "u.redistribute(like=da.zeros((4, 4), ranks=(1, 1)))": (
                "$u cannot be placed as DistArray(shape=(4, 4), dtype=float64, device='$device', "
                "ranks=(1, 1)); both need the same shape."
            ),
            "u.redistribute(like=alone)": (
                "$u cannot be placed as $alone, which lives on another communicator; create "
                "both on one."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            "u.redistribute((SIZE + 1, 1))": (
                "The process grid ($more, 1) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
            "u.redistribute((-1, 1))": (
                "The process grid (-1, 1) does not fit the $size ranks of the communicator; "
                "use whole numbers whose product is not larger, or 0 for a free axis."
            ),
            'u.redistribute("ab")': (
                "ranks must be whole numbers, one or one per axis, not 'ab'; correct it."
            ),
            "u.redistribute((1.5, 1))": (
                "ranks must be whole numbers, one or one per axis, not (1.5, 1); correct it."
            ),
            "u.redistribute((1,))": (
                "ranks has 1 values for 2 axes; give one value or one per axis."
            ),
            "plain.redistribute((SIZE + 1, 1))": (
                "The process grid ($more, 1) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
        },
    )


def test_arrays_of_no_grid() -> None:
    refuse(
        da.GridError,
        {
            "da.zeros(())": (
                "A shape must be one or more whole numbers of at least 0, got (); correct it."
            ),
            "da.zeros(None)": (
                "A shape must be one or more whole numbers of at least 0, got None; correct it."
            ),
            "da.zeros((3, -1))": (
                "A shape must be one or more whole numbers of at least 0, got (3, -1); correct it."
            ),
            "da.asarray(3)": (
                "A shape must be one or more whole numbers of at least 0, got (); correct it."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            "da.zeros((2, 2), ranks=(SIZE + 1, 1))": (
                "The process grid ($more, 1) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
            "da.zeros((2, 2), ranks=(1, 1, 1))": (
                "ranks has 3 values for 2 axes; give one value or one per axis."
            ),
            "da.zeros((2, 2), ranks=(1, 1), halo=3, periodic=True)": (
                "Halo width 3 along axis 0 exceeds the narrowest block, 2 cells (ranks=(1, "
                "1)); use at least 3 cells there or a smaller halo."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "da.zeros((2, 2), dtype=object)": (
                "Element type <class 'object'> is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            "da.full((2, 2), np.float16(1))": (
                "Element type dtype('float16') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            'da.asarray(u, dtype="bad")': (
                "Element type 'bad' is not supported; use bool, an integer type, float32, "
                "float64, complex64 or complex128."
            ),
        },
    )
    refuse(
        da.BackendError,
        {
            'da.zeros((2, 2), device="gpu")': (
                "device='gpu' is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'."
            ),
            "da.zeros((2**40, 2**30))": (
                "An array of shape (1099511627776, 1073741824) of float64 does not fit into "
                "memory (ranks=($size, 1)); use more nodes or fewer cells."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            'da.full((2, 2), "a")': (
                "The value of full must be numbers of at most 64 bits or arrays of them, got "
                "'a'; convert what you give."
            ),
            "da.full((2, 2), [1, 2, 3], ranks=(1, 1))": (
                "Values of shape (3,) do not broadcast to the part of shape (2, 2) of "
                "DistArray(shape=(2, 2), dtype=int64, device='$device', ranks=(1, 1)); match it."
            ),
            'da.asarray("a")': (
                "Values of asarray must be numbers of at most 64 bits or arrays of them, got "
                "'a'; convert what you give."
            ),
            "da.asarray([[1], [2, 3]])": (
                "Values of asarray must be numbers of at most 64 bits or arrays of them, got "
                "[[1], [2, 3]]; convert what you give."
            ),
            'da.asarray(["a", "b"])': (
                "Values of asarray must be numbers of at most 64 bits or arrays of them, got "
                "['a', 'b']; convert what you give."
            ),
            "da.asarray([10**30, 1])": (
                "Values of asarray must be numbers of at most 64 bits or arrays of them, got "
                "[1000000000000000000000000000000, 1]; convert what you give."
            ),
            "da.asarray([1j], dtype=float)": (
                "Values assigned to DistArray(shape=(1,), dtype=float64, device='$device', "
                "ranks=(1,)) are complex and do not fit float64; take their real part."
            ),
            "da.asarray([300], dtype=np.uint8)": (
                "Values assigned to DistArray(shape=(1,), dtype=uint8, device='$device', "
                "ranks=(1,)) (300 to 300) do not fit uint8, which holds 0 to 255; use "
                "another element type."
            ),
        },
    )


def test_values_of_one_rank() -> None:
    refuse(
        da.ArrayError,
        {
            'da.from_root("a")': (
                "Values of from_root must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
            "da.from_root([[1], [2, 3]])": (
                "Values of from_root must be numbers of at most 64 bits or arrays of them, "
                "got [[1], [2, 3]]; convert what you give."
            ),
            "da.from_root(object())": (
                "Values of from_root must be numbers of at most 64 bits or arrays of them, "
                "got an object; convert what you give."
            ),
            "da.from_root(np.zeros(3), root=SIZE)": (
                "from_root(root=$size) names no rank; use a number from 0 to $last."
            ),
            'da.from_root(np.zeros(3), root="a")': (
                "from_root(root='a') names no rank; use a number from 0 to $last."
            ),
            "da.from_root(np.zeros(3), like=3)": (
                "from_root(like=3) is neither array nor grid; pass one of these."
            ),
            "da.from_root(np.zeros(3), like=u)": (
                "Values of shape (3,) do not fit $u; their last axes must have (9, 8) entries."
            ),
            "da.from_root(np.zeros(3), like=grid)": (
                "Values of shape (3,) do not fit $grid; their last axes must have (9, 8) entries."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "da.from_root(np.zeros(3, np.float16))": (
                "Element type dtype('float16') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            "da.from_root(np.zeros((9, 8)), ranks=(SIZE + 1, 1))": (
                "The process grid ($more, 1) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
        },
    )


def test_map_along() -> None:
    refuse(
        da.ArrayError,
        {
            "da.map_along(u, 5, np.sort)": "axis=5 is none of the 2 axes of $u; use 0 to 1.",
            'da.map_along(plain, "x", np.sort)': (
                "axis='x' is none of the 2 axes of $plain; use 0 to 1."
            ),
            "da.map_along(u, 0, 3)": "map_along takes a function, got 3; pass one.",
            "da.map_along(u, 0, lambda block, axis: block)": (
                "The function of map_along is called as f(block), but it takes 2 arguments "
                "(block, axis); let it take these."
            ),
            "da.map_along(3, 0, np.sort)": (
                "map_along takes distributed arrays, got 3; make one with distarray.asarray."
            ),
            "da.map_along(u, 0, lambda block: block[:1])": (
                "The function of map_along changed the shape of a block of $u; return values "
                "of the shape it is given."
            ),
            "da.map_along(u, 0, lambda block: None)": (
                "Values of the function of map_along must be numbers of at most 64 bits or "
                "arrays of them, got None; convert what you give."
            ),
        },
    )
    refuse(
        da.GridError,
        {
            'da.map_along(u, "q", np.sort)': (
                "Axis 'q' is none of this grid's; use 0 to 1 or one of x, y."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "da.map_along(u, 0, lambda block: block.astype(np.float16))": (
                "Element type dtype('float16') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
        },
    )
