"""Kernels on the simulated device give the bits of the CPU, over every transport."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import distarray as da
from distarray.backends.simulated.capture import SimulatedGraph
from distarray.errors import BackendError
from distarray.halo.exchange import HaloExchange
from distarray.kernels.plan import ApplyPlan
from distarray.pending import RING_SIZE, complete_all
from tests.ranks.bits import Array, random_values, same
from tests.ranks.common import SIZE

TIMEOUT = 240

TRANSPORTS = ("staged", "device", "host", "nccl") if SIZE > 1 else ("auto",)

#: Makes a grid on one device.
MakeGrid = Callable[..., da.Grid]
Results = dict[str, Any]


def simulated(transport: str) -> MakeGrid:
    return lambda *args, **options: da.Grid(
        *args, device="simulated", transport=transport, **options
    )


def on_all_devices(case: Callable[[MakeGrid], Results]) -> None:
    """What a case gives on the CPU, it gives on the device."""
    expected = case(lambda *args, **options: da.Grid(*args, device="cpu", **options))
    for transport in TRANSPORTS:
        found = case(simulated(transport))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            try:
                same(found[name], value)
            except AssertionError as error:
                raise AssertionError(f"{name} over {transport}: {error}") from error


def put(grid: da.Grid, values: Array, **options: Any) -> da.DistArray:
    array = grid.empty(values.dtype, **options)
    array[...] = values
    return array


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


# ---- waiting


@da.stencil
def upwind(u: Any, new: Any) -> None:
    new[0, 0] = 0.5 * u[0, 0] + 0.5 * u[-1, 0]


def test_compute_waits_for_the_packing_only_where_the_core_overwrites_it() -> None:
    begin = HaloExchange.begin
    protected: list[bool] = []

    def noted(exchange: HaloExchange, *, protect: bool = True) -> Any:
        protected.append(protect)
        return begin(exchange, protect=protect)

    grid = simulated(TRANSPORTS[0])((8 * SIZE, 12), periodic=True, ranks=(SIZE, 1))
    u, new = grid.zeros(), grid.zeros()
    HaloExchange.begin = noted  # type: ignore[method-assign]
    try:
        for call, expected in (
            (lambda: heat(u, new, r=0.1), [False]),
            (lambda: upwind(u, new), [False]),
            # In place: the core leaves out the faces that are read beyond, which are those sent.
            (lambda: relax(u, new, w=1.0), [False, False]),
            # It is sent to one side, and read beyond the other.
            (lambda: drift(u), [SIZE > 1, SIZE > 1]),
            (lambda: drift.apply(u, overlap=False), [False, False]),
        ):
            u[...] = new[...] = 0.0
            protected.clear()
            call()
            assert protected == expected, (protected, expected)
    finally:
        HaloExchange.begin = begin  # type: ignore[method-assign]


def waits(grid: da.Grid) -> int:
    """How often the host has waited for the device."""
    backend: Any = grid.zeros().block.backend
    count: int = backend.driver.statistics.synchronizations
    return count


def test_the_host_waits_for_the_packing_at_most() -> None:
    for transport in TRANSPORTS:
        grid = simulated(transport)((16, 12), periodic=True, ranks=(SIZE, 1))
        u, new = put(grid, random_values(16, 12)), grid.zeros()
        before = 0
        for number in range(12):
            if number == 2:
                before = waits(grid)
            heat(u, new, r=0.1)
            heat(new, u, r=0.1)
        if transport != "host":  # which waits for every copy
            expected = 20 if transport in ("staged", "device") else 0
            assert waits(grid) - before == expected, transport


def test_the_host_waits_for_no_reduction_that_stays_on_the_device() -> None:
    for transport in ("nccl",) if SIZE > 1 else ("auto",):
        grid = simulated(transport)((16, 12), periodic=True)
        u, out = put(grid, random_values(16, 12)), grid.zeros()
        complete_all()  # so that none leaves the ring here
        before = 0
        for number in range(RING_SIZE // 2):
            if number == 2:
                before = waits(grid)
            largest, least = norms(u)
            divide(u, out, by=largest, less=least)
            sum_of_differences(out, u)
        assert waits(grid) == before


# ---- time loops


@contextlib.contextmanager
def graphs_counted() -> Iterator[list[int]]:
    """A list that grows with every launch of a graph."""
    launches: list[int] = []
    launch = SimulatedGraph.launch

    def counted(graph: SimulatedGraph, stream: Any) -> None:
        launches.append(1)
        launch(graph, stream)

    SimulatedGraph.launch = counted  # type: ignore[method-assign]
    try:
        yield launches
    finally:
        SimulatedGraph.launch = launch  # type: ignore[method-assign]


def expects_graphs(grid: da.Grid) -> bool:
    """Whether loops on this grid may become graphs."""
    name = getattr(getattr(grid.communicator, "transport", None), "name", "")
    return grid.device == "simulated" and (SIZE == 1 or name == "nccl")


def test_long_loops_become_graphs() -> None:
    start = random_values(16, 12)
    conditions = {"y-": da.Dirichlet(0.3), "y+": da.Neumann(-0.5)}

    def case(make: MakeGrid) -> Results:
        found = {}
        for steps in (1, 8, 13):
            grid = make((16, 12), periodic=(True, False))
            u, new = put(grid, start, boundary=conditions), grid.empty(boundary=conditions)
            with graphs_counted() as launches:
                last = da.iterate(heat, u, new, steps=steps, r=0.1)
            assert bool(launches) == (expects_graphs(grid) and steps >= 8)
            found[f"last {steps}"] = last.gather()
            # What is known of the arrays is that of single calls.
            heat(last, u if last is new else new, r=0.2)
            found[f"u {steps}"], found[f"new {steps}"] = u.gather(), new.gather()
        return found

    on_all_devices(case)


def test_what_is_known_of_the_arrays_after_graphs_is_that_of_single_calls() -> None:
    start = random_values(16, 12)
    conditions = {"y": da.Dirichlet(0.3)}
    for transport in TRANSPORTS:
        known = []
        for single in (True, False):
            grid = simulated(transport)((16, 12), periodic=(True, False))
            u, new = put(grid, start, boundary=conditions), grid.empty(boundary=conditions)
            one, other = u, new
            for number in range(22) if single else ():
                heat(one, other, r=0.1, time=0.5 * number)
                one, other = other, one
            if not single:
                da.iterate(heat, u, new, steps=22, dt=0.5, r=0.1)
            known.append(
                [
                    (b.version, b.fresh, b.filled.points is None, len(b.filled.fills), c.time)
                    for b, c in ((a.block, a.boundary.conditions) for a in (u, new))
                ]
            )
        # A loop also copies what no step computes, which here is nothing.
        assert known[0] == known[1], known


@da.stencil
def kick(v: Any, u: Any, force: Any, *, dt: float, k: float) -> None:
    v[0, 0] = v[0, 0] + dt * (k * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1]) - force[0, 0])


@da.stencil
def move(u: Any, v: Any, *, dt: float, time: float) -> None:
    u[0, 0] = u[0, 0] + dt * (v[0, 0] + 0.25 * (v[1, 0] - v[0, -1])) + 0.001 * time


def test_steps_of_several_kernels_in_place_with_scalars_that_change() -> None:
    start, force = random_values(16, 12), random_values(16, 12, seed=8)

    def case(make: MakeGrid) -> Results:
        grid = make((16, 12), periodic=True)
        u, v, f = put(grid, start), grid.zeros(), put(grid, force)
        calls: list[int] = []

        def stiffness(number: int) -> float:
            calls.append(number)
            return 0.1 + 0.01 * number

        with graphs_counted() as launches:
            da.iterate(
                [(kick, (1, 0, 2)), (move, (0, 1))],
                u, v, f, steps=9, rotate=(), time=1.0, dt=0.01, k=stiffness,
            )  # fmt: skip
        assert calls == list(range(9))
        # The first step finds more halos stale, the second shows that the third is like it.
        assert len(launches) == (7 if expects_graphs(grid) else 0)
        return {"u": u.gather(), "v": v.gather()}

    on_all_devices(case)


@da.stencil
def leapfrog(old: Any, now: Any, speed: Any, new: Any, *, c: float) -> None:
    around = now[1, 0] + now[-1, 0] + now[0, 1] + now[0, -1] - 4.0 * now[0, 0]
    new[0, 0] = 2.0 * now[0, 0] - old[0, 0] + c * speed[0, 0] * around


def test_three_states_with_callbacks_that_change_them() -> None:
    start, speeds = random_values(16, 12), random_values(16, 12, seed=9)

    def case(make: MakeGrid) -> Results:
        grid = make((16, 12), periodic=True)
        old, now, new = put(grid, start), put(grid, start), grid.zeros()
        speed = put(grid, speeds)
        seen: list[Any] = []

        def look(steps: int, time: float, arrays: tuple[Any, ...]) -> None:
            seen.append((steps, time))
            if steps == 24:
                arrays[1][3:5, 2:4] = 0.5  # halos are stale and the graph does not fit
            if steps == 48:
                speed[...] = 0.25

        with graphs_counted() as launches:
            last = da.iterate(
                leapfrog, old, now, speed, new,
                steps=75, rotate=(0, 1, 3), time=2.0, dt=0.5, c=0.1, callback=look, every=12,
            )  # fmt: skip
        assert bool(launches) == expects_graphs(grid)
        assert seen == [(n, 2.0 + 0.5 * n) for n in range(12, 75, 12)]
        return {"last": last.gather(), "old": old.gather(), "now": now.gather()}

    on_all_devices(case)


def test_a_graph_is_kept_for_later_loops_and_sees_new_scalars_and_values() -> None:
    start = random_values(16, 12)
    kernel = da.stencil(heat.function)

    def case(make: MakeGrid) -> Results:
        found = {}
        grid = make((16, 12), periodic=True)
        u, new = put(grid, start), grid.zeros()
        for number, r in enumerate((0.1, 0.2, 0.05)):
            with graphs_counted() as launches:
                da.iterate(kernel, u, new, steps=8, r=r)
            if expects_graphs(grid):
                assert len(launches) == (1 if number == 0 else 2), (number, launches)
            kernel(u, new, r=0.9)
            kernel(new, u, r=0.8)
            found[f"after {number}"] = u.gather()
        assert len(kernel.graphs) == expects_graphs(grid)
        del u, new
        kernel(grid.zeros(), grid.zeros(), r=0.1)
        assert not kernel.graphs
        return found

    on_all_devices(case)


def test_loops_with_conditions_of_the_time_or_reductions_stay_single_calls() -> None:
    start = random_values(16, 12)

    def case(make: MakeGrid) -> Results:
        grid = make((16, 12), periodic=(True, False))
        moving = {"y": da.Dirichlet(lambda t, x, y: np.sin(t + x))}
        u, new = put(grid, start, boundary=moving), put(grid, start, boundary=moving)
        with graphs_counted() as launches:
            da.iterate(heat, u, new, steps=12, dt=0.1, r=0.1)
            v, w = put(grid, start), put(grid, start)
            da.iterate(sum_of_differences, v, w, steps=12)
        assert not launches
        return {"u": u.gather(), "v": v.gather()}

    on_all_devices(case)


def test_what_fails_while_it_is_captured_has_not_happened() -> None:
    """A device that cannot capture something is given single calls; an interrupt leaves the arrays
    as they were before the captured steps.
    """
    start = random_values(16, 12)
    run = ApplyPlan.run

    def case(make: MakeGrid, failure: BaseException) -> Results:
        grid = make((16, 12), periodic=True)
        u, new = put(grid, start), grid.zeros()
        calls: list[int] = []

        def failing(plan: ApplyPlan, *arguments: Any) -> Any:
            result = run(plan, *arguments)
            calls.append(1)
            if len(calls) == 6 and expects_graphs(grid):
                raise failure
            return result

        ApplyPlan.run = failing  # type: ignore[method-assign]
        try:
            with graphs_counted() as launches:
                da.iterate(heat, u, new, steps=20, r=0.1)
        except KeyboardInterrupt:
            # Four steps were run before the capture of the next four began.
            da.iterate(heat, u, new, steps=16, r=0.1)
        finally:
            ApplyPlan.run = run  # type: ignore[method-assign]
        assert not launches
        return {"u": u.gather(), "new": new.gather()}

    for failure in (BackendError("The device cannot do this."), KeyboardInterrupt()):
        on_all_devices(functools.partial(case, failure=failure))
