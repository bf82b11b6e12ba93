"""What diffusion is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distarray as da
from solvers.box import (
    AXES,
    Bounds,
    Box,
    Field,
    is_number,
    is_whole,
    require_box,
    require_cells,
    require_choice,
    require_conditions,
    require_field,
    require_per_axis,
    require_safety,
    shown,
    takes_time,
)
from solvers.diffusion.schemes import SCHEMES, Scheme


@dataclass(frozen=True)
class DiffusionConfig(Box):
    """Diffusion in a box, `du/dt = div(D grad u) + q`.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, one to three axes.
    diffusivity : number, function f(x[, y[, z]]), array over all cells, or tuple with one of them
        for each axis
        D: a tuple is the diagonal of a tensor. Functions are evaluated in the middle of the faces,
        arrays taken there by harmonic means. Numbers are above 0, values of the others not below.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    boundary : mapping of side ("x", "x-", "x+", "y", ...) to condition
        `da.Dirichlet`, `da.Neumann`, `da.Robin`, `da.Symmetry`, whose values may be functions of
        time and place; the explicit scheme takes all others, too. Nothing flows through sides that
        are not named.
    initial : number, function or array
        u at time 0.
    source : number, function f(x[, y[, z]]) or f(t, x[, y[, z]]), or array
        q.
    scheme : str
        "explicit", "crank-nicolson", "tr-bdf2", "sdirk2" or "backward-euler", see `schemes`.
    time_step : float, optional
        Of runs: at most the limit of the explicit scheme, which is taken by default, with 10 times
        that limit for the others.
    safety : float
        Share of the limit that `stable_dt` returns where no `time_step` is given.
    tolerance : float
        Residual of the equation of an implicit stage, relative to its change of u.
    measure_every : int
        Steps between two measurements of the largest |du/dt|.
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    diffusivity: Field | tuple[Field, ...] = 1.0
    bounds: Bounds | None = None
    periodic: bool | tuple[bool, ...] = False
    boundary: Mapping[str, Any] = field(default_factory=dict)
    initial: Field = 0.0
    source: Field = 0.0
    scheme: str = "explicit"
    time_step: float | None = None
    safety: float = 0.9
    tolerance: float = 1e-10
    measure_every: int = 20
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        require_box(self)
        require_choice("scheme", self.scheme, SCHEMES)
        require_field("initial", self.initial, self.cells)
        if callable(self.source):
            takes_time(self.source, self.ndim, "source")
        else:
            require_field("source", self.source, self.cells)
        _require_diffusivity(self)
        require_conditions("boundary", self.boundary, self)
        _require_numbers(self)

    @property
    def integrator(self) -> Scheme:
        """The scheme in time."""
        return SCHEMES[self.scheme]

    @property
    def along(self) -> tuple[Field, ...]:
        """The diffusivity along each axis."""
        given = self.diffusivity
        return given if isinstance(given, tuple) else (given,) * self.ndim

    @property
    def conditions(self) -> dict[str, Any]:
        """The condition of every side."""
        sides = dict.fromkeys(self.side_names, da.Neumann(0.0))
        for name, condition in self.boundary.items():
            sides.update({side: condition for side in sides if side in _sides_of(name)})
        return sides

    @property
    def source_takes_time(self) -> bool:
        """Whether the source is a function of the time, too."""
        return callable(self.source) and takes_time(self.source, self.ndim, "source")


def _sides_of(name: str) -> tuple[str, ...]:
    return (name + "-", name + "+") if name in AXES else (name,)


def _require_diffusivity(config: DiffusionConfig) -> None:
    if isinstance(config.diffusivity, tuple):
        require_per_axis("diffusivity", config.diffusivity, config.ndim)
    for value in config.along:
        require_field("diffusivity", value, config.cells)
        least = np.inf if callable(value) else np.min(value)
        if least < 0.0 or (least == 0.0 and is_number(value)):
            rule = "a number above 0" if is_number(value) else "nowhere below 0"
            raise da.SolverError(f"The diffusivity is {rule}, received {least}; change it.")


def _require_numbers(config: DiffusionConfig) -> None:
    require_safety(config.safety)
    step = config.time_step
    if step is not None and not (is_number(step) and step > 0.0):
        raise da.SolverError(
            f"'time_step' is a number above 0, received {shown(step)}; leave it out."
        )
    if not (is_number(config.tolerance) and 0.0 < config.tolerance < 1.0):
        raise da.SolverError(
            f"The tolerance lies in (0, 1), received {shown(config.tolerance)}; 1e-10 is usual."
        )
    if not is_whole(config.measure_every):
        raise da.SolverError(
            f"'measure_every' is a whole number of at least 1, received "
            f"{shown(config.measure_every)}; use 20."
        )
