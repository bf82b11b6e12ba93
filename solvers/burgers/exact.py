"""Exact solutions of Burgers' equation. Local; arrays are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def travelling_wave(
    t: float, x: Array, *, viscosity: float, mean: float, amplitude: float, start: float
) -> Array:
    """A viscous step from mean + amplitude down to mean - amplitude, centred at start + mean t:
    u = U - A tanh(A (x - U t - x0) / (2 nu)). Its width is about 4 nu / A.
    """
    distance = x - mean * t - start
    return mean - amplitude * np.tanh(amplitude * distance / (2.0 * viscosity))


def diagonal_wave(t: float, x: Array, y: Array, *, viscosity: float) -> tuple[Array, Array]:
    """Both components of u = 3/4 - g, v = 3/4 + g, g = 1 / (4 (1 + E)), E = exp((-4 x + 4 y - t) /
    (32 nu)): a step across a diagonal (Fletcher, C. A. J. (1983) J. Comput. Phys. 51(1), 159-188).
    """
    g = 0.25 / (1.0 + np.exp((-4.0 * x + 4.0 * y - t) / (32.0 * viscosity)))
    return 0.75 - g, 0.75 + g


def riemann(t: float, x: Array, *, left: float, right: float, start: float) -> Array:
    """The solution without viscosity of a jump at `start`: a shock with the mean velocity where it
    falls, a fan where it rises.
    """
    if left > right:
        return np.where(x < start + 0.5 * (left + right) * t, left, right)
    fan = (x - start) / t if t > 0.0 else np.where(x < start, left, right)
    return np.clip(fan, left, right)


def sine(t: float, x: Array, *, mean: float, amplitude: float) -> Array:
    """The solution without viscosity that starts as mean + amplitude sin(2 pi x), until it breaks
    at t = 1 / (2 pi amplitude), by Newton's method along the characteristics.
    """
    k = 2.0 * np.pi
    foot = np.array(x - mean * t, dtype=float)
    for _ in range(60):
        rise = x - foot - t * (mean + amplitude * np.sin(k * foot))
        foot += rise / (1.0 + t * amplitude * k * np.cos(k * foot))
    return mean + amplitude * np.sin(k * foot)
