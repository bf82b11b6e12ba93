"""Exact solutions: standing modes, their discrete frequency, and point sources. Pure.

For `p_tt / c^2 - lap p = s(t) delta(x)` in unbounded space, with r the distance (the Green's
functions of the wave equation, e.g. Morse, P. M., Feshbach, H. (1953) Methods of Theoretical
Physics, section 7.3):

    1-D   p = (c / 2) int_{r/c}^inf s(t - q) dq
    2-D   p = (1 / 2 pi) int_{r/c}^inf s(t - q) / sqrt(q^2 - r^2 / c^2) dq
    3-D   p = s(t - r / c) / (4 pi r)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solvers.wave import coefficients

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Points of a quadrature; the integrands are smooth.
_POINTS = 4000


def frequency(
    numbers: Sequence[float], spacing: Sequence[float], *, speed: float, order: int, dt: float
) -> float:
    """The angular frequency w of leap-frog for a mode with these angular wave numbers,
    `sin^2(w dt / 2) = (c dt / 2)^2 sum_i S(k_i h_i) / h_i^2`, S the symbol of the difference.
    """
    total = sum(
        coefficients.symbol(order, k * h) / h**2 for k, h in zip(numbers, spacing, strict=True)
    )
    return 2.0 / dt * math.asin(0.5 * speed * dt * math.sqrt(total))


def point_source(
    wavelet: Callable[[Any], Any], times: Floats, distance: float, *, speed: float, ndim: int
) -> Floats:
    """The pressure at a distance, in unbounded space.

    Parameters
    ----------
    wavelet : function of an array of times
        Zero, or as good as zero, at negative ones.
    times : float64 array
    distance : float
        Above 0.
    speed : float
    ndim : 1, 2 or 3
    """
    delay = distance / speed
    if ndim == 3:
        return np.asarray(wavelet(times - delay)) / (4.0 * np.pi * distance)
    return np.array([_integral(wavelet, t, delay, speed, ndim) for t in times])


def _integral(
    wavelet: Callable[[Any], Any], t: float, delay: float, speed: float, ndim: int
) -> float:
    """The integral over the waves that have had time to arrive, by the trapezoidal rule.

    In 2-D `q = (r / c) cosh a` takes the singularity away; near the end, where the wavelet begins,
    a grows with the logarithm of q, so that all of the wavelet is resolved.
    """
    if t <= delay:
        return 0.0
    if ndim == 1:
        q = np.linspace(delay, t, _POINTS)
        return 0.5 * speed * float(np.trapezoid(wavelet(t - q), q))
    a = np.linspace(0.0, math.acosh(t / delay), _POINTS)
    return float(np.trapezoid(wavelet(t - delay * np.cosh(a)), a)) / (2.0 * np.pi)
