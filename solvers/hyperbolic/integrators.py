"""Explicit Runge-Kutta schemes that are convex combinations of Euler steps. Pure.

Every stage is `new = keep * start + (1 - keep) * (now + dt * rate(now))`: what an Euler step keeps
(bounds, the total variation, positive values) these keep up to the same time step (strong
stability: Gottlieb, S., Shu, C.-W., Tadmor, E. (2001) SIAM Rev. 43(1), 89-112, eqs 4.1 and 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import distarray as da


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes
    ----------
    keep : float
        Share of the state at the start of the step in the new one.
    time : float
        When the state that it starts from holds, in time steps after the start of the step.
    """

    keep: float
    time: float


@dataclass(frozen=True)
class Integrator:
    """One scheme.

    Attributes
    ----------
    name : str
    order : int
    stages : tuple of Stage
    courant : float
        How many times as long as an Euler step a step may be that keeps what an Euler step keeps.
    """

    name: str
    order: int
    stages: tuple[Stage, ...]
    courant: float = 1.0

    @property
    def copies(self) -> int:
        """States that it holds besides the one at the start of the step."""
        return min(max(len(self.stages) - 1, 1), 2)


#: Schemes by their names.
INTEGRATORS: Mapping[str, Integrator] = MappingProxyType(
    {
        one.name: one
        for one in (
            Integrator("euler", 1, (Stage(0.0, 0.0),)),
            Integrator("ssp_rk2", 2, (Stage(0.0, 0.0), Stage(0.5, 1.0))),
            Integrator("ssp_rk3", 3, (Stage(0.0, 0.0), Stage(0.75, 1.0), Stage(1.0 / 3.0, 0.5))),
        )
    }
)


def integrator(name: str) -> Integrator:
    """The scheme of this name. Local.

    Raises
    ------
    SolverError
        There is no such scheme.
    """
    if name not in INTEGRATORS:
        raise da.SolverError(
            f"The time integrator '{name}' is unknown; use one of {', '.join(INTEGRATORS)}."
        )
    return INTEGRATORS[name]
