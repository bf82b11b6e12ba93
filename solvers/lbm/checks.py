"""What a configuration may say: each rule that is broken is one sentence. Local."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import distarray as da
from solvers.box import (
    AXES,
    DTYPES,
    is_number,
    is_whole,
    require_box,
    require_cells,
    require_choice,
    require_per_axis,
    require_sides,
    require_value,
    shown,
)
from solvers.lbm.collision import COLLISIONS

if TYPE_CHECKING:
    from solvers.lbm.config import LatticeConfig

#: Above it the method, whose errors grow with its square, describes no incompressible flow.
LARGEST_MACH = 0.3
#: Cells may differ from cubes by this share, which round-off of the bounds explains.
_CUBIC = 1e-9


def require_sound(config: LatticeConfig) -> None:
    """Refuse a configuration that describes no flow.

    Raises
    ------
    SolverError
        The first rule that is broken.
    """
    require_cells(config.cells)
    _require_shape(config)
    require_choice("collision", config.collision, COLLISIONS)
    require_choice("dtype", config.dtype, DTYPES)
    _require_lattice(config)
    _require_numbers(config)
    _require_sides(config)
    _require_velocities(config)
    _require_obstacles(config)


def _require_shape(config: LatticeConfig) -> None:
    if len(config.cells) == 1:
        raise da.SolverError(
            f"A lattice has two or three axes, received cells={config.cells}; give more numbers."
        )
    require_box(config)
    for name in ("initial", "force", "ranks"):
        if getattr(config, name) is not None:
            require_per_axis(name, getattr(config, name), config.ndim)
    widths = config.spacing
    if max(widths) > min(widths) * (1.0 + _CUBIC):
        raise da.SolverError(
            f"Cells of a lattice are cubes, received widths of "
            f"{', '.join(f'{w:g}' for w in widths)} (cells={config.cells}, bounds={config.box}); "
            f"choose cells in proportion to the box."
        )


def _require_lattice(config: LatticeConfig) -> None:
    if config.lattice is not None and not isinstance(config.lattice, str):
        raise da.SolverError(
            f"A lattice is named by a string, received {shown(config.lattice)}; give 'D2Q9' or "
            "such."
        )
    _ = config.velocities


def _require_numbers(config: LatticeConfig) -> None:
    for name in ("viscosity", "speed", "mach", "magic"):
        value = getattr(config, name)
        if not is_number(value):
            raise da.SolverError(f"'{name}' is a finite number, received {shown(value)}; give one.")
    for name in ("speed", "mach", "magic"):
        value = getattr(config, name)
        if not value > 0.0:
            raise da.SolverError(f"'{name}' is above 0, received {value}; give a larger one.")
    if config.mach > LARGEST_MACH:
        raise da.SolverError(
            f"The Mach number is at most {LARGEST_MACH}, since errors grow with its square, "
            f"received mach={config.mach}; 0.1 is usual."
        )
    if not 0.5 < config.tau < math.inf:
        raise da.SolverError(
            f"The relaxation time tau = 1/2 + 3 viscosity time_step / h^2 is finite and above "
            f"1/2, received viscosity={config.viscosity}, by which tau={config.tau}; give a "
            f"{'larger' if config.tau <= 0.5 else 'smaller'} viscosity."
        )
    if not is_whole(config.measure_every):
        raise da.SolverError(
            f"Measurements are at least 1 step apart, received "
            f"measure_every={shown(config.measure_every)}; give a whole number of steps."
        )


def _require_sides(config: LatticeConfig) -> None:
    kinds: dict[str, str] = {}
    for kind in ("walls", "inflow", "outflow"):
        named = getattr(config, kind)
        require_sides(kind, named, config)
        for side in named:
            if side in kinds:
                raise da.SolverError(
                    f"A side is of one kind, received '{side}' in '{kinds[side]}' and in "
                    f"'{kind}'; name it once."
                )
            kinds[side] = kind


def _require_velocities(config: LatticeConfig) -> None:
    for kind in ("walls", "inflow"):
        for side, velocity in getattr(config, kind).items():
            name = f"{kind}['{side}']"
            require_per_axis(name, velocity, config.ndim)
            for value in velocity:
                require_value(name, value, config.ndim, time=True)
            _require_slow(name, velocity, config.speed)
    for side, velocity in config.walls.items():
        _require_wall(side, velocity)
    for side, pressure in config.outflow.items():
        if not is_number(pressure):
            raise da.SolverError(
                f"The pressure of an outflow is a finite number, received {shown(pressure)} at "
                f"'{side}'; give 0.0 for that of the fluid at rest."
            )
    for value in config.initial or ():
        require_value("initial", value, config.ndim)
    require_value("pressure", config.pressure, config.ndim)
    for value in config.force or ():
        if not is_number(value):
            raise da.SolverError(
                f"The force is a finite number for each axis, received {shown(value)}; give "
                "numbers."
            )


def _require_wall(side: str, velocity: Sequence[Any]) -> None:
    if any(callable(value) for value in velocity):
        raise da.SolverError(
            f"A wall moves with a velocity given by numbers, received a function at '{side}'; give "
            f"numbers, or name the side in 'inflow'."
        )
    normal = velocity[AXES.index(side[0])]
    if normal != 0.0:
        raise da.SolverError(
            f"A wall lets nothing through, received the normal velocity {normal} at '{side}'; make "
            f"that entry 0, or name the side in 'inflow'."
        )


def _require_slow(name: str, velocity: Sequence[Any], speed: float) -> None:
    given = math.hypot(*(0.0 if callable(value) else float(value) for value in velocity))
    if given > speed * (1.0 + 1e-12):
        raise da.SolverError(
            f"No side is faster than 'speed', whose Mach number is given, received {given:g} in "
            f"{name} with speed={speed:g}; give a larger speed."
        )


def _require_obstacles(config: LatticeConfig) -> None:
    if not isinstance(config.obstacles, Mapping):
        raise da.SolverError(
            f"'obstacles' gives each shape a name, received {shown(config.obstacles)}; give a dict."
        )
    for name, shape in config.obstacles.items():
        if not callable(getattr(shape, "distance", None)) or name in config.side_names:
            raise da.SolverError(
                f"An obstacle is a shape with a distance and a name that is no side's, received "
                f"{shown(shape)} as '{name}'; take one of solvers.incompressible.shapes."
            )
    if not isinstance(config.forces, tuple | list):
        raise da.SolverError(
            f"'forces' is a tuple of walls and obstacles, received {shown(config.forces)}; write "
            f"('x+',) for one."
        )
    known = (*config.obstacles, *config.wall_sides)
    for name in config.forces:
        if not isinstance(name, str) or name not in known:
            raise da.SolverError(
                f"Forces are measured on walls and obstacles, here {', '.join(known) or 'none'}, "
                f"received {shown(name)}; name some of these."
            )
