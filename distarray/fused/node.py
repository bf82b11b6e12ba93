"""An expression of blocks, and its evaluation. Local.

A `Node` is a function of numbers (as they were), of blocks, and of other nodes. It refers weakly to
the block that waits for its values: an intermediate result that nobody holds is never computed by
itself. Once its values exist the node holds their block, and no operands.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from distarray.block import Block
from distarray.deferred import arrived, settle_readers
from distarray.fused.recipe import (
    ARRAY,
    NUMBER,
    STEP,
    Recipe,
    Ref,
    Step,
    costly,
    kind_of_number,
)
from distarray.layout import Component, Layout

#: Functions and different arrays in one expression; what has more is computed in parts.
MOST_STEPS, MOST_ARRAYS = 32, 12
#: Functions of a part that may be computed twice, as it may be needed again.
MOST_REPEATED = 8


class Source(NamedTuple):
    """The owned values of a block, below some components."""

    block: Block
    prefix: Component

    @property
    def values(self) -> Any:
        return self.block.owned_memory[self.prefix]

    @property
    def place(self) -> tuple[int, ...]:
        return (self.block.serial, *self.prefix)


class Node:
    """A function of operands: numbers, sources and other nodes."""

    __slots__ = (
        "__weakref__", "_backend", "_block", "_rank", "costly", "function", "inlined", "kept",
        "layout", "operands", "places", "serials", "steps", "users",
    )  # fmt: skip

    def __init__(
        self, function: np.ufunc, operands: Sequence[Any], layout: Layout, like: Block
    ) -> None:
        self.function, self.layout = function, layout
        self._rank, self._backend = like.rank, like.backend
        self._block: weakref.ref[Block] | None = None
        self.kept: Block | None = None
        self.users = self.inlined = 0
        self.operands: tuple[Any, ...] = tuple(map(_current, operands))
        self._measure()
        while self.steps > MOST_STEPS or len(self.places) > MOST_ARRAYS:
            largest = max(self._nodes(), key=lambda node: node.steps, default=None)
            if largest is None:
                break
            largest.value()
            self.operands = tuple(map(_current, self.operands))
            self._measure()
        for node in set(self._nodes()):
            node.users += 1

    def _nodes(self) -> list[Node]:
        return [operand for operand in self.operands if isinstance(operand, Node)]

    def _measure(self) -> None:
        """Functions, arrays, and whether any of the functions is costly."""
        nodes = self._nodes()
        self.steps: int = 1 + sum(node.steps for node in nodes)
        self.costly: bool = costly(self.function) or any(node.costly for node in nodes)
        own = {operand.place for operand in self.operands if isinstance(operand, Source)}
        self.places: frozenset[tuple[int, ...]] = frozenset(own).union(
            *(node.places for node in nodes)
        )
        # A superset of the blocks that enter: those of nodes enter once these have their values.
        self.serials: frozenset[int] = frozenset(place[0] for place in own).union(
            *(node.serials for node in nodes),
            (node.block.serial for node in nodes if node.block is not None),
        )

    def belong(self, block: Block) -> None:
        """Let a block wait for the values."""
        self._block = weakref.ref(block)

    @property
    def block(self) -> Block | None:
        """The block that waits for the values, as long as somebody may ask for them."""
        return None if self._block is None else self._block()

    def drop(self) -> None:
        """Note that nobody will ask for the values of the block. Local."""
        block = self.block
        if block is not None:
            arrived(block)
        self._block = None

    # ---- what it depends on

    def sources(self) -> Iterator[Source]:
        """All blocks that enter."""
        for operand in self.operands:
            if isinstance(operand, Node) and operand.kept is not None:
                yield Source(operand.kept, ())
            elif isinstance(operand, Node):
                yield from operand.sources()
            elif isinstance(operand, Source):
                yield operand

    def reads(self, block: Block) -> bool:
        """Whether the values depend on those of a block. Local."""
        return block.serial in self.serials and any(
            source.block is block for source in self.sources()
        )

    # ---- evaluation

    def value(self) -> Block:
        """The block of the values, which are computed if they are not there. Local."""
        if self.kept is not None:
            return self.kept
        block = self.block
        if block is None:
            block = Block(self.layout, self._rank, self._backend, values=self)
            self.belong(block)
        self.evaluate(block)
        return block

    def evaluate(self, block: Block) -> None:
        """Compute the values of its block. Local."""
        memory = block.allocate(again=True)
        self.compute(memory[(..., *block.owned.slices(block.padded.start))])
        block.take(memory)
        self.kept, self.operands = block, ()

    def compute(self, target: Any) -> None:
        """Compute the values into an array of the backend, which the expression may read at the
        same elements only. Local.
        """
        from distarray.fused import executor  # with all that compiles, which not all programs do

        if self.steps == 1 and self._backend.host and target.dtype == self.layout.dtype:
            values = [o.values if isinstance(o, Source) else o for o in self.operands]
            executor.run_single(self.function, values, target)
            return
        writer = _Writer(self)
        recipe = writer.recipe(self, target.dtype)
        arrays = [source.values for source in writer.sources]
        executor.run(self._backend, recipe, arrays, writer.numbers, target)

    def assign(
        self,
        place: tuple[Block, Component],
        written: Callable[[], None],
        *,
        waiting: Block | None = None,
        kept: bool = True,
    ) -> None:
        """Compute the values into memory that they may depend on. Local, but for `written`.

        Parameters
        ----------
        place : block and component, whose values have the components of these or more
        written : function that notes the write
        waiting : the block that waits for these values, if any
        kept : whether the target keeps the values that are written, whatever `written` does

        The block that waits for what depends on the memory that is overwritten goes on waiting, for
        a copy of the target, should anybody still ask for it.
        """
        target = Source(*place)
        settle_readers(target.block, but=waiting)
        overwritten = waiting is not None and self.reads(target.block)
        restored = kept and _same_values(self, target)
        if not _in_place(self, target) or (overwritten and not restored):
            self.value()
        view = target.values
        if self.kept is not None:
            view[...] = self.kept.owned_memory
            written()
            return
        self.compute(view)
        if not overwritten:
            written()
            return
        self._become(np.positive, ())
        written()
        copy = np.bitwise_or if self.layout.dtype.kind == "b" else np.positive
        self._become(copy, (target,) * copy.nin)

    def _become(self, function: np.ufunc, operands: tuple[Any, ...]) -> None:
        """Have the same values by another function."""
        self.function, self.operands = function, operands
        self._measure()


def _current(operand: Any) -> Any:
    """A node that has its values is a source."""
    if isinstance(operand, Node) and operand.kept is not None:
        return Source(operand.kept, ())
    return operand


def source(block: Block, prefix: Component) -> Node | Source:
    """What an operand of this memory is: a node while it waits for its values. Local."""
    if not prefix and isinstance(block.deferred, Node):
        return block.deferred
    block.settle()
    return Source(block, prefix)


class _Writer:
    """Writes nodes as steps, one after the other."""

    def __init__(self, root: Node) -> None:
        self.sources: list[Source] = []
        self.numbers: list[Any] = []
        self._kinds: list[Any] = []
        self._steps: list[Step] = []
        self._places: dict[tuple[int, ...], Ref] = {}
        self._written: dict[int, Ref] = {}
        self._inside: dict[int, int] = {}
        self._count(root)

    def _count(self, node: Node) -> None:
        """How many nodes of the expression use each of its nodes."""
        for operand in set(node._nodes()):
            if operand.kept is None:
                self._inside[id(operand)] = self._inside.get(id(operand), 0) + 1
                if self._inside[id(operand)] == 1:
                    self._count(operand)

    def recipe(self, root: Node, target: np.dtype[Any]) -> Recipe:
        self._write(root)
        arrays = tuple(source.block.layout.dtype for source in self.sources)
        return Recipe(arrays, tuple(self._kinds), tuple(self._steps), target)

    def _write(self, node: Node) -> Ref:
        written = self._written.get(id(node))
        if written is None:
            others = [_dtype(o) for o in node.operands if isinstance(o, Node | Source)]
            refs = tuple(self._operand(operand, others) for operand in node.operands)
            self._steps.append(Step(node.function, refs, node.layout.dtype))
            written = self._written[id(node)] = Ref(STEP, len(self._steps) - 1)
        return written

    def _operand(self, operand: Any, others: Sequence[np.dtype[Any]]) -> Ref:
        if isinstance(operand, Node):
            if operand.kept is None and not self._on_its_own(operand):
                operand.inlined += id(operand) not in self._written
                return self._write(operand)
            operand = Source(operand.value(), ())
        if isinstance(operand, Source):
            if operand.place not in self._places:
                self._places[operand.place] = Ref(ARRAY, len(self.sources))
                self.sources.append(operand)
            return self._places[operand.place]
        self.numbers.append(operand)
        self._kinds.append(kind_of_number(operand, others))
        return Ref(NUMBER, len(self.numbers) - 1)

    def _on_its_own(self, node: Node) -> bool:
        """Whether an intermediate result is computed by itself: if it may be needed again and is
        costly, or has been needed before.
        """
        shared = node.block is not None or node.users > self._inside[id(node)]
        return shared and (node.costly or node.steps > MOST_REPEATED or node.inlined > 0)


def _dtype(operand: Node | Source) -> np.dtype[Any]:
    layout = operand.layout if isinstance(operand, Node) else operand.block.layout
    return layout.dtype


def _same_values(node: Node, target: Source) -> bool:
    """Whether the target holds the values of the expression afterwards."""
    layout = target.block.layout
    shape = layout.components[len(target.prefix) :]
    return node.layout.dtype == layout.dtype and node.layout.components == shape


def _in_place(node: Node, target: Source) -> bool:
    """Whether no element of the target is read for another one."""
    wanted = target.prefix
    return all(
        found.prefix == wanted or found.prefix[: len(wanted)] != wanted[: len(found.prefix)]
        for found in node.sources()
        if found.block is target.block
    )
