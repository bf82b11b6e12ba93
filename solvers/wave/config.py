"""What a wave is made of: a frozen description, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

import distarray as da
from solvers.wave.coefficients import ORDERS
from solvers.wave.positions import INTERPOLATIONS

AXES = "xyz"
#: What p does beyond a side, as the sign of its mirror.
SIDES = {"absorbing": -1.0, "free": -1.0, "rigid": 1.0}
ABSORBERS = ("cpml", "sponge")

#: A number, an array over the cells of the box, or a function of the coordinates (x[, y[, z]]).
Field = float | Callable[..., Any] | Any


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
class WaveConfig:
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
        Steps between two measurements of the largest |dp/dt|.
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    velocity: Field = 1.0
    bounds: tuple[tuple[float, float], ...] | None = None
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
    measure_every: int = 20
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _require_cells(self.cells)
        _require_box(self)
        _require_choice("order", self.order, ORDERS)
        _require_choice("absorber", self.absorber, ABSORBERS)
        _require_choice("interpolation", self.interpolation, INTERPOLATIONS)
        _require_numbers(self)
        _require_sides(self)
        _require_room(self)
        _require_points(self)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def box(self) -> tuple[tuple[float, float], ...]:
        """The bounds of each axis."""
        return ((0.0, 1.0),) * self.ndim if self.bounds is None else self.bounds

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        same = isinstance(self.periodic, bool)
        return (self.periodic,) * self.ndim if same else tuple(self.periodic)  # type: ignore[return-value, arg-type]

    @property
    def spacing(self) -> tuple[float, ...]:
        """Widths of the cells."""
        return tuple((hi - lo) / n for (lo, hi), n in zip(self.box, self.cells, strict=True))

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every side."""
        names = [
            AXES[axis] + end
            for axis, wraps in enumerate(self.periodic_axes)
            if not wraps
            for end in "-+"
        ]
        return {name: self.sides.get(name, "absorbing") for name in names}

    def absorbs(self, axis: int) -> tuple[bool, bool]:
        """Whether the low and the high side of an axis absorb."""
        low, high = (self.kinds.get(AXES[axis] + end) == "absorbing" for end in "-+")
        return low, high

    def signs(self, axis: int) -> tuple[float, float]:
        """The signs of the mirrors at the sides of an axis."""
        low, high = (SIDES[self.kinds.get(AXES[axis] + end, "rigid")] for end in "-+")
        return low, high


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _require_cells(cells: Any) -> None:
    whole = isinstance(cells, tuple) and all(_is_whole(n) for n in cells)
    if not whole or not 1 <= len(cells) <= len(AXES):
        raise da.SolverError(
            f"A wave has one to three axes, received cells={cells!r}; give a tuple of one to three "
            "whole numbers above 0."
        )


def _require_box(config: WaveConfig) -> None:
    if not isinstance(config.periodic, bool):
        _require_per_axis("periodic", config.periodic, config.ndim)
    _require_per_axis("bounds", config.box, config.ndim)
    for limits in config.box:
        if len(limits) != 2 or not all(map(is_number, limits)) or not limits[0] < limits[1]:
            raise da.SolverError(
                f"The bounds of an axis are (low, high) with low < high, received {limits!r}; "
                "change them."
            )


def _require_per_axis(name: str, values: Any, ndim: int) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != ndim:
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {values!r} for {ndim} axes; give {ndim} in "
            "a tuple."
        )


def _require_choice(name: str, value: Any, known: Sequence[Any]) -> None:
    if isinstance(value, bool) or value not in known:
        listed = ", ".join(map(repr, known))
        raise da.SolverError(f"'{name}' is one of {listed}, received {value!r}; name one of them.")


def _require_numbers(config: WaveConfig) -> None:
    for name in ("velocity", "initial", "initial_rate"):
        value = getattr(config, name)
        if callable(value):
            continue
        if isinstance(value, np.ndarray) and value.shape == config.cells:
            if np.isfinite(value).all():
                continue
        elif is_number(value):
            continue
        raise da.SolverError(
            f"'{name}' is a finite number, a function of the coordinates, or an array of them for "
            f"the cells {config.cells}, received {_shown(value)}; give one of these."
        )
    if not callable(config.velocity) and not np.min(config.velocity) > 0.0:
        raise da.SolverError(
            f"The velocity is above 0 everywhere, its least value is {np.min(config.velocity)}; "
            "change it."
        )
    if not (is_number(config.safety) and 0.0 < config.safety <= 1.0):
        raise da.SolverError(
            f"The safety factor lies in (0, 1], received {config.safety!r}; 0.9 is usual."
        )
    if config.frequency is not None and not (is_number(config.frequency) and config.frequency > 0):
        raise da.SolverError(
            f"The frequency is a number above 0, received {config.frequency!r}; leave it out."
        )
    for name in ("width", "measure_every"):
        value = getattr(config, name)
        if not _is_whole(value):
            raise da.SolverError(
                f"'{name}' is a whole number of at least 1, received {value!r}; use 20."
            )


def _shown(value: Any) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def _require_sides(config: WaveConfig) -> None:
    if not isinstance(config.sides, Mapping):
        raise da.SolverError(
            f"'sides' names sides and their kinds, received {config.sides!r}; give a dict."
        )
    for side, kind in config.sides.items():
        if side not in config.kinds:
            raise da.SolverError(
                f"This box has the sides {', '.join(config.kinds) or 'none'}, received {side!r}; "
                "name one of these."
            )
        _require_choice(f"sides[{side!r}]", kind, tuple(SIDES))


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
            raise da.SolverError(f"'{name}' is a tuple of {what}, received {given!r}; give one.")
    for number, source in enumerate(config.sources):
        if not callable(source.wavelet):
            raise da.SolverError(
                f"The wavelet of source {number} is a function of the time, received "
                f"{source.wavelet!r}; give a Ricker, a Sampled or a function."
            )
        _require_inside(f"Source {number}", source.position, config)
    for number, position in enumerate(config.receivers):
        _require_inside(f"Receiver {number}", position, config)


def _require_inside(what: str, position: Any, config: WaveConfig) -> None:
    _require_per_axis(f"position of {what.lower()}", position, config.ndim)
    for x, (low, high), name in zip(position, config.box, AXES, strict=False):
        if not is_number(x) or not low <= x <= high:
            raise da.SolverError(
                f"{what} lies at {name} = {x!r}, outside the box from {low} to {high}; move it "
                "inside."
            )
