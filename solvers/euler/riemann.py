"""Fluxes between two states of an ideal gas that meet at a face. Pure; branch-free, so that they
are called while a kernel is traced.

rusanov  one wave speed for both directions; the most dissipative
hll      two wave speeds, no contact (Harten, A., Lax, P. D., van Leer, B. (1983) SIAM Rev. 25(1),
         35-61)
hllc     and the contact between them (Toro, E. F., Spruce, M., Speares, W. (1994) Shock Waves 4(1),
         25-34)
exact    the exact solution at the face (Toro, E. F. (2009) Riemann Solvers and Numerical Methods
         for Fluid Dynamics, chapter 4)

The speeds of the slowest and the fastest wave are those of Einfeldt, B. (1988) SIAM J. Numer. Anal.
25(2), 294-318, with which HLL and HLLC keep density and pressure positive (Batten, P., Clarke, N.,
Lambert, C., Causon, D. M. (1997) SIAM J. Sci. Comput. 18(6), 1553-1570).

All are mirror images of themselves to the bit: states exchanged and turned round give the fluxes
turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import distarray as da
from solvers.euler.gas import State, Symbol, conserved, flux, sound_speed, total_energy, velocity
from solvers.hyperbolic import riemann

#: A flux of (left, right, axis, gamma).
Solver = Callable[[State, State, int, Symbol], list[Symbol]]
#: Steps of Newton's method in the exact solution: more do not change it, see its test.
ITERATIONS = 10
#: Pressures below this share of the larger one count as a vacuum in the exact solution.
_VACUUM = 1e-14


def wave_speeds(left: State, right: State, axis: int, gamma: Symbol) -> tuple[Symbol, Symbol]:
    """Einfeldt's speeds of the slowest and of the fastest wave along an axis."""
    u_l, u_r = left[1 + axis], right[1 + axis]
    c_l, c_r = sound_speed(left, gamma), sound_speed(right, gamma)
    root_l, root_r = np.sqrt(left[0]), np.sqrt(right[0])
    share = 1.0 / (root_l + root_r)
    mean = (root_l * u_l + root_r * u_r) * share
    jump = (u_r - u_l) * share
    width = np.sqrt(
        (root_l * (c_l * c_l) + root_r * (c_r * c_r)) * share
        + 0.5 * (root_l * root_r) * (jump * jump)
    )
    return np.minimum(u_l - c_l, mean - width), np.maximum(u_r + c_r, mean + width)


def rusanov(left: State, right: State, axis: int, gamma: Symbol) -> list[Symbol]:
    """The mean of both fluxes, and dissipation by the largest wave speed."""
    speed = np.maximum(
        abs(left[1 + axis]) + sound_speed(left, gamma),
        abs(right[1 + axis]) + sound_speed(right, gamma),
    )
    return list(riemann.rusanov(*_sides(left, right, axis, gamma), speed))


def hll(left: State, right: State, axis: int, gamma: Symbol) -> list[Symbol]:
    """One state between the slowest and the fastest wave."""
    return list(
        riemann.hll(*_sides(left, right, axis, gamma), *wave_speeds(left, right, axis, gamma))
    )


def hllc(left: State, right: State, axis: int, gamma: Symbol) -> list[Symbol]:
    """Two states between the slowest and the fastest wave, with the contact between them.

    The side from which the contact comes is chosen first, and its state between the waves computed
    alone. No mass flows through a contact at rest, to the bit.
    """
    slow, fast = wave_speeds(left, right, axis, gamma)
    mass_l = left[0] * (slow - left[1 + axis])
    mass_r = right[0] * (fast - right[1 + axis])
    contact = ((right[-1] - left[-1]) + (mass_l * left[1 + axis] - mass_r * right[1 + axis])) / (
        mass_l - mass_r
    )
    forth = contact >= 0.0
    rho, *u, p = (da.where(forth, a, b) for a, b in zip(left, right, strict=True))
    speed, mass = da.where(forth, slow, fast), da.where(forth, mass_l, mass_r)
    share, normal = 1.0 / (speed - contact), u[axis]
    p_star = p + mass * (contact - normal)
    energy = total_energy([rho, *u, p], gamma)
    energy_star = ((speed - normal) * energy - p * normal + p_star * contact) * share
    # Where all waves go one way the state is that of the side itself.
    single = (slow >= 0.0) | (fast <= 0.0)
    through, pressure = da.where(single, normal, contact), da.where(single, p, p_star)
    carried = through * da.where(single, rho, mass * share)
    momentum = [carried * v for v in u]
    momentum[axis] = carried * through + pressure
    return [carried, *momentum, through * (da.where(single, energy, energy_star) + pressure)]


def exact(left: State, right: State, axis: int, gamma: Symbol) -> list[Symbol]:
    """The flux of the exact solution at the face."""
    beside = [(side[0], side[1 + axis], side[-1]) for side in (left, right)]
    rho, normal, p, forth = at_face(beside[0], beside[1], gamma)
    u = [da.where(forth, a, b) for a, b in zip(velocity(left), velocity(right), strict=True)]
    u[axis] = normal
    return flux([rho, *u, p], axis, gamma)


