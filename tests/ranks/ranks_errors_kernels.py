"""Kernels that break a rule, and arguments that do not fit them."""

from __future__ import annotations

from typing import Any

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


@da.stencil
def lap(u: Any, new: Any, *, r: Any = 1.0) -> None:
    new[0, 0] = u[1, 0] + u[-1, 0] + r * u[0, 1]


@da.stencil
def wide(u: Any, new: Any) -> None:
    new[0, 0] = u[2, 0]


@da.stencil
def line(u: Any, new: Any) -> None:
    new[0] = u[1]


@da.stencil
def needs(u: Any, new: Any, *, r: Any) -> None:
    new[0, 0] = r * u[0, 0]


@da.stencil(static=("order",))
def static(u: Any, new: Any, *, order: Any) -> None:
    new[0, 0] = order * u[0, 0]


@da.stencil
def positions(u: Any) -> None:
    u[0, 0] = da.coordinate(0)


@da.stencil(colours=2)
def smooth(u: Any, new: Any) -> None:
    new[0, 0] = new[1, 1] + u[0, 0]


KERNELS = {kernel.name: kernel for kernel in (lap, wide, line, needs, static, positions, smooth)}


def test_arrays_that_do_not_fit_the_kernel() -> None:
    refuse(
        da.StencilError,
        {
            "lap()": "Kernel lap takes 2 arrays (u, new), but got 0; pass one for each.",
            "lap(u, new, u)": "Kernel lap takes 2 arrays (u, new), but got 3; pass one for each.",
            "lap(u, 3)": (
                "Kernel lap gets new of type int; pass a DistArray or a profile of "
                "a grid, and write scalars after a `*`."
            ),
            "lap(u, None)": (
                "Kernel lap gets new of type NoneType; pass a DistArray or a profile of "
                "a grid, and write scalars after a `*`."
            ),
            "lap(u, np.zeros((9, 8)))": (
                "Kernel lap gets new of type ndarray; pass a DistArray or a profile of "
                "a grid, and write scalars after a `*`."
            ),
            "lap(u, v)": (
                "Kernel lap got arrays of different grids: new is $v, beside $u, and "
                "their grids differ in periodic ((True, True) and (False, False)); use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            'lap(u, other.grid.zeros(name="new"))': (
                "Kernel lap got arrays of different grids: new is $new, beside $u, and "
                "their grids differ in bounds (((0.0, 2.0), (0.0, 1.0)) and ((0.0, 1.0), (0.0, "
                "1.0))); use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            "lap(u, plain)": (
                "Kernel lap got arrays of different grids: new is $plain, beside $u, and "
                "only the second was made by a grid; use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            "lap(u, alone)": (
                "Kernel lap got arrays of different grids: new is $alone, beside $u, and "
                "they are shared by different communicators; use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            "lap(u, da.Grid((7, 8), ranks=(SIZE, 1), periodic=True).zeros())": (
                "Kernel lap got arrays of different grids: new is DistArray(shape=(7, 8), "
                "dtype=float64, device='$device', ranks=($size, 1)), beside $u, and their "
                "grids differ in shape ((7, 8) and (9, 8)), periodic ((True, True) and (False, "
                "False)); use arrays of one grid, or of grids related by coarsen()."
            ),
            "lap(u, da.Grid((9, 8), ranks=(SIZE, 1), coordinates={'x': np.linspace(0, 1, 10) ** 2})"
            ".zeros(name='new'))": (
                "Kernel lap got arrays of different grids: new is $new, beside $u, and "
                "their grids differ in the positions of cells along x; use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            "lap(u, u)": (
                "Kernel lap got one array as new and as u, writes new (here) and reads u[1, "
                "0]; pass two arrays, the second made by copy() if need be (iterate returns one of "
                "the arrays it was given)."
            ),
            "lap(vector, new)": (
                "Kernel lap (here) indexes u with (1, 0) before choosing one of its "
                "components (3,); write u[component][0, 0]."
            ),
            "lap(u, vector)": (
                "Kernel lap (here) uses new without choosing one of its components (3,); "
                "write new[component][0, 0]."
            ),
            "lap(vector[0], vector[0])": (
                "Kernel lap got one array as new and as u, writes new (here) and reads u[1, "
                "0]; pass two arrays, the second made by copy() if need be (iterate returns one of "
                "the arrays it was given)."
            ),
            "wide(u, new)": (
                "Kernel wide (here) reads u at a distance of 2 cells along axis 0, beyond "
                "its halo of 1; create the array or its grid with halo=2."
            ),
            "lap(narrow, new)": (
                "Kernel lap (here) reads u at a distance of 1 cells along axis 0, beyond its "
                "halo of 0; create the array or its grid with halo=1."
            ),
            "lap(grid.profile(0, np.arange(9)), grid.profile(0, np.arange(9)))": (
                "Kernel lap got profiles only; pass at least one DistArray."
            ),
            "lap(u, grid.profile(0, np.arange(9)))": (
                "Kernel lap (here) writes the profile new; profiles are read only, write to "
                "an array of the grid."
            ),
            "line(u, new)": (
                "Kernel line (here) indexes u with 1, which needs one offset for each of 2 "
                "axes; write u[0, 0]."
            ),
            "line(da.zeros((9,), ranks=(SIZE,)), da.zeros((9,), ranks=(SIZE,)))": (
                "Kernel line (here) reads u at a distance of 1 cells along axis 0, beyond "
                "its halo of 0; create the array or its grid with halo=1."
            ),
            "positions(plain)": (
                "A kernel uses da.coordinate or da.spacing on arrays that lie on no grid; "
                "create them with a da.Grid."
            ),
            "lap(phasor, new)": (
                "Kernel lap (here) converts complex128 to float64, which drops the imaginary "
                "part; take .real first."
            ),
            "smooth(u, new)": (
                "Kernel smooth (here) reads new[1, 1], a point of the colour that is being "
                "written; with colours=2 read written arrays at zero or at offsets of odd "
                "sum."
            ),
        },
        KERNELS,
    )


