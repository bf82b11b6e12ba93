"""What a wave is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distarray as da
from solvers.box import (
    AXES,
    Bounds,
    Box,
    Field,
    can_be_squared,
    is_number,
    is_whole,
    require_box,
    require_call,
    require_cells,
    require_choice,
    require_field,
    require_per_axis,
    require_safety,
    require_sides,
    shown,
)
from solvers.wave.coefficients import ORDERS
from solvers.wave.positions import INTERPOLATIONS

#: What p does beyond a side, as the sign of its mirror.
SIDES = {"absorbing": -1.0, "free": -1.0, "rigid": 1.0}
ABSORBERS = ("cpml", "sponge")


@dataclass(frozen=True)
class Source:
    """A point source.

    Parameters
    ----------
    position : tuple of float
        Anywhere in the box.
    wavelet : function of the time
        s(t) of the equation: a `Ricker`, a `Sampled`, or any function of a float.
    """

    position: tuple[float, ...]
    wavelet: Callable[[float], Any]


@dataclass(frozen=True)
class WaveConfig(Box):
    """Pressure waves in a box, `p_tt / c^2 - lap p = sum_j s_j(t) delta(x - x_j)`.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, one to three axes.
    velocity : number, function f(x[, y[, z]]) or array over all cells
        c, above 0.
    bounds : tuple of (low, high), optional
        The box, its absorbing layers included; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    sides : mapping of side ("x-", "x+", "y-", ...) to its kind
        "absorbing", for sides that are not named; "free", a surface without pressure; or "rigid",
        a wall, where the normal derivative is zero. All lie on the faces of the outermost cells.
    absorber : "cpml" or "sponge"
        What absorbs, see `layers`; CPML reflects less, and keeps two more arrays along each axis
        with an absorbing side.
    width : int
        Cells of an absorbing layer; they lie inside the box.
    frequency : float, optional
        Of the waves that CPML has to absorb; that of the first source's wavelet if it has one.
    order : even int from 2 to 16
        Order of the differences in space. Time is second order.
    sources : tuple of Source
    receivers : tuple of positions
        Where the pressure is recorded at time 0 and after each step.
    interpolation : "polynomial", "linear" or "sinc"
        Between cells, for sources and receivers, see `positions`.
    initial, initial_rate : number, function or array
        p and dp/dt at time 0.
    safety : float
        Share of the largest stable time step that `stable_dt` returns.
    measure_every : int
        Steps between two measurements of the largest |dp/dt|; each is read when the next is made,
        so that the first 2 x 96 steps have no residual. Between them a run goes over memory once
        for several steps, where that is faster, if there are 48 or more; 96 is a multiple of what
        one pass makes.
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    velocity: Field = 1.0
    bounds: Bounds | None = None
    periodic: bool | tuple[bool, ...] = False
    sides: Mapping[str, str] = field(default_factory=dict)
    absorber: str = "cpml"
    width: int = 20
    frequency: float | None = None
    order: int = 8
    sources: tuple[Source, ...] = ()
    receivers: tuple[tuple[float, ...], ...] = ()
    interpolation: str = "polynomial"
    initial: Field = 0.0
    initial_rate: Field = 0.0
    safety: float = 0.9
    measure_every: int = 96
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        require_box(self)
        require_choice("order", self.order, ORDERS)
        require_choice("absorber", self.absorber, ABSORBERS)
        require_choice("interpolation", self.interpolation, INTERPOLATIONS)
        _require_numbers(self)
        _require_sides(self)
        _require_room(self)
        _require_points(self)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every side."""
        return {side: self.sides.get(side, "absorbing") for side in self.side_names}

    def absorbs(self, axis: int) -> tuple[bool, bool]:
        """Whether the low and the high side of an axis absorb."""
        low, high = (self.kinds.get(AXES[axis] + end) == "absorbing" for end in "-+")
        return low, high

    def signs(self, axis: int) -> tuple[float, float]:
        """The signs of the mirrors at the sides of an axis."""
        low, high = (SIDES[self.kinds.get(AXES[axis] + end, "rigid")] for end in "-+")
        return low, high


def _require_numbers(config: WaveConfig) -> None:
    for name in ("velocity", "initial", "initial_rate"):
        require_field(name, getattr(config, name), config.cells)
    if not callable(config.velocity) and not np.min(config.velocity) > 0.0:
        raise da.SolverError(
            f"The velocity is above 0 everywhere, its least value is {np.min(config.velocity)}; "
            "change it."
        )
    if not callable(config.velocity):
        require_squares(float(np.min(config.velocity)), float(np.max(config.velocity)))
    require_safety(config.safety)
    if config.frequency is not None and not (is_number(config.frequency) and config.frequency > 0):
        raise da.SolverError(
            f"The frequency is a number above 0, received {shown(config.frequency)}; leave it out."
        )
    for name, usual in (("width", 20), ("measure_every", 96)):
        value = getattr(config, name)
        if not is_whole(value):
            raise da.SolverError(
                f"'{name}' is a whole number of at least 1, received {shown(value)}; use {usual}."
            )


def require_squares(*velocities: float) -> None:
    """Refuse velocities above 0 whose squares are none that floats can hold."""
    for c in velocities:
        if not can_be_squared(c):
            raise da.SolverError(
                f"The velocity squared is a number that floats can hold, received {c:g} for the "
                "velocity; change its unit."
            )


def _require_sides(config: WaveConfig) -> None:
    require_sides("sides", config.sides, config)
    for side, kind in config.sides.items():
        require_choice(f"sides[{side!r}]", kind, SIDES)


def _require_room(config: WaveConfig) -> None:
    """Cells enough for the layers and for what mirrors at the sides reach."""
    least = max(config.order // 2, 4)
    for axis, n in enumerate(config.cells):
        layers = config.width * sum(config.absorbs(axis))
        if n < max(least, layers):
            what = f"absorbing layers of {layers} cells" if layers > least else f"at least {least}"
            raise da.SolverError(
                f"The axis {AXES[axis]} has {n} cells, but needs room for {what}; give more cells, "
                "a smaller width or order, or other sides."
            )


def _require_points(config: WaveConfig) -> None:
    for name, kind in (("sources", Source), ("receivers", Sequence)):
        given = getattr(config, name)
        if not isinstance(given, Sequence) or not all(isinstance(one, kind) for one in given):
            what = "Source" if name == "sources" else "positions"
            raise da.SolverError(
                f"'{name}' is a tuple of {what}, received {shown(given)}; give one."
            )
    for number, source in enumerate(config.sources):
        require_call(f"The wavelet of source {number}", source.wavelet, "time")
        _require_inside(f"Source {number}", source.position, config)
    for number, position in enumerate(config.receivers):
        _require_inside(f"Receiver {number}", position, config)


def _require_inside(what: str, position: Any, config: WaveConfig) -> None:
    require_per_axis(f"position of {what.lower()}", position, config.ndim)
    for x, (low, high), name in zip(position, config.box, AXES, strict=False):
        if not is_number(x) or not low <= x <= high:
            raise da.SolverError(
                f"{what} lies at {name} = {shown(x)}, outside the box from {low} to {high}; move "
                "it inside."
            )
