"""Burgers' equation: du/dt + (u . grad) u = nu lap u."""

from __future__ import annotations

from typing import Any

from solvers.box import finite_field
from solvers.burgers.config import COMPONENTS, BurgersConfig
from solvers.burgers.equation import Burgers
from solvers.hyperbolic import ConservationLaw


class BurgersSolver(ConservationLaw):
    """A velocity described by a `BurgersConfig`. Collective.

    Attributes
    ----------
    config : BurgersConfig
    fields : dict
        "u"[, "v"[, "w"]], the velocity along each axis in the cells.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.burgers import BurgersConfig, BurgersSolver
    >>> config = BurgersConfig(cells=(64,), initial=(lambda x: np.sin(2 * np.pi * x),))
    >>> flow = BurgersSolver(config)
    >>> flow.run(until=0.1)
    """

    config: BurgersConfig

    def __init__(self, config: BurgersConfig, *, comm: Any = None, device: str = "auto") -> None:
        grid = config.grid(comm, device)
        fields = {
            name: finite_field(
                grid, value, dtype=config.dtype, boundary=config.conditions_of(name), name=name
            )
            for name, value in zip(COMPONENTS, config.initial, strict=False)
        }
        viscous = config.viscosity > 0.0
        super().__init__(
            config,
            grid,
            fields,
            Burgers(config.scheme, config.limiter, viscous),
            courant=config.courant_number,
            limit=config.limit,
            integrator=config.integrator_name,
            scalars={"nu": config.viscosity} if viscous else {},
        )
