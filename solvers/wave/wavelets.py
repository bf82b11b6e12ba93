"""How sources vary with time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.box import is_number, shown


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
        if not (is_number(self.frequency) and self.frequency > 0.0):
            raise da.SolverError(
                f"The frequency of a wavelet is above 0, received {shown(self.frequency)}; change "
                "it."
            )
        for name, value in (("amplitude", self.amplitude), ("delay", self.peak)):
            if not is_number(value):
                raise da.SolverError(
                    f"The {name} of a wavelet is a finite number, received {shown(value)}; give "
                    "one."
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
        row = isinstance(self.samples, Sequence | np.ndarray)
        if not row or len(self.samples) < 2 or not all(map(is_number, self.samples)):
            raise da.SolverError(
                "A sampled wavelet has at least two finite samples in one row, received "
                f"{shown(self.samples)}; give a sequence of numbers."
            )
        if not (is_number(self.spacing) and self.spacing > 0.0):
            raise da.SolverError(
                f"The time between samples is above 0, received {shown(self.spacing)}; change it."
            )
        if not is_number(self.start):
            raise da.SolverError(
                f"The time of the first sample is a finite number, received {shown(self.start)}; "
                "give one."
            )
        object.__setattr__(self, "samples", tuple(map(float, self.samples)))

    def __call__(self, t: Any) -> Any:
        times = self.start + self.spacing * np.arange(len(self.samples))
        return np.interp(t, times, self.samples, left=0.0, right=0.0)
