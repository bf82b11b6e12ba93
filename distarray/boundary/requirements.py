"""Which halo regions boundary fills need besides what is read itself. Decided alike on all ranks.

A kernel that reads beyond an edge or a corner of a block makes a fill read the neighbours' values
beside the face: on some ranks an axis of the region is outside the domain, on others it belongs to
a neighbour. What any rank may need follows from the reads, the periodicity and the conditions,
never from where this rank lies. The axes are taken in the opposite order of the fills, so that what
a later fill needs is asked of the earlier ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from distarray.boundary.face import HIGH, LOW, Face, points_at
from distarray.boundary.rules import Rule, Source
from distarray.errors import BoundaryError
from distarray.layout import Component, Direction, HaloReads, Layout, Widths

if TYPE_CHECKING:
    from distarray.array import DistArray

RuleKey = tuple[int, int, Component]  # axis, side, full component
Covers = Callable[[int, int], bool]
Option = tuple[int, int]  # direction along one axis, width of the region


@dataclass(frozen=True)
class Want:
    """A read of one fill: at which face, what, and beyond which sides values are there.

    `covers` speaks of the array that is read, `outside` of the region that is filled: the sides
    beyond which the layers of earlier axes are filled along.
    """

    face: Face
    source: Source
    covers: Covers
    outside: Covers

    @property
    def layout(self) -> Layout:
        return self.face.layout if self.source.array is None else self.source.array.block.layout


def closed(rules: Mapping[RuleKey, Rule], reads: HaloReads, ndim: int) -> HaloReads:
    """`reads` and all that fills read to serve them."""
    needed = dict(reads)
    for axis in reversed(range(ndim)):
        waiting = [key for key in needed if key[1][axis]]
        while waiting:
            key = waiting.pop()
            for want in _wants(rules, key, axis, needed[key][axis]):
                if want.source.array is None:
                    for region, widths in regions(want, key[1], needed[key]):
                        new = want.source.component, region
                        if _widen(needed, new, widths) and region[axis]:
                            waiting.append(new)
    return needed


def others(
    rules: Mapping[RuleKey, Rule], needed: HaloReads, ndim: int
) -> list[tuple[DistArray, HaloReads]]:
    """Other arrays that fills read, with their halo regions (none where owned points suffice), for
    reads that are already closed.
    """
    found: dict[int, tuple[DistArray, HaloReads]] = {}
    for key, widths in needed.items():
        for axis in range(ndim):
            for want in _wants(rules, key, axis, widths[axis]):
                if want.source.array is not None:
                    _, reads = found.setdefault(id(want.source.array), (want.source.array, {}))
                    for region, region_widths in regions(want, key[1], widths):
                        _widen(reads, (want.source.component, region), region_widths)
    return list(found.values())


def _wants(
    rules: Mapping[RuleKey, Rule], key: tuple[Component, Direction], axis: int, layers: int
) -> Iterator[Want]:
    """What the fill along `axis` reads to fill the region `key`."""
    component, direction = key
    rule = rules.get((axis, direction[axis], component))
    if rule is None:
        return
    outside = _own_covers(rules, component, axis)
    for source in rule.sources(layers):
        own = source.array is None
        covers = _own_covers(rules, source.component, axis) if own else _other_covers(source)
        yield Want(rule.face, source, covers, outside)


def _widen(needed: HaloReads, key: tuple[Component, Direction], widths: Widths) -> bool:
    """Ask for at least these widths; whether that was new."""
    merged = tuple(map(max, widths, needed.get(key, widths)))
    if needed.get(key) == merged:
        return False
    needed[key] = merged
    return True


def _own_covers(rules: Mapping[RuleKey, Rule], component: Component, axis: int) -> Covers:
    """Sides whose layers are filled before those of `axis`."""
    return lambda other, side: other < axis and (other, side, component) in rules


def _other_covers(source: Source) -> Covers:
    array = source.array
    boundary = None if array is None else array.boundary
    relative = () if array is None else source.component[len(array.component_prefix) :]
    return lambda axis, side: boundary is not None and boundary.covers(axis, side, relative)


def regions(want: Want, direction: Direction, widths: Widths) -> Iterator[tuple[Direction, Widths]]:
    """Halo regions that are read when the region in `direction` is filled."""
    options = [
        _along(want, widths[axis])
        if axis == want.face.axis
        else _beside(want, axis, direction[axis], widths[axis])
        for axis in range(want.layout.ndim)
    ]
    for chosen in itertools.product(*options):
        if any(step for step, _ in chosen):
            yield tuple(step for step, _ in chosen), tuple(width for _, width in chosen)


def _along(want: Want, layers: int) -> list[Option]:
    """Along the face's axis: inside the block at the face, in its neighbour, or in layers of
    another array.
    """
    face, layout, source = want.face, want.layout, want.source
    axis, side = face.axis, face.side
    if source.layers:
        if not want.covers(axis, side):
            _refuse(
                face,
                f"reads layers of another array, which has no condition on {face.name}; give it "
                "one",
            )
        _require_halo(want, axis, layers)
        return [(side, layers)]
    owned = points_at(layout, axis, side)
    missing = source.depth - owned
    if missing <= 0:
        return [(0, 0)]
    ranks = layout.decomposition.ranks
    if ranks[axis] == 1 or missing > layout.halo[axis]:
        raise BoundaryError(
            f"The condition on {face.name} reads {source.depth} points inward, but the blocks "
            f"there have {owned} "
            f"(ranks={ranks}); use fewer ranks along {face.names[axis]}, more cells or a smaller "
            "reach."
        )
    return [(0, 0), (-side, missing)]


def _beside(want: Want, axis: int, step: int, width: int) -> list[Option]:
    """Along another axis: the extent of the filled region, moved by the offset of the read.

    In two dimensions, say that x- has a Custom condition whose kernel reads `v[1, 2]`: y is the
    other axis and the shift is 2. A block owns the rows from `start` to `stop` along y.

    * Layers beside the block itself (step 0) are filled at start, ..., stop - 1, so that v is read
      at start + 2, ..., stop + 1: in the block, (0, 0), and two cells beyond y+, (1, 2).
    * A corner beyond y+ of width 1 (step 1) is filled at stop: v is read at stop + 2, in a halo
      region of width 3, (1, 3).
    * A corner beyond y- of width 1 (step -1) is filled at start - 1: v is read at start + 1, in the
      block, (0, 0).
    """
    shift, layout = want.source.shift[axis], want.layout
    if want.source.array is None and not shift:
        return [(step, width)]
    low, high = max(0, -shift), max(0, shift)
    if step == LOW:
        low, high = max(0, width - shift), 0
    elif step == HIGH:
        low, high = 0, max(0, width + shift)
    if not layout.decomposition.periodic[axis]:
        # Where the arrays end at different points, what lies beyond the last one begins earlier or
        # later.
        beyond = high + want.face.layout.points[axis] - layout.points[axis] if step != LOW else 0
        if step == 0 or want.outside(axis, step):
            _require_layers(want, axis, {LOW: low, HIGH: beyond})
        high = max(high, beyond)
    _require_halo(want, axis, max(low, high))
    options = [(0, 0)] if step == 0 or step * shift < 0 else []
    return options + [(LOW, low)] * (low > 0) + [(HIGH, high)] * (high > 0)


def _require_layers(want: Want, axis: int, reach: dict[int, int]) -> None:
    """Refuse reads beside the face that lie outside the domain where no layer is filled before."""
    for side, width in reach.items():
        if width > 0 and not want.covers(axis, side):
            names, own = want.face.names, want.source.array is None
            what = "layers of its own array" if own else "layers of another array"
            why = (
                "are not filled before it, as those of earlier axes with conditions are"
                if own
                else "no condition fills"
            )
            _refuse(
                want.face,
                f"reads {what} beyond {names[axis]}{'-' if side == LOW else '+'}, which {why}; "
                f"read at offset 0 along {names[axis]}",
            )


def _require_halo(want: Want, axis: int, width: int) -> None:
    if width > want.layout.halo[axis]:
        _refuse(
            want.face,
            f"reads {width} cells beyond a block along {want.face.names[axis]}, but the halo "
            "there is "
            f"{want.layout.halo[axis]} wide; make the halo wider",
        )


def _refuse(face: Face, text: str) -> NoReturn:
    raise BoundaryError(f"The Custom condition on {face.name} {text}.")