def test_scalars() -> None:
    refuse(
        da.StencilError,
        {
            "lap(u, new, q=3)": (
                "Kernel lap has no scalar named 'q'; its scalars, those after a `*`, are: r."
            ),
            'lap(u, new, r="a")': (
                "Kernel lap got r='a', but a scalar must be a number; pass one, or an array "
                "as a positional argument."
            ),
            "lap(u, new, r=None)": (
                "Kernel lap got r=None, but a scalar must be a number; pass one, or an array "
                "as a positional argument."
            ),
            "lap(u, new, r=[1])": (
                "Kernel lap got r=[1], but a scalar must be a number; pass one, or an array "
                "as a positional argument."
            ),
            "lap(u, new, r=np.zeros(3))": (
                "Kernel lap got r=an array of float64, but a scalar must be a number; pass "
                "one, or an array as a positional argument."
            ),
            "lap(u, new, r=u)": (
                "Kernel lap got r=a DistArray, but a scalar must be a number; pass one, or "
                "an array as a positional argument."
            ),
            "lap(u, new, r=1j)": (
                "Kernel lap (here) converts complex128 to float64, which drops the imaginary "
                "part; take .real first."
            ),
            "needs(u, new)": (
                "Kernel needs needs the scalar 'r', which was not given; call it with r=value."
            ),
            "needs(u, new, R=2.0)": (
                "Kernel needs needs the scalar 'r', which was not given (got R); call it with "
                "r=value."
            ),
            "static(u, new, order=[1])": (
                "Kernel static got static values ([1],), which cannot be told apart by a "
                "hash; pass numbers, strings or tuples."
            ),
            'static(u, new, order="high")': (
                "Kernel static (here) uses the str 'high' from outside; pass arrays as "
                "positional and numbers as keyword parameters."
            ),
            "static(u, new)": (
                "Kernel static needs the scalar 'order', which was not given; call it with "
                "order=value."
            ),
            'lap.source("rust")': (
                "Kernel lap has no source in the language 'rust'; ask for 'c' or 'cuda'."
            ),
            'lap.source("c", u)': (
                "Kernel lap takes 2 arrays (u, new), but got 1; pass one for each."
            ),
            'lap.source("c", 3, 3)': (
                "Kernel lap gets u of type int; pass a DistArray or a profile of "
                "a grid, and write scalars after a `*`."
            ),
            'static.source("c", u, new)': (
                "Kernel static has no default for the static order, so that its source is "
                "known after a call only; call it and leave the arrays out."
            ),
        },
        KERNELS,
    )


