"""Axes, indices and assigned values that do not fit an array."""

from __future__ import annotations

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_reductions() -> None:
    refuse(
        da.ArrayError,
        {
            "u.sum(axis=2)": "axis=2 must be different axes of the 2 of $u; use 0 to 1.",
            "u.sum(axis=-3)": "axis=-3 must be different axes of the 2 of $u; use 0 to 1.",
            'u.sum(axis="x")': "axis='x' must be different axes of the 2 of $u; use 0 to 1.",
            "u.sum(axis=1.0)": "axis=1.0 must be different axes of the 2 of $u; use 0 to 1.",
            "u.mean(axis=(0, 0))": "axis=(0, 0) must be different axes of the 2 of $u; use 0 to 1.",
            "u.argmin(axis=5)": "axis=5 must be different axes of the 2 of $u; use 0 to 1.",
            'u.var(ddof="a")': "ddof='a' of a variance is no number; use 0 or 1.",
            "da.zeros((0, 4)).min()": (
                "min of an array without elements is not defined; check its size first."
            ),
            "da.zeros((0, 4)).argmin()": (
                "argmin of an array without elements is not defined; check its size first."
            ),
            "da.zeros((0, 4)).min(axis=0)": (
                "min over axes (0,) without elements is not defined; check the shape first."
            ),
            "da.begin_sum(3)": (
                "begin_sum takes distributed arrays, got 3; make one with distarray.asarray."
            ),
            "da.begin_min(np.zeros(3))": (
                "begin_min takes distributed arrays, got an array of float64; make one with "
                "distarray.asarray."
            ),
            "da.dot(u, 3)": "dot takes distributed arrays, got 3; make one with distarray.asarray.",
            "da.dot(u, v)": (
                "$u and $v are spread differently over the ranks; use redistribute(like=...) "
                "on one of them."
            ),
            "da.dot(u, vector)": (
                "$u and $vector differ in components; select components of one shape."
            ),
            "da.norm(None)": (
                "norm takes distributed arrays, got None; make one with distarray.asarray."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "u.argmin(axis=(0, 1))": (
                "argmin goes over one axis or all (axis=None), got axis=(0, 1); name one."
            ),
            "phasor.min()": (
                "min of complex values (complex128) is not defined; reduce abs(u), u.real or "
                "u.imag."
            ),
            "phasor.argmax()": (
                "argmax of complex values (complex128) is not defined; reduce abs(u), u.real "
                "or u.imag."
            ),
            "phasor.max(axis=0)": (
                "max of complex values (complex128) is not defined; reduce abs(u), u.real or "
                "u.imag."
            ),
            "da.begin_max(phasor)": (
                "max of complex values (complex128) is not defined; reduce abs(u), u.real or "
                "u.imag."
            ),
        },
    )


def test_indices() -> None:
    refuse(
        da.IndexingError,
        {
            "u[9]": "Index 9 is outside axis 0 of $u with 9 entries; use -9 to 8.",
            "u[-10]": "Index -10 is outside axis 0 of $u with 9 entries; use -9 to 8.",
            "u[0, 0, 0]": "Index (0, 0, 0) does not fit $u; use at most 2 indices.",
            "u[..., ...]": "Index (Ellipsis, Ellipsis) does not fit $u; use at most one ellipsis.",
            "u[0:2:0]": (
                "slice(0, 2, 0) along axis 0 of $u is no slice of whole numbers (slice step "
                "cannot be zero); correct it."
            ),
            'u["a":3]': (
                "slice('a', 3, None) along axis 0 of $u is no slice of whole numbers (slice "
                "indices must be integers or None or have an __index__ method); correct it."
            ),
            "u[..., 9]": "Index 9 is outside axis 1 of $u with 8 entries; use -8 to 7.",
            "vector[3]": "Index 3 is outside axis 0 of $vector with 3 entries; use -3 to 2.",
            "vector[0, 9]": "Index 9 is outside axis 1 of $vector with 9 entries; use -9 to 8.",
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "u[1.0]": (
                "Index 1.0 of $u is not supported; use integers and slices, numpy.where, or "
                "gather()."
            ),
            'u["x"]': (
                "Index 'x' of $u is not supported; use integers and slices, numpy.where, or "
                "gather()."
            ),
            "u[None]": (
                "Index None of $u is not supported; use integers and slices, numpy.where, or "
                "gather()."
            ),
            "u[[0, 1]]": (
                "Index [0, 1] of $u is not supported; use integers and slices, numpy.where, "
                "or gather()."
            ),
            "u[np.array([1, 2])]": (
                "Index an array of int64 of $u is not supported; use integers and slices, "
                "numpy.where, or gather()."
            ),
            "u[u > 0]": (
                "Index a DistArray of $u is not supported; use integers and slices, "
                "numpy.where, or gather()."
            ),
            "u[True]": (
                "Index True of $u is not supported; use integers and slices, numpy.where, or "
                "gather()."
            ),
            "u[object()]": (
                "Index an object of $u is not supported; use integers and slices, "
                "numpy.where, or gather()."
            ),
        },
    )


def test_assignments() -> None:
    refuse(
        da.IndexingError,
        {
            "u.__setitem__(9, 0)": "Index 9 is outside axis 0 of $u with 9 entries; use -9 to 8.",
            "u.__setitem__((0, 0, 0), 0)": (
                "Index (0, 0, 0) does not fit $u; use at most 2 indices."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "u.__setitem__(u > 0, 0)": (
                "Index a DistArray of $u is not supported; use integers and slices, "
                "numpy.where, or gather()."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            'u.__setitem__(..., "a")': (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
            "u.__setitem__(..., None)": (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got None; convert what you give."
            ),
            "u.__setitem__(..., object())": (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got an object; convert what you give."
            ),
            "u.__setitem__(..., [[1], [2, 3]])": (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got [[1], [2, 3]]; convert what you give."
            ),
            "u.__setitem__(..., 1j)": (
                "Values assigned to $u are complex and do not fit float64; take their real part."
            ),
            "u.__setitem__(..., phasor)": (
                "Complex values cannot be assigned to $u; take their real part."
            ),
            "u.__setitem__(..., np.zeros(7))": (
                "Values of shape (7,) do not broadcast to the part of shape (9, 8) of $u; match it."
            ),
            "u.__setitem__(..., np.zeros((9, 8), object))": (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got an array of object; convert what you give."
            ),
            "u.__setitem__(..., vector)": (
                "Values with components (3,) do not fit components (); select components of "
                "one shape."
            ),
            "u.__setitem__(..., faces)": (
                "$faces does not fit a part of shape (9, 8) of $u; both need the same shape."
            ),
            "u.__setitem__(slice(0, 3), u)": (
                "$u does not fit a part of shape (3, 8) of $u; both need the same shape."
            ),
            "u.__setitem__(slice(0, 3), np.zeros(3))": (
                "Values of shape (3,) do not broadcast to the part of shape (3, 8) of $u; match it."
            ),
            'u.__setitem__(slice(0, 0), "a")': (
                "Values assigned to $u must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
            "u.__setitem__(..., alone)": (
                "$alone lives on another communicator than $u; create both on one."
            ),
            "u.__setitem__(slice(0, 3), grid.profile(1, np.arange(8)))": (
                "A profile can be assigned to whole grid axes only; assign to all points of $u."
            ),
            "u.__setitem__(..., grid.profile(1, np.arange(9)))": (
                "Profile(axis='y', shape=(9,), dtype=int64) does not fit $u; both must be of "
                "one grid, and of one location along the axis."
            ),
            "vector.__setitem__(slice(0, 2), grid.zeros(components=(3,)))": (
                "Values with components (3,) do not fit components (2,); select components "
                "of one shape."
            ),
            'whole.__setitem__(..., float("nan"))': (
                "Values assigned to $whole (nan) do not fit int64, which holds "
                "-9223372036854775808 to 9223372036854775807; use another element type."
            ),
            "whole.__setitem__(..., 10**30)": (
                "Values assigned to $whole must be numbers of at most 64 bits or arrays of "
                "them, got 1000000000000000000000000000000; convert what you give."
            ),
            "whole.__setitem__(..., np.array([2.0**70] * 8))": (
                "Values assigned to $whole (1.1805916207174113e+21 to "
                "1.1805916207174113e+21) do not fit int64, which holds -9223372036854775808 "
                "to 9223372036854775807; use another element type."
            ),
        },
    )
