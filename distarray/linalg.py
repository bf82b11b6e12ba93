"""Products of whole arrays that give a number: dot and norm. On a device they take one pass over
memory, see `block_reductions`, which is imported when first used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray import contributions, elementwise
from distarray.accumulation import accumulator_of, sum_type
from distarray.array import DistArray
from distarray.arraylike import HostArray
from distarray.errors import ArrayError
from distarray.pending import Contribution, Pending
from distarray.reductions import by_kernel

if TYPE_CHECKING:
    from distarray.block_reductions import Operand


def dot(u: DistArray, v: DistArray, *, reproducible: bool = False) -> Any:
    """The sum of conj(u) * v over all elements, a NumPy scalar on every rank. Collective.

    Parameters
    ----------
    u, v : DistArray
        Of one shape and placement.
    reproducible : bool
        Add the (rounded) products without further rounding: the same bits on any process grid.

    Raises
    ------
    ArrayError
        The arrays differ in shape, components, location or process grid.

    Examples
    --------
    >>> import distarray as da
    >>> u = da.ones((3, 3))
    >>> da.dot(u, 2 * u)
    np.float64(18.0)
    """
    return _dot(u, v, reproducible).complete()


def begin_dot(u: DistArray, v: DistArray, *, reproducible: bool = False) -> Pending:
    """Start `dot`. Collective; reading the result is Local."""
    return _dot(u, v, reproducible).begin()


def norm(u: DistArray, *, reproducible: bool = False) -> Any:
    """The square root of the sum of |u|^2 over all elements, a NumPy scalar on every rank.
    Collective.

    Raises
    ------
    ArrayError
        What is given is no array.
    """
    return _norm(u, reproducible).complete()


def begin_norm(u: DistArray, *, reproducible: bool = False) -> Pending:
    """Start `norm`. Collective; reading the result is Local."""
    return _norm(u, reproducible).begin()


@dataclass(frozen=True)
class _Product:
    """A sum over products of elements: "dot" of two arrays, or "squares" of one.

    `finish` makes the result, of element type `dtype`, of the total of all ranks; `factors` gives
    this rank's two factors on the host, or the products.
    """

    kind: str
    arrays: tuple[DistArray, ...]
    finish: contributions.Finish
    dtype: np.dtype[Any]
    reproducible: bool
    factors: Callable[[], tuple[HostArray, HostArray | None]]

    def complete(self) -> Any:
        return self._contribution().complete(self.arrays[0].communicator)

    def begin(self) -> Pending:
        communicator = self.arrays[0].communicator
        pending = None
        if not self.arrays[0].block.backend.host:
            from distarray import block_reductions

            pending = block_reductions.begin(
                self.kind,
                *self._operands,
                communicator=communicator,
                name=self.kind if self.kind == "dot" else "norm",
                finish=(self._finished, self.dtype),
                reproducible=self.reproducible,
            )
        return self._contribution().begin(communicator) if pending is None else pending

    @property
    def _operands(self) -> list[Operand]:
        return [(array.block, array.component_prefix) for array in self.arrays]

    def _finished(self, partial: HostArray) -> Any:
        return contributions.sum_of_partial(partial, self.finish, self.dtype).result_of_all()

    def _contribution(self) -> Contribution:
        backend = self.arrays[0].block.backend
        if all(by_kernel(array, "sum") for array in self.arrays):
            from distarray import block_reductions

            partial = block_reductions.partial_result(
                self.kind, *self._operands, reproducible=self.reproducible
            )
            return contributions.sum_of_partial(partial, self.finish, self.dtype)
        load = backend.load if self.reproducible else None
        return _products(*self.factors(), self.dtype, self.finish, load)


def _dot(u: DistArray, v: DistArray, reproducible: bool) -> _Product:
    for array in (u, v):
        elementwise.require_array(array, "dot")
    elementwise.require_same_placement(u, v)
    if u.components != v.components:
        raise ArrayError(f"{u!r} and {v!r} differ in components; select components of one shape.")
    dtype = sum_type(np.result_type(u.dtype, v.dtype))

    def finish(total: Any) -> Any:
        return contributions.cast_sum(total, dtype)

    return _Product("dot", (u, v), finish, dtype, reproducible, lambda: (u._owned, v._owned))


def _norm(u: DistArray, reproducible: bool) -> _Product:
    elementwise.require_array(u, "norm")
    dtype = np.empty(0, contributions.mean_type(u.dtype)).real.dtype

    def root(total: Any) -> Any:
        return contributions.cast(np.sqrt(np.float64(total)), dtype)

    def factors() -> tuple[HostArray, HostArray | None]:
        values = u._owned
        if u.dtype.kind == "c":
            real, imaginary = (part.astype(np.float64) for part in (values.real, values.imag))
            with np.errstate(all="ignore"):
                return real * real + imaginary * imaginary, None
        if u.dtype.kind != "f":
            values = values.astype(np.float64)
        return values, values

    return _Product("squares", (u,), root, dtype, reproducible, factors)


def _products(
    a: HostArray,
    b: HostArray | None,
    dtype: np.dtype[Any],
    finish: contributions.Finish,
    load: contributions.Load | None,
) -> Contribution:
    """The sum of conj(a) * b, or of products `a`; exact if `load` is given."""
    if b is None:
        return contributions.sum_contribution(a, finish, dtype, load)
    accumulator = accumulator_of(np.result_type(a, b))
    if load is None and a.dtype == b.dtype == np.float64:
        # One pass over memory, without an array of products.
        axes = list(range(a.ndim))
        total = np.einsum(a, axes, b, axes, [])
        return Contribution(np.array([total]), "sum", lambda reduced: finish(reduced[0]), dtype)
    with np.errstate(all="ignore"):
        products = elementwise.multiply(np.conjugate(a), b, dtype=accumulator)
    return contributions.sum_contribution(products, finish, dtype, load)
