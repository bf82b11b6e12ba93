"""BiCGStab, for operators that are not symmetric.

van der Vorst, H. A. (1992) Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the
solution of nonsymmetric linear systems. SIAM J. Sci. Stat. Comput. 13(2), 631-644; preconditioned
from the right as there. Where the residual becomes orthogonal to the shadow residual, that is
chosen anew.

Vectors that an iteration reads and writes, the operator's four apart: p, r, v and p
(`turn_shadowed`), the shadow and v, r, v and r (`halve`), t and r, and x, p, r, t, the shadow and
x, r (`stabilise`): 18 passes over memory in 5 kernels, and 3 reductions. A preconditioner is
applied twice.
"""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers.linear import kernels
from solvers.linear.inputs import Callback
from solvers.linear.method import NOT_FINITE, Method, run
from solvers.linear.solution import Solution
from solvers.linear.system import Operator, Options, Preconditioner, System


class StabilisedBiconjugateGradients(Method):
    """The iteration of `bicgstab`, with the symbols of the paper; r is also its s."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._shadow, self._p, self._v, self._t = (system.vector() for _ in range(4))
        if system.preconditioned:
            self._y, self._z = system.vector(), system.vector()
        self._components: dict[str, Any] = {"components": system.components}
        self._number: Any = complex if system.r.dtype.kind == "c" else float

    def start(self) -> str | None:
        self._square: Any = self.system.square
        self._choose_shadow()
        return None

    def _choose_shadow(self) -> None:
        """Begin at the residual as it is."""
        kernels.scale_to(self._shadow, self.system.r, factor=1.0, **self._components)
        self._p.fill(0)
        self._v.fill(0)
        zero = self._number(0.0)  # omega and beta are 0
        self._shadow_square = float(self._square)
        self._rho: Any = self._number(self._square)
        self._shadow_v: Any = zero
        self._ts: Any = zero
        self._tt: Any = 0.0

    def step(self) -> Any:
        system, p, v, r, t = self.system, self._p, self._v, self.system.r, self._t
        if self._orthogonal():
            self._choose_shadow()
        sums = {"shadow_v": self._shadow_v, "ts": self._ts, "tt": self._tt}
        kernels.turn_shadowed(p, r, v, rho=self._rho, **sums, **self._components)
        system.apply(self._preconditioned(p, "y"), v)
        self._shadow_v = kernels.shadowed(self._shadow, v, **system.static)
        halves = {"rho": self._rho, "shadow_v": self._shadow_v}
        kernels.halve(r, v, **halves, **self._components)
        system.apply(self._preconditioned(r, "z"), t)
        self._ts, self._tt = kernels.stabilising(t, r, **system.static)
        sums = {"ts": self._ts, "tt": self._tt}
        if system.preconditioned:
            self._square, self._rho = kernels.stabilise_preconditioned(
                system.x, self._y, self._z, r, t, self._shadow, **halves, **sums, **system.static
            )
        else:
            self._square, self._rho = kernels.stabilise(
                system.x, p, r, t, self._shadow, **halves, **sums, **system.static
            )
        return self._square

    def _preconditioned(self, vector: da.DistArray, name: str) -> da.DistArray:
        if not self.system.preconditioned:
            return vector
        target: da.DistArray = self._y if name == "y" else self._z
        self.system.precondition(vector, target)
        return target

    def _orthogonal(self) -> bool:
        """Whether the residual has no part along the shadow that is more than rounding."""
        sizes = math.sqrt(self._shadow_square * float(self._square))
        return abs(complex(self._rho)) <= self.system.rounding * sizes

    def trouble(self) -> str | None:
        square = float(self._square)
        shadow_v, ts, tt = complex(self._shadow_v), complex(self._ts), float(self._tt)
        if square == 0.0:
            return None
        if not math.isfinite(abs(shadow_v) + abs(ts) + tt):
            return NOT_FINITE
        if shadow_v == 0.0:
            return "Breakdown: (shadow residual, A p) is 0; start from another x0"
        if abs(ts) <= self.system.rounding * math.sqrt(tt * square):
            return (
                "Breakdown: the residual and what the operator makes of it are orthogonal (omega "
                "is 0), as with a skew-symmetric operator"
            )
        return None


def bicgstab(
    operator: Operator,
    rhs: da.DistArray,
    x0: da.DistArray | None = None,
    *,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_iterations: int = 1000,
    preconditioner: Preconditioner | None = None,
    reproducible: bool = False,
    nullspace: str | None = "auto",
    callback: Callback | None = None,
) -> Solution:
    """Solve a system that need not be symmetric by BiCGStab. Collective.

    Parameters, result and errors are those of `cg`; neither operator nor preconditioner need be
    symmetric or definite. An iteration applies each of them twice. The residuals may rise on their
    way down.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.linear import bicgstab
    >>> @da.stencil
    ... def upwind(u, out):
    ...     out[0] = 3.0 * u[0] - 2.0 * u[-1] - u[1]
    >>> b = da.Grid((16,)).ones(boundary={"x": da.Dirichlet(0.0)})
    >>> bicgstab(upwind, b).converged
    True
    """
    options = Options(
        rtol=rtol,
        atol=atol,
        max_iterations=max_iterations,
        preconditioner=preconditioner,
        reproducible=reproducible,
        nullspace=nullspace,
        callback=callback,
    )
    return run(System(operator, rhs, x0, options), StabilisedBiconjugateGradients)
