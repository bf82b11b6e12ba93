"""Inflows and outflows: what lies in the layer of cells outside, from which populations enter.

The regularised condition of Latt, J., Chopard, B., Malaspinas, O., Deville, M., Michler, A. (2008)
Phys. Rev. E 77(5), 056703, for sides that lie half-way between cells, as walls do. Populations that
leave the nearest cell are known; those that enter are as far off equilibrium as the opposite ones
(Zou, Q., He, X. (1997) Phys. Fluids 9(6), 1591-1598). This closes the density where the velocity is
given, and the velocity across the side, the only one there is, where the pressure is. The layer
holds the equilibrium of both and the stress of those parts, its moments of second order.

What enters less what leaves is so exactly density times velocity, the mass flux that is given.
Links that cross a wall are the wall's, in corners too: the layer fills the others alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import distarray as da
from solvers.lbm.collision import SOUND, State, collision, of_stress, pushed
from solvers.lbm.config import LatticeConfig, axis_of
from solvers.lbm.lattice import Lattice


def conditions(config: LatticeConfig, grid: da.Grid) -> dict[str, da.Condition]:
    """The boundary conditions of the populations. Collective.

    Nothing is read beyond walls; there some condition says that cells at them can be computed.
    """
    found: dict[str, da.Condition] = {side: da.Outflow() for side in config.wall_sides}
    force = lattice_force(config)
    if config.inflow:
        given = _given(config, grid)
        for side in config.inflow:
            found[side] = da.Custom(_entering(config, side, force), given)
    for side, pressure in config.outflow.items():
        excess = pressure / (SOUND * config.unit_speed**2)
        found[side] = da.Custom(_leaving(config, side, excess, force))
    return found


def lattice_force(config: LatticeConfig) -> tuple[float, ...] | None:
    """The force per volume in units of the lattice; None for no force."""
    if config.force is None or not any(config.force):
        return None
    unit = config.width / config.time_step**2
    return tuple(float(g) / unit for g in config.force)


def _given(config: LatticeConfig, grid: da.Grid) -> da.DistArray:
    """The velocities of inflows in units of the lattice, in the layer outside; 0 inside."""
    boundary: dict[str, da.Condition] = {side: da.Outflow() for side in config.side_names}
    for side, velocity in config.inflow.items():
        # The layer holds 2 g - 0.
        boundary[side] = da.Dirichlet(_scaled(velocity, 0.5 / config.unit_speed))
    return grid.zeros(config.dtype, components=(config.ndim,), boundary=boundary)


def _scaled(velocity: Sequence[Any], factor: float) -> Any:
    if not any(callable(u) for u in velocity):
        return tuple(factor * float(u) for u in velocity)

    def value(t: Any, *coords: Any) -> tuple[Any, ...]:
        return tuple(factor * (u(t, *coords) if callable(u) else u) for u in velocity)

    return value


def _entering(
    config: LatticeConfig, side: str, force: tuple[float, ...] | None
) -> Callable[..., None]:
    axis, inward = axis_of(side), _inward(side)

    def enter(f: Any, given: Any) -> None:
        layer = (0,) * config.ndim
        velocity = [given[a][layer] for a in range(config.ndim)]
        into = inward * velocity[axis]
        push = 0.0 if force is None else 0.5 * inward * force[axis]

        def close(excess: Any, total: Any) -> tuple[Any, Sequence[Any]]:
            return (total + (into + push)) / (1.0 - into), velocity

        _write(config, f, side, force, close)

    return enter


def _leaving(
    config: LatticeConfig, side: str, excess: float, force: tuple[float, ...] | None
) -> Callable[..., None]:
    axis, inward = axis_of(side), _inward(side)
    push = 0.0 if force is None else 0.5 * inward * force[axis]

    def close(near: Any, total: Any) -> tuple[Any, Sequence[Any]]:
        # What stays in the layer is that of the nearest cell but for the difference of densities.
        resting = total + (1.0 - SOUND) * (excess - near)
        into = (excess - resting - push) / (1.0 + excess)
        return excess, [inward * into if a == axis else 0.0 for a in range(config.ndim)]

    def leave(f: Any) -> None:
        _write(config, f, side, force, close)

    return leave


def _write(
    config: LatticeConfig,
    f: Any,
    side: str,
    force: tuple[float, ...] | None,
    close: Callable[[Any, Any], tuple[Any, Sequence[Any]]],
) -> None:
    """Fill the layer. `close` gives density less 1 and velocity there from the density less 1 of
    the nearest cell and what that would be if as much came in as leaves.
    """
    lattice, axis = config.velocities, axis_of(side)
    layer, nearest = (0,) * config.ndim, tuple(int(a == axis) for a in range(config.ndim))
    near = [f[i][nearest] for i in range(lattice.size)]
    known = _reflected(lattice, near, side)
    excess, velocity = close(
        near[0] + lattice.add({i: near[i] + near[o] for i, o in lattice.pairs}),
        near[0] + lattice.add(known),
    )
    state = State(excess, 1.0 + excess, velocity, velocity, force)
    calm = collision(config.collision).equilibrium(lattice, excess, pushed(state))
    parts = {i: known[i] - rest for i, rest in _reflected(lattice, calm, side).items()}
    axes = range(lattice.ndim)
    stress = of_stress(
        lattice, {(a, b): lattice.moment(parts, (a, b)) for a in axes for b in axes[a:]}
    )
    for i in range(lattice.size):
        f[i][layer] = calm[i] + stress[i]


def _reflected(lattice: Lattice, f: Sequence[Any], side: str) -> dict[int, Any]:
    """The sum of each pair of opposites, twice the one that leaves where they cross the side."""
    found = {}
    for i, o in lattice.pairs:
        across = _inward(side) * lattice.velocities[i][axis_of(side)]
        found[i] = f[i] + f[o] if across == 0 else 2.0 * (f[i] if across < 0 else f[o])
    return found


def _inward(side: str) -> int:
    """The direction into the box."""
    return 1 if side[1] == "-" else -1
