"""How sources vary with time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da


@dataclass(frozen=True)
class Ricker:
    """The second derivative of a Gaussian, `A (1 - 2 a) exp(-a)` with `a = (pi f (t - delay))^2`.

    Ricker, N. (1953) Geophysics 18(1), 10-40.

    Parameters
    ----------
    frequency : float
        f, where its spectrum is largest.
    amplitude : float
        A, the value at the time `delay`.
    delay : float, optional
        1.5 / f by default: at time 0 it is then 1e-8 of its peak.
    """

    frequency: float
    amplitude: float = 1.0
    delay: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.frequency) and self.frequency > 0.0):
            raise da.SolverError(
                f"The frequency of a wavelet is above 0, received {self.frequency!r}; change it."
            )

    @property
    def peak(self) -> float:
        """The time of the largest value."""
        return 1.5 / self.frequency if self.delay is None else self.delay

    def __call__(self, t: Any) -> Any:
        a = (np.pi * self.frequency * (t - self.peak)) ** 2
        return self.amplitude * (1.0 - 2.0 * a) * np.exp(-a)

    def integral(self, t: Any) -> Any:
        """The integral from minus infinity to t."""
        shifted = t - self.peak
        return self.amplitude * shifted * np.exp(-((np.pi * self.frequency * shifted) ** 2))


@dataclass(frozen=True)
class Sampled:
    """A wavelet given by samples: linear between them, zero before the first and after the last.

    Parameters
    ----------
    samples : sequence of float
    spacing : float
        Time between two samples.
    start : float
        Time of the first sample.
    """

    samples: Sequence[float]
    spacing: float
    start: float = 0.0

    def __post_init__(self) -> None:
        values = np.asarray(self.samples, dtype=float)
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
            raise da.SolverError(
                "A sampled wavelet has at least two finite samples in one row, received the shape "
                f"{values.shape}; give a sequence of numbers."
            )
        if not (math.isfinite(self.spacing) and self.spacing > 0.0):
            raise da.SolverError(
                f"The time between samples is above 0, received {self.spacing!r}; change it."
            )
        object.__setattr__(self, "samples", tuple(map(float, values)))

    def __call__(self, t: Any) -> Any:
        times = self.start + self.spacing * np.arange(len(self.samples))
        return np.interp(t, times, self.samples, left=0.0, right=0.0)
