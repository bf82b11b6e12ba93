"""Profiles that are carried, and where they are later. Local; arrays are NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Profile = Callable[..., Array]


def bump(*x: Array) -> Array:
    """1 + exp(-60 |x - 1/2|^2), in the unit box."""
    return 1.0 + np.exp(-60.0 * sum((along - 0.5) ** 2 for along in x))


def block(*x: Array) -> Array:
    """1 in the middle half of the unit box, 0 around it."""
    inside = [abs(along - 0.5) < 0.25 for along in x]
    return 1.0 * math.prod(inside[1:], start=inside[0])


def wave(*x: Array) -> Array:
    """The product of 1 + sin(2 pi x) / 2 along all axes."""
    return math.prod(1.0 + 0.5 * np.sin(2.0 * np.pi * along) for along in x)


def carried(profile: Profile, distance: float) -> Profile:
    """The profile of a periodic unit box, moved by a distance along each axis."""
    return lambda *x: profile(*((along - distance) % 1.0 for along in x))


def slotted_disc(x: Array, y: Array) -> Array:
    """1 in a disc of radius 0.15 about (0.5, 0.75) with a slot 0.05 wide up to y = 0.85, 0 around
    it (Zalesak, S. T. (1979) J. Comput. Phys. 31(3), 335-362, in a unit box).
    """
    disc = (x - 0.5) ** 2 + (y - 0.75) ** 2 < 0.15**2
    return 1.0 * (disc & ~((abs(x - 0.5) < 0.025) & (y < 0.85)))


def turned(profile: Profile, angle: float) -> Profile:
    """The profile of two axes after a turn about the middle of the unit box, from x to y."""
    cos, sin = math.cos(angle), math.sin(angle)

    def found(x: Array, y: Array) -> Array:
        a, b = x - 0.5, y - 0.5
        return profile(0.5 + cos * a + sin * b, 0.5 - sin * a + cos * b)

    return found
