"""Attributes as JSON text: data only, nothing that would have to be evaluated or unpickled. Pure.

JSON has no complex numbers, no NaN and no arrays; they are objects with one reserved key:

    {"__float__": "nan"}                                     also "inf" and "-inf"
    {"__complex__": [1.0, 2.0]}
    {"__array__": [0.0, 0.5], "dtype": "<f8", "shape": [2]}  C order; complex numbers as pairs
    {"__dict__": [["__float__", 1]]}                         a dict that uses a reserved key itself

Tuples come back as lists, NumPy scalars as Python numbers. Floats keep their bits: the text holds
the shortest decimal that reads back to the same float64.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from distarray.errors import FileError, shown

#: Kinds of element types that arrays in files may have: bool, integers, floats and complex numbers.
NUMERIC_KINDS = "biufc"
#: Largest array among attributes; anything larger belongs in a dataset.
LARGEST_ARRAY = 1 << 20

#: Widest integer among attributes: Python may refuse to read back longer decimals.
LARGEST_INTEGER_BITS = 2048

#: Element types that files may name. NumPy evaluates other texts, to errors of any class.
_ELEMENT_TYPE = re.compile(r"[<>=|]?(\?|b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32))")
_RESERVED = ("__float__", "__complex__", "__array__", "__dict__")


def dumps(value: Any, subject: str, *, largest: int = LARGEST_ARRAY) -> str:
    """`value` as JSON text. Local.

    Raises
    ------
    FileError
        A part of the value is no number, string, None, small array, list or dict with string keys.
    """
    try:
        return json.dumps(encode(value, subject, largest), allow_nan=False, ensure_ascii=False)
    except RecursionError:
        raise FileError(f"{subject} is nested too deeply or contains itself; flatten it.") from None


def in_order(text: str) -> str:
    """A text of `dumps` with each dict sorted, in which equal values are alike. Local."""
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)


def loads(text: str) -> Any:
    """The value that `dumps` was given. Local. Raises ValueError where the text is damaged."""
    try:
        return decode(json.loads(text, parse_constant=_refuse_constant))
    except Exception as error:  # a damaged text can make NumPy raise anything
        raise ValueError(f"not a value written by this library ({error})") from None


def encode(value: Any, subject: str, largest: int = LARGEST_ARRAY) -> Any:
    """`value` made of what JSON knows; `subject` names it in errors. Local."""
    if (
        isinstance(value, np.generic)
        and value.dtype.kind in NUMERIC_KINDS
        and value.dtype.itemsize <= 16
    ):
        value = value.item()
    if isinstance(value, str):
        return _encode_text(value, subject)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _encode_integer(int(value), subject)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"__float__": repr(float(value))}
    if isinstance(value, complex):
        return {"__complex__": [encode(value.real, subject), encode(value.imag, subject)]}
    if isinstance(value, (list, tuple)):
        return [encode(item, f"{subject}[{index}]", largest) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _encode_mapping(value, subject, largest)
    if isinstance(value, np.ndarray):
        return _encode_array(value, subject, largest)
    raise FileError(
        f"{subject} is a {type(value).__name__}; attributes may be numbers, strings, None, "
        "small arrays, lists and dicts of these."
    )


def _encode_text(value: str, subject: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FileError(
            f"{subject} is text with lone surrogates, which UTF-8 does not have; remove them."
        ) from None
    return value


def _encode_integer(value: int, subject: str) -> int:
    if value.bit_length() > LARGEST_INTEGER_BITS:
        raise FileError(
            f"{subject} is an integer of {value.bit_length()} bits, attributes take at most "
            f"{LARGEST_INTEGER_BITS}; save it as text."
        )
    return value


def _encode_mapping(value: Mapping[Any, Any], subject: str, largest: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise FileError(f"{subject} has the key {key!r}; keys of attributes must be strings.")
        _encode_text(key, f"a key of {subject}")
    pairs = {str(key): encode(item, f"{subject}[{key!r}]", largest) for key, item in value.items()}
    if any(key in _RESERVED for key in pairs):
        return {"__dict__": [[key, item] for key, item in pairs.items()]}
    return pairs


def _encode_array(value: np.ndarray[Any, Any], subject: str, largest: int) -> dict[str, Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise FileError(f"{subject} is a masked array; give its values, by filled(), and its mask.")
    kind, width = value.dtype.kind, value.dtype.itemsize
    if kind not in NUMERIC_KINDS or width > (16 if kind == "c" else 8):
        raise FileError(
            f"{subject} is an array of {value.dtype}; "
            "give bool, integer, float or complex values of standard width."
        )
    if value.nbytes > largest:
        raise FileError(
            f"{subject} is an array of {value.nbytes} bytes, attributes take at most {largest}; "
            "save it as a distributed array."
        )
    flat = np.ravel(value)
    numbers = flat.view(flat.real.dtype) if kind == "c" else flat
    return {
        "__array__": [encode(number, subject) for number in numbers.tolist()],
        "dtype": value.dtype.newbyteorder("<").str,
        "shape": list(value.shape),
    }


def decode(value: Any) -> Any:
    """The inverse of `encode`. Local."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "__float__" in value:
        return float(value["__float__"])
    if "__complex__" in value:
        real, imaginary = map(decode, value["__complex__"])
        return complex(real, imaginary)
    if "__array__" in value:
        return _decode_array(value)
    pairs = value["__dict__"] if "__dict__" in value else value.items()
    return {key: decode(item) for key, item in pairs}


def _decode_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = numeric_dtype(value["dtype"])
    numbers = np.array(
        decode(value["__array__"]), dtype if dtype.kind != "c" else f"f{dtype.itemsize // 2}"
    )
    return numbers.view(dtype).reshape(value["shape"])


def numeric_dtype(text: str) -> np.dtype[Any]:
    """The element type that a file names, in native byte order; only plain numbers. Local."""
    if not isinstance(text, str) or not _ELEMENT_TYPE.fullmatch(text):
        raise ValueError(f"element type {shown(text)} is no number")
    return np.dtype(text).newbyteorder("=")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
