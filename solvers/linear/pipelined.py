"""Pipelined conjugate gradients: one reduction per iteration, under way while the operator works.

Ghysels, P., Vanroose, W. (2014) Hiding global synchronization latency in the preconditioned
Conjugate Gradient algorithm. Parallel Computing 40(7), 224-238; algorithms 3 and 4. Here the
denominator of alpha, `delta - beta gamma / alpha_old` there, takes (p, A p) of the step before as a
sum of its own, which costs no pass over memory and needs no alpha_old.

Vectors that an iteration reads and writes, the operator's two apart: 7 and 6, in one kernel (with
a preconditioner 10 and 8). That is more than `cg` moves: it pays where a reduction takes long, as
on many ranks. The recursions for A r and its kind lose digits; `method` makes up for that by new
starts.
"""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers.linear import kernels
from solvers.linear.cg import BAD_PRECONDITIONER, NOT_POSITIVE, SymmetricMethod
from solvers.linear.inputs import Callback
from solvers.linear.method import positive, run
from solvers.linear.solution import Solution
from solvers.linear.system import Operator, Options, Preconditioner, System


class PipelinedConjugateGradients(SymmetricMethod):
    """The iteration of `pipelined_cg`, with the symbols of the paper."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._w, self._p, self._s, self._z, self._n = (system.vector() for _ in range(5))
        if system.preconditioned:
            self._u, self._q, self._m = (system.vector() for _ in range(3))
        self._directions = [self._p, self._s, self._z]
        if system.preconditioned:
            self._directions.append(self._q)

    def start(self) -> str | None:
        system = self.system
        for vector in self._directions:
            vector.fill(0)
        first = system.r
        self._gamma: Any = system.square
        if system.preconditioned:
            first = self._u
            system.precondition(system.r, first)
            self._gamma = system.inner(system.r, first)
        system.apply(first, self._w)
        self._delta = system.inner(first, self._w)
        self._gamma_old: Any = math.inf  # beta is 0
        self._sigma: Any = 0.0
        self._steps = 0
        self.overlap()
        return positive(self._gamma, "(r, M r)", BAD_PRECONDITIONER) or positive(
            self._delta, "(p, A p)", NOT_POSITIVE
        )

    def step(self) -> Any:
        system = self.system
        used = self._gamma, self._gamma_old, self._delta, self._sigma
        sums = dict(zip(("gamma", "gamma_old", "delta", "sigma"), used, strict=True))
        self._steps += 1
        self._gamma_old = self._gamma
        if system.preconditioned:
            square, self._delta, self._sigma, self._gamma = kernels.pipeline_preconditioned(
                system.x, system.r, self._u, self._w, self._p, self._s, self._q, self._z,
                self._m, self._n, **sums, **system.static,
            )  # fmt: skip
        else:
            square, self._delta, self._sigma = kernels.pipeline(
                system.x, system.r, self._w, self._p, self._s, self._z, self._n,
                **sums, **system.static,
            )  # fmt: skip
            self._gamma = square
        self._used = used
        return square

    def overlap(self) -> None:
        system = self.system
        if system.preconditioned:
            system.precondition(self._w, self._m)
            system.apply(self._m, self._n)
        else:
            system.apply(self._w, self._n)

    def trouble(self) -> str | None:
        gamma, gamma_old, delta, sigma = map(float, self._used)
        if self._steps > 1:
            delta -= (gamma / gamma_old) ** 2 * sigma
        reason = positive(gamma, "(r, M r)", BAD_PRECONDITIONER)
        return reason or positive(delta, "(p, A p)", NOT_POSITIVE) or self._asymmetry(delta)

    def _asymmetry(self, expected: float) -> str | None:
        """What (p, A p) is after two steps, beside what it is for symmetric A and M."""
        if self._steps == 2:
            found = float(self._sigma)
            self.defect = abs(found - expected) / abs(found or 1.0)
        return self.refuse_defect()


def pipelined_cg(
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
    """Solve a symmetric (Hermitian) positive definite system by pipelined conjugate gradients: as
    `cg`, with one reduction per iteration, which takes its time while the operator (and the
    preconditioner) work. Collective.

    Parameters, result and errors are those of `cg`.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.linear import pipelined_cg
    >>> @da.stencil
    ... def negative_laplacian(u, out, *, dx):
    ...     out[0] = (2.0 * u[0] - u[1] - u[-1]) / dx**2
    >>> grid = da.Grid((16,))
    >>> b = grid.ones(boundary={"x": da.Dirichlet(0.0)})
    >>> solution = pipelined_cg(lambda u, out: negative_laplacian(u, out, dx=1 / 16), b)
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
    return run(System(operator, rhs, x0, options), PipelinedConjugateGradients)
