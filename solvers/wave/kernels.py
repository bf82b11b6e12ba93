"""The kernels of a wave, for any number of axes, any order, with and without absorbing layers.

The equation is `p_tt / c^2 = lap p + s`. A leap-frog step from the times t - dt0 and t to t + dt is

    new = p + (dt / dt0) (p - old) + dt (dt + dt0) / 2 c^2 (lap p + s),

for dt = dt0 the familiar `2 p - old + dt^2 c^2 (lap p + s)`. It is written over `old`, which is
read at the cell itself alone, so that two arrays are all that a wave needs.

In a layer of a convolutional perfectly matched layer the second derivative along its axis i becomes

    D_i = d_ii p + d_i psi_i + zeta_i,
    psi_i  <- b_i psi_i + a_i d_i p,    zeta_i <- b_i zeta_i + a_i (d_ii p + d_i psi_i)

(Pasalic, D., McGarry, R. (2010) SEG Expanded Abstracts 29, 2925-2929; `layers` has a and b). All
values lie in the cells.

Symbols: p pressure, c2 velocity squared, r reciprocal of the spacing along an axis, g taper of a
sponge.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.multigrid.kernels import kernel
from solvers.wave import coefficients

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any
Symbols = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """What kernels are made for.

    Attributes
    ----------
    ndim, order : int
    varies : bool
        Whether the velocity is an array; otherwise it is a scalar.
    matched, tapered : tuple of int
        The axes with a perfectly matched layer, and those with a sponge.
    """

    ndim: int
    order: int
    varies: bool = False
    matched: tuple[int, ...] = ()
    tapered: tuple[int, ...] = ()

    @property
    def medium(self) -> tuple[str, ...]:
        """The array of the velocity, if there is one."""
        return ("c2",) if self.varies else ()

    @property
    def layers(self) -> tuple[str, ...]:
        """The arrays and profiles of layers, as `leap` takes them."""
        kinds = ("psi", "zeta", "a", "b")
        return (
            *(f"{name}{axis}" for name in kinds for axis in self.matched),
            *(f"g{axis}" for axis in self.tapered),
        )

    @property
    def scalars(self) -> tuple[str, ...]:
        """The scalars that all kernels take: reciprocals of spacings, and a uniform velocity."""
        widths = tuple(f"r{axis}" for axis in range(self.ndim))
        return widths if self.varies else (*widths, "c2")


def _first(u: Symbol, axis: int, order: int, r: Symbol) -> Symbol:
    """The derivative of u along an axis."""
    terms = [
        d * (u.shift(axis, k) - u.shift(axis, -k))
        for k, d in enumerate(coefficients.first(order), start=1)
    ]
    return r * sum(terms[1:], start=terms[0])


def _second(u: Symbol, axis: int, order: int, r: Symbol) -> Symbol:
    """The second derivative of u along an axis."""
    here, *others = coefficients.second(order)
    total = here * u[...]
    for k, w in enumerate(others, start=1):
        total = total + w * (u.shift(axis, k) + u.shift(axis, -k))
    return r * r * total


def _squared(arrays: Symbols, scalars: Symbols) -> Symbol:
    """The square of the velocity in a cell."""
    return arrays["c2"][...] if "c2" in arrays else scalars["c2"]


@functools.cache
def leap(form: Form) -> da.StencilKernel:
    """A step without its sources, written over `old`: arrays p, old, `medium`, `layers`; scalars
    keep = dt / dt0, weight = dt (dt + dt0) / 2 and `scalars`.
    """

    def body(arrays: Symbols, *, keep: Symbol, weight: Symbol, **scalars: Symbol) -> None:
        p, old = arrays["p"], arrays["old"]
        total: Symbol = 0.0
        for axis in range(form.ndim):
            r = scalars[f"r{axis}"]
            part = _second(p, axis, form.order, r)
            if axis in form.matched:
                part = part + _first(arrays[f"psi{axis}"], axis, form.order, r)
                zeta, a, b = (arrays[f"{name}{axis}"] for name in ("zeta", "a", "b"))
                zeta[...] = b[0] * zeta[...] + a[0] * part
                part = part + zeta[...]
            total = part if axis == 0 else total + part
        taper: Symbol = 1.0
        for axis in form.tapered:
            taper = taper * arrays[f"g{axis}"][0]
        before = taper * old[...] if form.tapered else old[...]
        new = p[...] + keep * (p[...] - before) + weight * _squared(arrays, scalars) * total
        old[...] = taper * new if form.tapered else new

    return kernel(
        "wave_leap",
        body,
        ("p", "old", *form.medium, *form.layers),
        scalars=("keep", "weight", *form.scalars),
    )


@functools.cache
def match(order: int, axis: int) -> da.StencilKernel:
    """The step of psi in the layers of an axis, before `leap`: arrays p, psi, profiles a, b."""

    def body(arrays: Symbols, **scalars: Symbol) -> None:
        psi = arrays["psi"]
        slope = _first(arrays["p"], axis, order, scalars[f"r{axis}"])
        psi[...] = arrays["b"][0] * psi[...] + arrays["a"][0] * slope

    return kernel(f"wave_match_{axis}", body, ("p", "psi", "a", "b"), scalars=(f"r{axis}",))


@da.stencil
def begin(p: Symbol, old: Symbol, *, dt: Symbol) -> None:
    """What `old` has to be before the first step, for which keep = 1: `old = p - dt old`, of the
    rate dp/dt that it held.
    """
    old[...] = p[...] - dt * old[...]


@functools.cache
def energy(form: Form) -> da.StencilKernel:
    """Twice the energy density summed over cells, `((p - old) / dt)^2 / c^2 - old lap p`, which
    leap-frog conserves: the sum with the next step's values is the same. With `start`, before the
    first step, `old` holds dp/dt: `old^2 / c^2 - p lap p`.
    """

    def body(arrays: Symbols, *, start: bool, dt: Symbol, **scalars: Symbol) -> Any:
        p, old = arrays["p"], arrays["old"]
        rate = old[...] if start else (p[...] - old[...]) / dt
        lap: Symbol = 0.0
        for axis in range(form.ndim):
            lap = lap + _second(p, axis, form.order, scalars[f"r{axis}"])
        density = rate * rate / _squared(arrays, scalars) - (p if start else old)[...] * lap
        return da.reduce.sum(density, reproducible=True)

    return kernel(
        "wave_energy",
        body,
        ("p", "old", *form.medium),
        scalars=("dt", *form.scalars),
        static=("start",),
    )
