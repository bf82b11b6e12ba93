"""Docstrings of public names are as numpydoc reads them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import distarray as da


def documented(function: Any) -> Iterator[str]:
    """The names in the section "Parameters" of a docstring, as numpydoc finds them."""
    text = inspect.cleandoc(function.__doc__ or "")
    found = re.search(r"^Parameters\n-+\n(.*?)(\n\n\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    for line in found[1].splitlines() if found else ():
        if line and not line[0].isspace():
            yield from (name.strip(" *") for name in line.partition(" : ")[0].split(","))


def public_functions() -> Iterator[tuple[str, Any]]:
    for name in da.__all__:
        value = getattr(da, name)
        if callable(value):
            yield name, value
        for key, method in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(method) and not key.startswith("_"):
                yield f"{name}.{key}", method


def test_documented_parameters_are_those_of_the_signature() -> None:
    count = 0
    for name, function in public_functions():
        names = {*documented(function)}
        count += len(names)
        assert not names or names <= {*inspect.signature(function).parameters}, name
    assert count > 100
