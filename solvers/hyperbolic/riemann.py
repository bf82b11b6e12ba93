"""Fluxes through a face from the states on both sides: the algebra that equations share. Functions
are Local, on symbols of a kernel and on NumPy arrays alike.

States and fluxes are sequences with one entry per conserved quantity; speeds are those of signals
along the normal of the face. A mirrored pair of states gives mirrored bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import distarray as da

Symbol = Any
Symbols = Sequence[Any]


def rusanov(
    left: Symbols, right: Symbols, flux_left: Symbols, flux_right: Symbols, speed: Symbol
) -> list[Symbol]:
    """The mean flux less what the largest signal speed on both sides levels out (Rusanov, V. V.
    (1961) USSR Comput. Math. Math. Phys. 1(2), 304-320).
    """
    return [
        0.5 * ((fl + fr) - speed * (r - l))
        for l, r, fl, fr in zip(left, right, flux_left, flux_right, strict=True)  # noqa: E741
    ]


def hll(  # noqa: PLR0917 - as papers write it
    left: Symbols,
    right: Symbols,
    flux_left: Symbols,
    flux_right: Symbols,
    slow: Symbol,
    fast: Symbol,
) -> list[Symbol]:
    """The flux of one intermediate state between the slowest and the fastest signal (Harten, A.,
    Lax, P. D., van Leer, B. (1983) SIAM Rev. 25(1), 35-61). `slow <= fast`.
    """
    forth, back = slow >= 0.0, fast <= 0.0
    width = da.where(forth | back, 1.0, fast - slow)
    between = (
        ((fast * fl - slow * fr) + slow * fast * (r - l)) / width
        for l, r, fl, fr in zip(left, right, flux_left, flux_right, strict=True)  # noqa: E741
    )
    return [
        da.where(forth, fl, da.where(back, fr, middle))
        for middle, fl, fr in zip(between, flux_left, flux_right, strict=True)
    ]
