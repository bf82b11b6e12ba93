"""Stencil kernels on distributed arrays: where tracing, halos, boundaries and launches meet.

A call looks up, or makes, the plan for its arrays (`plan.ApplyPlan`), which then

1. begins to exchange the halo regions that the kernel reads and that are stale;
2. computes the core, the points whose reads need no message, in tiles, letting messages progress
between them;
3. finishes the exchange and fills stale boundary layers;
4. computes the remainder.

Where that measures faster, steps 2 and 4 are joined after 3. A device is given each of them as one
launch, and step 2 always while messages are under way. A two-colour kernel does all of this for
each colour. What plans and compiles is imported by the first call, not with the package.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload
from weakref import WeakKeyDictionary

from distarray.deferred import settle_readers_of
from distarray.errors import StencilError, shown
from distarray.kernels.arguments import Scalars, distinct_grids, memory_of, parameters
from distarray.kernels.recent import Recent
from distarray.pending import Pending
from distarray.profile import Profile
from distarray.stencil import analysis, tracing
from distarray.stencil.expression import ArrayParameter, Program, WeakKind

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.comm import Communicator
    from distarray.graphs import CapturedCycles
    from distarray.kernels.plan import ApplyPlan

#: Plans kept per kernel; the least recently used one goes first.
MOST_PLANS = 128

#: Graphs of time loops kept per kernel.
MOST_GRAPHS = 16


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
    graphs : Recent
        Captured work of time loops whose steps begin with this kernel.
    depths : mapping of Communicator to Recent
        See `depths_on`.
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
        self._scalars = Scalars(self._signature, static)
        if colours not in (1, 2):
            raise StencilError(f"Kernel {self.name} has colours={shown(colours)}; use 1 or 2.")
        self._programs: Recent[Any, Program] = Recent(MOST_PLANS)
        self._latest: Program | None = None
        self._plans: Recent[Any, ApplyPlan] = Recent(MOST_PLANS)
        self._watched: dict[Hashable, weakref.ref[Any]] = {}
        self.graphs: Recent[Hashable, CapturedCycles] = Recent(MOST_GRAPHS)
        self.depths: WeakKeyDictionary[Communicator, Recent[Hashable, int]] = WeakKeyDictionary()
        functools.update_wrapper(self, function)

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
            Whether the core is computed while messages are under way; by default on a device, and
            on the CPU as it measures faster.
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
        values, kinds, statics = self._scalars.sort(scalars, time)
        identity = self._scalars.identity(statics)
        try:
            key = (kinds, identity, *[array.key for array in arrays])
        except AttributeError:
            self._refuse_argument(arrays)
        settle_readers_of(arrays)
        plan = self._plans.find(key)
        if plan is None or not plan.fits(arrays):
            plan = self._plans.keep(key, self._make_plan(arrays, kinds, statics))
        return plan, values

    def _make_plan(
        self, arrays: Sequence[Any], kinds: Sequence[WeakKind], statics: tuple[Any, ...]
    ) -> ApplyPlan:
        from distarray.kernels.plan import ApplyPlan

        program, reference = self._program(arrays, kinds, statics)
        for array in arrays:
            self._watch(array)
        return ApplyPlan(program, arrays, reference)

    def depths_on(self, communicator: Communicator) -> Recent[Hashable, int]:
        """How many steps of loops that begin with this kernel are made in one pass over memory,
        where these ranks have measured it: others may have found something else. Local.
        """
        return self.depths.setdefault(communicator, Recent(MOST_PLANS))

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
                    "DistArray or a profile of a grid, and write scalars after a `*`."
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

        Parameters
        ----------
        language : {"c", "cuda"}
            "cuda" is what devices compile, "simulated" ones too.

        Raises
        ------
        StencilError
            Another language.
        """
        if language not in ("c", "cuda"):
            raise StencilError(
                f"Kernel {self.name} has no source in the language {shown(language)}; ask for 'c' "
                "or 'cuda'."
            )
        from distarray.stencil import codegen, cuda

        source = cuda.source if language == "cuda" else codegen.source
        if not arrays:
            return source(self._described())
        if not all(hasattr(array, "key") for array in arrays):
            self._refuse_argument(arrays)
        defaults, scalars = self._signature.defaults, self._scalars
        missing = [name for name in scalars.static if name not in defaults]
        if missing:
            raise StencilError(
                f"Kernel {self.name} has no default for the static {missing[0]}, so that its "
                "source is known after a call only; call it and leave the arrays out."
            )
        kinds = [self._signature.kind(name) for name in scalars.symbolic]
        statics = tuple(defaults[name] for name in scalars.static)
        return source(self._program(arrays, kinds, statics)[0])

    def _described(self) -> Program:
        """The program of the latest call, or one guessed from the function alone."""
        if self._latest is None:
            from distarray.stencil import probing

            defaults = self._signature.defaults
            statics = {name: defaults[name] for name in self.static_names if name in defaults}
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
        return self._scalars.static

    # ---- tracing

    def _program(
        self, arrays: Sequence[Any], kinds: Sequence[WeakKind], statics: tuple[Any, ...]
    ) -> tuple[Program, DistArray]:
        """The program for these arguments, and an array of the grid that it runs over."""
        if len(arrays) != len(self._signature.arrays):
            raise self._wrong_count(len(arrays))
        fields = [array for array in arrays if not isinstance(array, Profile)]
        if not fields:
            raise StencilError(
                f"Kernel {self.name} got profiles only; pass at least one DistArray."
            )
        references = distinct_grids(fields)
        refused: StencilError | None = None
        for reference in references:
            try:
                known = parameters(self.name, self._signature.arrays, arrays, reference)
                program = self._trace(known, reference, kinds, statics)
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
        known: tuple[ArrayParameter, ...],
        reference: DistArray,
        kinds: Sequence[WeakKind],
        statics: tuple[Any, ...],
    ) -> Program:
        axes = (
            reference.grid.axes
            if reference.grid is not None
            else ("x", "y", "z")[: reference.layout.ndim]
        )
        key = (known, tuple(kinds), self._scalars.identity(statics), axes)
        program = self._programs.find(key)
        if program is None:
            program = tracing.trace(
                self.function,
                known,
                dict(zip(self._scalars.symbolic, kinds, strict=True)),
                dict(zip(self._scalars.static, statics, strict=True)),
                ndim=reference.layout.ndim,
                colours=self.colours,
                fast=self.fast,
                axes=axes,
            )
            self._programs.keep(key, program)
        return program


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

    A call of the kernel is Collective: all ranks of the grid make it with the same arrays.

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

    Notes
    -----
    The function is run once to trace it, at the first call with arrays and scalars of these kinds.
    Globals, closures and captured objects are read then, and never again: a value that changes
    belongs in a keyword-only scalar.

    Each output is computed on all points whose own reads are available: owned, halo, or boundary
    layers that a condition fills. Points whose reads are not, as beyond the domain at a side that
    has no condition and is not periodic, keep their value.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def difference(u, out, *, dx):
    ...     out[0] = (u[1] - u[-1]) / (2 * dx)
    >>> difference.reads
    {'u': {(1,), (-1,)}, 'out': set()}

    Without conditions the first and the last point of `out` keep their 0:

    >>> grid = da.Grid((4,))
    >>> u, out = grid.from_function(lambda x: x), grid.zeros()
    >>> difference(u, out, dx=grid.spacing[0])
    >>> out.gather()
    array([0., 1., 1., 0.])
    """
    if function is None:
        return functools.partial(StencilKernel, static=static, colours=colours, fast=fast)
    return StencilKernel(function, static=static, colours=colours, fast=fast)
