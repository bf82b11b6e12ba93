"""Inflows and outflows: what lies in the layer of cells outside, from which populations enter.

They are those of an equilibrium with the given value and, as far as it is not given, the state of
the nearest cell, and of the stress there: extrapolation of the non-equilibrium part (Guo, Z.,
Zheng, C., Shi, B. (2002) Chin. Phys. 11(4), 366-374), regularised (Latt, J., Chopard, B. (2006)
Math. Comput. Simul. 72(2-6), 165-168), that is, kept in its moments of second order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import distarray as da
from solvers.lbm.collision import SOUND, State, collision, of_stress, pushed, state_of
from solvers.lbm.config import LatticeConfig, axis_of


def conditions(config: LatticeConfig, grid: da.Grid) -> dict[str, da.Condition]:
    """The boundary conditions of the populations. Collective.

    Nothing is read beyond walls; there some condition says that cells at them can be computed.
    """
    found: dict[str, da.Condition] = {side: da.Outflow() for side in config.wall_sides}
    force = lattice_force(config)
    if config.inflow:
        given = _given(config, grid)
        for side in config.inflow:
            found[side] = da.Custom(_entering(config, axis_of(side), force), given)
    for side, pressure in config.outflow.items():
        excess = pressure / (SOUND * config.unit_speed**2)
        found[side] = da.Custom(_leaving(config, axis_of(side), excess, force))
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
    config: LatticeConfig, axis: int, force: tuple[float, ...] | None
) -> Callable[..., None]:
    def enter(f: Any, given: Any) -> None:
        layer = (0,) * config.ndim
        velocity = [given[a][layer] for a in range(config.ndim)]
        _write(config, f, axis, force, lambda near: (near.excess, velocity))

    return enter


def _leaving(
    config: LatticeConfig, axis: int, excess: float, force: tuple[float, ...] | None
) -> Callable[..., None]:
    def leave(f: Any) -> None:
        _write(config, f, axis, force, lambda near: (excess, near.velocity))

    return leave


def _write(
    config: LatticeConfig,
    f: Any,
    axis: int,
    force: tuple[float, ...] | None,
    choose: Callable[[State], tuple[Any, Sequence[Any]]],
) -> None:
    """Fill the layer: an equilibrium of (excess, velocity), and the stress of the nearest cell."""
    lattice, equilibrium = config.velocities, collision(config.collision).equilibrium
    layer, nearest = (0,) * config.ndim, tuple(int(a == axis) for a in range(config.ndim))
    near = [f[i][nearest] for i in range(lattice.size)]
    state = state_of(lattice, near, force, part=-0.5)
    rest = equilibrium(lattice, state.excess, pushed(state))
    excess, velocity = choose(state)
    chosen = State(excess, 1.0 + excess, velocity, velocity, force)
    filled = equilibrium(lattice, excess, pushed(chosen))
    parts = {i: near[i] - rest[i] + (near[o] - rest[o]) for i, o in lattice.pairs}
    axes = range(lattice.ndim)
    moments = {(a, b): lattice.moment(parts, (a, b)) for a in axes for b in axes[a:]}
    stress = of_stress(lattice, moments)
    for i in range(lattice.size):
        f[i][layer] = filled[i] + stress[i]
