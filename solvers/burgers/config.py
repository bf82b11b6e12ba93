"""What a problem of Burgers' equation is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.box import Field, is_number, require_conditions, require_field, require_per_axis, shown
from solvers.hyperbolic.config import BoxConfig

#: Names of the velocity along each axis.
COMPONENTS = "uvw"


@dataclass(frozen=True, kw_only=True)
class BurgersConfig(BoxConfig):
    """Burgers' equation, du/dt + (u . grad) u = nu lap u, in a box of `BoxConfig`.

    Parameters
    ----------
    viscosity : float
        nu, in length^2 / time; 0 for the inviscid equation, whose shocks then are those that
        entropy permits.
    initial : tuple of (number, array over the cells or function f(x[, y[, z]]))
        The velocity at the start, one entry per axis, at the centres of the cells.
    boundary : mapping of component and side to condition
        As in `BoxConfig`, or per component: {"u": {"x-": ...}, "v": {...}}.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    viscosity: float = 0.0
    initial: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_per_axis("initial", self.initial, self.ndim)
        for value in self.initial:
            require_field("initial", value, self.cells)
        if not (is_number(self.viscosity) and self.viscosity >= 0.0):
            raise da.SolverError(
                f"A viscosity is at least 0, received {shown(self.viscosity)}; give 0 for none."
            )

    def _require_boundary(self) -> None:
        if not isinstance(self.boundary, Mapping):
            super()._require_boundary()
        for name in COMPONENTS[: self.ndim]:
            require_conditions(f"boundary of {name}", self._given(name), self)

    def _given(self, component: str) -> Any:
        """The conditions that the velocity along an axis is given."""
        names = tuple(COMPONENTS[: self.ndim])
        common = {side: c for side, c in self.boundary.items() if side not in names}
        return self.boundary.get(component, common)

    @property
    def limit(self) -> float:
        # Above 1 what diffuses would not be stable.
        return min(super().limit, 1.0)

    def conditions_of(self, component: str) -> dict[str, Any]:
        """The condition of every side of the velocity along one axis."""
        return self.completed(self._given(component))
