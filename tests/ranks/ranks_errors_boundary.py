"""Boundary conditions that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from tests.ranks.refusals import names, refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_conditions() -> None:
    refuse(
        da.BoundaryError,
        {
            'da.Dirichlet("a")': (
                "A value of Dirichlet must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not 'a'."
            ),
            "da.Dirichlet(None)": (
                "A value of Dirichlet must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not None."
            ),
            "da.Dirichlet(object())": (
                "A value of Dirichlet must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not an object."
            ),
            'da.Dirichlet([1, "a"])': (
                "A value of Dirichlet must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not 'a'."
            ),
            'da.Dirichlet(np.array(["a"]))': (
                "A value of Dirichlet must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not an array of <U1."
            ),
            'da.Robin("a", 0, 0)': (
                "A value of Robin must be a number, an array over the face, a function f(t, "
                "*coords) or a sequence of these for components, not 'a'."
            ),
            "da.Symmetry(2)": (
                "The sign of Symmetry must be 1 or -1, or a sequence of these for "
                "components, not 2."
            ),
            'da.Symmetry("a")': (
                "A value of Symmetry must be a number, an array over the face, a function "
                "f(t, *coords) or a sequence of these for components, not 'a'."
            ),
            "da.Symmetry([1, 0])": (
                "The sign of Symmetry must be 1 or -1, or a sequence of these for "
                "components, not (1, 0)."
            ),
            "da.Extrapolate(-1)": (
                "The degree of Extrapolate must be an integer of at least 0, not -1."
            ),
            "da.Extrapolate(1.5)": (
                "The degree of Extrapolate must be an integer of at least 0, not 1.5."
            ),
            "da.Extrapolate(True)": (
                "The degree of Extrapolate must be an integer of at least 0, not True."
            ),
            "da.Piecewise(3, da.Dirichlet(0), da.Dirichlet(1))": (
                "The mask of Piecewise must be a function of the face coordinates, not 3."
            ),
            "da.Piecewise(lambda *x: True, 3, da.Dirichlet(1))": (
                "Piecewise takes boundary conditions such as da.Dirichlet(0.0) or "
                "da.Neumann(0.0), not 3."
            ),
            "da.Custom(3)": (
                "The kernel of Custom must be a function or a da.stencil kernel, not 3."
            ),
            "da.Custom(lambda u: None, 3)": (
                "The arrays of Custom must be DistArrays, not int; give numbers as defaults "
                "of keyword-only parameters of the kernel."
            ),
        },
    )


def test_sides() -> None:
    refuse(
        da.BoundaryError,
        {
            "grid.zeros(boundary=3)": (
                "boundary= takes a mapping from sides to conditions, as in {'x-': "
                "da.Dirichlet(0.0)}, not 3."
            ),
            "grid.zeros(boundary=[da.Dirichlet(0.0)])": (
                "boundary= takes a mapping from sides to conditions, as in {'x-': "
                "da.Dirichlet(0.0)}, not a list."
            ),
            'grid.zeros(boundary={"x": 0.0})': (
                "Side x- takes boundary conditions such as da.Dirichlet(0.0) or "
                "da.Neumann(0.0), not 0.0."
            ),
            'grid.zeros(boundary={"x": None})': (
                "Side x- takes boundary conditions such as da.Dirichlet(0.0) or "
                "da.Neumann(0.0), not None."
            ),
            'grid.zeros(boundary={"q": da.Dirichlet(0.0)})': (
                "The array has no side 'q'; name an axis of x, y for both of its sides, or "
                "one side as in 'x-' or 'x+'."
            ),
            "grid.zeros(boundary={3: da.Dirichlet(0.0)})": (
                "The array has no side 3; name an axis of x, y for both of its sides, or one "
                "side as in 'x-' or 'x+'."
            ),
            'grid.zeros(boundary={"x*": da.Dirichlet(0.0)})': (
                "The array has no side 'x*'; name an axis of x, y for both of its sides, or "
                "one side as in 'x-' or 'x+'."
            ),
            'periodic.zeros(boundary={"x": da.Dirichlet(0.0)})': (
                "Axis 'x' is periodic and takes no boundary condition (got one for 'x'); "
                "remove the condition or make the axis not periodic."
            ),
            'u.boundary["q"]': (
                "The array has no side 'q'; name an axis of x, y for both of its sides, or "
                "one side as in 'x-' or 'x+'."
            ),
            'u.boundary.__setitem__("q", da.Dirichlet(0))': (
                "The array has no side 'q'; name an axis of x, y for both of its sides, or "
                "one side as in 'x-' or 'x+'."
            ),
            'u.boundary.__setitem__("x", 3)': (
                "Side x- takes boundary conditions such as da.Dirichlet(0.0) or "
                "da.Neumann(0.0), not 3."
            ),
            "u.boundary.__setitem__(7, da.Dirichlet(0))": (
                "The array has no side 7; name an axis of x, y for both of its sides, or one "
                "side as in 'x-' or 'x+'."
            ),
        },
    )
    refuse(
        da.BoundaryError,
        {
            'u.boundary["x"]': (
                "Side 'x' of the array has no condition; assign one or ask with `in`."
            ),
            'u.boundary["x-"]': (
                "Side 'x-' of the array has no condition; assign one or ask with `in`."
            ),
            'u.boundary.__delitem__("x-")': (
                "Side 'x-' of the array has no condition; assign one or ask with `in`."
            ),
        },
    )


def test_values_that_do_not_fit_the_array() -> None:
    refuse(
        da.BoundaryError,
        {
            'grid.zeros(boundary={"x": da.Dirichlet([1, 2])})': (
                "Dirichlet on x- has the values (1, 2); give a number, a function f(t, "
                "*coords) or an array of the shape of the face, (8,)."
            ),
            'grid.zeros(boundary={"x": da.Dirichlet(np.zeros(3))})': (
                "Dirichlet on x- has an array of shape (3,); give a number, a function f(t, "
                "*coords) or an array of the shape of the face, (8,)."
            ),
            'grid.zeros(boundary={"x": da.Dirichlet(1j)})': (
                "Dirichlet on x- has complex values for an array of float64; give real "
                "values or make the array complex."
            ),
            'grid.zeros(dtype=int, boundary={"x": da.Neumann(0.1)})': (
                "Neumann on x- gives fractions to an array of int64; give whole numbers or "
                "make the array float."
            ),
            'grid.zeros(dtype=int, boundary={"x": da.Dirichlet(float("nan"))})': (
                "Dirichlet on x- has values from nan to nan, which an array of int64 cannot hold; "
                "give values from -9223372036854775808 to 9223372036854775807."
            ),
            'grid.zeros(dtype=np.uint8, boundary={"x": da.Dirichlet(300)})': (
                "Dirichlet on x- has values from 300.0 to 300.0, which an array of uint8 cannot "
                "hold; give values from 0 to 255."
            ),
            'grid.zeros(dtype=int, boundary={"x": da.Dirichlet(10**30)})': (
                "Dirichlet on x- has the values 1000000000000000000000000000000; give a "
                "number, a function f(t, *coords) or an array of the shape of the face, (8,)."
            ),
            'grid.zeros(dtype=bool, boundary={"x": da.Dirichlet(0)})': (
                "Dirichlet on x- needs arithmetic, which an array of bool has not; use "
                "Symmetry(1) or Outflow()."
            ),
            'grid.zeros(components=3, boundary={"x": da.Dirichlet([1, 2])})': (
                "Dirichlet on x- has 2 values for 3 components; give one value for all or "
                "one per component."
            ),
            'grid.zeros(components=3, boundary={"x": [da.Dirichlet(1)]})': (
                "Side x- gets 1 conditions for 3 components; give one for all or one per component."
            ),
            'grid.zeros(components=8, boundary={"x": da.Dirichlet(np.zeros(8))})': (
                "Dirichlet on x- has an array of shape (8,), which fits both the components "
                "and the face; give values per component as a list."
            ),
            'grid.zeros(components=3, boundary={"x": da.Symmetry([1, -1])})': (
                "Symmetry on x- has 2 values for 3 components; give one value for all or one "
                "per component."
            ),
            'grid.zeros(boundary={"x": da.Symmetry([1, -1])})': (
                "Symmetry on x- has 2 signs, which only an array with that many components "
                "takes; give 1 or -1."
            ),
            'grid.zeros(boundary={"x": da.Extrapolate(20)})': (
                "Extrapolate(20) on x- needs 21 points along the axis, which has 9; use "
                "degree 8 or less."
            ),
            'grid.zeros(boundary={"x": da.Robin(0, 0, 0)})': (
                "Robin on x- has a d + 2 b = 0 with d the distance of a layer from its "
                "mirror point, so that no layer value satisfies it; change a or b."
            ),
        },
    )


def test_custom_conditions() -> None:
    """Kernels are checked when they are assigned, what they read when it is first filled."""
    start = "The kernel <lambda> of Custom on x- "
    refuse(
        da.BoundaryError,
        {
            on_x("da.Custom(lambda b: b.__setitem__((0, 0), b[0, 0]))"): start
            + "reads b in the layer that it fills; read inside, at offsets of 1 and more.",
            on_x("da.Custom(lambda b: b.__setitem__((0, 0), b[-1, 0]))"): start
            + "reads b at offset -1 along x; offsets there count inward from the face, from 0 for "
            "the layer.",
            on_x("da.Custom(lambda b: da.reduce.max(b[1, 0]))"): start
            + "returns a reduction; it may only write the layer.",
            on_x("da.Custom(lambda b, c: b.__setitem__((0, 0), c[1, 0]), v)"): start
            + "reads an array of shape (9, 8), which lies on another grid; use arrays of one grid.",
            on_x("da.Custom(lambda b, c: c.__setitem__((0, 0), b[1, 0]), u)"): start
            + "writes another array than its first; give that array a condition of its own.",
            on_x("da.Custom(lambda b, *, r: b.__setitem__((0, 0), r * b[1, 0]))"): start
            + "has the scalar 'r' without a number as default; give it one, or use the scalar "
            "'time'.",
            filled("da.Custom(lambda b: b.__setitem__((0, 0), b[100, 0]))"): (
                "The condition on x- reads 100 points inward, but the blocks there have $rows "
                "(ranks=($size, 1)); use fewer ranks along x, more cells or a smaller reach."
            ),
            filled("da.Custom(lambda b, c: b.__setitem__((0, 0), c[1, 3]), new)"): (
                "The Custom condition on x+ reads layers of another array beyond y+, which no "
                "condition fills; read at offset 0 along y."
            ),
        },
        {"neighbours": neighbours},
    )


def test_functions_whose_values_do_not_fit() -> None:
    """The faces of y lie on all ranks, which all call the function."""
    refuse(
        da.BoundaryError,
        {
            filled("da.Dirichlet(lambda t, x, y: 'a')", "y-"): (
                "Values of boundary conditions must be numbers, not an array of <U1; return "
                "numbers from their functions."
            ),
            filled("da.Dirichlet(lambda t, x, y: 1j)", "y-"): (
                "Dirichlet on y- has complex values for an array of float64; give real values or "
                "make the array complex."
            ),
            filled("da.Neumann(lambda t, x, y: np.zeros(5))", "y-"): (
                "The function of Neumann on y- returned shape (5,) for face points of shape ..."
            ),
            filled("da.Piecewise(lambda x, y: 3, da.Dirichlet(0), da.Dirichlet(1))", "y-"): (
                "The mask of Piecewise on y- returned float64; return bool, as a comparison of "
                "coordinates does."
            ),
        },
        {"neighbours": neighbours},
    )


def test_functions_of_other_arguments() -> None:
    """Refused at the assignment on all ranks, without a call."""
    refuse(
        da.BoundaryError,
        {
            on_x("da.Dirichlet(lambda x, y: y)"): (
                "The function of Dirichlet on x- is called as f(t, x, y), but it takes 2 arguments "
                "(x, y); give it the time first."
            ),
            on_x("da.Neumann(lambda: 1.0)"): (
                "The function of Neumann on x- is called as f(t, x, y), but it takes no "
                "arguments; let it take these."
            ),
            on_x("da.Robin(1.0, 1.0, lambda t: t)"): (
                "The function of Robin on x- is called as f(t, x, y), but it takes 1 argument "
                "(t); let it take these."
            ),
            on_x("da.Dirichlet(lambda t, x, y, *, r: r)"): (
                "The function of Dirichlet on x- is called as f(t, x, y), but it takes 4 arguments "
                "(t, x, y, *, r); give 'r' a default."
            ),
            "pair.boundary.__setitem__('y+', da.Dirichlet([0.0, lambda x, y: y]))": (
                "The function of Dirichlet on y+ is called as f(t, x, y), but it takes 2 arguments "
                "(x, y); give it the time first."
            ),
            on_x("da.Piecewise(lambda t, x, y: y < 0.5, da.Dirichlet(0), da.Neumann(0))"): (
                "The mask of Piecewise on x- is called as mask(x, y), but it takes 3 arguments "
                "(t, x, y); leave the time out."
            ),
            on_x("da.Piecewise(lambda y: y < 0.5, da.Dirichlet(0), da.Neumann(0))"): (
                "The mask of Piecewise on x- is called as mask(x, y), but it takes 1 argument "
                "(y); let it take these."
            ),
        },
    )


def test_errors_inside_functions_are_not_hidden() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        names()["grid"].zeros(boundary={"y-": da.Dirichlet(lambda t, x, y: y + None)})


def test_functions_that_take_more_than_they_need() -> None:
    for function in (lambda *given: given[0], lambda t, x, scale=2.0: scale * t, np.hypot):
        u = da.Grid((9,)).zeros(boundary={"x": da.Dirichlet(function)})
        assert u.boundary["x-"].value is function


def test_conditions_of_parts() -> None:
    both = "b[c].__setitem__((0, 0), b[c][1, 0]) for c in (0, 1)"
    custom = f"da.Custom(lambda b: [{both}] and None)"
    refuse(
        da.BoundaryError,
        {
            "grid.zeros(components=3, boundary={'x': da.Dirichlet(np.zeros((2, 8)))})": (
                "Dirichlet on x- has an array of shape (2, 8); it must have the shape of the face, "
                "(8,), or components first, (3, 8)."
            ),
            "grid.zeros(boundary={'x-': da.Dirichlet(0), 'x+': da.Neumann(0)}).boundary['x']": (
                "The sides of axis 'x' have different conditions; read 'x-' and 'x+'."
            ),
            f"grid.zeros(components=2, boundary={{'x': {custom}}})[0].copy()": (
                "The Custom condition on x- was assigned to several components and cannot be "
                "copied with component (0,) alone; copy the whole array."
            ),
        },
    )


def test_missing_conditions_are_key_errors_too() -> None:
    boundary = names()["u"].boundary
    assert "x-" not in boundary
    assert boundary.get("x-") is None
    with pytest.raises(KeyError, match=r"^Side 'x-' of the array has no condition"):
        boundary["x-"]


@da.stencil
def neighbours(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1]


def on_x(condition: str) -> str:
    return f"grid.zeros(boundary={{'x': {condition}}})"


def filled(condition: str, side: str = "x") -> str:
    """A kernel reads the layers of a condition."""
    return f"neighbours(grid.zeros(boundary={{'{side}': {condition}}}), new)"