def test_definitions() -> None:
    refuse(
        da.StencilError,
        {
            "da.stencil(3)": "da.stencil takes a function, got 3; decorate one.",
            'da.stencil("a")': "da.stencil takes a function, got 'a'; decorate one.",
            "da.stencil(colours=3)(lambda u: None)": "Kernel <lambda> has colours=3; use 1 or 2.",
            'da.stencil(static=("q",))(lambda u: None)': (
                "Kernel <lambda> marks 'q' as static, which is none of its keyword-only "
                "parameters (it has none); put it behind a * in the definition."
            ),
            "da.stencil(lambda u, *, overlap: None)": (
                "Kernel <lambda> names a scalar 'overlap', which is an option of apply; "
                "choose another name."
            ),
            "da.stencil(lambda u, **k: None)": (
                "Kernel <lambda> (here) takes **k; name every array and every scalar."
            ),
            "da.stencil(lambda *u: None)": (
                "Kernel <lambda> (here) takes *u; name every array and every scalar."
            ),
            "da.stencil(lambda u=3: None)": (
                "Kernel <lambda> (here) gives its array u the default 3; put scalars behind "
                "a *, as in def <lambda>(u, *, r=0.1)."
            ),
            "da.stencil(lambda: None)": (
                "Kernel <lambda> (here) has no positional parameter; name at least one array."
            ),
            "da.index(0)": (
                "da.index, da.coordinate, da.spacing and da.reduce stand for values inside a "
                "kernel, and no kernel is being traced; call them in a function made a "
                "kernel by da.stencil."
            ),
            "da.coordinate(0)": (
                "da.index, da.coordinate, da.spacing and da.reduce stand for values inside a "
                "kernel, and no kernel is being traced; call them in a function made a "
                "kernel by da.stencil."
            ),
            "da.reduce.max(3)": (
                "da.index, da.coordinate, da.spacing and da.reduce stand for values inside a "
                "kernel, and no kernel is being traced; call them in a function made a "
                "kernel by da.stencil."
            ),
        },
        KERNELS,
    )


