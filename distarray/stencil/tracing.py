"""Running a kernel's function once with symbolic arguments, which gives its `Program`. Pure."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from distarray.errors import StencilError
from distarray.stencil import calls
from distarray.stencil.access import Tracer
from distarray.stencil.expression import (
    ArrayParameter,
    Program,
    Reduction,
    Scalar,
    Store,
    WeakKind,
    intern,
    kind_of,
)
from distarray.stencil.symbols import SymbolicArray, Value


@dataclass(frozen=True)
class KernelSignature:
    """A kernel function's parameters: positional ones are arrays, keyword-only ones are scalars."""

    name: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    defaults: Mapping[str, Any]

    def kind(self, name: str, otherwise: WeakKind = float) -> WeakKind:
        """The kind of a scalar that has no value yet: that of its default, if it is a number."""
        return kind_of(self.defaults.get(name)) or otherwise


def signature(function: Callable[..., Any]) -> KernelSignature:
    """The parameters of a kernel's function. Local.

    Raises
    ------
    StencilError
        The function has no positional parameter, one with a default, or takes *args or **kwargs.
    """
    name = getattr(function, "__name__", type(function).__name__)
    arrays, scalars, defaults = [], [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            _refuse_signature(
                function, name, f"takes {stars}{parameter.name}; name every array and every scalar."
            )
        if parameter.kind is parameter.KEYWORD_ONLY:
            scalars.append(parameter.name)
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
        elif parameter.default is not parameter.empty:
            _refuse_signature(
                function,
                name,
                f"gives its array {parameter.name} the default {parameter.default!r}; put scalars "
                f"behind a *, as in def {name}(u, *, r=0.1).",
            )
        else:
            arrays.append(parameter.name)
    if not arrays:
        _refuse_signature(function, name, "has no positional parameter; name at least one array.")
    return KernelSignature(name, tuple(arrays), tuple(scalars), defaults)


def _refuse_signature(function: Callable[..., Any], name: str, text: str) -> NoReturn:
    raise StencilError(f"Kernel {name}{_definition(function)} {text}")


def _definition(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (
        ""
        if code is None
        else f" ({os.path.basename(code.co_filename)}, line {code.co_firstlineno})"
    )


def trace(
    function: Callable[..., Any],
    arrays: Sequence[ArrayParameter],
    scalars: Mapping[str, WeakKind],
    statics: Mapping[str, object],
    *,
    ndim: int,
    colours: int = 1,
    fast: bool = False,
    axes: Sequence[str] = ("x", "y", "z"),
    in_place: bool = False,
) -> Program:
    """Run a kernel's function with symbolic arrays. Local.

    Parameters
    ----------
    function : callable
        Positional parameters stand for `arrays`, keyword-only ones for scalars.
    arrays : sequence of ArrayParameter
        What is known of each array argument.
    scalars : mapping of str to bool, int, float or complex
        Kinds of the keyword-only parameters that are symbolic.
    statics : mapping of str to object
        Keyword-only parameters that keep their Python values. One that is in neither mapping takes
        its default.
    ndim : int
        Axes of the grid.
    colours : {1, 2}
        2 lets an array that is written be read at offsets of odd sum.
    axes : sequence of str
        Names of the axes, for `da.coordinate(axis, location)`.
    in_place : bool
        Permit reads at offsets of arrays that are written, for a caller that keeps the values
        before the pass.

    Raises
    ------
    StencilError
        The kernel breaks a rule of the language; the message names kernel, line and cure.
    """
    found = signature(function)
    tracer = Tracer(function, found.name, ndim, colours=colours, axes=axes, in_place=in_place)
    if len(arrays) != len(found.arrays):
        tracer.fail(
            f"takes {len(found.arrays)} arrays ({', '.join(found.arrays)}), but got "
            f"{len(arrays)}; pass one for each."
        )
    keywords = _keywords(tracer, found, scalars, statics)
    for parameter in arrays:
        if not calls.supported(parameter.dtype):
            tracer.fail(
                f"gets {parameter.name} of dtype {parameter.dtype}, which kernels cannot hold; "
                "use float32 or float64."
            )
    arguments = [
        SymbolicArray(tracer, position, parameter) for position, parameter in enumerate(arrays)
    ]
    reductions = tracer.run(arguments, keywords)
    ordered = tuple((name, scalars[name]) for name in found.scalars if name in scalars)
    return program(tracer, arrays, ordered, reductions, fast)


def program(
    tracer: Tracer,
    arrays: Sequence[ArrayParameter],
    scalars: tuple[tuple[str, WeakKind], ...],
    reductions: tuple[Reduction, ...],
    fast: bool,
) -> Program:
    """The program of a finished trace."""
    return Program(
        name=tracer.name,
        ndim=tracer.ndim,
        arrays=tuple(arrays),
        scalars=scalars,
        stores=tuple(
            Store(position, component, node)
            for (position, component), (node, _) in tracer.writes.items()
        ),
        reductions=reductions,
        colours=tracer.colours,
        fast=fast,
        lines=tuple(line for _, line in tracer.writes.values()),
        read_lines=tuple(
            (*target, offsets, line)
            for target, found in tracer.reads.items()
            for offsets, line in found.items()
        ),
    )


def _keywords(
    tracer: Tracer,
    found: KernelSignature,
    scalars: Mapping[str, WeakKind],
    statics: Mapping[str, object],
) -> dict[str, Any]:
    """What the kernel's keyword-only parameters are while tracing."""
    for name in (*scalars, *statics):
        if name not in found.scalars:
            known = ", ".join(found.scalars) or "none"
            tracer.fail(
                f"has no scalar named {name!r}; its scalars, those after a `*`, are: {known}."
            )
    keywords: dict[str, Any] = {
        name: Value(tracer, intern(Scalar, kind, name)) for name, kind in scalars.items()
    }
    keywords.update(statics)
    for name in found.scalars:
        if name not in keywords and name not in found.defaults:
            tracer.fail(
                f"needs the scalar {name!r}, which was not given; call it with {name}=value."
            )
    return keywords