def at_face(left: State, right: State, gamma: Symbol) -> tuple[Symbol, Symbol, Symbol, Symbol]:
    """The exact solution for x / t = 0 between the states (rho, u, p).

    Returns
    -------
    rho, u, p : as the entries of the states
    forth : bool
        Whether the contact is not left of the face, so that what the flow carries is of the left.
    """
    p_star, u_star = star(left, right, gamma)
    forth = u_star >= 0.0
    rho, u, p = (da.where(forth, a, b) for a, b in zip(left, right, strict=True))
    # Seen from the side of the contact: velocities count towards the other side.
    sign = da.where(forth, 1.0, -1.0)
    v, c = sign * u, np.sqrt(gamma * p / rho)
    v_star = v - _jump(p_star, (rho, u, p), gamma)[0]
    ratio, low, high = p_star / p, gamma - 1.0, gamma + 1.0
    shock = ratio > 1.0
    # A shock at v - speed, or a fan between head and tail.
    speed = c * np.sqrt((high * ratio + low) / (2.0 * gamma))
    c_star = c * ratio ** (low / (2.0 * gamma))
    outside = da.where(shock, v - speed, v - c) >= 0.0
    inside = da.where(shock, v - speed, v_star - c_star) <= 0.0
    rho_star = rho * da.where(
        shock, (high * ratio + low) / (low * ratio + high), ratio ** (1.0 / gamma)
    )
    c_fan = (2.0 * c + low * v) / high  # = u in the fan at the face
    rho_fan = rho * (abs(c_fan) / c) ** (2.0 / low)

    def chosen(own: Symbol, between: Symbol, fan: Symbol) -> Symbol:
        return da.where(outside, own, da.where(inside, between, fan))

    return (
        chosen(rho, rho_star, rho_fan),
        sign * chosen(v, v_star, c_fan),
        chosen(p, p_star, rho_fan * c_fan * c_fan / gamma),
        forth,
    )


def star(left: State, right: State, gamma: Symbol) -> tuple[Symbol, Symbol]:
    """Pressure and velocity between the waves of the states (rho, u, p).

    Newton's method for f_l(p) + f_r(p) + u_r - u_l = 0 (Toro, section 4.3), from the pressure of
    two rarefactions or of two shocks, whichever is smaller: the function is concave, so that after
    the first step all others come from below. Where a vacuum opens the pressure is a trace.
    """
    rise, low = right[1] - left[1], np.minimum(left[2], right[2])
    rare, dense = _two_rarefactions(left, right, gamma), _two_shocks(left, right, gamma)
    trace = _VACUUM * np.maximum(left[2], right[2])
    # Two rarefactions are exact where they leave less than both pressures, else there is more.
    least = np.maximum(np.minimum(rare, low), trace)
    p = np.maximum(np.minimum(rare, dense), least)
    for _ in range(ITERATIONS):
        (f_l, slope_l), (f_r, slope_r) = (_jump(p, side, gamma) for side in (left, right))
        p = np.maximum(p - ((f_l + f_r) + rise) / (slope_l + slope_r), least)
    (f_l, _), (f_r, _) = (_jump(p, side, gamma) for side in (left, right))
    return p, 0.5 * ((left[1] + right[1]) + (f_r - f_l))


def _jump(p: Symbol, side: State, gamma: Symbol) -> tuple[Symbol, Symbol]:
    """The change of velocity across the wave that takes a side to the pressure p, and its
    derivative: a shock for more, a rarefaction for less pressure.
    """
    rho, _, p_side = side
    a, b = 2.0 / ((gamma + 1.0) * rho), (gamma - 1.0) / (gamma + 1.0) * p_side
    root = np.sqrt(a / (p + b))
    c = np.sqrt(gamma * p_side / rho)
    low = gamma - 1.0
    power = (p / p_side) ** (low / (2.0 * gamma))
    shock = p > p_side
    rise = p - p_side
    return (
        da.where(shock, rise * root, 2.0 / low * c * (power - 1.0)),
        da.where(shock, root * (1.0 - 0.5 * rise / (p + b)), power * c / (gamma * p)),
    )


def _two_rarefactions(left: State, right: State, gamma: Symbol) -> Symbol:
    """The pressure between two rarefactions (Toro, equation 4.46), 0 where a vacuum opens."""
    z, low = (gamma - 1.0) / (2.0 * gamma), gamma - 1.0
    (c_l, c_r) = (np.sqrt(gamma * side[2] / side[0]) for side in (left, right))
    share = (c_l + c_r) - 0.5 * low * (right[1] - left[1])
    return (np.maximum(share, 0.0) / (c_l / left[2] ** z + c_r / right[2] ** z)) ** (1.0 / z)


def _two_shocks(left: State, right: State, gamma: Symbol) -> Symbol:
    """An estimate of the pressure between two shocks (Toro, equations 4.47 and 4.48)."""
    p = 0.5 * (left[2] + right[2])
    g_l, g_r = (
        np.sqrt(2.0 / ((gamma + 1.0) * side[0]) / (p + (gamma - 1.0) / (gamma + 1.0) * side[2]))
        for side in (left, right)
    )
    return np.maximum(((g_l * left[2] + g_r * right[2]) - (right[1] - left[1])) / (g_l + g_r), 0.0)


def _sides(
    left: State, right: State, axis: int, gamma: Symbol
) -> tuple[State, State, State, State]:
    """Conserved states and fluxes of both sides."""
    return (
        conserved(left, gamma),
        conserved(right, gamma),
        flux(left, axis, gamma),
        flux(right, axis, gamma),
    )


SOLVERS: Mapping[str, Solver] = {"hllc": hllc, "hll": hll, "rusanov": rusanov, "exact": exact}
