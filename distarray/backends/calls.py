"""Calls of compiled functions with arguments prepared once."""

from __future__ import annotations

import functools
from typing import Any


class _Prepared(functools.partial[None]):
    kept: Any = None


def prepared(function: Any, *arguments: Any, kept: Any) -> functools.partial[None]:
    """The call of a function with these arguments; `kept` lives as long as it, since the arguments
    point there.
    """
    call = _Prepared(function, *arguments)
    call.kept = kept
    return call


def nothing() -> None:
    """The call for no work at all."""
