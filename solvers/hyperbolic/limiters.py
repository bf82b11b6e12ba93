"""Slopes of cells from the differences on both sides. Functions are Local, on symbols of a kernel
and on NumPy arrays alike.

Each takes the differences a (to the cell below) and b (to the cell above) and gives the change
across the cell. All but `central` vanish where a and b differ in sign and stay between 0 and twice
either (Sweby, P. K. (1984) SIAM J. Numer. Anal. 21(5), 995-1011), which is what keeps the total
variation of `muscl` from growing up to half the Courant number of the first-order scheme. They are
symmetric, f(a, b) = f(b, a), and odd, f(-a, -b) = -f(a, b), to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import distarray as da

# Values in a kernel are symbols while it is traced.
Symbol = Any
Limiter = Callable[[Symbol, Symbol], Symbol]


def minmod(a: Symbol, b: Symbol) -> Symbol:
    """The smaller one: the most diffusive."""
    return da.where(a * b > 0.0, da.where(abs(a) < abs(b), a, b), 0.0)


def van_leer(a: Symbol, b: Symbol) -> Symbol:
    """The harmonic mean (van Leer, B. (1974) J. Comput. Phys. 14(4), 361-370)."""
    both = a * b
    return da.where(both > 0.0, 2.0 * both / da.where(both > 0.0, a + b, 1.0), 0.0)


def mc(a: Symbol, b: Symbol) -> Symbol:
    """The mean, at most twice the smaller one: monotonized central (van Leer, B. (1977) J. Comput.
    Phys. 23(3), 276-299).
    """
    size = np.minimum(0.5 * abs(a + b), 2.0 * np.minimum(abs(a), abs(b)))
    return da.where(a * b > 0.0, da.where(a > 0.0, size, -size), 0.0)


def superbee(a: Symbol, b: Symbol) -> Symbol:
    """The larger one, at most twice the smaller one: keeps jumps sharp, and squares waves (Roe, P.
    L. (1986) Annu. Rev. Fluid Mech. 18, 337-365).
    """
    low, high = np.minimum(abs(a), abs(b)), np.maximum(abs(a), abs(b))
    size = np.minimum(high, 2.0 * low)
    return da.where(a * b > 0.0, da.where(a > 0.0, size, -size), 0.0)


def central(a: Symbol, b: Symbol) -> Symbol:
    """The mean, not limited: for smooth solutions alone."""
    return 0.5 * (a + b)


#: Limiters by their names.
LIMITERS: Mapping[str, Limiter] = MappingProxyType(
    {f.__name__: f for f in (minmod, van_leer, mc, superbee, central)}
)
