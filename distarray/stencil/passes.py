"""Orderings of a program's values for executors that compute one value after the other. Pure.

Common subexpressions need no pass: equal nodes are one object. No bit of a result changes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distarray.stencil.expression import (
    Constant,
    Coordinate,
    Expression,
    Index,
    Read,
    Scalar,
    Spacing,
    walk,
)


@dataclass(frozen=True)
class Schedule:
    """Values in the order of their computation, operands first.

    Attributes
    ----------
    invariant : calls and conversions of scalars alone, computed once per run
    body : all other values, computed at each point
    live : most values of the body alive at one time, results included
    """

    invariant: tuple[Expression, ...]
    body: tuple[Expression, ...]
    live: int


def schedule(roots: Sequence[Expression], ndim: int) -> Schedule:
    """An order of evaluation that keeps few values alive at one time."""
    order = _ordered(roots)
    axes = dependence(order, ndim)
    work = [node for node in order if not isinstance(node, (Constant, Scalar))]
    body = tuple(node for node in work if axes[id(node)])
    invariant = tuple(node for node in work if not axes[id(node)])
    return Schedule(invariant, body, live_values(body, roots))


def dependence(order: Iterable[Expression], ndim: int) -> dict[int, frozenset[int]]:
    """The grid axes along which each node's value changes, by its id; operands come first."""
    axes: dict[int, frozenset[int]] = {}
    for node in order:
        if isinstance(node, (Index, Coordinate, Spacing)):
            own = frozenset({node.axis})
        elif isinstance(node, Read):
            own = frozenset(range(ndim) if node.axis is None else {node.axis})
        else:
            own = frozenset()
        axes[id(node)] = own.union(*(axes[id(operand)] for operand in node.operands))
    return axes


def live_values(body: Sequence[Expression], roots: Iterable[Expression]) -> int:
    """Most values alive at one time if `body` is computed in order and `roots` are kept."""
    last: dict[int, int] = {}
    for step, node in enumerate(body):
        last.update((id(operand), step) for operand in node.operands)
    last.update((id(root), len(body)) for root in roots)
    alive: set[int] = set()
    most = 0
    for step, node in enumerate(body):
        alive.add(id(node))
        most = max(most, len(alive))
        alive -= {key for key in alive if last.get(key, step) <= step}
    return most


def _ordered(roots: Sequence[Expression]) -> list[Expression]:
    """Every node once; of a node's operands the one that needs more values alive comes first."""
    needs: dict[int, int] = {}
    for node in walk(roots):
        ranked = _ranked(node, needs)
        needs[id(node)] = max([1, *(needs[id(o)] + held for held, o in enumerate(ranked))])
    order: list[Expression] = []
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(_ranked(node, needs)))
    return order


def _ranked(node: Expression, needs: dict[int, int]) -> list[Expression]:
    return sorted(node.operands, key=lambda operand: -needs[id(operand)])
