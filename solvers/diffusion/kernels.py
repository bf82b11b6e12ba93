"""The kernels of diffusion, for any number of axes.

Through the face between two cells goes `-k (difference of u) / h`, k the diffusivity there, which
is one number for each axis or an array on the faces normal to it. Both cells use the same bits of
it: what one loses the other gains.

Symbols: u the field, q source, k diffusivities, r reciprocal of the spacing along an axis.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.multigrid.kernels import kernel

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any
Symbols = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """What kernels are made for.

    Attributes
    ----------
    ndim : int
    varies, source : bool
        Whether diffusivities are arrays, and whether there is a source.
    """

    ndim: int
    varies: bool
    source: bool

    @property
    def arrays(self) -> tuple[str, ...]:
        """Arrays that kernels take after u and what they write."""
        faces = tuple(f"k{axis}" for axis in range(self.ndim)) if self.varies else ()
        return (*faces, "q") if self.source else faces

    @property
    def scalars(self) -> tuple[str, ...]:
        """Scalars that kernels take."""
        names = "r" if self.varies else "rk"
        return tuple(f"{name}{axis}" for name in names for axis in range(self.ndim))


def _rate(form: Form, arrays: Symbols, scalars: Symbols) -> Symbol:
    """`div(k grad u) + q`"""
    u = arrays["u"]
    total: Symbol = 0.0
    for axis in range(form.ndim):
        below, above = u[...] - u.shift(axis, -1), u.shift(axis, 1) - u[...]
        if form.varies:
            k = arrays[f"k{axis}"]
            below, above = k.shift(axis, 0) * below, k.shift(axis, 1) * above
        else:
            below, above = (scalars[f"k{axis}"] * difference for difference in (below, above))
        r = scalars[f"r{axis}"]
        part = r * r * (above - below)
        total = part if axis == 0 else total + part
    return total + arrays["q"][...] if form.source else total


@functools.cache
def explicit(form: Form) -> da.StencilKernel:
    """`new = u + dt (div(k grad u) + q)`"""

    def body(arrays: Symbols, *, dt: Symbol, **scalars: Symbol) -> None:
        arrays["new"][...] = arrays["u"][...] + dt * _rate(form, arrays, scalars)

    names = ("u", "new", *form.arrays)
    return kernel("diffusion_explicit", body, names, scalars=("dt", *form.scalars))


@functools.cache
def rate(form: Form) -> da.StencilKernel:
    """`out = div(k grad u) + q`"""

    def body(arrays: Symbols, **scalars: Symbol) -> None:
        arrays["out"][...] = _rate(form, arrays, scalars)

    return kernel("diffusion_rate", body, ("u", "out", *form.arrays), scalars=form.scalars)


@functools.cache
def residual(form: Form, count: int) -> da.StencilKernel:
    """`out = div(k grad u) + q + sum_j w_j f_j`, so many f: what is left of a stage's equation
    where u is the guess.
    """

    def body(arrays: Symbols, **scalars: Symbol) -> None:
        total = _rate(form, arrays, scalars)
        for j in range(count):
            total = total + scalars[f"w{j}"] * arrays[f"f{j}"][...]
        arrays["out"][...] = total

    numbers = range(count)
    return kernel(
        f"diffusion_residual_{count}",
        body,
        ("u", "out", *form.arrays, *(f"f{j}" for j in numbers)),
        scalars=(*form.scalars, *(f"w{j}" for j in numbers)),
    )


@da.stencil
def add(u: Symbol, change: Symbol, out: Symbol, *, shift: Symbol) -> Any:
    """`out = u + change + shift`, and the largest |out - u|."""
    whole = change[...] + shift
    out[...] = u[...] + whole
    return da.reduce.max(abs(whole))


@da.stencil(static=("axis",))
def faces(k: Symbol, out: Symbol, *, axis: int) -> None:
    """The diffusivity on the faces normal to an axis, the harmonic mean of that of both cells, 0
    beside a cell where it is 0.
    """
    low, high = k.shift(axis, -1), k.shift(axis, 0)
    total = low + high
    out[...] = 2.0 * low * high / da.where(total > 0.0, total, 1.0)
