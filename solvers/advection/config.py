"""What linear transport is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.box import Field, require_choice, require_field, require_per_axis, require_value
from solvers.hyperbolic.config import BoxConfig
from solvers.hyperbolic.reconstruction import RECONSTRUCTIONS

#: A number, or a function of the coordinates (x[, y[, z]]).
Velocity = float | Callable[..., Any]
#: Names that `scheme` takes.
SCHEMES = ("auto", *RECONSTRUCTIONS, "ctu")


@dataclass(frozen=True, kw_only=True)
class AdvectionConfig(BoxConfig):
    """Transport of a density c, dc/dt + div(v c) = s, in a box of `BoxConfig`.

    Parameters
    ----------
    velocity : tuple of (number or function f(x[, y[, z]]))
        One entry per axis; functions are evaluated at the centres of the faces normal to the axis.
        A constant density stays constant as far as the sum over the axes of the differences of
        these values vanishes.
    initial : number, array over the cells or function f(x[, y[, z]])
        The density at the start, at the centres of the cells.
    source : number, array over the cells or function f(x[, y[, z]])
        What is added per volume and time.
    scheme : str
        One of `BoxConfig`, or "ctu": limited slopes that are carried along for half a time step,
        across the corners of the cells too (`equation`); for a velocity that is the same
        everywhere. One stage, second order, and stable up to a Courant number of 1 along each axis
        (not for their sum, but with `positivity`). "auto" is "ctu" where that can be, else "muscl".
    limiter : str
        Slopes of "ctu" and "muscl".
    courant : float, optional
        As in `BoxConfig`, but 0.8 by default for "ctu", whose errors are then smallest.
    positivity : bool
        Whether the density, not negative at the start, is kept so (`equation`): where the source is
        not negative, and with Courant numbers up to 1.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    velocity: tuple[Velocity, ...]
    scheme: str = "auto"
    limiter: str = "mc"
    initial: Field = 0.0
    source: Field = 0.0
    positivity: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("positivity", self.positivity, (False, True))
        require_per_axis("velocity", self.velocity, self.ndim)
        for speed in self.velocity:
            require_value("velocity", speed, self.ndim)
        require_field("initial", self.initial, self.cells)
        require_field("source", self.source, self.cells)
        if self.corners and self.varies:
            raise da.SolverError(
                "The scheme ctu is for a velocity of numbers, received a function; use muscl."
            )
        if self.corners and self.integrator not in ("auto", "euler"):
            raise da.SolverError(
                f"The scheme ctu has one stage, received integrator={self.integrator!r}; leave "
                "it out."
            )

    @staticmethod
    def schemes() -> tuple[str, ...]:
        return SCHEMES

    @property
    def scheme_name(self) -> str:
        if self.scheme != "auto":
            return self.scheme
        stages = self.integrator not in ("auto", "euler")
        return "muscl" if self.varies or stages else "ctu"

    @property
    def corners(self) -> bool:
        """Whether the scheme is "ctu"."""
        return self.scheme_name == "ctu"

    @property
    def varies(self) -> bool:
        """Whether the velocity is not the same everywhere."""
        return isinstance(self.velocity, Sequence) and any(map(callable, self.velocity))

    @property
    def courant_number(self) -> float:
        return 0.8 if self.courant is None and self.corners else super().courant_number

    @property
    def limit(self) -> float:
        limit = 1.0 if self.corners else super().limit
        return min(limit, 1.0) if self.positivity else limit

    @property
    def reach(self) -> int:
        return 2 if self.corners else super().reach
