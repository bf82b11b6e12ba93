"""The numbers along one axis: how an unknown is coupled to its neighbours, and what goes where
between an axis and the coarser one. Pure: all functions are Local.

The unknowns along an axis are its cells, or its points (the low sides of cells, and the end). The
operator `-d/dx (a du/dx)` couples unknown j to j - 1 and j + 1 by

    (Au)_j = (dl_j T_low + dh_j T_high) u_j - l_j T_low u_{j-1} - h_j T_high u_{j+1}

with T the coefficient a on the links between unknowns. Away from the ends l = dl = 1 / (v d): v is
the width that belongs to unknown j and d the distance to its neighbour. At an end the value beyond
is the mirror value times a factor, plus what the lift adds (`distarray` fills boundary layers so):
-1 for Dirichlet, 1 for Neumann, (2 b - a d) / (a d + 2 b) for Robin, the sign for Symmetry. It is
eliminated, so that no value from beyond an end enters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Stands for the factor of an end whose point is fixed to a value.
FIXED = None


@dataclass(frozen=True, eq=False)
class Axis:
    """The unknowns along one axis.

    Attributes
    ----------
    widths : array of n floats
        Widths of the cells.
    periodic, points : bool
        Whether the last cell is followed by the first; whether the unknowns are points.
    ends : tuple of two (float or FIXED)
        For both ends what multiplies the mirror value beyond; not used on a periodic axis.
    """

    widths: Floats
    periodic: bool
    points: bool
    ends: tuple[float | None, float | None]
    count: int = field(init=False)
    volumes: Floats = field(init=False)

    def __post_init__(self) -> None:
        open_points = self.points and not self.periodic
        object.__setattr__(self, "count", len(self.widths) + open_points)
        volumes = self.widths
        if self.points:
            below, above = self._beside()
            volumes = 0.5 * (below + above)
        object.__setattr__(self, "volumes", volumes)

    def _beside(self) -> tuple[Floats, Floats]:
        """Widths of the cells below and above each point, 0 beyond the ends."""
        if self.periodic:
            return np.roll(self.widths, 1), self.widths
        return np.append(0.0, self.widths), np.append(self.widths, 0.0)

    def distances(self) -> tuple[Floats, Floats]:
        """Distances to the unknowns below and above; beyond an end, those of mirror images."""
        h = self.widths
        if self.points:
            below, above = (part.copy() for part in self._beside())
            if not self.periodic:
                below[0], above[-1] = h[0], h[-1]
            return below, above
        if self.periodic:
            below = 0.5 * (np.roll(h, 1) + h)
            return below, np.roll(below, -1)
        between = 0.5 * (h[:-1] + h[1:])
        return np.append(h[0], between), np.append(between, h[-1])


@dataclass(frozen=True, eq=False)
class Coupling:
    """Weights of one axis, one value per unknown: of the values below and above (`low`, `high`), of
    the own value with the coefficient of the link below or above (`own_low`, `own_high`), and of
    the layers or fixed points in the lift (`lift_low`, `lift_high`).
    """

    low: Floats
    high: Floats
    own_low: Floats
    own_high: Floats
    lift_low: Floats
    lift_high: Floats

    @property
    def own(self) -> Floats:
        """Weight of the own value where the coefficient is 1."""
        return self.own_low + self.own_high


def coupling(axis: Axis) -> Coupling:
    """The weights of an axis."""
    below, above = axis.distances()
    volumes = axis.volumes.copy()
    if axis.points and not axis.periodic:
        # The equation of an end point has its mirror image beyond: the whole cell around it.
        volumes[0], volumes[-1] = axis.widths[0], axis.widths[-1]
    low, high = 1.0 / (volumes * below), 1.0 / (volumes * above)
    found = Coupling(low, high, low.copy(), high.copy(), np.zeros(axis.count), np.zeros(axis.count))
    if not axis.periodic:
        _close(axis, found, 0)
        _close(axis, found, -1)
    return found


def _close(axis: Axis, found: Coupling, end: int) -> None:
    """Eliminate the value beyond one end, 0 or -1."""
    if end == 0:
        factor, inner, inward = axis.ends[0], 1, found.high
        beyond, own, lift = found.low, found.own_low, found.lift_low
    else:
        factor, inner, inward = axis.ends[1], -2, found.low
        beyond, own, lift = found.high, found.own_high, found.lift_high
    if factor is FIXED:
        lift[inner] = beyond[inner]
        for weights in (found.low, found.high, found.own_low, found.own_high):
            weights[end] = 0.0
        return
    lift[end] = beyond[end]
    if axis.points:  # the mirror image of the end point's neighbour
        inward[end] += factor * beyond[end]
    else:  # of the end cell itself
        own[end] *= 1.0 - factor
    beyond[end] = 0.0


@dataclass(frozen=True, eq=False)
class Transfer:
    """Weights between an axis and the one that joins two cells each.

    `prolong` has for each fine unknown k the weights of the coarse ones k // 2 - 1, k // 2 and
    k // 2 + 1; `restrict` maps offsets d to the weights, for each coarse unknown i, of fine
    2 i + d.
    """

    prolong: tuple[Floats, Floats, Floats]
    restrict: dict[int, Floats]


def transfer(fine: Axis, coarse: Axis, *, adjoint: bool) -> Transfer:
    """Linear interpolation, and the mean over the cells that are joined (for points, or if
    `adjoint`: the adjoint of the interpolation, in the inner product weighted by volumes).
    """
    weights = (_between_points if fine.points else _between_cells)(fine, coarse)
    if fine.points or adjoint:
        return Transfer(weights, _adjoint(fine, coarse, weights))
    children = 2 * np.arange(coarse.count)
    shares = {d: _gathered(fine.volumes, children + d) / coarse.volumes for d in (0, 1)}
    return Transfer(weights, shares)


def _between_cells(fine: Axis, coarse: Axis) -> tuple[Floats, Floats, Floats]:
    k = np.arange(fine.count)
    parent, upward = k // 2, k % 2 == 1
    # Distance between the centres of a fine cell and of the coarse one that it lies in.
    single = 2 * parent + 1 >= fine.count
    sibling = fine.widths[np.minimum(k ^ 1, fine.count - 1)]
    offset = np.where(single, 0.0, 0.5 * sibling)
    below, above = coarse.distances()
    share = offset / np.where(upward, above[parent], below[parent])
    low, high = np.where(upward, 0.0, share), np.where(upward, share, 0.0)
    middle = 1.0 - share
    if not fine.periodic:
        first, last = (0.0 if end is FIXED else end for end in coarse.ends)
        ends = parent == coarse.count - 1
        middle += np.where(parent == 0, first * low, 0.0) + np.where(ends, last * high, 0.0)
        low[parent == 0] = 0.0
        high[ends] = 0.0
    return low, middle, high


@dataclass(frozen=True, eq=False)
class Series:
    """What lies between a fine unknown's own coarse one and the one on its side (`up`: above).

    These are links of the lengths `near` (to the fine unknown), `middle` and `far`. `low` and
    `high` are 1 where the neighbour below or above exists and enters.
    """

    near: Floats
    middle: Floats
    far: Floats
    up: Floats
    low: Floats
    high: Floats


def series(fine: Axis, coarse: Axis) -> Series:
    """The links between coarse unknowns."""
    k = np.arange(fine.count)
    upward = k % 2 == 1
    below, above = fine.distances()
    if fine.points:
        near = np.where(upward, below, 0.0)
        middle = np.where(upward, above, 1.0)
        if not fine.periodic and fine.count % 2 == 0:
            near[-1], middle[-1] = 1.0, 0.0  # the end, which both axes have
        return Series(
            near, middle, np.zeros(k.size), np.ones(k.size), np.zeros(k.size), 1.0 * upward
        )
    inner, outer = np.where(upward, below, above), np.where(upward, above, below)
    parent = k // 2
    near = np.where(2 * parent + 1 < fine.count, 0.5 * inner, 0.0)
    # The neighbour's centre lies half a link further, if it has two fine cells.
    other = (parent + np.where(upward, 1, -1)) % coarse.count
    pair = 2 * other + 1 < fine.count
    ahead = np.where(upward, np.roll(above, -1), np.roll(below, 1))
    far = np.where(pair, 0.5 * ahead, 0.0)
    middle, low, high = outer.copy(), 1.0 * ~upward, 1.0 * upward
    if not fine.periodic:
        sides = ((upward == 0) & (parent == 0), upward & (parent == coarse.count - 1))
        for beyond, factor, flags in zip(sides, fine.ends, (low, high), strict=True):
            share = 0.5 * (1.0 - (-1.0 if factor is FIXED else factor))
            middle[beyond] *= 0.5 / max(share, 1e-12)  # nothing flows through a closed side
            far[beyond] = flags[beyond] = 0.0
    return Series(near, middle, far, 1.0 * upward, low, high)


def share_weights(fine: Axis, coarse: Axis, between: Series) -> dict[tuple[int, bool], Floats]:
    """As `Transfer.restrict`, to be multiplied by the shares, or, where True comes with the offset,
    by what they leave of 1.
    """
    children = 2 * np.arange(coarse.count)
    wrap, low = fine.periodic, fine.volumes * between.low
    found = {
        (-1, False): _gathered(fine.volumes * between.high, children - 1, wrap=wrap),
        (0, True): _gathered(fine.volumes, children),
        (1, True): _gathered(fine.volumes, children + 1),
    }
    if not fine.points:
        found[2, False] = _gathered(low, children + 2, wrap=wrap)
        if wrap and fine.count % 2:  # across the seam, where the last cell is a single one
            found[1, False] = np.zeros(coarse.count)
            found[1, False][-1] = low[0]
    return {d: part / coarse.volumes for d, part in found.items()}


def _between_points(fine: Axis, coarse: Axis) -> tuple[Floats, Floats, Floats]:
    k = np.arange(fine.count)
    below, above = fine.distances()
    high = np.where(k % 2 == 1, below / (below + above), 0.0)
    if not fine.periodic and fine.count % 2 == 0:
        high[-1] = 1.0  # the end, which both axes have
    return np.zeros(fine.count), 1.0 - high, high


def _adjoint(fine: Axis, coarse: Axis, weights: tuple[Floats, Floats, Floats]) -> dict[int, Floats]:
    low, middle, high = (part * fine.volumes for part in weights)
    children = 2 * np.arange(coarse.count)
    found = {
        -1: _gathered(high, children - 1, wrap=fine.periodic),
        0: _gathered(middle, children),
        1: _gathered(middle, children + 1),
    }
    if not fine.points:
        found[2] = _gathered(low, children + 2, wrap=fine.periodic and fine.count % 2 == 0)
        if fine.periodic and fine.count % 2:
            found[1][-1] = low[0]  # across the seam, where the last cell is a single one
    return {d: part / coarse.volumes for d, part in found.items()}


def _gathered(values: Floats, indices: Any, *, wrap: bool = False) -> Floats:
    """The values at some indices, 0 beyond the ends of an axis that does not wrap."""
    if wrap:
        return np.asarray(values[indices % len(values)])
    inside = (indices >= 0) & (indices < len(values))
    return np.where(inside, values[np.clip(indices, 0, len(values) - 1)], 0.0)


def inject(fine: int, coarse: int) -> dict[int, Floats]:
    """Weights that give each of `coarse` links at points the fine one at the same place."""
    same = 2 * np.arange(coarse) < fine
    return {0: same.astype(float), -1: (~same).astype(float)}
