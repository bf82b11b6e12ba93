"""The passes over memory of all methods, fused: updates of vectors with the sums they lead to.

Written once for any number of axes and components: `components` is the shape of the component axes,
and every array of a call has it. Inner products are taken in double precision whatever the arrays
hold; with `reproducible` they have the same bits on any ranks. Coefficients such as alpha are
computed within the kernels from the sums of kernels before, so that on a device they stay there.

Where a sum should be positive and is not, alpha is 0 and the iterate stays as it is, whatever is in
the other vectors; the host, which reads the sums later, says why the iteration ended.

Symbols as in the papers that the methods name: x iterate, r residual, p direction, z = M r.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import distarray as da

Symbol = Any
Component = tuple[int, ...]

_STATIC = ("components", "reproducible")


def _each(components: Component, *arrays: Symbol) -> Iterator[list[Symbol]]:
    """The arrays, component by component."""
    for index in np.ndindex(*components):
        yield [array[index] if index else array for array in arrays]


def _wide(value: Symbol) -> Symbol:
    """A value in double precision."""
    return value.astype(np.complex128 if np.dtype(value.dtype).kind == "c" else np.float64)


def _real_product(u: Symbol, v: Symbol) -> Symbol:
    u, v = _wide(u), _wide(v)
    if np.dtype(u.dtype).kind == "c":
        return u.real * v.real + u.imag * v.imag
    return u * v


def _product(u: Symbol, v: Symbol) -> Symbol:
    u, v = _wide(u), _wide(v)
    return (u.conjugate() if np.dtype(u.dtype).kind == "c" else u) * v


def _inner(u: Symbol, v: Symbol, components: Component, reproducible: bool) -> Any:
    """The real part of `sum(conj(u) v)`: all of it where the operator is Hermitian."""
    total = sum(_real_product(a[...], b[...]) for a, b in _each(components, u, v))
    return da.reduce.sum(total, reproducible=reproducible)


def _full_inner(u: Symbol, v: Symbol, components: Component, reproducible: bool) -> Any:
    """`sum(conj(u) v)`, complex for complex arrays."""
    total = sum(_product(a[...], b[...]) for a, b in _each(components, u, v))
    return da.reduce.sum(total, reproducible=reproducible)


def _step(numerator: Symbol, denominator: Symbol) -> Symbol:
    """Their quotient, or 0 where one of them is not positive (or not a number)."""
    return da.where((numerator > 0.0) & (denominator > 0.0), numerator / denominator, 0.0)


def _quotient(numerator: Symbol, denominator: Symbol) -> Symbol:
    """Their quotient, or 0 where one of them is 0 (or not a number)."""
    sound = (abs(numerator) > 0.0) & (abs(denominator) > 0.0)
    return da.where(sound, numerator / denominator, 0.0)


def _times(coefficient: Symbol, value: Symbol) -> Symbol:
    """Their product; 0 where the coefficient is, even if the value is not a number."""
    return da.where(abs(coefficient) > 0.0, coefficient * value, 0.0)


# ------------------------------------------------------------------------------ set-up and checks


@da.stencil(static=_STATIC)
def load(b: Symbol, r: Symbol, *, components: Component, reproducible: bool) -> Any:
    """`r = b`; gives |r|^2 and the largest |r| of a part."""
    largest: Any = 0.0
    for source, target in _each(components, b, r):
        target[...] = source[...]
        for part in _parts(target[...]):
            largest = np.maximum(largest, abs(part))
    return _inner(r, r, components, reproducible), da.reduce.max(largest)


def _parts(value: Symbol) -> list[Symbol]:
    value = _wide(value)
    return [value.real, value.imag] if np.dtype(value.dtype).kind == "c" else [value]


@da.stencil(static=_STATIC)
def subtract(b: Symbol, q: Symbol, r: Symbol, *, components: Component, reproducible: bool) -> Any:
    """`r = b - q`; gives |r|^2."""
    for source, applied, target in _each(components, b, q, r):
        target[...] = source[...] - applied[...]
    return _inner(r, r, components, reproducible)


@da.stencil(static=_STATIC)
def inner(u: Symbol, v: Symbol, *, components: Component, reproducible: bool) -> Any:
    """The real part of (u, v)."""
    return _inner(u, v, components, reproducible)


@da.stencil(static=("components", "selected"))
def indicate(u: Symbol, *, components: Component, selected: tuple[Component, ...]) -> None:
    """1 in the selected components, 0 in the others."""
    for index in np.ndindex(*components):
        target = u[index] if index else u
        target[...] = 1.0 if index in selected else 0.0


@da.stencil(static=("components",))
def probe(u: Symbol, *, components: Component) -> None:
    """A rough vector of small whole numbers, the same on any ranks: quadratic residues of indices,
    which have all wavelengths.
    """
    for number, index in enumerate(np.ndindex(*components)):
        square: Any = number
        for axis in range(u.ndim):
            square = square + (axis + 1 + number) * da.index(axis) * (da.index(axis) + axis)
        target = u[index] if index else u
        target[...] = (square % 11 - 5).astype(np.float32)


@da.stencil(static=("components", "selected", "reproducible"))
def total(
    u: Symbol, *, components: Component, selected: tuple[Component, ...], reproducible: bool
) -> Any:
    """The sum of the selected components."""
    chosen = [_wide((u[index] if components else u)[...]) for index in selected]
    return da.reduce.sum(sum(chosen[1:], start=chosen[0]), reproducible=reproducible)


@da.stencil(static=("components", "selected", "reproducible"))
def remove_mean(
    u: Symbol, *, components: Component, selected: tuple[Component, ...], reproducible: bool,
    total: Symbol, count: Symbol,
) -> Any:  # fmt: skip
    """`u -= total / count` in the selected components; gives |u|^2 of all."""
    for index in selected:
        target = u[index] if components else u
        target[...] = target[...] - total / count
    return _inner(u, u, components, reproducible)


# ------------------------------------------------------------------------------ conjugate gradients


@da.stencil(static=("components",))
def turn(
    x: Symbol, p: Symbol, z: Symbol, *, components: Component, rz_old: Symbol, pq: Symbol,
    rz: Symbol,
) -> None:  # fmt: skip
    """`x += alpha p` with the alpha of the step before, then `p = z + beta p`."""
    alpha, beta = _step(rz_old, pq), rz / rz_old
    for iterate, direction, gradient in _each(components, x, p, z):
        iterate[...] = iterate[...] + _times(alpha, direction[...])
        direction[...] = gradient[...] + beta * direction[...]


@da.stencil(static=_STATIC)
def descend(
    r: Symbol, q: Symbol, *, components: Component, reproducible: bool, rz: Symbol, pq: Symbol
) -> Any:
    """`r -= alpha q`; gives |r|^2."""
    alpha = _step(rz, pq)
    for residual, image in _each(components, r, q):
        residual[...] = residual[...] - alpha * image[...]
    return _inner(r, r, components, reproducible)


@da.stencil(static=("components",))
def advance(x: Symbol, p: Symbol, *, components: Component, rz: Symbol, pq: Symbol) -> None:
    """`x += alpha p`."""
    alpha = _step(rz, pq)
    for iterate, direction in _each(components, x, p):
        iterate[...] = iterate[...] + _times(alpha, direction[...])


def _pipelined_step(
    gamma: Symbol, gamma_old: Symbol, delta: Symbol, sigma: Symbol
) -> tuple[Symbol, Symbol]:
    """Factors alpha and beta; (p, A p) is `delta - beta^2 sigma`, sigma of the step before."""
    beta = gamma / gamma_old
    return _step(gamma, delta - beta * beta * sigma), beta


@da.stencil(static=_STATIC)
def pipeline(  # noqa: PLR0917
    x: Symbol, r: Symbol, w: Symbol, p: Symbol, s: Symbol, z: Symbol, n: Symbol,
    *, components: Component, reproducible: bool,
    gamma: Symbol, gamma_old: Symbol, delta: Symbol, sigma: Symbol,
) -> Any:  # fmt: skip
    """All updates of one iteration of pipelined CG; gives |r|^2, (r, w) and (p, s)."""
    alpha, beta = _pipelined_step(gamma, gamma_old, delta, sigma)
    for x_, r_, w_, p_, s_, z_, n_ in _each(components, x, r, w, p, s, z, n):
        z_[...] = n_[...] + beta * z_[...]
        s_[...] = w_[...] + beta * s_[...]
        p_[...] = r_[...] + beta * p_[...]
        x_[...] = x_[...] + _times(alpha, p_[...])
        r_[...] = r_[...] - alpha * s_[...]
        w_[...] = w_[...] - alpha * z_[...]
    return (
        _inner(r, r, components, reproducible),
        _inner(r, w, components, reproducible),
        _inner(p, s, components, reproducible),
    )


@da.stencil(static=_STATIC)
def pipeline_preconditioned(  # noqa: PLR0917
    x: Symbol, r: Symbol, u: Symbol, w: Symbol, p: Symbol, s: Symbol, q: Symbol, z: Symbol,
    m: Symbol, n: Symbol,
    *, components: Component, reproducible: bool,
    gamma: Symbol, gamma_old: Symbol, delta: Symbol, sigma: Symbol,
) -> Any:  # fmt: skip
    """As `pipeline`, with u = M r, q = M s and m = M w; gives |r|^2, (u, w), (p, s) and (r, u)."""
    alpha, beta = _pipelined_step(gamma, gamma_old, delta, sigma)
    arrays = (x, r, u, w, p, s, q, z, m, n)
    for x_, r_, u_, w_, p_, s_, q_, z_, m_, n_ in _each(components, *arrays):
        z_[...] = n_[...] + beta * z_[...]
        q_[...] = m_[...] + beta * q_[...]
        s_[...] = w_[...] + beta * s_[...]
        p_[...] = u_[...] + beta * p_[...]
        x_[...] = x_[...] + _times(alpha, p_[...])
        r_[...] = r_[...] - alpha * s_[...]
        u_[...] = u_[...] - alpha * q_[...]
        w_[...] = w_[...] - alpha * z_[...]
    return (
        _inner(r, r, components, reproducible),
        _inner(u, w, components, reproducible),
        _inner(p, s, components, reproducible),
        _inner(r, u, components, reproducible),
    )


# ------------------------------------------------------------------------------------- BiCGStab


@da.stencil(static=_STATIC)
def shadowed(s: Symbol, v: Symbol, *, components: Component, reproducible: bool) -> Any:
    """(s, v), complex for complex arrays."""
    return _full_inner(s, v, components, reproducible)


@da.stencil(static=("components",))
def turn_shadowed(
    p: Symbol, r: Symbol, v: Symbol,
    *, components: Component, rho: Symbol, shadow_v: Symbol, ts: Symbol, tt: Symbol,
) -> None:  # fmt: skip
    """`p = r + beta (p - omega v)`, with `beta = rho / rho_old alpha / omega` and `alpha = rho_old
    / shadow_v`.
    """
    omega = _quotient(ts, tt)
    beta = _quotient(rho, omega * shadow_v)
    for p_, r_, v_ in _each(components, p, r, v):
        p_[...] = r_[...] + beta * (p_[...] - omega * v_[...])


@da.stencil(static=("components",))
def halve(r: Symbol, v: Symbol, *, components: Component, rho: Symbol, shadow_v: Symbol) -> None:
    """`r -= alpha v`, after which it is the s of the paper."""
    alpha = _quotient(rho, shadow_v)
    for r_, v_ in _each(components, r, v):
        r_[...] = r_[...] - alpha * v_[...]


@da.stencil(static=_STATIC)
def stabilising(t: Symbol, s: Symbol, *, components: Component, reproducible: bool) -> Any:
    """(t, s) and |t|^2."""
    return (
        _full_inner(t, s, components, reproducible),
        _inner(t, t, components, reproducible),
    )


@da.stencil(static=_STATIC)
def stabilise(
    x: Symbol, p: Symbol, r: Symbol, t: Symbol, shadow: Symbol,
    *, components: Component, reproducible: bool,
    rho: Symbol, shadow_v: Symbol, ts: Symbol, tt: Symbol,
) -> Any:  # fmt: skip
    """`x += alpha p + omega s`, `r = s - omega t`, with s in r; gives |r|^2 and (shadow, r)."""
    alpha, omega = _quotient(rho, shadow_v), _quotient(ts, tt)
    _stabilise(_each(components, x, p, r, r, t), alpha, omega)
    return (
        _inner(r, r, components, reproducible),
        _full_inner(shadow, r, components, reproducible),
    )


@da.stencil(static=_STATIC)
def stabilise_preconditioned(  # noqa: PLR0917
    x: Symbol, y: Symbol, z: Symbol, r: Symbol, t: Symbol, shadow: Symbol,
    *, components: Component, reproducible: bool,
    rho: Symbol, shadow_v: Symbol, ts: Symbol, tt: Symbol,
) -> Any:  # fmt: skip
    """As `stabilise`, with y = M p and z = M s."""
    alpha, omega = _quotient(rho, shadow_v), _quotient(ts, tt)
    _stabilise(_each(components, x, y, z, r, t), alpha, omega)
    return (
        _inner(r, r, components, reproducible),
        _full_inner(shadow, r, components, reproducible),
    )


def _stabilise(parts: Iterator[list[Symbol]], alpha: Symbol, omega: Symbol) -> None:
    for x, y, z, r, t in parts:
        x[...] = x[...] + (_times(alpha, y[...]) + _times(omega, z[...]))
        r[...] = r[...] - omega * t[...]


# ------------------------------------------------------------------------------------- Chebyshev


def _sound_sum(x: Symbol, d: Symbol) -> Symbol:
    """Their sum, or x where d is not finite."""
    return da.where(abs(d) < math.inf, x + d, x)


@da.stencil(static=("components",))
def scale_to(d: Symbol, z: Symbol, *, components: Component, factor: Symbol) -> None:
    """`d = factor z`."""
    for d_, z_ in _each(components, d, z):
        d_[...] = factor * z_[...]


@da.stencil(static=_STATIC)
def sweep(
    x: Symbol, r: Symbol, d: Symbol, q: Symbol,
    *, components: Component, reproducible: bool, keep: Symbol, factor: Symbol,
) -> Any:  # fmt: skip
    """`x += d`, `r -= q` and `d = keep d + factor r`; gives |r|^2."""
    for x_, r_, d_, q_ in _each(components, x, r, d, q):
        x_[...] = _sound_sum(x_[...], d_[...])
        r_[...] = r_[...] - q_[...]
        d_[...] = keep * d_[...] + factor * r_[...]
    return _inner(r, r, components, reproducible)


@da.stencil(static=_STATIC)
def follow(
    x: Symbol, r: Symbol, d: Symbol, q: Symbol, *, components: Component, reproducible: bool
) -> Any:
    """`x += d` and `r -= q`; gives |r|^2."""
    for x_, r_, d_, q_ in _each(components, x, r, d, q):
        x_[...] = _sound_sum(x_[...], d_[...])
        r_[...] = r_[...] - q_[...]
    return _inner(r, r, components, reproducible)


@da.stencil(static=("components",))
def renew(d: Symbol, z: Symbol, *, components: Component, keep: Symbol, factor: Symbol) -> None:
    """`d = keep d + factor z`."""
    for d_, z_ in _each(components, d, z):
        d_[...] = keep * d_[...] + factor * z_[...]
