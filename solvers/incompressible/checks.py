"""What a configuration may say: each rule that is broken is one sentence. Local."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import distarray as da
from solvers.box import is_number, shown, takes_time
from solvers.incompressible.advection import REACH
from solvers.incompressible.metrics import AXES

if TYPE_CHECKING:
    from solvers.incompressible.config import IncompressibleConfig


def require_sound(
    config: IncompressibleConfig,
    choices: Mapping[str, Iterable[str]],
    kinds: Mapping[str, type],
) -> None:
    """Refuse a configuration that describes no flow.

    Parameters
    ----------
    config : IncompressibleConfig
    choices : mapping of field to its values
    kinds : mapping of field to the type of what it holds, None aside

    Raises
    ------
    SolverError
        The first rule that is broken.
    """
    require_cells(config.cells)
    _require_numbers(config)
    for name, kind in kinds.items():
        _require_kind(name, getattr(config, name), kind)
    for name, values in choices.items():
        _require_choice(name, getattr(config, name), tuple(values))
    if min(config.cells) < REACH[config.advection]:
        raise da.SolverError(
            f"Advection by '{config.advection}' reads {REACH[config.advection]} neighbours, "
            f"received cells={config.cells}; give at least as many cells along each axis."
        )
    if not isinstance(config.periodic, bool):
        require_per_axis("periodic", config.periodic, config.ndim)
        if not all(isinstance(wraps, bool) for wraps in config.periodic):
            raise da.SolverError(
                f"'periodic' says True or False of each axis, received {shown(config.periodic)}; "
                "give these."
            )
    for name in ("bounds", "initial", "force", "ranks"):
        if getattr(config, name) is not None:
            require_per_axis(name, getattr(config, name), config.ndim)
    _require_mappings(config)
    _require_sides(config)
    _require_velocities(config)
    _require_forcing(config)
    if config.les is not None and config.les.friction_velocity and not config.viscosity > 0.0:
        raise da.SolverError(
            f"Damping near walls needs a viscosity above 0, received viscosity={config.viscosity} "
            f"with friction_velocity={config.les.friction_velocity}; leave the latter out."
        )
    if config.scalar is not None and config.obstacles:
        raise da.SolverError(
            "A scalar passes through bodies, received both 'scalar' and 'obstacles'; give one of "
            "them."
        )


def require_cells(cells: Any) -> None:
    """Refuse what is no number of cells along two or three axes."""
    whole = isinstance(cells, tuple) and all(_is_whole(n) and n >= 1 for n in cells)
    if not whole or len(cells) not in (2, 3):
        raise da.SolverError(
            f"A flow has two or three axes, received cells={cells}; give a tuple of two or three "
            f"whole numbers above 0."
        )


def _require_kind(name: str, value: Any, kind: type) -> None:
    if name == "obstacles":
        if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
            raise da.SolverError(
                f"'{name}' is a tuple of {kind.__name__}, received {shown(value)}; write "
                f"({kind.__name__}(...),) for one."
            )
    elif value is not None and not isinstance(value, kind):
        raise da.SolverError(
            f"'{name}' is a {kind.__name__} or None, received {shown(value)}; give one of them."
        )


def _require_numbers(config: IncompressibleConfig) -> None:
    if not (is_number(config.viscosity) and config.viscosity >= 0.0):
        raise da.SolverError(
            f"The viscosity is a number of at least 0, received {shown(config.viscosity)}; give "
            "one."
        )
    if not (is_number(config.safety) and 0.0 < config.safety <= 1.0):
        raise da.SolverError(
            f"The safety factor lies in (0, 1], received {shown(config.safety)}; 0.9 is usual."
        )
    if not (is_number(config.pressure_tolerance) and 0.0 < config.pressure_tolerance < 1.0):
        raise da.SolverError(
            f"The tolerance of the pressure lies in (0, 1), received "
            f"{shown(config.pressure_tolerance)}; 1e-9 is usual."
        )
    if not (_is_whole(config.measure_every) and config.measure_every >= 1):
        raise da.SolverError(
            f"Measurements are at least 1 step apart, received {shown(config.measure_every)}; "
            "give a whole number of steps."
        )


def _require_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        names = [f"'{choice}'" for choice in choices]
        raise da.SolverError(
            f"'{name}' is {', '.join(names[:-1])} or {names[-1]}, received {shown(value)}; name "
            "one of them."
        )


def require_per_axis(name: str, values: Any, ndim: int) -> None:
    """Refuse what is no sequence with one entry per axis."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {shown(values)}; give {ndim} in a tuple."
        )
    if len(values) != ndim:
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {len(values)} for {ndim} axes; give {ndim}."
        )


