"""Exact solutions: modes of the discrete operator, and Gaussians. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solvers.diffusion.schemes import Scheme


def eigenvalue(
    numbers: Sequence[float], spacing: Sequence[float], diffusivity: Sequence[float]
) -> float:
    """That of `div(D grad)` by second differences for a mode with these angular wave numbers,
    `-sum_i 4 D_i / h_i^2 sin^2(k_i h_i / 2)`.
    """
    return -sum(
        4.0 * d / h**2 * math.sin(0.5 * k * h) ** 2
        for k, h, d in zip(numbers, spacing, diffusivity, strict=True)
    )


def amplification(scheme: Scheme, z: float) -> float:
    """What a step makes of u where du/dt = lambda u, z = dt lambda: the last stage."""
    rates, stage = list[float](), 1.0
    for row in scheme.rows:
        known = 1.0 + sum(a * f for a, f in zip(row, rates, strict=False))
        stage = known / (1.0 - row[-1] * z)
        rates.append(z * stage)
    return 1.0 + z if scheme.implicit == 0.0 else stage


def gaussian(time: float, start: float, diffusivity: float) -> Callable[..., Any]:
    """`(t0 / (t0 + t))^(ndim / 2) exp(-r^2 / (4 D (t0 + t)))` as a function of the coordinates."""
    age = start + time

    def values(*x: Any) -> Any:
        squared = sum(np.square(along) for along in x)
        height = (start / age) ** (0.5 * len(x))
        return height * np.exp(-squared / (4.0 * diffusivity * age))

    return values
