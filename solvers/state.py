"""The configuration of a solver as plain values, and what differs between two of them. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

#: A process grid is no part of what is solved.
_FREE = ("ranks",)
_LONGEST = 60
#: Arrays of more values are represented by their shape and a digest.
_LARGEST = 1000


def configuration(config: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass as numbers, strings, None, lists and dicts.

    Functions, which files cannot hold, are represented by their names, arrays of more than 1000
    values by a digest.
    """
    fields = [field.name for field in dataclasses.fields(config) if field.name not in _FREE]
    return {name: _plain(getattr(config, name)) for name in fields}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return configuration(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray) and value.size > _LARGEST:
        octets = np.ascontiguousarray(value).tobytes()
        return {"array": list(value.shape), "sha256": hashlib.sha256(octets).hexdigest()}
    if hasattr(value, "tolist"):  # NumPy's
        return value.tolist()
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return {"function": name} if callable(value) else {"object": name}


def difference(saved: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    """The first field in which two configurations differ, as part of a sentence; or None.

    Fields that a file does not name, since the library that wrote it had none such, do not count.
    """
    for name, value in saved.items():
        if name not in own:
            return f"it has {name}={_text(value)}, which this solver does not know"
        if value != own[name] and not _both_nan(value, own[name]):
            return f"it has {name}={_text(value)}, this run has {name}={_text(own[name])}"
    return None


def _both_nan(value: Any, other: Any) -> bool:
    numbers = isinstance(value, float) and isinstance(other, float)
    return numbers and math.isnan(value) and math.isnan(other)


def _text(value: Any) -> str:
    text = _written(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        if value.keys() == {"function"}:
            return f"the function {value['function']}"
        return "{" + ", ".join(f"{key}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "(" + ", ".join(map(_written, value)) + ")"
    return repr(value)
