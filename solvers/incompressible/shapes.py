"""Solid shapes as signed distances: negative inside, positive outside, in units of length. Local.

Distances are exact outside and at surfaces of single shapes; what is joined keeps its surface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.box import is_number, shown

#: Signed distance of points from a surface: a function of broadcastable coordinates (x, y[, z]).
Distance = Callable[..., Any]


class Shape:
    """What has a signed distance. Shapes are joined by `|` and turned inside out by `~`."""

    def distance(self, *coords: Any) -> Any:
        """Signed distance of points with these broadcastable coordinates."""
        raise TypeError(f"{type(self).__name__} has no distance; derive a shape that defines it.")

    def __or__(self, other: Shape) -> Union:
        return Union((self, other))

    def __invert__(self) -> Outside:
        return Outside(self)


@dataclass(frozen=True)
class Circle(Shape):
    """A disc in two dimensions, a ball in three (`Sphere` is another name for it).

    Examples
    --------
    >>> from solvers.incompressible.shapes import Circle
    >>> float(Circle(centre=(0.0, 0.0), radius=1.0).distance(0.0, 3.0))
    2.0
    """

    centre: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        _check_point("centre", self.centre)
        _check_radius(self.radius)

    def distance(self, *coords: Any) -> Any:
        _check_axes("centre", self.centre, coords)
        return _length(x - c for x, c in zip(coords, self.centre, strict=True)) - self.radius


Sphere = Circle


@dataclass(frozen=True)
class Cylinder(Shape):
    """An endless cylinder along an axis in three dimensions.

    Parameters
    ----------
    centre : tuple of float
        Where its axis passes, one entry per axis; the entry along the axis does not count.
    radius : float
    axis : int
    """

    centre: tuple[float, ...]
    radius: float
    axis: int = 2

    def __post_init__(self) -> None:
        _check_point("centre", self.centre)
        _check_radius(self.radius)
        if self.axis not in range(len(self.centre)):
            raise da.SolverError(
                f"A cylinder lies along one of {len(self.centre)} axes, received "
                f"axis={shown(self.axis)}; give a number from 0 on."
            )

    def distance(self, *coords: Any) -> Any:
        _check_axes("centre", self.centre, coords)
        across = [
            x - c
            for k, (x, c) in enumerate(zip(coords, self.centre, strict=True))
            if k != self.axis
        ]
        return _length(across) + 0.0 * coords[self.axis] - self.radius


@dataclass(frozen=True)
class Box(Shape):
    """A box between two corners, one entry per axis."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_point("low", self.low)
        _check_point("high", self.high)
        _check_axes("high", self.high, self.low)
        if not all(a < b for a, b in zip(self.low, self.high, strict=True)):
            raise da.SolverError(
                f"A box has its low corner below its high one, received low={self.low}, "
                f"high={self.high}; exchange them."
            )

    def distance(self, *coords: Any) -> Any:
        _check_axes("low", self.low, coords)
        beyond = [
            abs(x - 0.5 * (a + b)) - 0.5 * (b - a)
            for x, a, b in zip(coords, self.low, self.high, strict=True)
        ]
        inside = beyond[0]
        for along in beyond[1:]:
            inside = np.maximum(inside, along)
        return _length(np.maximum(b, 0.0) for b in beyond) + np.minimum(inside, 0.0)


@dataclass(frozen=True)
class Union(Shape):
    """All that lies in one of several shapes."""

    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        if not self.shapes:
            raise da.SolverError("A union holds one shape or more, received none; give some.")
        for shape in self.shapes:
            _check_shape(shape)

    def distance(self, *coords: Any) -> Any:
        nearest = self.shapes[0].distance(*coords)
        for shape in self.shapes[1:]:
            nearest = np.minimum(nearest, shape.distance(*coords))
        return nearest


@dataclass(frozen=True)
class Outside(Shape):
    """All that a shape leaves: the vessel around it."""

    shape: Shape

    def __post_init__(self) -> None:
        _check_shape(self.shape)

    def distance(self, *coords: Any) -> Any:
        return -self.shape.distance(*coords)


@dataclass(frozen=True)
class Level(Shape):
    """A shape given by a function of the coordinates that is its signed distance, at least near
    the surface, or another smooth function with that sign.
    """

    function: Distance

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise da.SolverError(
                f"A level is a function of the coordinates, received {shown(self.function)}; give "
                "one."
            )

    def distance(self, *coords: Any) -> Any:
        return self.function(*coords)


def _length(parts: Any) -> Any:
    return np.sqrt(sum(part * part for part in parts))


def _check_radius(radius: float) -> None:
    if not (is_number(radius) and radius > 0.0):
        raise da.SolverError(f"A radius is above 0, received {shown(radius)}; give a larger one.")


def _check_point(name: str, values: Any) -> None:
    if not isinstance(values, tuple) or not all(map(is_number, values)):
        raise da.SolverError(
            f"'{name}' of a shape is a tuple of numbers, one per axis, received {shown(values)}; "
            "give such a tuple."
        )


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, Shape):
        raise da.SolverError(
            f"Shapes are joined with shapes, received {shown(shape)}; give a shape."
        )


def _check_axes(name: str, values: tuple[float, ...], coords: tuple[Any, ...]) -> None:
    if len(values) != len(coords):
        raise da.SolverError(
            f"A shape in a flow with {len(coords)} axes has that many entries in '{name}', "
            f"received {len(values)}; give one per axis."
        )
