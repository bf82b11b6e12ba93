"""Exact solutions of the shallow-water equations. Pure NumPy.

- `DamBreak`   the Riemann problem at rest: Stoker (1957) on a wet bed, Ritter (1892) on a dry one
- `SteadyFlow` frictionless flow over a bed: Bernoulli's equation, and the hydraulic jump
- `Lake`       Thacker's lake, which oscillates in a bowl
- `SimpleWave` a wave that runs into still water and steepens, smooth before it breaks
- `normal_velocity`  flow down a slope that friction balances

Stoker, J. J. (1957) Water Waves; Thacker, W. C. (1981) J. Fluid Mech. 107, 499-508; and as
collected by Delestre, O. et al. (2013) Int. J. Numer. Meth. Fluids 72, 269-300 (SWASHES).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da

Floats = np.ndarray[Any, np.dtype[np.float64]]


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """The root between two points of opposite signs, to round-off. Local."""
    rising = function(high) > 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if (function(middle) > 0.0) == rising:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


@dataclass(frozen=True)
class DamBreak:
    """Water at rest of two depths, the deeper on the left, after the dam at x = 0 has gone.

    Parameters
    ----------
    left, right : float
        Depths, left > right >= 0.
    gravity : float
    """

    left: float
    right: float
    gravity: float = 1.0

    @property
    def dry(self) -> bool:
        return self.right == 0.0

    @property
    def star(self) -> tuple[float, float]:
        """Depth and velocity between fan and bore; at the dam on a dry bed."""
        g, hl, hr = self.gravity, self.left, self.right
        if self.dry:
            return 4.0 / 9.0 * hl, 2.0 / 3.0 * math.sqrt(g * hl)

        def excess(h: float) -> float:
            # One root each: the product of two depths may be less than the least float.
            bore = (h - hr) * math.sqrt(0.5 * g * (1.0 + hr / h)) / math.sqrt(hr)
            return bore - 2.0 * (math.sqrt(g * hl) - math.sqrt(g * h))

        h = bisect(excess, hr, hl)
        return h, 2.0 * (math.sqrt(g * hl) - math.sqrt(g * h))

    @property
    def bore(self) -> float:
        """Speed of the bore, or of the front on a dry bed."""
        if self.dry:
            return 2.0 * math.sqrt(self.gravity * self.left)
        h, u = self.star
        return h * u / (h - self.right)

    def __call__(self, x: Any, t: float) -> tuple[Floats, Floats]:
        """Depth and velocity at the positions x and the time t > 0. Local."""
        speed = np.asarray(x, np.float64) / t
        g, c = self.gravity, math.sqrt(self.gravity * self.left)
        h = np.full(speed.shape, self.right)
        u = np.zeros(speed.shape)
        fan_h, fan_u = (2.0 * c - speed) ** 2 / (9.0 * g), 2.0 / 3.0 * (speed + c)
        if self.dry:
            tail = self.bore
        else:
            star_h, star_u = self.star
            tail = star_u - math.sqrt(g * star_h)
            h[speed < self.bore], u[speed < self.bore] = star_h, star_u
        inside = speed < tail
        h[inside], u[inside] = fan_h[inside], fan_u[inside]
        h[speed < -c], u[speed < -c] = self.left, 0.0
        return h, u


@dataclass(frozen=True)
class SteadyFlow:
    """Steady flow in +x without friction over a bed with one crest.

    Parameters
    ----------
    bed : function of x
    discharge : float
        Per width, above 0.
    crest : float
        Where the bed is highest.
    end : float
        Where the bed behind the crest is flat.
    depth : float, optional
        At the far end; None for a flow that stays supercritical behind the crest.
    gravity : float
    """

    bed: Callable[[Any], Any]
    discharge: float
    crest: float
    end: float
    depth: float | None = None
    gravity: float = 9.81

    @property
    def critical(self) -> float:
        """The critical depth (q^2 / g)^(1/3)."""
        return math.pow(self.discharge**2 / self.gravity, 1.0 / 3.0)

    @property
    def crest_head(self) -> float:
        """Head of the flow that is critical at the crest."""
        return 1.5 * self.critical + float(self.bed(self.crest))

    @property
    def end_head(self) -> float:
        """Head at the far end."""
        if self.depth is None:
            return self.crest_head
        bed = float(self.bed(self.end))
        return self.depth + bed + self.discharge**2 / (2.0 * self.gravity * self.depth**2)

    @property
    def regime(self) -> str:
        """One of "subcritical", "transcritical", and "jump" where one follows the crest."""
        if self.depth is None:
            return "transcritical"
        return "subcritical" if self.end_head >= self.crest_head else "jump"

    @property
    def jump(self) -> float:
        """Position of the hydraulic jump, where both sides carry the same momentum.

        Raises
        ------
        SolverError
            There is none between the crest and the end of the bump.
        """

        def excess(x: float) -> float:
            fast, slow = self._root(x, self.crest_head, 1), self._root(x, self.end_head, 0)
            return self._force(float(fast)) - self._force(float(slow))

        # Nearer to the crest the head of the far end does not carry the discharge.
        high = self.end
        low = bisect(
            lambda x: self.end_head - float(self.bed(x)) - 1.5 * self.critical, self.crest, high
        )
        low += 1e-9 * (high - low)
        if not (excess(high) < 0.0 < excess(low)):
            raise da.SolverError(
                f"The jump of a flow of discharge {self.discharge} lies behind the crest, but the "
                f"depth {self.depth} at the end puts it elsewhere; change that depth."
            )
        return bisect(excess, low, high)

    def __call__(self, x: Any) -> Floats:
        """Depth at the positions x. Local."""
        x = np.asarray(x, np.float64)
        if self.regime == "subcritical":
            return self._root(x, self.end_head, 0)
        before, behind = self._root(x, self.crest_head, 0), self._root(x, self.crest_head, 1)
        h = np.where(x < self.crest, before, behind)
        if self.regime == "jump":
            h = np.where(x > self.jump, self._root(x, self.end_head, 0), h)
        return h

    def _force(self, h: float) -> float:
        return self.discharge**2 / h + 0.5 * self.gravity * h * h

    def _root(self, x: Any, head: float, fast: int) -> Floats:
        """The sub- or supercritical depth of a head: roots of h^3 + (b - H) h^2 + q^2 / 2g = 0, by
        the trigonometric solution of a cubic with three real ones.
        """
        energy = head - np.asarray(self.bed(x), np.float64)
        ratio = 1.0 - 6.75 * self.discharge**2 / (self.gravity * energy**3)
        angle = np.arccos(np.clip(ratio, -1.0, 1.0)) / 3.0
        if fast:
            angle = angle - 2.0 * math.pi / 3.0
        return energy / 3.0 * (1.0 + 2.0 * np.cos(angle))


@dataclass(frozen=True)
class Lake:
    """Thacker's lake with a plane surface: a paraboloid of water that keeps its shape while its
    middle swings through a bowl b = H (r^2 / a^2 - 1), along one axis, or in a circle on two.

    Parameters
    ----------
    depth : float
        H, of the middle of the bowl below the shore of the lake at rest.
    radius : float
        a, of the lake at rest.
    swing : float
        How far the middle of the water swings.
    gravity : float
    """

    depth: float = 0.1
    radius: float = 1.0
    swing: float = 0.5
    gravity: float = 9.81

    @property
    def frequency(self) -> float:
        return math.sqrt(2.0 * self.gravity * self.depth) / self.radius

    @property
    def period(self) -> float:
        return 2.0 * math.pi / self.frequency

    def bed(self, *x: Any) -> Any:
        """The bowl, whose middle is at the origin. Local."""
        return self.depth * (sum(c * c for c in x) / self.radius**2 - 1.0)

    def water(self, t: float, *x: Any) -> Any:
        """Depth at the positions x and the time t. Local."""
        away = sum((c - m) ** 2 for c, m in zip(x, self._middle(t), strict=False))
        return np.maximum(self.depth * (1.0 - away / self.radius**2), 0.0)

    def velocity(self, t: float, ndim: int) -> tuple[float, ...]:
        """Velocity of all water at the time t. Local."""
        phase, speed = self.frequency * t, self.swing * self.frequency
        return (-speed * math.sin(phase), speed * math.cos(phase))[:ndim]

    def _middle(self, t: float) -> tuple[float, float]:
        phase = self.frequency * t
        return self.swing * math.cos(phase), self.swing * math.sin(phase)


@dataclass(frozen=True)
class SimpleWave:
    """A wave in +x into still water: u - 2 c is the same everywhere, and each depth moves with the
    speed u + c, until the wave breaks.

    Parameters
    ----------
    shape : function of x
        Depth at the start.
    still : float
        Depth where the velocity is zero.
    gravity : float
    """

    shape: Callable[[Any], Any]
    still: float = 1.0
    gravity: float = 1.0

    def velocity(self, h: Any) -> Any:
        """Velocity where the depth is h. Local."""
        return 2.0 * (np.sqrt(self.gravity * h) - math.sqrt(self.gravity * self.still))

    def __call__(self, x: Any, t: float) -> Floats:
        """Depth at the positions x and the time t, by a fixed-point iteration. Local."""
        h: Floats = np.asarray(self.shape(x), np.float64)
        for _ in range(200):
            h = self.shape(x - (self.velocity(h) + np.sqrt(self.gravity * h)) * t)
        return h


def normal_velocity(h: float, slope: float, manning: float) -> float:
    """Velocity of a wide flow of depth h down a slope: h^(2/3) sqrt(slope) / n. Local."""
    return math.pow(h, 2.0 / 3.0) * math.sqrt(slope) / manning
