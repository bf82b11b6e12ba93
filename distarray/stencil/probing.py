"""Tracing a kernel before its first call, for what can be known without arrays. Pure.

Numbers of axes and components are inferred from how the arrays are indexed, all arrays float64 and
all scalars float at first; if NumPy refuses that (bit operations, say), integers and truth values
are tried. A kernel that fits several numbers of axes is taken as three-dimensional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from distarray.errors import StencilError
from distarray.layout import Offsets
from distarray.stencil.access import Tracer
from distarray.stencil.expression import (
    LEVELS,
    SAME,
    ArrayParameter,
    Expression,
    Program,
    Scalar,
    WeakKind,
    intern,
)
from distarray.stencil.symbols import SymbolicArray, Value
from distarray.stencil.tracing import KernelSignature, program, signature

_TYPES: tuple[tuple[str, WeakKind], ...] = (("f8", float), ("f8", int), ("i8", int), ("?", bool))


class _OtherAxesError(StencilError):
    """The kernel does not fit the number of axes that is being tried."""


def probe(
    function: Callable[..., Any],
    statics: Mapping[str, object] | None = None,
    *,
    colours: int = 1,
    fast: bool = False,
) -> Program:
    """The program of a kernel whose arrays are not known yet, float64 assumed. Local.

    Parameters
    ----------
    statics : mapping of str to object
        Keyword-only parameters that keep their Python values. Others are symbolic, of the kind of
        their default or float.

    Raises
    ------
    StencilError
        The kernel breaks a rule of the language for every number of axes.
    """
    found = signature(function)
    failures: list[StencilError] = []
    for dtype, kind in _TYPES:
        for ndim in (3, 2, 1):
            tracer = ProbingTracer(function, found.name, ndim, colours=colours)
            try:
                return tracer.program(found, np.dtype(dtype), kind, statics or {}, fast)
            except StencilError as error:
                failures.append(error)
    telling = [error for error in failures if not isinstance(error, _OtherAxesError)]
    raise (telling or failures)[0]


class ProbingTracer(Tracer):
    """A trace that learns what its arrays are from how they are indexed.

    An integer subscript chooses a component, until the array so found is used as a value: then its
    last one was an offset, of a one-dimensional array or of a profile.
    """

    def program(
        self,
        found: KernelSignature,
        dtype: np.dtype[Any],
        kind: WeakKind,
        statics: Mapping[str, object],
        fast: bool,
    ) -> Program:
        """Run the kernel and describe its arrays by what it did with them."""
        self.components: dict[int, tuple[int, ...]] = {}
        self.relations: dict[int, str] = {}
        self.profiles: set[int] = set()
        self.placed = False
        flat = (False,) * self.ndim
        arrays = [ArrayParameter(name, dtype, (), flat) for name in found.arrays]
        symbols = [SymbolicArray(self, number, array) for number, array in enumerate(arrays)]
        kinds = {name: found.kind(name, kind) for name in found.scalars if name not in statics}
        keywords: dict[str, Any] = {n: Value(self, intern(Scalar, k, n)) for n, k in kinds.items()}
        reductions = self.run(symbols, keywords | dict(statics))
        if self.ndim > 1 and not self.placed:
            raise _OtherAxesError(f"Kernel {self.name} indexes its arrays with one offset.")
        described = [self.described(number, array) for number, array in enumerate(arrays)]
        return program(self, described, tuple(kinds.items()), reductions, fast)

    def described(self, number: int, array: ArrayParameter) -> ArrayParameter:
        if number in self.profiles:
            return replace(array, staggered=None, profile_axis=0)
        level = LEVELS[self.relations.get(number, SAME)]
        return replace(array, components=self.components.get(number, ()), level=level)

    # ---- what differs from a trace with known arrays

    def relate(self, array: SymbolicArray, relation: str) -> None:
        known = self.relations.setdefault(array.position, relation)
        if known != relation:
            self.fail(
                f"reads {array.parameter.name} both as {known} and as {relation}; an array lies "
                "on one grid."
            )

    def component_count(self, array: SymbolicArray) -> int:
        """One component per axis is the best guess."""
        return self.ndim

    def subscript(self, array: SymbolicArray, key: Any) -> SymbolicArray | Value:
        if key is Ellipsis or (isinstance(key, tuple) and len(key) == self.ndim):
            return self.read(array, self.offsets(array, key))
        if isinstance(key, tuple):
            self.wrong_count(array, key, self.ndim)
        return array.select((self.integer(array, key),))

    def wrong_count(self, array: SymbolicArray, key: Any, count: int) -> NoReturn:
        raise _OtherAxesError(f"Kernel {self.name} indexes {array.parameter.name} with {key!r}.")

    def array_value(self, array: SymbolicArray) -> Expression:
        if not array.component:
            return super().array_value(array)
        *component, offset = array.component
        if self.ndim > 1:
            if component:
                self.wrong_count(array, offset, self.ndim)
            return self.profile_value(array, offset)
        whole = SymbolicArray(
            self, array.position, array.parameter, tuple(component), array.relation
        )
        return self.read(whole, (offset,)).node

    def profile_value(self, array: SymbolicArray, offset: int) -> Expression:
        self.profiles.add(array.position)
        parameter = replace(array.parameter, staggered=None, profile_axis=0)
        return super().read(SymbolicArray(self, array.position, parameter), (offset,)).node

    def read(self, array: SymbolicArray, offsets: Offsets) -> Value:
        self.note(array)
        return super().read(array, offsets)

    def assign(self, array: SymbolicArray, key: Any, value: Any) -> None:
        if self.ndim > 1 and not isinstance(key, tuple) and key is not Ellipsis:
            self.wrong_count(array, key, self.ndim)
        self.note(array)
        super().assign(array, key, value)

    def note(self, array: SymbolicArray) -> None:
        """Remember how many components the array must have."""
        self.placed = True
        number, component = array.position, array.component
        known = self.components.get(number, (0,) * len(component))
        if len(known) != len(component):
            self.fail(
                f"uses {array.parameter.name} with and without components; choose one everywhere."
            )
        self.components[number] = tuple(
            max(a, b + 1) for a, b in zip(known, component, strict=True)
        )
