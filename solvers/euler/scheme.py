"""The numerics of a flow by their names. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from solvers.hyperbolic import Reconstruction, reconstruction
from solvers.hyperbolic.reconstruction import POINTS, both_sides, weno5, weno_z

RECONSTRUCTIONS = ("constant", "muscl", "weno5", "weno_z")
LIMITERS = ("minmod", "van_leer", "mc")
_WENO = {"weno5": weno5, "weno_z": weno_z}


@dataclass(frozen=True)
class Scheme:
    """The numerics of a flow: what its kernels are made from.

    Attributes
    ----------
    reconstruction, limiter, riemann : str
    positivity, viscous, gravity, obstacles : bool
        What takes part.
    """

    reconstruction: str
    limiter: str
    riemann: str
    positivity: bool = False
    viscous: bool = False
    gravity: bool = False
    obstacles: bool = False

    @property
    def pointwise(self) -> bool:
        """Whether fluxes get the corrections of WENO."""
        return self.reconstruction in _WENO

    @functools.cached_property
    def faces(self) -> Reconstruction:
        """How face values are made."""
        if not self.pointwise:
            return reconstruction(self.reconstruction, self.limiter)
        extrapolate = functools.partial(_WENO[self.reconstruction], rule=POINTS)
        return Reconstruction(self.reconstruction, 5, 3, both_sides(extrapolate, 3))
