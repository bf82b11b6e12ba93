"""The stencils: one pass that streams and collides, and what is computed from populations.

Populations are those after a collision. A step reads each where it comes from, `f_i(x - c_i)`,
collides and writes it: each is read and written once. Where a link crosses a wall, half-way between
two cells, the population that left the cell comes back (bounce-back; Ladd, A. J. C. (1994) J. Fluid
Mech. 271, 285-309): `f_o(x) + 6 w_i c_i . u_wall`. Which links do is said by one integer per cell
and surface, bit i for population i, see `links`: walls need no values of neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.lbm.collision import Collision, State, of_stress, pushed, state_of
from solvers.lbm.lattice import Lattice

Velocity = tuple[float, ...]


def stream_collide(
    lattice: Lattice,
    collision: Collision,
    *,
    force: Velocity | None = None,
    walls: Sequence[Velocity | None] | None = None,
    measure: Sequence[int] | None = None,
) -> da.StencilKernel:
    """The kernel of one step, `kernel(f, new, omega=, odd=)`, with walls `kernel(f, new, links,
    omega=, odd=)`. Local.

    Parameters
    ----------
    force : tuple of float, optional
        Force per volume.
    walls : sequence of (velocity or None), optional
        For each surface its velocity, None for rest.
    measure : sequence of int, optional
        Also return the largest change of a component of the momentum in this step, the largest
        square of the velocity, and the force on each of these surfaces, a sum for each axis.
    """
    step = _Step(lattice, collision, force, walls or (), measure)

    def periodic(f: Any, new: Any, *, omega: Any, odd: Any) -> Any:
        return step.run(f, new, None, omega, odd)

    def walled(f: Any, new: Any, links: Any, *, omega: Any, odd: Any) -> Any:
        return step.run(f, new, links, omega, odd)

    function: Callable[..., Any] = periodic if walls is None else walled
    function.__name__ = f"stream_collide_{lattice.name.lower()}"
    return da.stencil(function)


class _Step:
    """What `stream_collide` traces."""

    def __init__(
        self,
        lattice: Lattice,
        collision: Collision,
        force: Velocity | None,
        walls: Sequence[Velocity | None],
        measure: Sequence[int] | None,
    ) -> None:
        self._lattice, self._collision = lattice, collision
        self._force, self._walls, self._measure = force, walls, measure
        self._here = (0,) * lattice.ndim

    def run(self, f: Any, new: Any, links: Any, omega: Any, odd: Any) -> Any:
        arriving = self._arriving(f, links)
        force = self._force_here(links)
        state = state_of(self._lattice, arriving, force)
        after = self._collision.collide(self._lattice, arriving, state, omega, odd)
        for i, value in enumerate(after):
            new[i][self._here] = value
        if self._measure is None:
            return None
        return self._measured(f, links, arriving, state)

    def _arriving(self, f: Any, links: Any) -> list[Any]:
        """Populations before the collision."""
        lattice = self._lattice
        found = []
        for i, c in enumerate(lattice.velocities):
            value = f[i][tuple(-n for n in c)]
            if links is not None and i:
                returned = f[lattice.opposite[i]][self._here]
                for surface, velocity in enumerate(self._walls):
                    push = 0.0 if velocity is None else 6.0 * lattice.weights[i] * dot(c, velocity)
                    if push:
                        returned = returned + da.where(self._crosses(links, surface, i), push, 0.0)
                value = da.where((self._all(links) & (1 << i)) != 0, returned, value)
            found.append(value)
        return found

    def _all(self, links: Any) -> Any:
        """Links that cross any surface."""
        found = links[0][self._here]
        for surface in range(1, len(self._walls)):
            found = found | links[surface][self._here]
        return found

    def _crosses(self, links: Any, surface: int, i: int) -> Any:
        return (links[surface][self._here] & (1 << i)) != 0

    def _force_here(self, links: Any) -> Velocity | list[Any] | None:
        """The force, none in solid cells."""
        if self._force is None or links is None:
            return self._force
        solid = self._crosses(links, 0, 0)
        return [da.where(solid, 0.0, g) if g else 0.0 for g in self._force]

    def _measured(self, f: Any, links: Any, arriving: list[Any], state: State) -> Any:
        lattice = self._lattice
        here = [f[i][self._here] for i in range(lattice.size)]
        before = state_of(lattice, here, state.force, part=-0.5)
        change: Any = None
        for u, v in zip(state.velocity, before.velocity, strict=True):
            own = abs(u - v)
            change = own if change is None else np.maximum(change, own)
        square = sum((u * u for u in state.velocity[1:]), state.velocity[0] * state.velocity[0])
        sums = [
            da.reduce.sum(value, reproducible=True)
            for surface in self._measure or ()
            for value in self._force_on(surface, here, links, arriving)
        ]
        return (da.reduce.max(change), da.reduce.max(square), *sums)

    def _force_on(
        self, surface: int, here: list[Any], links: Any, arriving: list[Any]
    ) -> list[Any]:
        """What populations that return leave on a surface in this cell, for each axis."""
        lattice = self._lattice

        def given(i: int) -> Any:
            both = here[lattice.opposite[i]] + arriving[i]
            return da.where(self._crosses(links, surface, i), both, 0.0)

        differences = {i: given(o) - given(i) for i, o in lattice.pairs}
        return [lattice.moment(differences, (axis,)) for axis in range(lattice.ndim)]


def start(
    lattice: Lattice, collision: Collision, force: Velocity | None, walled: bool
) -> da.StencilKernel:
    """`kernel(excess, velocity, f, tau=)`, with walls `kernel(excess, velocity, links, f, tau=)`:
    populations of a flow with this density less 1 and this velocity, in equilibrium but for the
    stress that its gradients cause, `-(tau - 1) / 3 (du_a/dx_b + du_b/dx_a)` after a collision;
    none that differ from rest in solid cells. Local.
    """

    def run(excess: Any, velocity: Any, links: Any, f: Any, tau: Any) -> None:
        here, axes = (0,) * lattice.ndim, range(lattice.ndim)
        u = [velocity[axis][here] for axis in axes]
        state = State(excess[here], 1.0 + excess[here], u, u, force)
        share = (-1.0 / 6.0) * (tau - 1.0) * state.density
        slopes = {(a, b): _difference(velocity[b], a) for a in axes for b in axes}
        stress = {(a, b): share * (slopes[a, b] + slopes[b, a]) for a in axes for b in axes[a:]}
        calm = collision.equilibrium(lattice, state.excess, pushed(state))
        moved = of_stress(lattice, stress)
        for i in range(lattice.size):
            value = calm[i] + moved[i]
            f[i][here] = value if links is None else da.where(links[0][here] & 1 != 0, 0.0, value)

    def periodic(excess: Any, velocity: Any, f: Any, *, tau: Any) -> None:
        run(excess, velocity, None, f, tau)

    def with_walls(excess: Any, velocity: Any, links: Any, f: Any, *, tau: Any) -> None:
        run(excess, velocity, links, f, tau)

    return da.stencil(with_walls if walled else periodic)


def macroscopic(lattice: Lattice, force: Velocity | None, walled: bool) -> da.StencilKernel:
    """`kernel(f, excess, velocity)`, with walls `kernel(f, links, excess, velocity)`: what
    populations stand for, at rest in solid cells. Local.
    """

    def run(f: Any, links: Any, excess: Any, velocity: Any) -> None:
        state = _found(lattice, force, f, links)
        here = (0,) * lattice.ndim
        excess[here] = state.excess
        for axis in range(lattice.ndim):
            velocity[axis][here] = state.velocity[axis]

    def periodic(f: Any, excess: Any, velocity: Any) -> None:
        run(f, None, excess, velocity)

    def with_walls(f: Any, links: Any, excess: Any, velocity: Any) -> None:
        run(f, links, excess, velocity)

    return da.stencil(with_walls if walled else periodic)


def totals(lattice: Lattice, force: Velocity | None, walled: bool) -> da.StencilKernel:
    """`kernel(f)`, with walls `kernel(f, links)`: exact sums of the density less 1, the momentum
    along each axis, and the kinetic energy. Local.
    """

    def run(f: Any, links: Any) -> Any:
        state = _found(lattice, force, f, links)
        momentum = [state.density * u for u in state.velocity]
        work = [0.5 * j * u for j, u in zip(momentum, state.velocity, strict=True)]
        values = [state.excess, *momentum, sum(work[1:], work[0])]
        return tuple(da.reduce.sum(value, reproducible=True) for value in values)

    def periodic(f: Any) -> Any:
        return run(f, None)

    def with_walls(f: Any, links: Any) -> Any:
        return run(f, links)

    return da.stencil(with_walls if walled else periodic)


def _found(lattice: Lattice, force: Velocity | None, f: Any, links: Any) -> State:
    """The state of populations after a collision."""
    here = (0,) * lattice.ndim
    acting: Any = force
    if force is not None and links is not None:
        acting = [da.where(links[0][here] & 1 != 0, 0.0, g) for g in force]
    return state_of(lattice, [f[i][here] for i in range(lattice.size)], acting, part=-0.5)


def _difference(u: Any, axis: int) -> Any:
    """Central difference of a scalar, twice the slope."""
    return u.shift(axis, 1) - u.shift(axis, -1)


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Scalar product of numbers."""
    return float(sum(a * b for a, b in zip(one, other, strict=True)))
