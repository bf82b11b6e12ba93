"""Sets of velocities with which populations move, and sums over them. Pure.

D2Q9, D3Q19 and D3Q27 (Qian, Y. H., d'Humieres, D., Lallemand, P. (1992) Europhys. Lett. 17(6),
479-484) are one text: all velocities whose entries are -1, 0 or 1 and of which at most `most`
are not 0. Number 0 is at rest; then a velocity and its opposite follow each other.

Sums are taken in an order that mirrors do not change: opposite velocities first, then what an axis
that is turned round exchanges. Symmetric flows so keep their symmetry to the bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import distarray as da
from solvers.box import shown

#: An entry of a velocity for each axis; also the exponents of a moment.
Vector = tuple[int, ...]


@dataclass(frozen=True)
class Lattice:
    """The velocities of a lattice, in cells per step; the speed of sound is 1 / sqrt(3).

    Parameters
    ----------
    name : str
    ndim : int
    most : int
        Entries that are not 0 at most.
    shares : tuple of float
        Weight of a velocity with 0, 1, ... `most` entries that are not 0.
    """

    name: str
    ndim: int
    most: int
    shares: tuple[float, ...]

    @cached_property
    def velocities(self) -> tuple[Vector, ...]:
        """All velocities, the one at rest first, then pairs of opposites."""
        pairs = [(c, tuple(-n for n in c)) for shell in self._shells for c in shell]
        return ((0,) * self.ndim, *(c for pair in pairs for c in pair))

    @property
    def size(self) -> int:
        return len(self.velocities)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        return tuple(self.shares[_entries(c)] for c in self.velocities)

    @cached_property
    def opposite(self) -> tuple[int, ...]:
        """The number of the velocity that points the other way."""
        return tuple(self.velocities.index(tuple(-n for n in c)) for c in self.velocities)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Numbers of opposite velocities, without the one at rest."""
        return tuple((i, i + 1) for i in range(1, self.size, 2))

    @cached_property
    def exponents(self) -> tuple[Vector, ...]:
        """Exponents (0, 1, 2 for each axis) of the moments that populations can have."""
        every = itertools.product(range(3), repeat=self.ndim)
        return tuple(e for e in every if _entries(e) <= self.most)

    def add(self, terms: Mapping[int, Any]) -> Any:
        """The sum of terms, one for each pair named by its first number."""
        numbers = iter(range(1, self.size, 2))
        groups = [[next(numbers) for _ in shell] for shell in self._shells]
        return sum_of([[terms[i] for i in group if i in terms] for group in groups])

    def moment(self, terms: Mapping[int, Any], axes: Sequence[int]) -> Any:
        """The sum of such terms times the entries of their velocities along these axes."""
        signed = {}
        for i, term in terms.items():
            sign = math.prod(self.velocities[i][axis] for axis in axes)
            if sign:
                signed[i] = term if sign > 0 else -term
        return self.add(signed)

    def product(self, i: int, vector: Sequence[Any]) -> Any:
        """Scalar product of a velocity other than 0 with a vector, without multiplications."""
        parts = zip(self.velocities[i], vector, strict=True)
        signed = [component if c > 0 else -component for c, component in parts if c]
        return sum(signed[1:], signed[0])

    @cached_property
    def _shells(self) -> list[list[Vector]]:
        """One of two opposite velocities each, by the axes along which they move."""
        shells = []
        for entries in range(1, self.most + 1):
            for axes in itertools.combinations(range(self.ndim), entries):
                signs = itertools.product((1, -1), repeat=entries - 1)
                shells.append([_vector(self.ndim, axes, (1, *rest)) for rest in signs])
        return shells


def sum_of(groups: Sequence[Sequence[Any]]) -> Any:
    """Sum each group by halves, then the groups from the first to the last. A mirror exchanges
    halves, quarters, ... of a group of 1, 2 or 4 terms.
    """
    parts = [_halved(group) for group in groups if group]
    return sum(parts[1:], parts[0])


def lattice(name: str, ndim: int) -> Lattice:
    """The lattice of this name.

    Raises
    ------
    SolverError
        There is none, or it is for another number of axes.
    """
    found = LATTICES.get(name)
    if found is None:
        raise da.SolverError(
            f"A lattice is one of {', '.join(LATTICES)}, received {shown(name)}; give one of these."
        )
    if found.ndim != ndim:
        fitting = ", ".join(known.name for known in LATTICES.values() if known.ndim == ndim)
        raise da.SolverError(
            f"The lattice {name} has {found.ndim} axes, received {ndim} numbers of cells; give "
            f"{fitting or 'two or three numbers'}."
        )
    return found


LATTICES: dict[str, Lattice] = {
    known.name: known
    for known in (
        Lattice("D2Q9", 2, 2, (4 / 9, 1 / 9, 1 / 36)),
        Lattice("D3Q19", 3, 2, (1 / 3, 1 / 18, 1 / 36)),
        Lattice("D3Q27", 3, 3, (8 / 27, 2 / 27, 1 / 54, 1 / 216)),
    )
}


def _entries(vector: Vector) -> int:
    return sum(entry != 0 for entry in vector)


def _vector(ndim: int, axes: Sequence[int], signs: Sequence[int]) -> Vector:
    found = dict(zip(axes, signs, strict=True))
    return tuple(found.get(axis, 0) for axis in range(ndim))


def _halved(terms: Sequence[Any]) -> Any:
    if len(terms) == 1:
        return terms[0]
    half = (len(terms) + 1) // 2
    return _halved(terms[:half]) + _halved(terms[half:])
