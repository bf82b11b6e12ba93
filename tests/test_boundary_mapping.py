"""The mapping users see, and the text of its errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import distarray.boundary as bc
from distarray.errors import BoundaryError, DistArrayError
from tests.boundary_blocks import Case, all_reads, make_blocks, make_boundary, plan

FLAT = Case((6, 4), (False, True), (False, False), (1, 1))
PAIR = Case((6, 4), (False, False), (False, False), (1, 1), components=(2,))


def test_both_sides_one_side_and_removal() -> None:
    boundary = make_boundary(PAIR, (1, 1), {"x": bc.Outflow(), "y-": bc.Neumann(0.0)})
    assert list(boundary) == ["x-", "x+", "y-"]
    assert len(boundary) == 3
    assert isinstance(boundary["x"], bc.Outflow)
    assert boundary["x-"] is boundary["x+"]
    assert "y-" in boundary
    assert "y+" not in boundary
    del boundary["x+"]
    assert list(boundary) == ["x-", "y-"]
    with pytest.raises(KeyError):
        boundary["x+"]
    with pytest.raises(KeyError):
        del boundary["x+"]
    assert boundary.get("y+") is None
    boundary.clear()
    assert not boundary


def test_covers_and_views_of_components() -> None:
    boundary = make_boundary(PAIR, (1, 1))
    first, second = boundary.view((0,)), boundary.view((1,))
    first["x-"] = bc.Dirichlet(1.0)
    assert first.covers(0, -1)
    assert not second.covers(0, -1)
    assert not boundary.covers(0, -1)
    assert boundary.covers(0, -1, (0,))
    assert first
    assert not second
    assert isinstance(boundary["x-"], tuple)
    assert boundary["x-"][1] is None
    boundary["x-"] = bc.Dirichlet([2.0, 3.0])
    assert (first["x-"].value, second["x-"].value) == (2.0, 3.0)
    assert boundary["x-"].value == (2.0, 3.0)
    assert boundary.covers(0, -1)
    boundary["y"] = [bc.Neumann(0.0), None]
    assert second.get("y-") is None
    del first["x-"]
    assert boundary["x-"][0] is None


def test_copies_are_independent_and_fit_another_layout() -> None:
    boundary = make_boundary(PAIR, (1, 1), {"x": bc.Dirichlet([1.0, 2.0]), "y-": bc.Outflow()})
    boundary.view((0,))["y-"] = bc.Symmetry(-1)
    copied = boundary.copy_to(
        replace(PAIR.layout((2, 1)), dtype=np.dtype(np.complex128), halo=(2, 2))
    )
    boundary["x-"] = bc.Neumann(0.0)
    assert copied["x-"].value == (1.0, 2.0)
    assert isinstance(copied["y-"][0], bc.Symmetry)
    assert isinstance(copied["y-"][1], bc.Outflow)
    single = boundary.view((1,)).copy_to(FLAT_LAYOUT)
    assert single["x+"].value == 2.0
    assert list(single) == ["x-", "x+", "y-"]


FLAT_LAYOUT = replace(PAIR.layout((1, 1)), components=())


def test_a_custom_condition_is_copied_only_with_all_its_components() -> None:
    def kernel(u: Any) -> None:
        u[0][0, 0] = u[1][1, 0]
        u[1][0, 0] = u[0][1, 0]

    boundary = make_boundary(PAIR, (1, 1), {"x-": bc.Custom(kernel)})
    assert isinstance(boundary.copy_to(PAIR.layout((2, 1)))["x-"], bc.Custom)
    message(
        "The Custom condition on x- was assigned to several components and cannot be copied with "
        "component (1,) "
        "alone; copy the whole array.",
        lambda: boundary.view((1,)).copy_to(FLAT_LAYOUT),
    )


def test_values_are_copied() -> None:
    values = np.arange(4.0)
    boundary = make_boundary(FLAT, (1, 1), {"x-": bc.Dirichlet(values)})
    values[:] = 9.0
    np.testing.assert_array_equal(boundary["x-"].value, np.arange(4.0))


def test_constant_conditions_can_be_told_from_functions() -> None:
    assert bc.Dirichlet(1.0).constant
    assert bc.Robin(1.0, np.ones(3), [1, 2]).constant
    assert bc.Outflow().constant
    assert not bc.Dirichlet([1.0, lambda t, x: t]).constant
    assert not bc.Piecewise(lambda x: x > 0, bc.Outflow(), bc.Outflow()).constant


def test_repr_names_sides_and_kinds() -> None:
    boundary = make_boundary(FLAT, (1, 1), {"x-": bc.Dirichlet(1.0), "x+": bc.Outflow()})
    assert repr(boundary) == "Boundary({'x-': Dirichlet(value=1.0), 'x+': Outflow()})"


def message(text: str, call: Any) -> None:
    with pytest.raises(BoundaryError) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, DistArrayError)
    assert isinstance(caught.value, ValueError)


def set_on(case: Case, conditions: Any) -> Any:
    return lambda: make_boundary(case, (1, 1), conditions)


def test_sides_that_do_not_exist() -> None:
    text = (
        "The array has no side 'q-'; name an axis of x, y for both of its sides, or one side as in "
        "'x-' or 'x+'."
    )
    message(text, set_on(FLAT, {"q-": bc.Outflow()}))
    message(text, lambda: make_boundary(FLAT, (1, 1))["q-"])
    message(text.replace("'q-'", "0"), set_on(FLAT, {0: bc.Outflow()}))
    message(
        "Axis 'y' is periodic and takes no boundary condition (got one for 'y+'); remove the "
        "condition or make "
        "the axis not periodic.",
        set_on(FLAT, {"y+": bc.Outflow()}),
    )
    message(
        "The sides of axis 'x' have different conditions; read 'x-' and 'x+'.",
        lambda: make_boundary(FLAT, (1, 1), {"x-": bc.Outflow()})["x"],
    )


def test_what_is_no_condition() -> None:
    message(
        "Side x- takes boundary conditions such as da.Dirichlet(0.0) or da.Neumann(0.0), not 3.0.",
        set_on(FLAT, {"x-": 3.0}),
    )
    message(
        "boundary= takes a mapping from sides to conditions, as in {'x-': da.Dirichlet(0.0)}, not "
        "3.0.",
        set_on(FLAT, 3.0),
    )
    message(
        "Piecewise takes boundary conditions such as da.Dirichlet(0.0) or da.Neumann(0.0), not "
        "0.0.",
        lambda: bc.Piecewise(lambda x: x > 0, bc.Outflow(), 0.0),  # type: ignore[arg-type]
    )
    message(
        "The mask of Piecewise must be a function of the face coordinates, not True.",
        lambda: bc.Piecewise(True, bc.Outflow(), bc.Outflow()),  # type: ignore[arg-type]
    )
    message(
        "Side x- gets 3 conditions for 2 components; give one for all or one per component.",
        set_on(PAIR, {"x-": [bc.Outflow()] * 3}),
    )

    class Other(bc.Condition):
        pass

    message(
        "Other on x- is no kind of condition that can be filled; use one of those that distarray "
        "has, or Custom "
        "with a kernel.",
        set_on(FLAT, {"x-": Other()}),
    )


def test_values_of_the_wrong_type_or_shape() -> None:
    message(
        "A value of Dirichlet must be a number, an array over the face, a function f(t, *coords) "
        "or a sequence of "
        "these for components, not 'hot'.",
        lambda: bc.Dirichlet("hot"),
    )
    message(
        "Dirichlet on x- has an array of shape (3,); give a number, a function f(t, *coords) or "
        "an array of the "
        "shape of the face, (4,).",
        set_on(FLAT, {"x-": bc.Dirichlet(np.zeros(3))}),
    )
    message(
        "Neumann on x- has the values (1.0, 2.0); give a number, a function f(t, *coords) or an "
        "array of the shape "
        "of the face, (4,).",
        set_on(FLAT, {"x-": bc.Neumann([1.0, 2.0])}),
    )
    message(
        "Dirichlet on x- has 3 values for 2 components; give one value for all or one per "
        "component.",
        set_on(PAIR, {"x-": bc.Dirichlet([1, 2, 3])}),
    )
    message(
        "Dirichlet on x- has an array of shape (5,); it must have the shape of the face, (4,), or "
        "components "
        "first, (2, 4).",
        set_on(PAIR, {"x-": bc.Dirichlet(np.zeros(5))}),
    )
    square = Case((4, 2), (False, False), (False, False), (1, 1), components=(2,))
    message(
        "Dirichlet on x- has an array of shape (2,), which fits both the components and the face; "
        "give values per "
        "component as a list.",
        set_on(square, {"x-": bc.Dirichlet(np.zeros(2))}),
    )
    message(
        "Dirichlet on x- has complex values for an array of float64; give real values or make the "
        "array complex.",
        set_on(FLAT, {"x-": bc.Dirichlet(1j)}),
    )
    whole = Case((4, 2), (False, False), (False, False), (1, 1), dtype=np.int64)
    message(
        "Neumann on x- gives fractions to an array of int64; give whole numbers or make the array "
        "float.",
        set_on(whole, {"x-": bc.Neumann(0.1)}),
    )
    flags = Case((4, 2), (False, False), (False, False), (1, 1), dtype=np.bool_)
    message(
        "Dirichlet on x- needs arithmetic, which an array of bool has not; use Symmetry(1) or "
        "Outflow().",
        set_on(flags, {"x-": bc.Dirichlet(1)}),
    )


def test_parameters_out_of_range() -> None:
    message(
        "The sign of Symmetry must be 1 or -1, or a sequence of these for components, not 0.5.",
        lambda: bc.Symmetry(0.5),
    )
    message(
        "Symmetry on x- has 2 signs, which only an array with that many components takes; give 1 "
        "or -1.",
        set_on(FLAT, {"x-": bc.Symmetry([1, -1])}),
    )
    for degree in (-1, 1.5, True):
        message(
            f"The degree of Extrapolate must be an integer of at least 0, not {degree!r}.",
            lambda degree=degree: bc.Extrapolate(degree),
        )
    message(
        "Extrapolate(6) on x- needs 7 points along the axis, which has 6; use degree 5 or less.",
        set_on(FLAT, {"x-": bc.Extrapolate(6)}),
    )
    message(
        "Robin on x- has a d + 2 b = 0 with d the distance of a layer from its mirror point, so "
        "that no layer "
        "value satisfies it; change a or b.",
        set_on(FLAT, {"x-": bc.Robin(1.0, -0.125, 0.0)}),
    )


def test_a_refused_assignment_changes_nothing() -> None:
    boundary = make_boundary(FLAT, (1, 1), {"x": bc.Neumann(0.0)})
    version = boundary.version
    with pytest.raises(BoundaryError):
        boundary["x"] = bc.Dirichlet(np.zeros(3))
    assert isinstance(boundary["x"], bc.Neumann)
    assert boundary.version == version


def test_blocks_narrower_than_a_fill_reads_are_refused_alike_on_all_ranks() -> None:
    case = Case((6, 4), (False, True), (False, False), (1, 1))
    boundary = make_boundary(case, (6, 1), {"x": bc.Extrapolate(2)})
    text = (
        "The condition on x- reads 3 points inward, but the blocks there have 1 (ranks=(6, 1)); "
        "use fewer ranks "
        "along x, more cells or a smaller reach."
    )
    message(text, lambda: boundary.conditions.closure({((), (-1, 0)): (1, 0)}))
    for block in make_blocks(case, (6, 1), case.values()):
        message(text, lambda block=block: plan(boundary, block, {((), (-1, 0)): (1, 0)}))
    assert boundary.conditions.closure({((), (0, 1)): (0, 1)}) == {}
    thin = Case((2, 4), (False, True), (False, False), (3, 1))
    message(
        "The condition on x- reads 3 points inward, but the blocks there have 2 (ranks=(1, 1)); "
        "use fewer ranks "
        "along x, more cells or a smaller reach.",
        lambda: (
            make_boundary(thin, (1, 1), {"x-": bc.Outflow(), "x+": bc.Symmetry()})
            and make_boundary(thin, (1, 1), {"x-": bc.Symmetry()}).conditions.closure(
                all_reads(thin)
            )
        ),
    )


def test_functions_and_masks_that_do_not_fit_the_face() -> None:
    (block,) = make_blocks(FLAT, (1, 1), FLAT.values())
    reads = {((), (-1, 0)): (1, 0)}

    def run(condition: bc.Condition) -> Any:
        return lambda: plan(make_boundary(FLAT, (1, 1), {"x-": condition}), block, reads).run(0.0)

    message(
        "The function of Dirichlet on x- returned shape (3,) for face points of shape (1, 4); "
        "return a number or an "
        "array that broadcasts to them.",
        run(bc.Dirichlet(lambda t, x, y: np.zeros(3))),
    )
    message(
        "The mask of Piecewise on x- returned float64; return bool, as a comparison of "
        "coordinates does.",
        run(bc.Piecewise(lambda x, y: y, bc.Outflow(), bc.Outflow())),
    )
    message(
        "Values of boundary conditions must be numbers, not an array of <U1; return numbers from "
        "their functions.",
        run(bc.Dirichlet(lambda t, x, y: "a")),
    )
