"""Conservation laws on uniform grids: explicit steps whose length follows the state.

A step of several stages (`integrators`) begins with the state at its start, which stays untouched
until the last stage writes the new one in its place. In the pass of that stage the signal speeds of
the new state are reduced: their largest value is under way while the step returns. The next step is
then taken in this order:

1. its first stage is started with the time step that the speeds before allow: courant / rate, with
   the rate that the step before has read;
2. the reduction that was under way meanwhile is read: the only time that a step waits;
3. if the time step turns out to be too long for it, by a tenth or beyond the limit, the first stage
   is done once more with the one that fits, from the state that is still there;
4. the other stages follow.

So every step that is taken has been checked against the speeds of the state it starts from, as if
the reduction had been waited for, and messages of a reduction travel behind the work of a stage.
What the speeds rise by within a step has the room between `courant` and the limit. Maxima are
exact: all of this is the same to the bit on any ranks.

What acts in each cell by itself besides the equation (`Forces`) does so for half a step before the
first stage and half a step after the last one, whose values it measures (Strang, G. (1968) SIAM J.
Numer. Anal. 5(3), 506-517): the step is of second order if both parts are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import distarray as da
from solvers.base import Solver, require_time_step
from solvers.box import AXES, is_number, shown
from solvers.hyperbolic import integrators
from solvers.hyperbolic.kernels import Equation, Layout, speed_kernel, stage_kernel

#: How far a time step may exceed what the speeds allow before it is taken back.
SLACK = 1.1
_ROUNDING = 1.0 + 4e-6  # `run` stretches its last step by up to 1e-6


class Forces(Protocol):
    """What acts in each cell by itself."""

    def __call__(
        self,
        before: Sequence[da.DistArray],
        after: Sequence[da.DistArray],
        *,
        dt: float,
        last: bool,
    ) -> Any:
        """Write the state that a time dt makes of another one. Collective.

        Where `last`, it returns the largest speed of the equation in the new state and the largest
        change from what was in `after`, pending.
        """


class ConservationLaw(Solver):
    """The state of an `Equation` that advances in time. Collective.

    Attributes
    ----------
    equation : Equation
    fields : dict of str to DistArray
        As given; each cell holds the mean over itself, or what the equation says.

    Notes
    -----
    Who writes `fields` between steps calls `stable_dt` afterwards, which takes note of the new
    speeds.
    """

    def __init__(
        self,
        config: Any,
        grid: da.Grid,
        fields: Mapping[str, da.DistArray],
        equation: Equation,
        *,
        courant: float,
        limit: float = 1.0,
        integrator: str = "ssp_rk3",
        arrays: Sequence[da.DistArray] = (),
        scalars: Mapping[str, float] | None = None,
        derived: da.DistArray | None = None,
        forces: Forces | None = None,
    ) -> None:
        """Prepare the steps of fields on a grid. Collective.

        Parameters
        ----------
        config : frozen dataclass
            See `Solver`.
        grid : Grid
        fields : mapping of str to DistArray
            The state, with its conditions, its halo as wide as the equation reads; with one
            component axis at most.
        equation : Equation
        courant : float
            dt times the largest speed of the equation, for automatic steps; 0 < courant <= limit.
        limit : float
            The largest Courant number with which a step may be taken.
        integrator : str
            Of time, see `integrators`.
        arrays, scalars :
            What the equation's kernels read besides.
        derived : DistArray, optional
            With one component axis, with conditions and halo: what the equation derives from the
            state, for all that kernels read around a cell.
        forces : Forces, optional
            Of an equation that derives nothing.

        Raises
        ------
        SolverError
            An unknown integrator, a Courant number that is not above 0 or exceeds the limit, or a
            grid with stretched axes.
        """
        super().__init__(measure_every=1)
        require_courant(courant, limit)
        self.config, self.equation, self.fields = config, equation, dict(fields)
        self.grid = grid
        self._integrator = integrators.integrator(integrator)
        self._courant, self._most = courant, limit
        self._state = list(self.fields.values())
        self._forces = forces
        # Where the stages start; forces make it, and take the state after the last one.
        self._begun = self._state if forces is None else [u.copy() for u in self._state]
        copies = self._integrator.copies if forces is None else min(len(self._integrator.stages), 2)
        self._spare = [[u.copy() for u in self._state] for _ in range(copies)]
        layout = _layout(self.fields)
        self._stage = stage_kernel(equation, layout, self.grid.ndim)
        self._speed = speed_kernel(equation, layout, self.grid.ndim)
        self._arrays = list(arrays)
        self._derived = [] if derived is None else [derived, derived.copy()]
        self._scalars = {**reciprocals(self.grid), **(scalars or {})}

    # ---- time steps

    def stable_dt(self) -> float:
        """The time step of the Courant number `courant` for the fields now. Collective; waits.

        Raises
        ------
        SolverError
            Nothing moves, or the state is not finite.
        """
        self._begin_speed()
        return self._limit([self._read_speed()])

    def step(self, dt: float) -> None:
        """Advance by one time step. Collective.

        Raises
        ------
        SolverError
            dt is not above 0, its Courant number exceeds the limit, or the state is not finite; it
            is as it was.
        """
        require_time_step(dt)
        measured = self._first_stage(dt)
        speed = self._read_speed()
        if dt * speed > self._most * _ROUNDING:
            raise da.SolverError(
                f"A time step has at most the Courant number {self._most:g}, received dt={dt:.6g} "
                f"with {dt * speed:.6g} at step {self.step_count}, time {self.time:.6g}; use at "
                f"most dt={self._most / speed:.6g}."
            )
        self._finish(dt, speed, measured)
        self.time += dt

    def _advance(self, until: float | None) -> float:
        dt, time = self._next(until)
        measured = self._first_stage(dt)
        speed = self._read_speed()
        if dt * speed > min(SLACK * self._courant, self._most) * _ROUNDING:
            dt = self._limit([speed])
            time = self.time + dt
            measured = self._first_stage(dt)
        self._finish(dt, speed, measured)
        self.time = time
        return dt

    def _complete(self) -> None:
        self._read_speed()

    def _limit(self, speeds: Sequence[float]) -> float:
        if speeds[0] == 0.0:
            raise da.SolverError(
                "A state in which nothing moves has no time step; give step(dt) one."
            )
        return self._courant / speeds[0]

    def _begin_speed(self) -> tuple[float, list[Any], list[Any]]:
        """Start to look for the largest speed of the fields as they are."""
        self._underway = 1.0, [], [self._look()]
        return self._underway

    def _look(self) -> Any:
        """The largest speed of the fields as they are, pending; renews what is derived of them."""
        return self._speed(
            *self._state, *self._derived[:1], *self._arrays, time=self.time, **self._scalars
        )

    def _read_speed(self) -> float:
        """The largest speed of the state, and the residual of the step that made it. Waits."""
        dt, changes, speeds = self._underway or self._begin_speed()
        found = [float(value) for value in [*speeds, *changes]]
        self._require_finite(found, dt)
        if changes:
            self.residual = found[1] / dt
        return found[0]

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        super()._restore_attributes(attrs)
        if self._derived:
            self._look()

    # ---- stages

    def _first_stage(self, dt: float) -> Any:
        if self._underway is None:
            self._begin_speed()
        if self._forces is not None:
            self._forces(self._state, self._begun, dt=0.5 * dt, last=False)
        return self._run_stage(0, dt)

    def _run_stage(self, number: int, dt: float) -> Any:
        """One stage; the last one of all that a step does returns the largest speed and change,
        pending.
        """
        start, spare, stage = self._begun, self._spare, self._integrator.stages[number]
        last = number == len(self._integrator.stages) - 1 and self._forces is None
        now = spare[(number - 1) % 2] if number else start
        new = self._state if last and number else spare[number % 2]
        return self._stage(
            *now, *start, *new, *self._around(number), *self._arrays, **self._scalars,
            keep=stage.keep, dt=dt, time=self.time + stage.time * dt, last=last,
        )  # fmt: skip

    def _around(self, number: int) -> list[da.DistArray]:
        """The derived arrays that a stage reads and writes."""
        return self._derived[::-1] if number % 2 else self._derived

    def _finish(self, dt: float, speed: float, measured: Any) -> None:
        """The stages after the first, which was run with this dt and returned `measured`."""
        count = len(self._integrator.stages)
        for number in range(1, count):
            measured = self._run_stage(number, dt)
        if self._forces is not None:
            new = self._spare[(count - 1) % 2]
            measured = self._forces(new, self._state, dt=0.5 * dt, last=True)
        elif count == 1:
            for u, value in zip(self._state, self._spare[0], strict=True):
                u[...] = value
        self._derived = self._around(count)
        largest, change = measured
        self._underway = dt, [change], [largest]
        self._time_step = self._limit([speed]) if speed else None
        self.step_count += 1

    # ---- what it holds

    def totals(self) -> dict[str, float]:
        """The integral of each component over the box, summed exactly. Collective; the same bits on
        any ranks.
        """
        volume = math.prod(h for h in self.grid.spacing if h is not None)
        return {
            name: volume * float(u.sum(reproducible=True))
            for name, u in _components(self.fields).items()
        }

    def scalars(self) -> dict[str, float]:
        return {f"total_{name}": value for name, value in self.totals().items()}


def reciprocals(grid: da.Grid) -> dict[str, float]:
    """1 / h along each axis, as kernels take them. Local.

    Raises
    ------
    SolverError
        An axis is stretched.
    """
    found = {}
    for axis, h in zip(AXES, grid.spacing, strict=False):
        if h is None:
            raise da.SolverError(
                f"A conservation law is solved on uniform axes, received stretched {axis}; give "
                "bounds in place of coordinates."
            )
        found[f"r{axis}"] = 1.0 / h
    return found


def require_courant(courant: float, limit: float) -> None:
    """An error unless automatic steps are within the limit. Local."""
    if not (is_number(courant) and 0.0 < courant <= limit):
        raise da.SolverError(
            f"A Courant number is above 0 and at most {limit:g}, received "
            f"courant={shown(courant)}; choose one in between."
        )


def _components(fields: Mapping[str, da.DistArray]) -> dict[str, da.DistArray]:
    """Each component of each field, named by the field and a number."""
    found: dict[str, da.DistArray] = {}
    for (name, u), (_, count) in zip(fields.items(), _layout(fields), strict=True):
        found.update({f"{name}_{c}": u[c] for c in range(count)} if count else {name: u})
    return found


def _layout(fields: Mapping[str, da.DistArray]) -> Layout:
    return tuple((name, u.components[0] if u.components else 0) for name, u in fields.items())
