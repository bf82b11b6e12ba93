"""Central differences of any even order on a uniform grid: exact fractions, rounded once. Pure.

With m = order / 2 and k = 1, ..., m (Fornberg, B. (1988) Math. Comp. 51(184), 699-706; the central
case in closed form):

    first derivative    d_k = -(-1)^k (m!)^2 / (k (m - k)! (m + k)!),     d_{-k} = -d_k
    second derivative   w_k = 2 d_k / k,  w_{-k} = w_k,  w_0 = -2 sum w_k
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

ORDERS = tuple(range(2, 17, 2))


@functools.cache
def exact_first(order: int) -> tuple[Fraction, ...]:
    """d_1, ..., d_m of the first derivative, spacing 1."""
    m = order // 2
    return tuple(
        Fraction(
            -((-1) ** k) * math.factorial(m) ** 2,
            k * math.factorial(m - k) * math.factorial(m + k),
        )
        for k in range(1, m + 1)
    )


@functools.cache
def exact_second(order: int) -> tuple[Fraction, ...]:
    """w_0, w_1, ..., w_m of the second derivative, spacing 1."""
    outer = tuple(2 * d / k for k, d in enumerate(exact_first(order), start=1))
    return (-2 * sum(outer, Fraction(0)), *outer)


def first(order: int) -> tuple[float, ...]:
    """d_1, ..., d_m as floats."""
    return tuple(map(float, exact_first(order)))


def second(order: int) -> tuple[float, ...]:
    """w_0, ..., w_m as floats."""
    return tuple(map(float, exact_second(order)))


def symbol(order: int, angle: float) -> float:
    """Minus the second difference of exp(i angle j), over it: near angle^2, and 4 sin^2(angle / 2)
    for the order 2.

    It is the sum of 2 w_k (1 - cos k angle), free of cancellation for small angles.
    """
    weights = second(order)[1:]
    return sum(4.0 * w * math.sin(0.5 * k * angle) ** 2 for k, w in enumerate(weights, start=1))


def largest(order: int) -> float:
    """The largest value of `symbol`, at the angle pi: 4 for the order 2, below pi^2 for all.

    The symbol is a sum of powers of sin^2(angle / 2) with positive factors (the series of
    arcsin^2, cut off), hence grows up to pi.
    """
    return float(sum(4 * w for w in exact_second(order)[1::2]))
