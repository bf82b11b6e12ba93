"""Functions that users give: whether they can be called with what they will get. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from distarray.errors import ArrayError, DistArrayError


def require_call(
    function: Callable[..., Any],
    subject: str,
    given: Sequence[str],
    *,
    name: str = "f",
    cures: Mapping[int, str] | None = None,
    kind: type[DistArrayError] = ArrayError,
) -> None:
    """Refuse a function that cannot be called with arguments of these names. On all ranks, without
    calling it.

    `cures` says what to do about some numbers of parameters.
    """
    try:
        signature = _signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return
    try:
        signature.bind(*given)
    except TypeError:
        raise kind(
            f"{subject} is called as {name}({', '.join(given)}), but it takes "
            f"{_parameters(signature)}; {_cure(signature, cures or {})}."
        ) from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Of a ufunc its inputs alone: what it gets behind them it would write to. Before NumPy 2.4
    ufuncs do not tell; the names are those of later ones.
    """
    if not isinstance(function, np.ufunc):
        return inspect.signature(function)
    names = ["x"] if function.nin == 1 else [f"x{n}" for n in range(1, function.nin + 1)]
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])


def _parameters(signature: inspect.Signature) -> str:
    """The parameters of a function, without defaults and types."""
    empty = inspect.Parameter.empty
    plain = [p.replace(annotation=empty, default=empty) for p in signature.parameters.values()]
    if not plain:
        return "no arguments"
    return f"{len(plain)} argument{'s' * (len(plain) > 1)} {inspect.Signature(plain)}"


def _cure(signature: inspect.Signature, cures: Mapping[int, str]) -> str:
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return f"give {parameter.name!r} a default"
    return cures.get(len(signature.parameters), "let it take these")
