"""Stencil kernels on distributed arrays: where tracing, halos, boundaries and launches meet.

A call looks up, or makes, the plan for its arrays (`plan.ApplyPlan`), which then

1. begins to exchange the halo regions that the kernel reads and that are stale;
2. computes the core, the points whose reads are all owned, in tiles, letting messages progress
between them;
3. finishes the exchange and fills stale boundary layers;
4. computes the remainder.

Where that measures faster, steps 2 and 4 are joined after 3. A two-colour kernel does all of this
for each colour.
"""

from __future__ import annotations

import functools
import numbers
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from distarray.errors import StencilError, shown
from distarray.kernels.extents import memory_of
from distarray.kernels.plan import ApplyPlan
from distarray.kernels.recent import Recent
from distarray.pending import Pending
from distarray.profile import Profile
from distarray.stencil import analysis, codegen, probing, tracing
from distarray.stencil.expression import ArrayParameter, Program, WeakKind

if TYPE_CHECKING:
    from distarray.array import DistArray

#: Plans kept per kernel; the least recently used one goes first.
MOST_PLANS = 128


class StencilKernel:
    """A function of array values around one point, applied to all points of its outputs. Made by
    `stencil`.

    Calling it is Collective. It computes each output on all points whose own reads are available:
    owned, halo, or boundary layers of a condition; other points keep their value.

    Attributes
    ----------
    name : str
    function : callable
        The Python function, traced once per kind of arguments.
    colours : int
        Passes per call, 1 or 2.
    fast : bool
        Whether contraction and reassociation are permitted.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        static: Sequence[str] = (),
        colours: int = 1,
        fast: bool = False,
    ) -> None:
        if not callable(function):
            raise StencilError(f"da.stencil takes a function, got {shown(function)}; decorate one.")
        self.function = function
        self.colours = colours
        self.fast = fast
        self._signature = tracing.signature(function)
        self.name = self._signature.name
        self._static = tuple([static] if isinstance(static, str) else static)
        self._symbolic = tuple(n for n in self._signature.scalars if n not in self._static)
        self._check_definition()
        self._programs: Recent[Any, Program] = Recent(MOST_PLANS)
        self._latest: Program | None = None
        self._plans: Recent[Any, ApplyPlan] = Recent(MOST_PLANS)
        self._watched: dict[Hashable, weakref.ref[Any]] = {}
        functools.update_wrapper(self, function)

    def _check_definition(self) -> None:
        for name in self._static:
            if name not in self._signature.scalars:
                raise StencilError(
                    f"Kernel {self.name} marks {name!r} as static, which is none of its "
                    "keyword-only parameters "
                    f"({', '.join(self._signature.scalars) or 'it has none'}); put it behind a * "
                    "in the definition."
                )
        if self.colours not in (1, 2):
            raise StencilError(f"Kernel {self.name} has colours={shown(self.colours)}; use 1 or 2.")
        if "overlap" in self._signature.scalars:
            raise StencilError(
                f"Kernel {self.name} names a scalar 'overlap', which is an option of apply; "
                "choose another name."
            )

    # ---- running

    def __call__(self, *arrays: Any, time: float | None = None, **scalars: Any) -> Any:
        """Apply the kernel: `apply` with overlap as it measures faster. Collective."""
        return self.apply(*arrays, time=time, **scalars)

    def apply(
        self, *arrays: Any, time: float | None = None, overlap: bool | None = None, **scalars: Any
    ) -> Any:
        """Compute the outputs. Collective.

        Parameters
        ----------
        *arrays : DistArray or Profile
            One for each positional parameter, all of one grid, or of grids related by `coarsen`.
        time : float, optional
            Where boundary functions are evaluated; also a scalar of the kernel if it names `time`.
        overlap : bool, optional
            Whether the core is computed while messages are under way; by default as it measures
            faster.
        **scalars : number or Pending
            Values of the keyword-only parameters.

        Returns
        -------
        None, a Pending, or a tuple of them
            What the kernel returns by `da.reduce`.

        Raises
        ------
        StencilError
            The arguments do not fit the kernel, or it breaks a rule of the language.
        """
        plan, values = self.prepare(arrays, scalars, time)
        return self._returned(plan.run(arrays, values, time, overlap))

    def prepare(
        self, arrays: Sequence[Any], scalars: dict[str, Any], time: float | None = None
    ) -> tuple[ApplyPlan, list[Any]]:
        """The plan for these arguments, kept for the next call, and the values of the symbolic
        scalars. Collective.
        """
        values, kinds, statics = self._sort_scalars(scalars, time)
        try:
            key = (kinds, statics and _told_apart(statics), *[array.key for array in arrays])
        except AttributeError:
            self._refuse_argument(arrays)
        plan = self._plans.find(key)
        if plan is None or not plan.fits(arrays):
            program, reference = self._program(
                arrays, dict(zip(self._symbolic, kinds, strict=True)), statics
            )
            plan = self._plans.keep(key, ApplyPlan(program, arrays, reference))
            for array in arrays:
                self._watch(array)
        return plan, values

    def _returned(self, pending: tuple[Pending, ...]) -> Any:
        if len(pending) < 2:
            return pending[0] if pending else None
        return pending

    def _watch(self, array: Any) -> None:
        """Drop the plans that use the memory of an argument when its block goes."""
        memory = memory_of(array)
        if memory not in self._watched:
            kernel = weakref.ref(self)

            def forget(_: weakref.ref[Any]) -> None:
                found = kernel()
                if found is not None:
                    found._forget(memory)

            self._watched[memory] = weakref.ref(getattr(array, "block", array), forget)

    def _forget(self, memory: Hashable) -> None:
        self._watched.pop(memory, None)
        for key, plan in list(self._plans.items()):
            if memory in plan.memory:
                self._plans.pop(key, None)

    def _refuse_argument(self, arrays: Sequence[Any]) -> NoReturn:
        for name, array in zip(self._signature.arrays, arrays, strict=False):
            if not hasattr(array, "key"):
                raise StencilError(
                    f"Kernel {self.name} gets {name} of type {type(array).__name__}; pass a "
                    "DistArray, or a profile "
                    "of a grid."
                ) from None
        raise self._wrong_count(len(arrays)) from None

    def _wrong_count(self, count: int) -> StencilError:
        expected = self._signature.arrays
        return StencilError(
            f"Kernel {self.name} takes {len(expected)} arrays ({', '.join(expected)}), but got "
            f"{count}; pass one for each."
        )

    # ---- what it reads and costs

    @property
    def reads(self) -> dict[str, set[tuple[int, ...]]]:
        """For each array, the offsets at which it is read, all components together. Local."""
        return analysis.reads(self._described())

    @property
    def halo(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """For each array, the halo widths ((low, high), ...) per axis that it needs. Local."""
        return analysis.halo(self._described())

    @property
    def bytes_per_cell(self) -> float:
        """Memory traffic per cell: each component once if read and once if written, in bytes.
        Local.
        """
        return analysis.bytes_per_cell(self._described())

    @property
    def flops_per_cell(self) -> int:
        """Floating-point operations per cell, common subexpressions counted once. Local."""
        return analysis.flops_per_cell(self._described())

    def source(self, language: str = "c", *arrays: Any) -> str:
        """The generated text: for these arrays, else for the latest call, else for float64. Local.

        Raises
        ------
        StencilError
            A language other than "c".
        """
        if language != "c":
            raise StencilError(
                f"Kernel {self.name} has no source in the language {language!r}; this version "
                "generates 'c'."
            )
        if not arrays:
            return codegen.source(self._described())
        kinds: dict[str, WeakKind] = {
            name: _KINDS.get(type(self._signature.defaults.get(name, 0.0)), float)
            for name in self._symbolic
        }
        if not all(hasattr(array, "key") for array in arrays):
            self._refuse_argument(arrays)
        missing = [n for n in self._static if n not in self._signature.defaults]
        if missing:
            raise StencilError(
                f"Kernel {self.name} has no default for the static {missing[0]}, so that its "
                "source is known after a call only; call it and leave the arrays out."
            )
        statics = tuple(self._signature.defaults[name] for name in self._static)
        return codegen.source(self._program(arrays, kinds, statics)[0])

    def _described(self) -> Program:
        """The program of the latest call, or one guessed from the function alone."""
        if self._latest is None:
            statics = {
                n: self._signature.defaults[n]
                for n in self._static
                if n in self._signature.defaults
            }
            self._latest = probing.probe(
                self.function, statics, colours=self.colours, fast=self.fast
            )
        return self._latest

    def __repr__(self) -> str:
        names = ", ".join(
            (*self._signature.arrays, *(("*",) if self.scalar_names else ()), *self.scalar_names)
        )
        return f"<stencil {self.name}({names})>"

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """Names of the keyword-only parameters."""
        return self._signature.scalars

    @property
    def static_names(self) -> tuple[str, ...]:
        """Names of those that keep their Python values while the function is traced."""
        return self._static

    # ---- scalars

    def _sort_scalars(
        self, given: dict[str, Any], time: float | None
    ) -> tuple[list[Any], tuple[WeakKind, ...], tuple[Any, ...]]:
        """Values of the symbolic scalars, their kinds, and the values of the static ones."""
        if time is not None and "time" in self._signature.scalars:
            given["time"] = time
        values, kinds = [], []
        defaults = self._signature.defaults
        try:
            for name in self._symbolic:
                value = given.pop(name) if name in given else defaults[name]
                kind = _KINDS.get(type(value))
                if kind is None or (kind is int and not _FIRST <= value <= _LAST):
                    value, kind = self._number(name, value)
                values.append(value)
                kinds.append(kind)
            statics = tuple(
                [given.pop(name) if name in given else defaults[name] for name in self._static]
            )
        except KeyError as error:
            raise StencilError(
                f"Kernel {self.name} needs the scalar {error}, which was not given; call it with "
                f"{error.args[0]}=value."
            ) from None
        try:
            hash(statics)
        except TypeError:
            raise StencilError(
                f"Kernel {self.name} got static values {shown(statics)}, which cannot be told "
                "apart by a hash; pass numbers, strings or tuples."
            ) from None
        if given:
            raise StencilError(
                f"Kernel {self.name} has no scalar named {next(iter(given))!r}; its scalars are: "
                f"{', '.join(self._signature.scalars) or 'none'}."
            )
        return values, tuple(kinds), statics

    def _number(self, name: str, value: Any) -> tuple[Any, WeakKind]:
        """The value of a scalar that is no plain Python number, and its kind."""
        if isinstance(value, Pending):
            value = value.result()
        elif isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        for abstract, kind in _ABSTRACT_KINDS:
            if isinstance(value, abstract) and (kind is not int or _FIRST <= value <= _LAST):
                return kind(value), kind
        raise StencilError(
            f"Kernel {self.name} got {name}={shown(value)}, but a scalar must be a number; pass "
            "one, or an array as a positional argument."
        )

    # ---- tracing

    def _program(
        self, arrays: Sequence[Any], kinds: Mapping[str, WeakKind], statics: tuple[Any, ...]
    ) -> tuple[Program, DistArray]:
        """The program for these arguments, and an array of the grid that it runs over."""
        if len(arrays) != len(self._signature.arrays):
            raise self._wrong_count(len(arrays))
        fields = [array for array in arrays if not isinstance(array, Profile)]
        if not fields:
            raise StencilError(
                f"Kernel {self.name} got profiles only; pass at least one DistArray."
            )
        references = _distinct_grids(fields)
        refused: StencilError | None = None
        for reference in references:
            try:
                program = self._trace(
                    _parameters(self.name, self._signature.arrays, arrays, reference),
                    reference,
                    kinds,
                    statics,
                )
            except StencilError as error:
                refused = refused or error
                continue
            places = [(memory_of(a), getattr(a, "component_prefix", ())) for a in arrays]
            analysis.require_distinct(program, places)
            self._latest = program
            return program, reference
        raise refused or StencilError(f"Kernel {self.name} got no arrays.")

    def _trace(
        self,
        parameters: tuple[ArrayParameter, ...],
        reference: DistArray,
        kinds: Mapping[str, WeakKind],
        statics: tuple[Any, ...],
    ) -> Program:
        axes = (
            reference.grid.axes
            if reference.grid is not None
            else ("x", "y", "z")[: reference.layout.ndim]
        )
        key = (parameters, tuple(kinds.items()), _told_apart(statics), axes)
        program = self._programs.find(key)
        if program is None:
            program = tracing.trace(
                self.function,
                parameters,
                kinds,
                dict(zip(self._static, statics, strict=True)),
                ndim=reference.layout.ndim,
                colours=self.colours,
                fast=self.fast,
                axes=axes,
            )
            self._programs.keep(key, program)
        return program


_KINDS: dict[type, WeakKind] = {
    bool: bool,
    int: int,
    float: float,
    complex: complex,
    np.float64: float,
}
_FIRST, _LAST = -(2**63), 2**63 - 1
_ABSTRACT_KINDS: tuple[tuple[Any, WeakKind], ...] = (
    ((bool, np.bool_), bool),
    (numbers.Integral, int),
    (numbers.Real, float),
    (numbers.Complex, complex),
)


def _told_apart(value: Any) -> Hashable:
    """What differs for static values that a trace may tell apart though they compare equal, such
    as 2, 2.0 and True, or 0.0 and -0.0.
    """
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple(map(_told_apart, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_told_apart, value))
    return kind, repr(value) if isinstance(value, float | complex | np.inexact) else value


def _distinct_grids(fields: Sequence[DistArray]) -> list[DistArray]:
    """One array for each grid among the arrays, in their order."""
    found: list[DistArray] = []
    for array in fields:
        if all(_level(reference, array) != 0 for reference in found):
            found.append(array)
    return found


def _level(reference: DistArray, array: Any) -> int | None:
    """0 for arrays placed alike, 1 if `array` lies on the next finer grid, -1 on the next coarser,
    None if unrelated.
    """
    if reference.grid is None or array.grid is None:
        alike = (
            reference.grid is array.grid
            and reference.layout.decomposition == array.layout.decomposition
        )
        return 0 if alike and reference.communicator == array.communicator else None
    return reference.grid.relation(array.grid)


def _parameters(
    kernel: str, names: Sequence[str], arrays: Sequence[Any], reference: DistArray
) -> tuple[ArrayParameter, ...]:
    """What the tracer needs to know of each argument, seen from the grid of `reference`."""
    parameters = []
    for name, array in zip(names, arrays, strict=True):
        level = _level(reference, array)
        if level is None:
            raise StencilError(
                f"Kernel {kernel} got arrays of different grids: {name} is {array!r}, beside "
                f"{reference!r}; "
                "use arrays of one grid, or of grids related by coarsen()."
            )
        if isinstance(array, Profile):
            parameters.append(
                ArrayParameter(name, array.dtype, (), None, array.profile_axis, level)
            )
        else:
            layout = array.layout
            parameters.append(
                ArrayParameter(name, layout.dtype, layout.components, layout.staggered, None, level)
            )
    return tuple(parameters)


@overload
def stencil(function: Callable[..., Any]) -> StencilKernel: ...


@overload
def stencil(
    function: None = None, *, static: Sequence[str] = (), colours: int = 1, fast: bool = False
) -> Callable[[Callable[..., Any]], StencilKernel]: ...


def stencil(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[str] = (),
    colours: int = 1,
    fast: bool = False,
) -> Any:
    """Make a kernel of a function of arrays (positional) and scalars (keyword-only). Local.

    Parameters
    ----------
    static : sequence of str
        Scalars that keep their plain Python values while the function is traced, one trace per
        value.
    colours : {1, 2}
        2 computes points of even global index sum first, then the others, and lets each pass read
        the other colour in place.
    fast : bool
        Permit contraction and reassociation of floating-point operations in this kernel alone.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def difference(u, out, *, dx):
    ...     out[0] = (u[1] - u[-1]) / (2 * dx)
    >>> difference.reads
    {'u': {(1,), (-1,)}, 'out': set()}
    """
    if function is None:
        return functools.partial(StencilKernel, static=static, colours=colours, fast=fast)
    return StencilKernel(function, static=static, colours=colours, fast=fast)
