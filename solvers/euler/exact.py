"""Flows of an ideal gas with known solutions, as NumPy computes them. Local; no kernels.

Riemann problems are solved by bisection, independently of the flux `riemann.exact`.
"""

from __future__ import annotations

import csv
import functools
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

import distarray as da
from solvers.box import can_be_squared, is_number, shown

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class RiemannProblem:
    """Two states (rho, u, p) that meet at x = 0 at time 0 (Toro, E. F. (2009) Riemann Solvers and
    Numerical Methods for Fluid Dynamics, chapter 4).

    Attributes
    ----------
    p_star, u_star : float
        Pressure and velocity between the waves.
    """

    left: tuple[float, float, float]
    right: tuple[float, float, float]
    gamma: float = 1.4

    @property
    def p_star(self) -> float:
        """0 where a vacuum opens."""
        rise = self.right[1] - self.left[1]

        def excess(p: float) -> float:
            return self._jump(p, self.left) + self._jump(p, self.right) + rise

        if excess(0.0) >= 0.0:
            return 0.0
        low, high = 0.0, max(self.left[2], self.right[2])
        while excess(high) < 0.0:
            low, high = high, 2.0 * high
        while high - low > 4e-16 * high:
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
        return 0.5 * (low + high)

    @property
    def u_star(self) -> float:
        p = self.p_star
        return 0.5 * (
            self.left[1] + self.right[1] + self._jump(p, self.right) - self._jump(p, self.left)
        )

    def rho_star(self, side: int) -> float:
        """Density beside the contact, of the left (-1) or the right (1) side."""
        rho, _, p = self._side(side)
        ratio, g = self.p_star / p, self.gamma
        if ratio > 1.0:
            return rho * (ratio + (g - 1.0) / (g + 1.0)) / ((g - 1.0) / (g + 1.0) * ratio + 1.0)
        return float(rho * ratio ** (1.0 / g))

    def speeds(self, side: int) -> tuple[float, float]:
        """Of the wave of a side: twice that of a shock, or those of a fan's head and tail."""
        rho, u, p = self._side(side)
        c, ratio, g = math.sqrt(self.gamma * p / rho), self.p_star / p, self.gamma
        if ratio > 1.0:
            speed = u + side * c * math.sqrt((g + 1.0) / (2.0 * g) * ratio + (g - 1.0) / (2.0 * g))
            return speed, speed
        c_star = c * ratio ** ((g - 1.0) / (2.0 * g))
        u_star = u + side * self._jump(self.p_star, (rho, u, p))
        return u + side * c, u_star + side * c_star

    def __call__(self, xi: Any) -> tuple[Floats, Floats, Floats]:
        """Density, velocity and pressure at x / t = xi."""
        xi = np.asarray(xi, np.float64)
        found = np.where(xi < self.u_star, self._half(xi, -1), self._half(xi, 1))
        return found[0], found[1], found[2]

    def _half(self, xi: Floats, side: int) -> Floats:
        """The solution on one side of the contact."""
        rho, u, p = self._side(side)
        g, c = self.gamma, math.sqrt(self.gamma * p / rho)
        head, tail = self.speeds(side)
        fan_c = np.maximum(2.0 * c + (g - 1.0) * side * (xi - u), 0.0) / (g + 1.0)
        fan = (rho * (fan_c / c) ** (2.0 / (g - 1.0)), xi - side * fan_c,
               p * (fan_c / c) ** (2.0 * g / (g - 1.0)))  # fmt: skip
        own, between = (rho, u, p), (self.rho_star(side), self.u_star, self.p_star)
        ahead, behind = side * xi >= side * head, side * xi <= side * tail
        return np.array(
            [
                np.where(ahead, a, np.where(behind, b, f))
                for a, b, f in zip(own, between, fan, strict=True)
            ]
        )

    def _side(self, side: int) -> tuple[float, float, float]:
        return self.right if side > 0 else self.left

    def _jump(self, p: float, state: tuple[float, float, float]) -> float:
        """The change of velocity across the wave to the pressure p (Toro, equations 4.6, 4.7)."""
        rho, _, here = state
        g = self.gamma
        if p > here:
            a, b = 2.0 / ((g + 1.0) * rho), (g - 1.0) / (g + 1.0) * here
            return (p - here) * math.sqrt(a / (p + b))
        c = math.sqrt(g * here / rho)
        return float(2.0 * c / (g - 1.0) * ((p / here) ** ((g - 1.0) / (2.0 * g)) - 1.0))


@dataclass(frozen=True)
class ShockTube:
    """A Riemann problem in a tube, and when it is looked at."""

    name: str
    problem: RiemannProblem
    jump: float
    until: float
    bounds: tuple[float, float]
    published: dict[str, float]

    def states(self, x: Any, time: float) -> tuple[Floats, Floats, Floats]:
        """Density, velocity and pressure at positions x."""
        if time > 0.0:
            return self.problem((np.asarray(x) - self.jump) / time)
        left = np.asarray(x) < self.jump
        pairs = zip(self.problem.left, self.problem.right, strict=True)
        rho, u, p = (np.where(left, a, b) for a, b in pairs)
        return rho, u, p


def shock_tubes() -> dict[str, ShockTube]:
    """The tubes of `data/toro.csv` by name, with their published star states."""
    found = {}
    for row in _rows("toro.csv"):
        left, right = (
            tuple(float(row[f"{name}_{side}"]) for name in ("rho", "u", "p")) for side in "lr"
        )
        published = {
            name: float(row[name]) for name in ("p_star", "u_star", "rho_star_l", "rho_star_r")
        }
        found[row["case"]] = ShockTube(
            row["case"],
            RiemannProblem(left, right),  # type: ignore[arg-type]
            float(row["x0"]),
            float(row["t_end"]),
            (float(row["x_min"]), float(row["x_max"])),
            published,
        )
    return found


