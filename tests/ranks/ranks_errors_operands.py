"""Operands, ufuncs and NumPy functions that arrays do not take."""

from __future__ import annotations

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_operands_that_do_not_fit() -> None:
    refuse(
        da.ArrayError,
        {
            "u + v": (
                "$u and $v are spread differently over the ranks; use redistribute(like=...) "
                "on one of them."
            ),
            "u + faces": (
                "$u and $faces differ in shape or location; interpolate by a stencil or "
                "select equal parts."
            ),
            "u + other": "$u and $other lie on different grids; create both on one grid.",
            "u + alone": "$u and $alone live on different communicators; create both on one.",
            "vector + pair": (
                "Components (3,) and (2,) do not broadcast; select components of equal shape."
            ),
            "u + [1, 2]": (
                "A NumPy array of shape (2,) does not broadcast with $u; match its shape."
            ),
            "u + [[1], [2, 3]]": (
                "What is combined with $u must be numbers of at most 64 bits or arrays of "
                "them, got [[1], [2, 3]]; convert what you give."
            ),
            "u + np.zeros(7)": (
                "A NumPy array of shape (7,) does not broadcast with $u; match its shape."
            ),
            "u + np.zeros((9, 8)).astype(object)": (
                "What is combined with $u must be numbers of at most 64 bits or arrays of "
                "them, got an array of object; convert what you give."
            ),
            'u + np.array(["a"] * 8)': (
                "What is combined with $u must be numbers of at most 64 bits or arrays of "
                "them, got an array of <U1; convert what you give."
            ),
            "u + grid.profile(1, np.arange(9))": (
                "Profile(axis='y', shape=(9,), dtype=int64) does not fit $u; both must be of "
                "one grid, and of one location along the axis."
            ),
            "periodic.profile(1, np.arange(8)) * u": (
                "Profile(axis='y', shape=(8,), dtype=int64) does not fit $u; both must be of "
                "one grid, and of one location along the axis."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            'u + "a"': (
                "$u does not combine with 'a'; use numbers, NumPy arrays or distributed arrays."
            ),
            "u + None": (
                "$u does not combine with None; use numbers, NumPy arrays or distributed arrays."
            ),
            "u + object()": (
                "$u does not combine with an object; use numbers, NumPy arrays or "
                "distributed arrays."
            ),
            "u == None": (
                "$u does not combine with None; use numbers, NumPy arrays or distributed arrays."
            ),
        },
    )


def test_operations_that_numpy_refuses_too() -> None:
    refuse(
        da.UnsupportedError,
        {
            "u + np.longdouble(1)": (
                "Element type dtype('float128') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            "flags - flags": "numpy.subtract does not take bool and bool (...",
            "-flags": "numpy.negative does not take bool (...",
            "phasor // 2": "numpy.floor_divide does not take complex128 and 2 (...",
            "~u": "numpy.invert does not take float64 (...",
            "u << 1": "numpy.left_shift does not take float64 and 1 (...",
            "np.add(u, 1j, out=u)": "numpy.add does not take float64 and 1j (...",
            "np.add(u, u, out=whole)": "numpy.add does not take float64 and float64 (...",
            "whole.__itruediv__(2)": "numpy.divide does not take int64 and 2 (...",
            "np.add(u, u, dtype=object)": (
                "Element type dtype('O') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            "np.add(u, u, dtype=np.float16)": (
                "Element type dtype('float16') is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            'np.nan_to_num(u, nan="a")': "numpy.nan_to_num does not take float64 (...",
            'np.round(u, decimals="a")': "numpy.round does not take float64 (...",
        },
    )
    refuse(
        da.ArrayError,
        {
            "whole + 10**30": (
                "numpy.add does not take int64 and 1000000000000000000000000000000 (..."
            ),
            "grid.zeros(dtype=np.uint8) + 300": "numpy.add does not take uint8 and 300 (...",
            "whole ** -1": "numpy.power does not take int64 and -1 (...",
            'np.add(u, u, casting="wild")': "numpy.add does not take float64 and float64 (...",
        },
    )


def test_ufuncs_beyond_elementwise() -> None:
    refuse(
        da.UnsupportedError,
        {
            "u @ u": "numpy.matmul is not supported on distributed arrays; call gather() first.",
            "np.add.reduce(u)": (
                "numpy.add.reduce is not supported on distributed arrays; call gather() first."
            ),
            "np.add.at(u, 0, 1)": (
                "numpy.add.at is not supported on distributed arrays; call gather() first."
            ),
            "np.add(u, u, where=u > 0)": (
                "numpy.add with where= is not supported on distributed arrays; use numpy.where."
            ),
            'np.add(u, u, signature="dd->d")': (
                "numpy.add with signature= is not supported on distributed arrays; leave it out."
            ),
            "np.add(u, u, out=np.zeros((9, 8)))": (
                "numpy.add of distributed arrays needs distributed arrays as out=, got "
                "ndarray; leave out= away or make one with empty_like."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            "np.add(vector, 1, out=u)": (
                "The result of numpy.add has components (3,), out= has (); give an out= with "
                "the components of the result."
            ),
            "np.add(u, u, out=v)": (
                "$v and $u are spread differently over the ranks; use redistribute(like=...) "
                "on one of them."
            ),
        },
    )


def test_numpy_functions() -> None:
    refuse(
        da.UnsupportedError,
        {
            "np.concatenate([u, u])": (
                "numpy.concatenate is not supported on distributed arrays; call gather() and "
                "apply it to the result."
            ),
            "np.sort(u)": (
                "numpy.sort is not supported on distributed arrays; call gather() and apply "
                "it to the result."
            ),
            "np.linalg.norm(u)": (
                "numpy.linalg.norm is not supported on distributed arrays; call gather() and "
                "apply it to the result."
            ),
            "np.fft.fft(u)": (
                "numpy.fft.fft is not supported on distributed arrays; call gather() and "
                "apply it to the result."
            ),
            "np.dot(u, u)": (
                "numpy.dot is not supported on distributed arrays; call gather() and apply "
                "it to the result."
            ),
            "np.sum(u, keepdims=True)": (
                "numpy.sum with these arguments is not supported on distributed arrays (got "
                "an unexpected keyword argument 'keepdims'); leave the optional ones out."
            ),
            "np.mean(u, out=u)": (
                "numpy.mean with these arguments is not supported on distributed arrays (got "
                "an unexpected keyword argument 'out'); leave the optional ones out."
            ),
            "np.where(u > 0)": (
                "numpy.where with these arguments is not supported on distributed arrays "
                "(missing a required argument: 'x'); leave the optional ones out."
            ),
            'np.where(True, u, "a")': (
                "$u does not combine with 'a'; use numbers, NumPy arrays or distributed arrays."
            ),
            'np.clip(u, "a", 1)': (
                "$u does not combine with 'a'; use numbers, NumPy arrays or distributed arrays."
            ),
            "np.zeros_like(u, dtype=object)": (
                "Element type <class 'object'> is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            'np.empty_like(u, dtype="bad")': (
                "Element type 'bad' is not supported; use bool, an integer type, float32, "
                "float64, complex64 or complex128."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            "np.size(u, axis=7)": "axis=7 must be different axes of the 2 of $u; use 0 to 1.",
            'np.full_like(u, "a")': (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "'a'; convert what you give."
            ),
        },
    )


def test_what_is_no_plain_array() -> None:
    refuse(
        da.UnsupportedError,
        {
            "bool(u)": (
                "The truth value of $u is ambiguous; use any() or all(), and distarray.where "
                "in kernels."
            ),
            "list(u)": (
                "Iteration over cells of $u is not supported; use operators, a stencil or gather()."
            ),
            "u.astype(object)": (
                "Element type <class 'object'> is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            "u.astype(np.float16)": (
                "Element type <class 'numpy.float16'> is not supported; use bool, an integer "
                "type, float32, float64, complex64 or complex128."
            ),
            'u.astype("bad")': (
                "Element type 'bad' is not supported; use bool, an integer type, float32, "
                "float64, complex64 or complex128."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            "phasor.astype(float)": "$phasor cannot become float64; convert its real part.",
            'u.fill("a")': (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
        },
    )
    refuse(
        da.BackendError,
        {
            'u.to("gpu")': ("device='gpu' is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'."),
            "u.to(None)": ("device=None is unknown; use 'auto', 'cpu', 'cuda' or 'simulated'."),
        },
    )
