"""Conjugate gradients around multigrid cycles, for coefficients that jump.

A jump that no coarse grid resolves leaves few errors that cycles reduce slowly; conjugate gradients
take these away. Inner products are weighted by volumes, in which the operator is symmetric on
stretched grids, too. The flexible form (Notay, Y. (2000) Flexible conjugate gradients, SIAM J. Sci.
Comput. 22, 1444-1460) permits cycles that are not quite symmetric; where the coefficient jumps by
many orders of magnitude they may stagnate with such ones, and converge with symmetric ones.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import distarray as da
from solvers.multigrid import kernels
from solvers.multigrid.discrete import Discrete
from solvers.multigrid.kernels import Symbol, kernel


class ConjugateGradients:
    """The state of one solution of `A x = b`. Creation is Collective.

    Parameters
    ----------
    discrete : Discrete
    reproducible : bool

    Attributes
    ----------
    x, r : DistArray
        The iterate and its residual, kept up by recursion.
    b : DistArray
        Room for the right-hand side.
    """

    def __init__(self, discrete: Discrete, *, reproducible: bool) -> None:
        self._discrete, self._reproducible = discrete, reproducible
        self.x, self.r, self.b, self._p, self._q = (discrete.zeros() for _ in range(5))
        self._previous = 0.0  # (p, q) of the step before

    def begin(self, x: da.DistArray, r: da.DistArray) -> None:
        """Begin at an iterate and its residual, which are copied. Collective."""
        self.x[...], self.r[...] = x, r
        self._p.fill(0.0)
        self._q.fill(0.0)
        self._previous = 0.0

    def step(self, z: da.DistArray) -> float:
        """One step, z being the preconditioned residual; |r| afterwards. Collective."""
        discrete, form = self._discrete, self._discrete.form
        options = {"reproducible": self._reproducible}
        product = products(form.ndim)
        _, zq = product(z, self.r, self._q, *discrete.volumes, **options)
        beta = -float(zq) / self._previous if self._previous else 0.0
        turn(form.ndim)(z, self._p, beta=beta)
        kernels.apply(form)(self._p, self._q, *discrete.coefficients)
        pr, pq = product(self._p, self.r, self._q, *discrete.volumes, **options)
        self._previous = float(pq)
        alpha = float(pr) / self._previous if self._previous else 0.0
        square = advance(form.ndim)(self._p, self._q, self.x, self.r, alpha=alpha, **options)
        return math.sqrt(float(square))


@functools.cache
def products(ndim: int) -> da.StencilKernel:
    """A kernel that gives (u, v) and (u, w), weighted by volumes; calls are Collective. Local."""
    volumes = [f"v{axis}" for axis in range(ndim)]

    def body(arrays: dict[str, Symbol], *, reproducible: bool) -> Any:
        here = (0,) * ndim
        value = arrays["u"][here]
        for name in volumes:
            value = value * arrays[name][0]
        return tuple(
            da.reduce.sum(value * arrays[name][here], reproducible=reproducible) for name in "vw"
        )

    return kernel("multigrid_products", body, ("u", "v", "w", *volumes), static=("reproducible",))


@functools.cache
def turn(ndim: int) -> da.StencilKernel:
    """The kernel `p = z + beta p`; calls are Collective. Local."""

    def body(arrays: dict[str, Symbol], *, beta: Symbol) -> None:
        p, here = arrays["p"], (0,) * ndim
        p[here] = arrays["z"][here] + beta * p[here]

    return kernel("multigrid_turn", body, ("z", "p"), scalars=("beta",))


@functools.cache
def advance(ndim: int) -> da.StencilKernel:
    """The kernel `x += alpha p`, `r -= alpha q`, which gives the sum of squares of r; calls are
    Collective. Local.
    """

    def body(arrays: dict[str, Symbol], *, alpha: Symbol, reproducible: bool) -> Any:
        here = (0,) * ndim
        x, r = arrays["x"], arrays["r"]
        x[here] = x[here] + alpha * arrays["p"][here]
        r[here] = r[here] - alpha * arrays["q"][here]
        return da.reduce.sum(r[here] * r[here], reproducible=reproducible)

    return kernel(
        "multigrid_advance",
        body,
        ("p", "q", "x", "r"),
        scalars=("alpha",),
        static=("reproducible",),
    )
