"""Products of whole arrays that give a number: dot and norm. On a device they take one pass over
memory (see `sweeps`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray import contributions, elementwise
from distarray.accumulation import accumulator_of, sum_type
from distarray.array import DistArray
from distarray.arraylike import HostArray
from distarray.errors import ArrayError
from distarray.pending import Contribution, Pending
from distarray.sweeps import Operand, sweep


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
    return _dot(u, v, reproducible).complete(u.communicator)


def begin_dot(u: DistArray, v: DistArray, *, reproducible: bool = False) -> Pending:
    """Start `dot`. Collective; reading the result is Local."""
    return _dot(u, v, reproducible).begin(u.communicator)


def norm(u: DistArray, *, reproducible: bool = False) -> Any:
    """The square root of the sum of |u|^2 over all elements, a NumPy scalar on every rank.
    Collective.

    Raises
    ------
    ArrayError
        What is given is no array.
    """
    return _norm(u, reproducible).complete(u.communicator)


def begin_norm(u: DistArray, *, reproducible: bool = False) -> Pending:
    """Start `norm`. Collective; reading the result is Local."""
    return _norm(u, reproducible).begin(u.communicator)


def _load(array: DistArray, reproducible: bool) -> contributions.Load | None:
    return array.block.backend.load if reproducible else None


def _operand(array: DistArray) -> Operand:
    return array.block, array.component_prefix


def _dot(u: DistArray, v: DistArray, reproducible: bool) -> Contribution:
    for array in (u, v):
        elementwise.require_array(array, "dot")
    elementwise.require_same_placement(u, v)
    if u.components != v.components:
        raise ArrayError(f"{u!r} and {v!r} differ in components; select components of one shape.")
    dtype = sum_type(np.result_type(u.dtype, v.dtype))

    def finish(total: Any) -> Any:
        return contributions.cast_sum(total, dtype)

    if not u.block.backend.host:
        part = sweep("dot", _operand(u), _operand(v), reproducible=reproducible)
        return contributions.part_of_sum(part, finish, dtype)
    return _products(u._owned, v._owned, dtype, finish, _load(u, reproducible))


def _norm(u: DistArray, reproducible: bool) -> Contribution:
    elementwise.require_array(u, "norm")
    dtype = np.empty(0, contributions.mean_type(u.dtype)).real.dtype

    def root(total: Any) -> Any:
        return contributions.cast(np.sqrt(np.float64(total)), dtype)

    if not u.block.backend.host:
        part = sweep("squares", _operand(u), reproducible=reproducible)
        return contributions.part_of_sum(part, root, dtype)
    values, load = u._owned, _load(u, reproducible)
    if u.dtype.kind == "c":
        real, imaginary = (part.astype(np.float64) for part in (values.real, values.imag))
        with np.errstate(all="ignore"):
            squares = real * real + imaginary * imaginary
        return contributions.sum_contribution(squares, root, dtype, load)
    if u.dtype.kind != "f":
        values = values.astype(np.float64)
    return _products(values, values, dtype, root, load)


def _products(
    a: HostArray,
    b: HostArray,
    dtype: np.dtype[Any],
    finish: contributions.Finish,
    load: contributions.Load | None,
) -> Contribution:
    """The sum of conj(a) * b; exact if `load` is given."""
    accumulator = accumulator_of(np.result_type(a, b))
    if load is None and a.dtype == b.dtype == np.float64:
        # One pass over memory, without an array of products.
        axes = list(range(a.ndim))
        total = np.einsum(a, axes, b, axes, [])
        return Contribution(np.array([total]), "sum", lambda reduced: finish(reduced[0]), dtype)
    with np.errstate(all="ignore"):
        products = elementwise.multiply(np.conjugate(a), b, dtype=accumulator)
    return contributions.sum_contribution(products, finish, dtype, load)
