"""What is found out about programs: reads, reach, costs, orders, guesses before the first call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distarray.errors import StencilError
from distarray.stencil import analysis
from distarray.stencil import language as da
from distarray.stencil.expression import COARSE, FINE, SAME, ArrayParameter, walk
from distarray.stencil.probing import probe
from tests.stencil_tools import traced

F4, F8, C16 = np.dtype("f4"), np.dtype("f8"), np.dtype("c16")


def diffuse(u: Any, new: Any, *, r: Any) -> None:
    around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
    new[0, 0, 0] = u[0, 0, 0] + r * (around - 6.0 * u[0, 0, 0])


STAR = {(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)}


def test_the_seven_point_kernel_before_its_first_call() -> None:
    program = probe(diffuse)
    assert program.ndim == 3
    assert analysis.reads(program) == {"u": STAR, "new": set()}
    assert analysis.halo(program) == {"u": ((1, 1),) * 3, "new": ((0, 0),) * 3}
    assert analysis.bytes_per_cell(program) == 16
    assert analysis.flops_per_cell(program) == 9
    assert analysis.written(program) == [set(), {()}]


def two_outputs(u: Any, v: Any, a: Any, b: Any) -> Any:
    a[0, 0] = u[-2, 0] + v[1][0, 3]
    b[0, 0] = a[0, 0] + u[0, 0]
    unused = u[9, 9]
    assert unused is not None
    return da.reduce.max(v[0][0, -1])


def test_each_store_has_its_own_reads() -> None:
    vector = ArrayParameter("v", F4, (2,), (False, True))
    program = traced(two_outputs, arrays={"v": vector})
    first, second = (analysis.offsets_of(program, [store.value]) for store in program.stores)
    assert first[:2] == [{(): {(-2, 0)}}, {(1,): {(0, 3)}}]
    assert second[:2] == [{(): {(-2, 0), (0, 0)}}, {(1,): {(0, 3)}}]
    reduced = analysis.offsets_of(program, [program.reductions[0].value])
    assert reduced[:2] == [{}, {(0,): {(0, -1)}}]
    assert analysis.offsets(program)[1] == {(0,): {(0, -1)}, (1,): {(0, 3)}}
    assert analysis.reach(program) == [
        ((2, 0), (0, 0)), ((0, 0), (1, 3)), ((0, 0), (0, 0)), ((0, 0), (0, 0)),
    ]  # fmt: skip
    # u, two components of float32, and two outputs
    assert analysis.bytes_per_cell(program) == 8 + 2 * 4 + 2 * 8
    assert program.lines[1] == program.lines[0] + 1


def test_related_grids_reach_as_far_as_odd_cuts_need() -> None:
    def kernel(f: Any, c: Any, u: Any) -> None:
        u[0, 0] = f.fine[1, -1] + c.coarse[0, 1]

    finer = ArrayParameter("f", F8, (), (False, False), level=1)
    coarser = ArrayParameter("c", F8, (), (False, False), level=-1)
    program = traced(kernel, arrays={"f": finer, "c": coarser})
    assert analysis.relations(program) == [FINE, COARSE, SAME]
    found_fine, found_coarse, _ = analysis.reach(program)
    # By counting: blocks [s, e) of a fine axis and [ceil(s / 2), ceil(e / 2)) of the coarse one.
    for axis, (fine, coarse) in enumerate(zip((1, -1), (0, 1), strict=True)):
        low_fine = high_fine = low_coarse = high_coarse = 0
        for s in range(4):
            for e in range(s + 2, 12):
                low, high = -(-s // 2), -(-e // 2)
                reads_fine = [2 * i + fine for i in range(low, high)]
                reads_coarse = [i // 2 + coarse for i in range(s, e)]
                low_fine = max(low_fine, s - min(reads_fine))
                high_fine = max(high_fine, max(reads_fine) - (e - 1))
                low_coarse = max(low_coarse, low - min(reads_coarse))
                high_coarse = max(high_coarse, max(reads_coarse) - (high - 1))
        assert found_fine[axis] == (low_fine, high_fine)
        assert found_coarse[axis] == (low_coarse, high_coarse)
    assert analysis.bytes_per_cell(program) == 4 * 8 + 8 / 4 + 8


def test_flops_count_common_subexpressions_once_and_scalars_not_at_all() -> None:
    def kernel(u: Any, out: Any, *, r: Any) -> Any:
        s = np.sqrt(u[0] + 1.0)
        out[0] = -s * (r * r + 2.0) + np.exp(u[0] + 1.0) + da.where(u[0] > 0, s, 0.0)
        return da.reduce.sum(s)

    # add, sqrt, multiply, add, exp, add; one for the reduction
    assert analysis.flops_per_cell(traced(kernel, 1, scalars={"r": float})) == 7


def test_flops_of_complex_and_integer_values() -> None:
    def kernel(z: Any, n: Any) -> None:
        z[0] = z[0] * z[0] + abs(z[0]) / z[0]
        n[0] = n[0] * n[0] + 1

    arrays = {
        "z": ArrayParameter("z", C16, (), (False,)),
        "n": ArrayParameter("n", np.dtype("i8"), (), (False,)),
    }
    assert analysis.flops_per_cell(traced(kernel, 1, arrays=arrays)) == 6 + 2 + 1 + 11


# ---- probing


def line(u: Any, new: Any) -> None:
    new[0] = np.sqrt(u[1].real) - u[-1].astype(np.float32)


def line_of_components(v: Any, out: Any) -> None:
    out[0][0] = v[1][2] * v[0][-1]


def plane_with_profile(u: Any, p: Any, new: Any) -> None:
    new[0, 0] = u[0, 1] * (p[1] - p[0])


def any_number_of_axes(u: Any, new: Any) -> None:
    new[...] = sum(u.shift(axis, 1) for axis in range(u.ndim))


def life(cells: Any, new: Any) -> None:
    new[0, 0] = cells[0, 0] & (cells[1, 0] | ~cells[0, 1])


def transfer(f: Any, c: Any, out: Any) -> None:
    out[0, 0] = f.fine[1, 0] + c.coarse[-1, 0]


def only_reduces(u: Any) -> Any:
    return da.reduce.max(u[0])


@pytest.mark.parametrize(
    ("kernel", "ndim", "reads"),
    [
        (line, 1, {"u": {(1,), (-1,)}, "new": set()}),
        (line_of_components, 1, {"v": {(2,), (-1,)}, "out": set()}),
        (plane_with_profile, 2, {"u": {(0, 1)}, "p": {(0,), (1,)}, "new": set()}),
        (any_number_of_axes, 3, {"u": {(1, 0, 0), (0, 1, 0), (0, 0, 1)}, "new": set()}),
        (life, 2, {"cells": {(0, 0), (1, 0), (0, 1)}, "new": set()}),
        (transfer, 2, {"f": {(1, 0)}, "c": {(-1, 0)}, "out": set()}),
        (only_reduces, 1, {"u": {(0,)}}),
    ],
)
def test_guesses_before_the_first_call(kernel: Any, ndim: int, reads: Any) -> None:
    program = probe(kernel)
    assert program.ndim == ndim
    assert analysis.reads(program) == reads


def test_components_profiles_and_levels_are_guessed() -> None:
    assert [array.components for array in probe(line_of_components).arrays] == [(2,), (1,)]
    assert [array.profile_axis for array in probe(plane_with_profile).arrays] == [None, 0, None]
    assert [array.level for array in probe(transfer).arrays] == [1, -1, 0]

    def advect(velocity: Any, out: Any) -> None:
        out[...] = sum(v.shift(axis, 1) - v[...] for axis, v in enumerate(velocity))

    program = probe(advect)
    assert program.arrays[0].components == (3,)
    assert analysis.bytes_per_cell(program) == 4 * 8


def test_statics_defaults_and_colours_of_a_guess() -> None:
    def kernel(u: Any, *, order: Any, r: Any, n: Any = 2) -> None:
        u[0, 0] = r * u[order, 0] + u[0, 0] // n

    program = probe(kernel, {"order": 3}, colours=2)
    assert program.scalars == (("r", float), ("n", int))
    assert analysis.reads(program) == {"u": {(3, 0), (0, 0)}}
    with pytest.raises(StencilError, match="reads u"):
        probe(kernel, {"order": 3})


# ---- orders of evaluation


def test_common_subexpressions_are_one_node() -> None:
    def kernel(u: Any, a: Any, b: Any) -> None:
        a[0] = (u[1] - u[-1]) * (u[1] - u[-1])
        b[0] = u[1] - u[-1]

    program = traced(kernel, 1)
    assert program.stores[0].value.operands[0] is program.stores[1].value
    assert len(list(walk(analysis.roots(program)))) == 4
