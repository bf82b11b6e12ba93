"""The method of conjugate gradients, with or without a preconditioner.

Hestenes, M. R., Stiefel, E. (1952) J. Res. Nat. Bur. Standards 49(6), 409-436; with a
preconditioner as in Saad, Y. (2003) Iterative Methods for Sparse Linear Systems, 2nd ed.,
algorithm 9.1.

Vectors that an iteration reads and writes, the operator's two apart: x, p, r and p, x (`turn`),
p and q (`inner`), r, q and r (`descend`): 10 passes over memory in 3 kernels, and 2 reductions. The
step along p is added to x when p is turned, one iteration late, which saves a pass. A
preconditioner adds r and z, and a reduction.
"""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers.linear import kernels
from solvers.linear.inputs import Callback
from solvers.linear.method import Method, positive, run
from solvers.linear.solution import Solution
from solvers.linear.system import Operator, Options, Preconditioner, System

NOT_POSITIVE = (
    "the operator is not positive definite; use bicgstab, or change the sign of both sides if it "
    "is negative"
)
BAD_PRECONDITIONER = "the preconditioner is not positive definite"


class SymmetricMethod(Method):
    """A method that needs symmetric operators and preconditioners.

    Attributes
    ----------
    defect : float
        How far the first two directions are from being conjugate, of their (p, A p).
    """

    defect = 0.0

    def begin(self) -> None:
        self.defect = 0.0

    def refuse_defect(self) -> str | None:
        """Why an operator that is not symmetric ends the iteration, or None. With a preconditioner
        the iteration may go on: it can converge where that is nearly symmetric.
        """
        if self.system.preconditioned or not self._defective:
            return None
        return (
            f"Breakdown: the first directions are conjugate to {self.defect:.2g} only, so the "
            "operator is not symmetric; use bicgstab"
        )

    def remark(self) -> str:
        if not (self.system.preconditioned and self._defective):
            return ""
        return (
            f"; the first directions are conjugate to {self.defect:.2g} only, so the operator or "
            "the preconditioner is not symmetric"
        )

    @property
    def _defective(self) -> bool:
        """Whether rounding cannot explain the defect."""
        return bool(self.defect > self.system.rounding**0.25)


class ConjugateGradients(SymmetricMethod):
    """The iteration of `cg`."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._p, self._q = system.vector(), system.vector()
        self._z = system.vector() if system.preconditioned else system.r
        self._components: dict[str, Any] = {"components": system.components}

    def start(self) -> str | None:
        self._p.fill(0)
        self._steps = 0
        self._rz: Any = math.inf  # of the step before: alpha and beta are 0
        self._pq: Any = 0.0
        self._rz_next: Any = self.system.square
        return None

    def step(self) -> Any:
        system, r, p, q, z = self.system, self.system.r, self._p, self._q, self._z
        if system.preconditioned:
            system.precondition(r, z)
            self._rz_next = system.inner(r, z)
        before = {"rz_old": self._rz, "pq": self._pq}
        kernels.turn(system.x, p, z, **before, rz=self._rz_next, **self._components)
        self._rz = self._rz_next
        system.apply(p, q)
        self._pq = system.inner(p, q)
        self._steps += 1
        if self._steps == 2:
            # p = z + beta p_old, and (p_old, A p) is 0 if A and M are symmetric.
            expected = float(self._pq)
            self.defect = abs(float(system.inner(z, q)) - expected) / abs(expected or 1.0)
        square = kernels.descend(r, q, rz=self._rz, pq=self._pq, **system.static)
        if not system.preconditioned:
            self._rz_next = square
        return square

    def trouble(self) -> str | None:
        reason = positive(self._rz, "(r, M r)", BAD_PRECONDITIONER)
        return reason or positive(self._pq, "(p, A p)", NOT_POSITIVE) or self.refuse_defect()

    def leave(self) -> None:
        kernels.advance(self.system.x, self._p, rz=self._rz, pq=self._pq, **self._components)


def cg(
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
    """Solve a symmetric (Hermitian) positive definite system by conjugate gradients. Collective.

    Parameters
    ----------
    operator : function of (u, out)
        Writes `A u` to every point of `out`; Collective. Both are made like `x0`, or like `rhs`
        where there is none: of the same location, components, element type, halo and conditions.
        Inhomogeneous conditions of `x0` enter the first residual; all other vectors have them
        homogeneous, with zero as value.
    rhs : DistArray
        b, of float32, float64 or complex numbers. It is not changed.
    x0 : DistArray, optional
        First guess, zero by default. It is not changed.
    rtol, atol : float
        The solution is found when `|b - A x| <= max(rtol |b|, atol)`, norms being 2-norms over
        all points. With inhomogeneous conditions, b less what they add to `A x`.
    max_iterations : int
        Most iterations.
    preconditioner : function of (r, z), optional
        Writes an approximation of the solution of `A z = r` to every point of z; symmetric positive
        definite; Collective.
    reproducible : bool
        Take sums that have the same bits on any ranks: the iterates then have.
    nullspace : "auto", "constant" or None
        Whether the operator maps constants to zero: "auto" finds out by applying it to them, once
        for each component and once or twice more, "constant" takes it for granted. The solution
        then has mean zero.
    callback : function of (iteration, residual), optional
        Called after each iteration with the relative residual. What it returns is ignored.

    Returns
    -------
    Solution
        `reason` says why the iteration ended. Without convergence x is the last iterate.

    Raises
    ------
    SolverError
        A tolerance or an option out of range; arrays that do not fit each other, or with values
        that are not finite; an operator that leaves points out or is not linear; a singular system
        with a right-hand side whose mean is not zero.

    Notes
    -----
    The residual of the recursion is checked against `b - A x` before it is trusted; where they part
    the method starts again from the latter. Values that are not finite, stagnation, and an operator
    that is not symmetric or not positive definite end the iteration.

    On a stretched axis the operator -div(a grad u) is symmetric once it is multiplied, as the
    right-hand side must be, by the volumes of the cells.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.linear import cg
    >>> @da.stencil
    ... def negative_laplacian(u, out, *, dx):
    ...     out[0] = (2.0 * u[0] - u[1] - u[-1]) / dx**2
    >>> grid = da.Grid((16,))
    >>> b = grid.ones(boundary={"x": da.Dirichlet(0.0)})
    >>> solution = cg(lambda u, out: negative_laplacian(u, out, dx=1 / 16), b)
    >>> solution.converged, solution.iterations
    (True, 8)
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
    return run(System(operator, rhs, x0, options), ConjugateGradients)