def test_what_kernels_may_not_do() -> None:
    refuse(
        da.StencilError,
        {
            "da.stencil(lambda u: None)(u)": (
                "Kernel <lambda> (here) writes no array and returns no reduction; write an "
                "output at offset zero, as in new[0, 0] = value."
            ),
            "da.stencil(lambda u: 3)(u)": (
                "Kernel <lambda> (here) returns 3; return nothing, or values made by da.reduce."
            ),
            "da.stencil(lambda u: u[0, 0])(u)": (
                "Kernel <lambda> (here) returns <value of type float64 in kernel <lambda>>; "
                "return nothing, or values made by da.reduce."
            ),
            "da.stencil(lambda u: u[0])(u)": (
                "Kernel <lambda> (here) indexes u with 0, which needs one offset for each of "
                "2 axes; write u[0, 0]."
            ),
            "da.stencil(lambda u: u[0.5, 0])(u)": (
                "Kernel <lambda> (here) indexes u with 0.5; offsets and components are "
                "integers known while tracing."
            ),
            "da.stencil(lambda u: u[100, 0])(u)": (
                "Kernel <lambda> (here) returns <value of type float64 in kernel <lambda>>; "
                "return nothing, or values made by da.reduce."
            ),
            "da.stencil(lambda u: da.reduce.max(u[100, 0]))(u)": (
                "Kernel <lambda> (here) reads u at a distance of 100 cells along axis 0, beyond "
                "its halo of 1; create the array or its grid with halo=100."
            ),
            'da.stencil(lambda u: da.reduce.max("a"))(u)': (
                "Kernel <lambda> (here) uses the str 'a' from outside; pass arrays as "
                "positional and numbers as keyword parameters."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0]))(phasor)": (
                "Kernel <lambda> (here) takes da.reduce.max of complex128, which has no "
                "order; reduce abs(value), .real or .astype(int)."
            ),
            "da.stencil(lambda u: u.__setitem__((1, 0), 0))(u)": (
                "Kernel <lambda> (here) writes u[1, 0]; write at offset zero only, as in "
                "u[0, 0] = value."
            ),
            "da.stencil(lambda u, w: w.__setitem__((0, 0), u[0, 0] if u[0, 0] else 0))(u, new)": (
                "Kernel <lambda> (here) branches (if, while, and, or, not, min, max) on a "
                "value that is not known while tracing; use da.where(condition, a, b), &, |, "
                "~, np.minimum or np.maximum, or name a scalar in @da.stencil(static=...)."
            ),
            "da.stencil(lambda u: u.__setitem__((0, 0), float(u[0, 0])))(u)": (
                "Kernel <lambda> (here) needs the number behind a value that is not known "
                "while tracing (float, int, math, range or an index); use NumPy functions "
                "and .astype, or name a scalar in @da.stencil(static=...)."
            ),
            "da.stencil(lambda u: u.__setitem__((0, 0), u[1, 0]))(u)": (
                "Kernel <lambda> (here) reads u[1, 0] and writes u: neighbours may or may "
                "not have been written yet; write to another array, or use "
                "@da.stencil(colours=2)."
            ),
            "da.stencil(lambda u: u.fine[0, 0])(u)": (
                "Kernel <lambda> (here) reads u.fine, but u does not lie on the next finer "
                "grid; pass an array of that grid."
            ),
            "da.stencil(lambda u: u.coarse[0, 0])(u)": (
                "Kernel <lambda> (here) reads u.coarse, but u does not lie on the next "
                "coarser grid; pass an array of that grid."
            ),
            "da.stencil(lambda u: da.reduce.max(u[5][0, 0]))(vector)": (
                "Kernel <lambda> (here) chooses component 5 of u, which has components (3,); "
                "count from 0."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0]))(vector)": (
                "Kernel <lambda> (here) indexes u with (0, 0) before choosing one of its "
                "components (3,); write u[component][0, 0]."
            ),
            'da.stencil(lambda u: da.reduce.max(u[0, 0] + "a"))(u)': (
                "Kernel <lambda> (here) uses the str 'a' from outside; pass arrays as "
                "positional and numbers as keyword parameters."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0] + np.zeros(3)))(u)": (
                "Kernel <lambda> (here) uses a NumPy array of shape (3,) from outside; pass "
                "arrays as positional and numbers as keyword parameters."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0] + 10**30))(whole)": (
                "Kernel <lambda> (here) uses the integer 1000000000000000000000000000000, "
                "outside the range of int64; use a float or a smaller number."
            ),
            "da.stencil(lambda u: da.reduce.max(np.sinc(u[0, 0])))(u)": (
                "Kernel <lambda> (here) uses np.sinc, which the stencil language does not "
                "have; build it from its functions."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0] ** -1))(whole)": (
                "Kernel <lambda> (here) raises int64 to a power that is no small constant; "
                "use an exponent from 0 to 64 or .astype(float)."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0].astype(object)))(u)": (
                "Kernel <lambda> (here) converts to object, which kernels cannot hold; use "
                "float32 or float64."
            ),
            'da.stencil(lambda u: da.reduce.max(u[0, 0].astype("bad")))(u)': (
                "Kernel <lambda> (here) converts to 'bad', which is no type; use float32 or "
                "float64."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0].astype(float)))(phasor)": (
                "Kernel <lambda> (here) converts complex128 to float64, which drops the "
                "imaginary part; take .real first."
            ),
            "da.stencil(lambda u: da.reduce.max(~u[0, 0]))(u)": (
                "Kernel <lambda> (here) applies invert to float64, which NumPy does not "
                "define; convert with .astype."
            ),
            "da.stencil(lambda u: da.reduce.max(np.floor(u[0, 0])))(phasor)": (
                "Kernel <lambda> (here) applies floor to complex128, which NumPy does not "
                "define; convert with .astype."
            ),
            "da.stencil(lambda u: da.reduce.max(+u[0, 0]))(flags)": (
                "Kernel <lambda> (here) applies + to a truth value, which NumPy does not "
                "define; convert with .astype."
            ),
            "da.stencil(lambda u: da.reduce.max(np.reciprocal(u[0, 0])))(whole)": (
                "Kernel <lambda> (here) applies reciprocal to int64, an integer; write 1 / value."
            ),
            "da.stencil(lambda u: da.reduce.max(da.index(5)))(u)": (
                "Kernel <lambda> (here) names axis 5 of a grid with 2 axes; use a number "
                "from 0 to 1."
            ),
            'da.stencil(lambda u: da.reduce.max(da.coordinate("q")))(u)': (
                "Kernel <lambda> (here) names the axis 'q'; use a number from 0 to 1 or one "
                "of ('x', 'y')."
            ),
            'da.stencil(lambda u: da.reduce.max(da.coordinate(0, "q")))(u)': (
                "Kernel <lambda> (here) asks for the location 'q'; use None or a string of "
                "distinct axes of 'xy'."
            ),
            'da.stencil(lambda u: u.shift(0, "a"))(u)': (
                "Kernel <lambda> (here) indexes u with 'a'; offsets and components are "
                "integers known while tracing."
            ),
            "da.stencil(lambda u: u.shift(7, 1))(u)": (
                "Kernel <lambda> (here) names axis 7 of a grid with 2 axes; use a number "
                "from 0 to 1."
            ),
        },
        KERNELS,
    )