def _require_mappings(config: IncompressibleConfig) -> None:
    holds = {
        "walls": "sides and their velocities",
        "inflow": "sides and their velocities",
        "flow_rate": "axes and mean velocities",
        "coordinates": "axes and face positions",
    }
    for name, what in holds.items():
        value = getattr(config, name)
        if not isinstance(value, Mapping) and not (name == "coordinates" and value is None):
            raise da.SolverError(f"'{name}' names {what}, received {shown(value)}; give a dict.")
    for name in ("outflow", "slip"):
        value = getattr(config, name)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise da.SolverError(
                f"'{name}' is a tuple of sides, received {shown(value)}; write ('x+',) for one."
            )


def _require_sides(config: IncompressibleConfig) -> None:
    kinds: dict[str, str] = {}
    for kind in ("walls", "inflow", "outflow", "slip"):
        for side in getattr(config, kind):
            if side not in config.sides:
                raise da.SolverError(
                    f"This box has the sides {', '.join(config.sides) or 'none'}, received "
                    f"'{side}' in '{kind}'; name one of these."
                )
            if side in kinds:
                raise da.SolverError(
                    f"A side is of one kind, received '{side}' in '{kinds[side]}' and in "
                    f"'{kind}'; name it once."
                )
            kinds[side] = kind


def _require_velocities(config: IncompressibleConfig) -> None:
    for kind in ("walls", "inflow"):
        for side, velocity in getattr(config, kind).items():
            name = f"{kind}['{side}']"
            require_per_axis(name, velocity, config.ndim)
            for value in velocity:
                _require_value(name, value)
    for side, velocity in config.walls.items():
        normal = velocity[AXES.index(side[0])]
        if callable(normal) or normal != 0.0:
            raise da.SolverError(
                f"A wall lets nothing through, received the normal velocity {normal} at '{side}'; "
                f"make that entry 0, or name the side in 'inflow'."
            )


def _require_forcing(config: IncompressibleConfig) -> None:
    for name in ("initial", "force"):
        for value in getattr(config, name) or ():
            _require_value(name, value)
    for axis, value in enumerate(config.force or ()):
        if callable(value):
            takes_time(value, config.ndim, f"force[{axis}]")
    periodic = [AXES[axis] for axis, wraps in enumerate(config.periodic_axes) if wraps]
    for name, mean in config.flow_rate.items():
        if name not in periodic:
            raise da.SolverError(
                f"A flow rate is held along periodic axes, here {', '.join(periodic) or 'none'}, "
                f"received '{name}'; make that axis periodic or give an inflow."
            )
        if not is_number(mean):
            raise da.SolverError(
                f"A flow rate is a finite mean velocity, received {shown(mean)} along '{name}'; "
                "give a number."
            )


def _require_value(name: str, value: Any) -> None:
    require_value("A velocity or force", name, value)


def require_value(what: str, name: str, value: Any) -> None:
    """Refuse what is neither a finite number nor a function."""
    if not callable(value) and not is_number(value):
        raise da.SolverError(
            f"{what} is a finite number or a function, received {shown(value)} in {name}; give "
            "one of them."
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
