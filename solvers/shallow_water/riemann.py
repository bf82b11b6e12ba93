"""Fluxes through a face of the shallow-water equations, from the depths and velocities on both
sides. Functions are Local, called while a kernel is traced.

A flux is (mass, normal momentum, transverse momentum ...). Its normal momentum is that in excess of
the mean pressure of both sides, p = g h^2 / 2: water at rest of the same depth has the flux zero
to the bit, whatever its pressure, and a beach does not have to balance rounding errors of large
numbers. A mirrored pair of states gives mirrored bits.

hll   one state between the slowest and the fastest wave (`solvers.hyperbolic.riemann`)
hllc  the same for mass and normal momentum; transverse momentum goes with the mass, as behind a
      contact (Toro, E. F. (2001) Shock-Capturing Methods for Free-Surface Shallow Flows, ch. 10)
roe   linearised (Glaister, P. (1988) J. Comput. Phys. 77(2), 361-368) with the entropy fix of
      Harten, A., Hyman, J. M. (1983) J. Comput. Phys. 50(2), 235-269; hll where a side is dry
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

import distarray as da
from solvers.hyperbolic.riemann import hll as hll_flux

Symbol = Any
Symbols = Sequence[Any]
#: From depth and velocity (normal first) of the left and of the right side and gravity.
Riemann = Callable[[Symbol, Symbols, Symbol, Symbols, Symbol], list[Symbol]]


def speeds(hl: Symbol, ul: Symbol, hr: Symbol, ur: Symbol, g: Symbol) -> tuple[Symbol, Symbol]:
    """The slowest and the fastest wave: those of the sides and of the state between two
    rarefactions, and the front where a side is dry (Toro, section 10.5; Fraccarollo, L., Toro,
    E. F. (1995) J. Hydraul. Res. 33(6), 843-864).
    """
    cl, cr = np.sqrt(g * hl), np.sqrt(g * hr)
    u, c = 0.5 * (ul + ur) + (cl - cr), 0.5 * (cl + cr) + 0.25 * (ul - ur)
    wet_l, wet_r = hl > 0.0, hr > 0.0
    slow, fast = ul - cl, ur + cr
    slow = da.where(wet_l, da.where(wet_r, np.minimum(slow, u - c), slow), ur - 2.0 * cr)
    fast = da.where(wet_r, da.where(wet_l, np.maximum(fast, u + c), fast), ul + 2.0 * cl)
    return slow, fast


def hll(hl: Symbol, ul: Symbols, hr: Symbol, ur: Symbols, g: Symbol) -> list[Symbol]:
    """See the module."""
    slow, fast = speeds(hl, ul[0], hr, ur[0], g)
    left, right = _state(hl, ul), _state(hr, ur)
    excess = _excess(hl, hr, g)
    return hll_flux(left, right, _flux(left, ul, -excess), _flux(right, ur, excess), slow, fast)


def hllc(hl: Symbol, ul: Symbols, hr: Symbol, ur: Symbols, g: Symbol) -> list[Symbol]:
    """See the module."""
    mass, normal = hll(hl, ul[:1], hr, ur[:1], g)
    forth = mass > 0.0
    return [mass, normal, *(mass * da.where(forth, a, b) for a, b in _pairs(ul[1:], ur[1:]))]


def roe(hl: Symbol, ul: Symbols, hr: Symbol, ur: Symbols, g: Symbol) -> list[Symbol]:
    """See the module."""
    wet = (hl > 0.0) & (hr > 0.0)
    cl, cr = np.sqrt(g * hl), np.sqrt(g * hr)
    wl, wr = np.sqrt(hl), np.sqrt(hr)
    total = da.where(wet, wl + wr, 1.0)
    u, *across = ((wl * a + wr * b) / total for a, b in _pairs(ul, ur))
    c = np.sqrt(0.5 * g * (hl + hr))
    left, right = _state(hl, ul), _state(hr, ur)
    jump = [b - a for a, b in _pairs(left, right)]
    # Strengths of the two waves, and speeds that a rarefaction through rest keeps above zero.
    skew = (jump[1] - u * jump[0]) / da.where(wet, c, 1.0)
    down = _spread(u - c, ul[0] - cl, ur[0] - cr) * (0.5 * (jump[0] - skew))
    up = _spread(u + c, ul[0] + cl, ur[0] + cr) * (0.5 * (jump[0] + skew))
    levelled = [down + up, down * (u - c) + up * (u + c)]
    levelled += [
        (down + up) * v + abs(u) * (j - v * jump[0]) for v, j in zip(across, jump[2:], strict=True)
    ]
    means = ((a + b) for a, b in _pairs(_flux(left, ul, 0.0), _flux(right, ur, 0.0)))
    linear = [0.5 * (mean - level) for mean, level in zip(means, levelled, strict=True)]
    return [da.where(wet, a, b) for a, b in _pairs(linear, hll(hl, ul, hr, ur, g))]


#: Riemann solvers by their names.
RIEMANN: Mapping[str, Riemann] = MappingProxyType({f.__name__: f for f in (hll, hllc, roe)})


def _state(h: Symbol, u: Symbols) -> list[Symbol]:
    return [h, *(h * v for v in u)]


def _flux(state: Symbols, u: Symbols, excess: Symbol) -> list[Symbol]:
    mass, normal, *across = state
    del mass
    return [normal, normal * u[0] + excess, *(a * u[0] for a in across)]


def _excess(hl: Symbol, hr: Symbol, g: Symbol) -> Symbol:
    """Half of what the pressure on the right exceeds that on the left."""
    return 0.25 * g * ((hr - hl) * (hr + hl))


def _spread(speed: Symbol, left: Symbol, right: Symbol) -> Symbol:
    """|speed|, at least what a rarefaction between the speeds of both sides spreads."""
    least = np.maximum(np.maximum(speed - left, right - speed), 0.0)
    return np.maximum(abs(speed), least)


def _pairs(left: Symbols, right: Symbols) -> list[tuple[Symbol, Symbol]]:
    return list(zip(left, right, strict=True))