def test_types_that_do_not_mix() -> None:
    start = "Kernel <lambda> (here) "
    refuse(
        da.StencilError,
        {
            "da.stencil(lambda u: da.reduce.max(u[0, 0] + np.datetime64('2020')))(u)": start
            + "uses np.datetime64('2020'), which is no number; use bool, int, float or complex.",
            "da.stencil(lambda u: da.reduce.max(np.sqrt(u[0, 0])))(grid.zeros(np.uint8))": start
            + "applies sqrt to uint8, which NumPy computes in float16; convert with "
            ".astype(np.float32) before.",
            "da.stencil(lambda u, w: da.reduce.max(u[0, 0] & w[0, 0]))(grid.zeros('u8'), whole)": (
                start + "applies bitwise_and to uint64 and int64, which NumPy does not define; "
                "convert with .astype."
            ),
            "da.stencil(lambda u: da.reduce.max(u[0, 0] + 300))(grid.zeros(np.uint8))": start
            + "combines the integer 300 with uint8, which cannot hold it; convert with .astype.",
            "da.stencil(lambda u: da.reduce.max(abs(np.tanh(u[0, 0]))))(phasor)": start
            + "applies tanh to complex128; for complex values use absolute, ...",
            "da.stencil(lambda u: da.reduce.max(np.heaviside(u[0, 0], 0)))(u)": start
            + "uses np.heaviside, which the stencil language does not have; build it from its "
            "functions.",
            "da.stencil(lambda u: da.reduce.max(np.add.reduce(u[0, 0])))(u)": start
            + "uses np.add.reduce, which the stencil language does not have; call np.add on values "
            "alone.",
        },
    )
