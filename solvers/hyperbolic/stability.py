"""Courant numbers up to which a reconstruction is stable with a time integrator. Pure.

The Courant number is dt times the sum over the axes of the largest signal speed / h.

`constant` and the polynomials through cells are linear: their limits are those of von Neumann, on
one axis, and on several, where the eigenvalues are weighted means of those of the axes. Euler steps
of `muscl` keep the total variation up to 1/2 (Harten, A. (1983) J. Comput. Phys. 49(3), 357-393,
with slopes of at most twice the differences), and so do the others up to there; up to 1 they are
stable. WENO is held to 1 in three stages, below the 1.43 of the polynomial that it is made of, and
to the limit of the polynomial in two.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import distarray as da
from solvers.hyperbolic.integrators import integrator
from solvers.hyperbolic.reconstruction import reconstruction

#: Limits by integrator and reconstruction; a pair that is missing is unstable.
LIMITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "euler": {"constant": 1.0, "muscl": 0.5},
        "ssp_rk2": {
            "constant": 1.0, "muscl": 1.0, "upwind3": 0.87, "upwind5": 0.12,
            "weno5": 0.12, "weno_z": 0.12,
        },
        "ssp_rk3": {
            "constant": 1.25, "muscl": 1.0, "upwind3": 1.62, "upwind5": 1.43,
            "weno5": 1.0, "weno_z": 1.0,
        },
    }
)  # fmt: skip
#: The integrator that goes with a reconstruction unless another one is named.
USUAL: Mapping[str, str] = MappingProxyType(
    {
        "constant": "euler", "muscl": "ssp_rk2", "upwind3": "ssp_rk3", "upwind5": "ssp_rk3",
        "weno5": "ssp_rk3", "weno_z": "ssp_rk3",
    }
)  # fmt: skip


def courant_limit(scheme: str, limiter: str, integrator_name: str) -> float:
    """The largest Courant number of a pair. Local.

    Raises
    ------
    SolverError
        A name is unknown, or no time step of the pair is stable.
    """
    reconstruction(scheme, limiter)
    integrator(integrator_name)
    limits = LIMITS[integrator_name]
    unlimited = (integrator_name, scheme, limiter) == ("euler", "muscl", "central")
    if scheme not in limits or unlimited:
        raise da.SolverError(
            f"The scheme {scheme} is unstable with the integrator {integrator_name} at any time "
            f"step; use {USUAL[scheme]}."
        )
    return limits[scheme]
