"""Time loops on the simulated device: when the host waits, and when steps become graphs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

import distarray as da
from distarray.backends.simulated.capture import SimulatedGraph
from distarray.backends.simulated.driver import SimulatedDriver
from distarray.errors import BackendError
from distarray.graphs import Replay
from distarray.halo.exchange import HaloExchange
from distarray.kernels.plan import ApplyPlan
from distarray.pending import RING_SIZE, complete_all
from tests.ranks.bits import random_values
from tests.ranks.common import SIZE
from tests.ranks.on_devices import TRANSPORTS, MakeGrid, Results, on_all_devices, put, simulated
from tests.ranks.ranks_device_kernels import (
    divide,
    drift,
    heat,
    norms,
    relax,
    sum_of_differences,
)

RANKS = (1, 2, 4)
SELDOM = (2,)
TIMEOUT = 240


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

        def loop(k: Any) -> int:
            """The graphs that were launched; the time is a scalar that changes."""
            with graphs_counted() as launches:
                da.iterate(
                    [(kick, (1, 0, 2)), (move, (0, 1))],
                    u, v, f, steps=9, rotate=(), time=1.0, dt=0.01, k=k,
                )  # fmt: skip
            return len(launches)

        # The first step finds more halos stale, the second shows that the third is like it.
        assert loop(0.1) == (7 if expects_graphs(grid) else 0)
        assert loop(stiffness) == 0
        assert calls == list(range(9))
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


def graph_transports() -> tuple[str, ...]:
    """Transports over which loops become graphs."""
    return ("nccl",) if SIZE > 1 else ("auto",)


def test_graphs_take_scalars_that_come_from_the_device_and_others_in_turn() -> None:
    """What a graph was captured with does not come back: each loop has the value it was given."""
    start, parts = random_values(8 * SIZE, 8), random_values(8 * SIZE, 8, seed=3)
    for transport in graph_transports():
        for order in ("device device host", "host device host device"):
            grid = simulated(transport)((8 * SIZE, 8), periodic=True, ranks=(SIZE, 1))
            u, new, v, w = put(grid, start), grid.zeros(), put(grid, start), grid.zeros()
            one, two = da.stencil(heat.function), da.stencil(heat.function)
            counts = []
            for number, kind in enumerate(order.split()):
                measured = sum_of_differences(put(grid, 0.001 * (number + 1) * parts), grid.zeros())
                r: Any = measured if kind == "device" else 0.128 + 0.01 * number
                assert (getattr(r, "device_value", None) is not None) == (kind == "device")
                with graphs_counted() as launches:
                    da.iterate(one, u, new, steps=24, r=r)
                counts.append(len(launches))
                for _ in range(12):
                    two(v, w, r=r)
                    two(w, v, r=r)
                assert np.array_equal(u.gather(), v.gather()), (transport, order, number)
            # Nothing is captured with a value of the device, but what is there is launched.
            assert [count > 0 for count in counts] == {
                "device device host": [False, False, True],
                "host device host device": [True, True, True, True],
            }[order], counts


def test_a_captured_copy_of_a_scalar_would_show() -> None:
    """What keeps it out of graphs is needed."""
    may_capture = Replay._may_capture

    def careless(replay: Replay, calls: Any) -> bool:
        return may_capture(replay, [(plan, ()) for plan, _ in calls])

    start = random_values(8 * SIZE, 8)
    for transport in graph_transports():
        results = []
        for change in (may_capture, careless):
            grid = simulated(transport)((8 * SIZE, 8), periodic=True, ranks=(SIZE, 1))
            u, new, kernel = put(grid, start), grid.zeros(), da.stencil(heat.function)
            measured = sum_of_differences(put(grid, 0.001 * start), grid.zeros())
            Replay._may_capture = change  # type: ignore[method-assign]
            try:
                for r in (measured, 0.128):
                    da.iterate(kernel, u, new, steps=24, r=r)
            finally:
                Replay._may_capture = may_capture  # type: ignore[method-assign]
            results.append(u.gather())
        assert not np.array_equal(*results)


def test_scalars_that_are_functions_see_the_arrays_of_their_step() -> None:
    """They may look at them, so no graph runs steps ahead of them, before or after others."""
    start = random_values(16, 12)

    def case(make: MakeGrid) -> Results:
        grid = make((16, 12), periodic=True)
        u, new = put(grid, start), grid.zeros()
        kernel, found = da.stencil(heat.function), {}

        def measured(step: int) -> float:
            return 0.1 / float(1.0 + (new if step % 2 else u).max())

        for number, r in enumerate((0.1, measured, 0.2, lambda step: 0.02 * step)):
            with graphs_counted() as launches:
                da.iterate(kernel, u, new, steps=16, r=r)
            assert bool(launches) == (expects_graphs(grid) and not callable(r))
            found[f"u {number}"] = u.gather()
        return found

    on_all_devices(case)


def test_all_ranks_capture_or_none() -> None:
    """NCCL needs it: the stand-in refuses messages of a graph that meet others."""
    start = random_values(4 * SIZE, 8)
    begin, end = SimulatedDriver.begin_capture, SimulatedDriver.end_capture

    def refused(driver: SimulatedDriver) -> bool:
        return False

    def raising(driver: SimulatedDriver) -> Any:
        raise BackendError("The device captures nothing; try another.")

    def failing(driver: SimulatedDriver) -> Any:
        end(driver)
        raise BackendError("The device has lost the graph; try again.")

    for changes in (
        {"begin_capture": refused},
        {"begin_capture": raising},
        {"end_capture": failing},
    ):
        for transport in graph_transports():
            expected, found = [], []
            for results in (expected, found):
                grid = simulated(transport)((4 * SIZE, 8), periodic=True, ranks=(SIZE, 1))
                u, new = put(grid, start), grid.zeros()
                if results is found and grid.rank == SIZE - 1:
                    for name, change in changes.items():
                        setattr(SimulatedDriver, name, change)
                try:
                    with graphs_counted() as launches:
                        da.iterate(da.stencil(heat.function), u, new, steps=20, r=0.1)
                finally:
                    SimulatedDriver.begin_capture, SimulatedDriver.end_capture = begin, end
                results += [u.gather(), new.gather()]
                assert bool(launches) == (results is expected)
            assert all(map(np.array_equal, expected, found))


def test_ranks_that_have_lost_a_graph_or_know_more_capture_it_together() -> None:
    start = random_values(4 * SIZE, 8)
    for transport in graph_transports():
        grid = simulated(transport)((4 * SIZE, 8), periodic=True, ranks=(SIZE, 1))
        u, new = put(grid, start), grid.zeros()
        v, w = put(grid, start), grid.zeros()
        kernel, other = da.stencil(heat.function), da.stencil(heat.function)
        for number in range(3):
            if grid.rank == 0 and number == 1:
                kernel.graphs.clear()
            if grid.rank == SIZE - 1 and number == 2:
                u.block.filled.fills.add(77)  # something that only this rank knows
            da.iterate(kernel, u, new, steps=20, r=0.1)
            for _ in range(10):
                other(v, w, r=0.1)
                other(w, v, r=0.1)
            assert np.array_equal(u.gather(), v.gather())