def shu_osher_table() -> Floats:
    """Columns x, rho, u, p, drho of `data/shu_osher_recomputed.csv`: cell means of 400 cells at
    t = 1.8, computed by WENO on 3200 cells, and an estimate of the error of rho.
    """
    rows = [[float(value) for value in row.values()] for row in _rows("shu_osher_recomputed.csv")]
    return np.array(rows).T


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("solvers.euler").joinpath("data", name).read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def vortex(
    t: float, *coords: Any, strength: float = 5.0, gamma: float = 1.4, side: float = 20.0
) -> tuple[Any, Any, Any, Any]:
    """Density, velocities and pressure of a vortex that the flow (1, 1) carries along diagonals of
    a periodic square around the origin (Shu, C.-W. (1998) NASA/CR-97-206253, section 5.1). It has
    the entropy of the flow around it everywhere.
    """
    x, y = ((c - t + 0.5 * side) % side - 0.5 * side for c in coords)
    bell = np.exp(0.5 * (1.0 - (x * x + y * y)))
    turn = strength / (2.0 * math.pi) * bell
    warmth = 1.0 - (gamma - 1.0) / (2.0 * gamma) * turn * turn
    rho = warmth ** (1.0 / (gamma - 1.0))
    return rho, 1.0 - turn * y, 1.0 + turn * x, rho * warmth


def require_mach(mach: float) -> None:
    """Refuse a Mach number that gives a gas no pressure."""
    if not (is_number(mach) and mach > 0.0 and can_be_squared(mach)):
        raise da.SolverError(
            "A Mach number is above 0, and its square a number that floats can hold, received "
            f"mach={shown(mach)}; give another."
        )


def gresho(*coords: Any, mach: float = 0.1, gamma: float = 1.4) -> tuple[Any, Any, Any, Any]:
    """Density, velocities and pressure of a steady vortex around the origin: a triangle of speeds
    up to 1 at r = 0.2 (Gresho, P. M., Chan, S. T. (1990) Int. J. Numer. Methods Fluids 11(5),
    621-659), in a gas whose pressure gives the Mach number there (Miczek, F., Roepke, F. K.,
    Edelmann, P. V. F. (2015) Astron. Astrophys. 576, A50).
    """
    require_mach(mach)
    x, y = coords
    r = np.maximum(np.hypot(x, y), 1e-300)
    base = 1.0 / (gamma * mach**2) - 0.5
    speed = np.where(r < 0.2, 5.0 * r, np.where(r < 0.4, 2.0 - 5.0 * r, 0.0))
    middle = base + 12.5 * r * r + 4.0 * (1.0 - 5.0 * r - math.log(0.2) + np.log(r))
    p = np.where(
        r < 0.2,
        base + 12.5 * r * r,
        np.where(r < 0.4, middle, base + 4.0 * math.log(2.0) - 2.0),
    )
    return 1.0 + 0.0 * r, -speed * y / r, speed * x / r, p


def double_mach_front(t: float, y: float) -> float:
    """Where the undisturbed shock of the double Mach reflection stands at the height y: of Mach
    number 10, at 60 degrees, through x = 1/6 at the bottom at time 0.
    """
    return 1.0 / 6.0 + (y + 20.0 * t) / math.sqrt(3.0)


def sedov_radius(time: float, ndim: int, *, energy: float = 1.0, gamma: float = 1.4) -> float:
    """The radius of the shock of a point blast in gas of density 1 without pressure, on one to
    three axes: R = (E t^2 / alpha)^(1 / (ndim + 2)) (Sedov, L. I. (1959) Similarity and Dimensional
    Methods in Mechanics, chapter IV).
    """
    return float((energy * time * time / _sedov_alpha(ndim, gamma)) ** (1.0 / (ndim + 2)))


@functools.cache
def _sedov_alpha(ndim: int, gamma: float, steps: int = 4000) -> float:
    """The energy of similar flow within the radius t^(2 / (ndim + 2)), by the classical Runge-Kutta
    scheme from the shock to the middle: with s = r / R, u = R' f(s), p = R'^2 g(s), rho = q(s).
    """
    bend = -0.5 * ndim  # R R'' / R'^2

    def slopes(s: float, state: Floats) -> Floats:
        f, g, q, _ = state
        ahead, spread = f - s, (ndim - 1.0) * f / s
        df = (-bend * f + g / q * (gamma * spread + 2.0 * bend) / ahead) / (
            ahead - gamma * g / (q * ahead)
        )
        dq = -q * (df + spread) / ahead
        dg = g * (gamma * dq / q - 2.0 * bend / ahead)
        return np.array([df, dg, dq, (0.5 * q * f * f + g / (gamma - 1.0)) * s ** (ndim - 1)])

    state = np.array([2.0 / (gamma + 1.0), 2.0 / (gamma + 1.0), (gamma + 1.0) / (gamma - 1.0), 0.0])
    # Even in log(s): towards the middle the density vanishes like a power of s.
    ratio = 1e-4 ** (1.0 / steps)
    s = 1.0
    for _ in range(steps):
        h = s * ratio - s
        k1 = slopes(s, state)
        k2 = slopes(s + 0.5 * h, state + 0.5 * h * k1)
        k3 = slopes(s + 0.5 * h, state + 0.5 * h * k2)
        k4 = slopes(s + h, state + h * k3)
        state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        s += h
    area = (2.0, 2.0 * math.pi, 4.0 * math.pi)[ndim - 1]
    return float((2.0 / (ndim + 2.0)) ** 2 * area * -state[3])
