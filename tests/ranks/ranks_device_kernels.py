"""Kernels on the simulated device give the bits of the CPU, over every transport."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import distarray as da
from distarray.pending import RING_SIZE
from tests.ranks.bits import Array, random_values, same
from tests.ranks.common import SIZE
from tests.ranks.on_devices import TRANSPORTS, MakeGrid, Results, on_all_devices, put, simulated

RANKS = (1, 2, 4)
SELDOM = (2,)
TIMEOUT = 240


# ---- single calls and chains


@da.stencil
def gradient(p: Any, gx: Any, gy: Any, *, h: float) -> None:
    gx[0, 0] = (p[0, 0] - p[-1, 0]) / h
    gy[0, 0] = (p[0, 0] - p[0, -1]) / h


@da.stencil
def limit(g: Any, k: Any, *, most: float) -> None:
    """In place, reading at offset zero what it writes."""
    g[0, 0] = np.minimum(g[0, 0], most) * k[0] + 0.0 * da.index(1)


@da.stencil
def divergence(gx: Any, gy: Any, out: Any, *, h: float) -> None:
    out[0, 0] = (gx[1, 0] - gx[0, 0]) / h + (gy[0, 1] - gy[0, 0]) / h


@da.stencil
def add(p: Any, d: Any, *, r: float) -> None:
    p[0, 0] = p[0, 0] + r * d[0, 0]


def test_a_chain_of_kernels_on_faces_with_a_profile() -> None:
    start, weights = random_values(17, 14), random_values(17, seed=3)

    def case(make: MakeGrid) -> Results:
        grid = make((17, 14), periodic=(False, True))
        p = put(grid, start, boundary={"x-": da.Dirichlet(0.3), "x+": da.Neumann(-1.0)})
        gx, gy, out = grid.zeros(location="x"), grid.zeros(location="y"), grid.zeros()
        k = grid.profile("x", weights)
        for _ in range(3):
            gradient(p, gx, gy, h=0.25)
            limit(gy, k, most=1.5)
            divergence(gx, gy, out, h=0.25)
            add(p, out, r=0.01)
        return {"p": p.gather(), "gx": gx.gather(), "gy": gy.gather(), "out": out.gather()}

    on_all_devices(case)


@da.stencil(static=("order",))
def derivative(u: Any, out: Any, *, order: int, scale: complex) -> None:
    for axis in range(2):
        step = u.shift(axis, order) - u.shift(axis, -order)
        out[axis][0, 0] = scale * step * da.spacing(axis) + da.coordinate(axis)


def test_components_statics_and_complex_scalars_on_a_stretched_axis() -> None:
    start = random_values(13, 16, dtype=np.complex64)
    faces = np.linspace(0.0, 1.0, 14) ** 1.5

    def case(make: MakeGrid) -> Results:
        grid = make((13, 16), periodic=(False, True), halo=2, coordinates={"x": faces})
        u = put(grid, start, boundary={"x": da.Outflow()})
        out = grid.zeros(complex, components=(2,))
        derivative(u, out, order=1, scale=0.5 + 2.0j)
        first = out.gather()
        derivative(u, out, order=2, scale=1.0j)
        return {"first": first, "second": out.gather()}

    on_all_devices(case)


@da.stencil(colours=2)
def relax(u: Any, f: Any, *, w: float) -> None:
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    u[0, 0] = (1.0 - w) * u[0, 0] + 0.25 * w * (around - f[0, 0])


@da.stencil(colours=2)
def drift(u: Any) -> None:
    """Reads one side only, so that the core reaches into what is sent to the other side."""
    u[0, 0] = 0.5 * u[0, 0] + 0.5 * u[-1, 0]


def test_two_colours_in_place() -> None:
    start, source = random_values(16, 12), random_values(16, 12, seed=2)

    def case(make: MakeGrid) -> Results:
        found = {}
        for overlap in (True, False):
            grid = make((16, 12), periodic=(True, False))
            u = put(grid, start, boundary={"y": da.Dirichlet(0.5)})
            f = put(grid, source)
            for _ in range(3):
                relax.apply(u, f, w=1.2, overlap=overlap)
                drift.apply(u, overlap=overlap)
            found[f"overlap={overlap}"] = u.gather()
        return found

    on_all_devices(case)


@da.stencil
def restrict(fine: Any, coarse: Any) -> None:
    coarse[0, 0] = 0.25 * (
        fine.fine[0, 0] + fine.fine[1, 0] + fine.fine[0, 1] + fine.fine[1, 1]
    ) - 0.125 * (fine.fine[-1, 0] + fine.fine[2, 1])


@da.stencil
def prolong(coarse: Any, fine: Any) -> None:
    fine[0, 0] = fine[0, 0] + 0.75 * coarse.coarse[0, 0] + 0.25 * coarse.coarse[1, -1]


def test_coarser_grids() -> None:
    start = random_values(18, 20)

    def case(make: MakeGrid) -> Results:
        grid = make((18, 20), periodic=True, halo=2)
        coarse = grid.coarsen()
        u, c = put(grid, start), coarse.zeros()
        for _ in range(2):
            restrict(u, c)
            prolong(c, u)
        return {"fine": u.gather(), "coarse": c.gather()}

    on_all_devices(case)


# ---- conditions


def average(u: Any, v: Any) -> None:
    u[0, 0] = 0.5 * (u[1, 0] + v[1, 1]) + 0.25 * v[2, 0]


@da.stencil
def heat(u: Any, new: Any, *, r: float) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def test_conditions_that_read_other_arrays_or_depend_on_the_time() -> None:
    start, other = random_values(15, 12), random_values(15, 12, seed=5)

    def case(make: MakeGrid) -> Results:
        grid = make((15, 12), periodic=(False, True))
        v = put(grid, other)
        conditions = {
            "x-": da.Custom(average, v),
            "x+": da.Dirichlet(lambda t, x, y: np.sin(t) + y),
        }
        u, new = put(grid, start, boundary=conditions), put(grid, start, boundary=conditions)
        for step in range(4):
            heat(u, new, r=0.1, time=0.3 * step)
            heat(new, u, r=0.1, time=0.3 * step + 0.1)
            v += 0.5 * u
        return {"u": u.gather(), "v": v.gather()}

    on_all_devices(case)


def test_points_fixed_on_a_face_at_a_time() -> None:
    start = random_values(12, 10)

    def case(make: MakeGrid) -> Results:
        grid = make((12, 10))
        conditions = {"x": da.Dirichlet(lambda t, x, y: t + y), "y": da.Neumann(0.5)}
        points = np.concatenate([start, start[:1]])
        u = put(grid, points, location="x", boundary=conditions)
        new = put(grid, points, location="x", boundary=conditions)
        last = da.iterate(heat, u, new, steps=5, dt=0.25, r=0.1)
        return {"last": last.gather(), "u": u.gather(), "new": new.gather()}

    on_all_devices(case)


# ---- points


def test_values_at_points() -> None:
    start = random_values(14, 11)
    where = np.random.default_rng(4).uniform(0.1, 0.9, (9, 2))

    def case(make: MakeGrid) -> Results:
        grid = make((14, 11), periodic=True)
        u = put(grid, start)
        points = grid.points(where)
        points.add(u, np.arange(9.0))
        return {"sampled": points.sample(u), "u": u.gather()}

    on_all_devices(case)


# ---- reductions


@da.stencil
def figures(u: Any, new: Any) -> Any:
    new[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])
    return (
        da.reduce.max(abs(new[0, 0])),
        da.reduce.min(u[0, 0]),
        da.reduce.sum(u[0, 0], reproducible=True),
        da.reduce.sum(da.index(0)),
        da.reduce.max(da.index(1)),
    )


def test_reductions_in_kernels() -> None:
    start = random_values(16, 12)
    broken = start.copy()
    broken[9, 3] = np.nan

    def case(make: MakeGrid) -> Results:
        found = {}
        for name, values in (("whole", start), ("with NaN", broken)):
            grid = make((16, 12), periodic=True)
            u, new = put(grid, values), grid.zeros()
            results = [figures(u, new) for _ in range(3)]
            for number, result in enumerate(results[-1]):
                found[f"{name} {number}"] = result.result()
        return found

    on_all_devices(case)


@da.stencil
def total(u: Any, z: Any) -> Any:
    return da.reduce.sum(u[0, 0]), da.reduce.sum(z[0, 0]), da.reduce.sum(z[0, 0].real)


def test_sums_are_right_and_the_same_with_and_without_overlap() -> None:
    values, parts = random_values(16, 12), random_values(16, 12, dtype=np.complex64)
    exact = math.fsum(values.ravel())
    bound = values.size * np.finfo(float).eps * math.fsum(abs(values).ravel())
    for transport in TRANSPORTS:
        grid = simulated(transport)((16, 12), periodic=True)
        u, z = put(grid, values), put(grid, parts)
        first, second, third = total(u, z)
        assert abs(float(first) - exact) <= bound
        double = parts.astype(complex)
        assert abs(second.result() - np.complex64(double.sum())) <= 1e-6 * abs(double).sum()
        assert second.dtype == np.complex64
        assert third.dtype == np.float32
        again = [float(figures_of(u, grid, overlap)) for overlap in (True, False)]
        assert again[0] == again[1]


@da.stencil
def sum_of_differences(u: Any, new: Any) -> Any:
    new[0, 0] = u[1, 0] - 0.9 * u[-1, 0]
    return da.reduce.sum(new[0, 0])


def figures_of(u: da.DistArray, grid: da.Grid, overlap: bool) -> Any:
    u += 0.0
    return sum_of_differences.apply(u, grid.zeros(), overlap=overlap)


# ---- pending values


@da.stencil
def norms(u: Any) -> Any:
    return da.reduce.max(abs(u[0, 0])), da.reduce.min(u[0, 0].real)


@da.stencil
def divide(u: Any, out: Any, *, by: float, less: float) -> None:
    out[0, 0] = u[0, 0] / by - less


@da.stencil
def whole(u: Any, z: Any) -> Any:
    return (
        da.reduce.sum(u[0, 0], reproducible=True),
        da.reduce.max(u[0, 0]),
        da.reduce.sum(z[0, 0] * 0.0 + (1.0 + 2.0j)),
        da.reduce.sum(da.index(0)),
    )


@da.stencil
def mix(u: Any, out: Any, *, a: float, b: float, c: complex, d: int) -> None:
    out[0, 0] = u[0, 0] * a + b * c + d


def test_a_pending_value_is_a_scalar_of_a_later_kernel() -> None:
    for dtype in (np.float64, np.float32):
        start, other = random_values(16, 12, dtype=dtype), random_values(16, 12, dtype=complex)

        def case(make: MakeGrid, start: Array = start, other: Array = other) -> Results:
            grid = make((16, 12), periodic=True)
            u, z, out = put(grid, start), put(grid, other), grid.zeros(start.dtype)
            for _ in range(3):
                largest, least = norms(u)
                divide(u, out, by=largest, less=least)
                divide(out, u, by=least, less=1.5)
            a, b, c, d = whole(u, z)
            mixed = grid.zeros(complex)
            mix(u, mixed, a=a, b=b, c=c, d=d)
            return {"u": u.gather(), "out": out.gather(), "mixed": mixed.gather(), "c": c.result()}

        on_all_devices(case)


def test_a_pending_nan_reaches_a_later_kernel() -> None:
    start = random_values(16, 12)
    start[3, 4] = np.nan

    def case(make: MakeGrid) -> Results:
        grid = make((16, 12), periodic=True)
        u, out = put(grid, start), grid.zeros()
        largest, _ = norms(u)
        divide(put(grid, np.ones((16, 12))), out, by=largest, less=0.0)
        return {"out": out.gather()}

    on_all_devices(case)


def test_a_pending_value_is_taken_from_the_device_and_its_host_value_is_the_same() -> None:
    values = random_values(16, 12)
    for transport in TRANSPORTS:
        grid = simulated(transport)((16, 12))
        u = put(grid, values)
        largest, least = norms(u)
        stays = SIZE == 1 or transport == "nccl"
        assert (largest.device_value is not None) == stays
        if stays:
            on_device = largest.device_value
            assert on_device.nbytes == 16
            assert on_device.get().ravel()[0] == abs(values).max()
        assert largest.result() == abs(values).max()
        assert least.result() == values.min()
        assert largest.device_value is None
        # Passed on after it was read, also to another device.
        out, there = grid.zeros(), da.Grid((16, 12), device="cpu")
        divide(u, out, by=largest, less=least)
        same(out, values / abs(values).max() - values.min())
        again, _ = norms(u)
        elsewhere = there.zeros()
        divide(put(there, values), elsewhere, by=again, less=0.0)
        same(elsewhere, values / abs(values).max() - 0.0)


def test_pending_values_may_be_dropped_or_read_late_and_by_one_rank() -> None:
    for transport in TRANSPORTS:
        grid = simulated(transport)((16, 12))
        u = grid.zeros()
        kept = []
        for number in range(2 * RING_SIZE + 3):
            u[...] = float(number)
            largest, _ = norms(u)
            if number % 7 == 0:
                kept.append((number, largest))
        if grid.rank == SIZE - 1:
            assert [value.result() for _, value in kept] == [number for number, _ in kept]
        late = grid.zeros()
        divide(u, late, by=kept[1][1], less=0.0)
        same(late, np.full((16, 12), (2 * RING_SIZE + 2) / 7.0))
