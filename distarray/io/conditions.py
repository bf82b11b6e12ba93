"""Boundary conditions as plain data: kind and values by name, never code.

The text of an array is a JSON object (see `attributes`) with one entry per side that has a
condition:

    {"x-": {"kind": "Dirichlet", "value": 0.0}, "x+": {"kind": "Outflow"}}

A side whose components differ holds a list, null where a component has none. A condition with a
function in it is {"kind": "Dirichlet", "function": true}: loaded, it is an error at the first read
until it is set.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from distarray.array import DistArray
from distarray.boundary import (
    Condition,
    Dirichlet,
    Extrapolate,
    Neumann,
    Outflow,
    Robin,
    Symmetry,
    Unset,
)
from distarray.io import attributes

_KINDS: dict[str, type[Condition]] = {
    kind.__name__: kind for kind in (Dirichlet, Neumann, Robin, Symmetry, Extrapolate, Outflow)
}
_FIELDS = {
    "Dirichlet": ("value",),
    "Neumann": ("value",),
    "Robin": ("a", "b", "c"),
    "Symmetry": ("sign",),
    "Extrapolate": ("degree",),
    "Outflow": (),
}


def describe(name: str, array: DistArray) -> str:
    """The conditions of an array as text. Local."""
    sides = {} if array.boundary is None else dict(array.boundary.items())
    encoded = {side: _encode(condition) for side, condition in sides.items()}
    return attributes.dumps(encoded, f"The boundary of '{name}'", largest=sys.maxsize)


def _encode(condition: Any) -> Any:
    if condition is None:
        return None
    if isinstance(condition, tuple):
        return [_encode(part) for part in condition]
    kind = condition.kind if isinstance(condition, Unset) else type(condition).__name__
    if _KINDS.get(kind) is not type(condition) or not condition.constant:
        return {"kind": kind, "function": True}
    return {"kind": kind} | {name: getattr(condition, name) for name in _FIELDS[kind]}


def parse(path: str, name: str, text: str) -> dict[str, Any]:
    """The conditions of the array `name` of a file, to be passed as boundary=. Local.

    Raises
    ------
    ValueError
        The text was not written by `describe`.
    """
    found = attributes.loads(text)
    if not isinstance(found, Mapping):
        raise ValueError("no object")
    # Sides with equal conditions share one, as those that were assigned together do.
    shared: dict[str, str] = {}
    conditions: dict[str, Any] = {}
    for side, value in found.items():
        first = shared.setdefault(
            side[:1] + attributes.dumps(value, side, largest=sys.maxsize), side
        )
        same = first in conditions and not isinstance(conditions[first], Unset)
        conditions[side] = conditions[first] if same else _decode(value, (path, name, side))
    return conditions


def _decode(value: Any, place: tuple[str, str, str]) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_decode(part, place) for part in value]
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise ValueError(f"the condition on {place[2]} has no kind")
    fields = {key: part for key, part in value.items() if key != "kind"}
    if fields.get("function") is True:
        return _unset(value["kind"], *place)
    if value["kind"] not in _KINDS:
        raise ValueError(f"the condition on {place[2]} is of the unknown kind {value['kind']!r}")
    return _KINDS[value["kind"]](**fields)


def _unset(kind: str, path: str, name: str, side: str) -> Condition:
    text = (
        f"The condition {kind} on {side} of '{name}' was given by a function when '{path}' was "
        f'saved; set it again before it is read: u.boundary["{side}"] = ...'
    )

    return Unset(kind, text)
