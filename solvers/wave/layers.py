"""Layers that absorb waves at the sides of the box: sponges, and perfectly matched layers. Pure.

In what follows d runs from 0 at the inner edge of a layer to 1 at the side of the box.

*Sponge* (Cerjan, C., Kosloff, D., Kosloff, R., Reshef, M. (1985) Geophysics 50(4), 705-708): both
arrays of leap-frog are multiplied by `exp(-(0.3 d)^2)` in every step; 0.3 is their 0.015 for each
of 20 cells.

*CPML*: `b = exp(-(sigma + alpha) dt)`, `a = sigma / (sigma + alpha) (b - 1)` with `sigma =
sigma_max d^2`, `alpha = pi f (1 - d)` (Komatitsch, D., Martin, R. (2007) Geophysics 72(5),
SM155-SM167) and `sigma_max = 3 c ln(1 / R) / (2 W)`, W the width, for a reflection
R at normal incidence (Collino, F., Tsogka, C. (2001) Geophysics 66(1), 294-307).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: R.
REFLECTION = 1e-6


def depth(cells: int, width: int, *, low: bool, high: bool) -> Floats:
    """D at the centres of the cells of an axis, 0 between the layers."""
    inside = (np.arange(cells) + 0.5) - (cells - width)  # cells beyond the edge of the high layer
    into = np.clip(inside / width, 0.0, None)
    none = np.zeros(cells)
    return np.maximum(into[::-1] if low else none, into if high else none)


def sponge(d: Floats) -> Floats:
    """The factor by which a step multiplies."""
    return np.exp(-((0.3 * d) ** 2))


def matched(
    d: Floats, *, thickness: float, speed: float, frequency: float, dt: float
) -> tuple[Floats, Floats]:
    """A and b of a time step, 0 outside layers.

    Parameters
    ----------
    d : see above
    thickness : float
        W.
    speed : float
        c, the largest in the box.
    frequency : float
        f, which most of the waves have.
    """
    sigma = 1.5 * speed * math.log(1.0 / REFLECTION) / thickness * d**2
    alpha = math.pi * frequency * (1.0 - d)
    inside = d > 0.0
    b = np.where(inside, np.exp(-(sigma + alpha) * dt), 0.0)
    share = np.divide(sigma, sigma + alpha, out=np.zeros_like(d), where=inside)
    return np.where(inside, share * (b - 1.0), 0.0), b
