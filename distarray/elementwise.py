"""Ufuncs and operators on arrays: owned values with owned values, without communication.

Operands must share placement (decomposition and location); components broadcast as in NumPy.
Scalars follow NumPy 2; a host array stands for the same global values on every rank and may
broadcast. Results have the placement of the operands and no boundary conditions. Floating-point
warnings are silenced, so that ranks act alike whatever they own.

Complex products and quotients use the real expansion that kernels use (see `complexmath`).

Of large arrays only type and shape of a result are found at once, and what NumPy refuses; values
are computed when they are needed, in one pass for an expression (see `fused`).

On a device the blocks compute ufuncs themselves, as kernels of one line; operands of the host are
brought there, and functions that no kernel can have are computed on the host.
"""

from __future__ import annotations

import functools
import math
import opcode
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray import complexmath
from distarray.arguments import host_values
from distarray.arraylike import HostArray, is_array, is_block, is_profile
from distarray.deferred import settle_readers
from distarray.errors import ArrayError, DistArrayError, UnsupportedError, shown
from distarray.layout import Layout
from distarray.pending import Pending

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.fused.node import Node
    from distarray.grid import Grid
    from distarray.profile import Profile

#: Numbers of values and of neighbours in a row, on each rank on average, from which results are
#: computed when they are needed.
LEAST_SIZE, LEAST_ROW = 1 << 16, 8

_UFUNC_OPTIONS = {"dtype", "casting", "order", "subok"}


def call_ufunc(
    array: DistArray, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """`__array_ufunc__` of arrays. Collective where `out` is given, else Local.

    Raises
    ------
    UnsupportedError
        Another method than a call, `where`, or an option that arrays do not take.
    ArrayError
        Operands that do not lie alike or do not broadcast, or values that NumPy refuses.
    """
    outputs = options.pop("out", ())
    where = options.pop("where", True)
    if method != "__call__" or ufunc.signature is not None:
        call = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise UnsupportedError(
            f"numpy.{call} is not supported on distributed arrays; call gather() first."
        )
    if where is not True:
        raise UnsupportedError(
            f"numpy.{ufunc.__name__} with where= is not supported on distributed arrays; use "
            "numpy.where."
        )
    if unknown := options.keys() - _UFUNC_OPTIONS:
        raise UnsupportedError(
            f"numpy.{ufunc.__name__} with {min(unknown)}= is not supported on distributed arrays; "
            "leave it out."
        )
    if not outputs:
        return _evaluate(array, ufunc, inputs, options, ufunc.nout)
    return _evaluate_into(array, ufunc, inputs, outputs, options)


def updating(function: np.ufunc) -> Callable[[DistArray, Any], DistArray]:
    """An operator such as `+=`. Collective.

    What stands on its right and has no name is computed as part of it, even if it depends on the
    array that is written.
    """

    def update(self: DistArray, other: Any) -> DistArray:
        unnamed = sys.getrefcount(other) == _UNNAMED
        if unnamed and is_array(other) and other.block.deferred is not None:
            caller = sys._getframe(1)
            if caller.f_code.co_code[caller.f_lasti] == _OPERATOR:
                other.block.deferred.drop()
        result: DistArray = function(self, other, out=(self,))
        return result

    return update


class _Counted:
    """Counts references as `updating` does."""

    def __iadd__(self, other: Any) -> _Counted:
        self.count = sys.getrefcount(other)
        return self


def _count_of_unnamed() -> int:
    """References to an operand of `+=` that has no name; 0 where one with a name has as many."""
    counted, named = _Counted(), _Counted()
    counted += _Counted()
    unnamed = counted.count
    counted += named
    return unnamed if counted.count > unnamed else 0


_UNNAMED = _count_of_unnamed()
#: What the interpreter executes for `+=`. Compiled code that calls it may keep its operand.
_OPERATOR = opcode.opmap.get("BINARY_OP", -1)


def map_array(function: Callable[..., Any], *operands: Any, **options: Any) -> DistArray:
    """As `map_values`, for a function that gives one array. Local."""
    result: DistArray = map_values(function, *operands, **options)
    return result


def map_values(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """The elementwise NumPy function of arrays, scalars and host arrays, as a new array. Local."""
    return _evaluate(_first_array(operands), function, operands, options, 1)


def _first_array(operands: Sequence[Any]) -> DistArray:
    return next(o for o in operands if is_array(o))


def _evaluate(
    array: DistArray,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    options: dict[str, Any],
    outputs: int,
) -> Any:
    array = _leader(array, inputs)
    if outputs == 1 and not options:
        node = _expression(array, function, inputs)
        if node is not None:
            return array._waiting(node)
    values = [local_operand(array, operand) for operand in inputs]
    components = _components(_shapes(array, values))
    with np.errstate(all="ignore"), _Refusals(function, inputs):
        samples = function(*map(_sample, values), **options)
        results = [
            array._like(s.dtype, components) for s in ([samples] if outputs == 1 else samples)
        ]
        targets = [result._owned for result in results]
        if not isinstance(function, np.ufunc):
            targets[0][...] = function(*values, **options)
        elif results[0].dtype.kind == "c" and (expanded := _expansion(function, array)):
            targets[0][...] = expanded(*values, **options)
        else:
            _compute_into(function, values, options, targets)
    return results[0] if outputs == 1 else tuple(results)


def _expression(
    array: DistArray, function: Callable[..., Any], inputs: Sequence[Any]
) -> Node | None:
    """The function as an expression to be computed later, where that may pay; else None."""
    if not isinstance(function, np.ufunc) or function.nout != 1 or not _large(array.layout):
        return None
    from distarray.fused.node import Node, source  # with the first large array

    operands: list[Any] = []
    kinds: list[Any] = []
    for operand in map(_snapshot, inputs):
        if is_array(operand):
            if operand.layout is not array.layout:
                require_same_placement(array, operand)
            if operand.block.open:
                return None
            operands.append(source(operand.block, operand.component_prefix))
            kinds.append(operand.dtype)
        elif isinstance(operand, bool | int | float | complex | np.generic):
            operands.append(operand)
            kinds.append(_kind(operand))
        else:
            return None
    components = _components([o.components for o in inputs if is_array(o)])
    with _Refusals(function, inputs):
        dtype = _result_type(function, *kinds)
        layout = array._layout_like(dtype, components)
    if function is np.power:
        if dtype.kind in "iu":
            return None  # NumPy refuses some values
        if kinds[0] == dtype and _is_square(dtype, operands[1]):
            function, operands = np.square, operands[:1]
    return Node(function, operands, layout, array.block)


def _is_square(dtype: np.dtype[Any], exponent: Any) -> bool:
    """Whether a power of this type is a square, of which NumPy gives it the bits."""
    return type(exponent) in (int, float) and exponent == 2 and dtype.char in "fd"


def _kind(number: Any) -> Any:
    """What a result's type depends on of a number: NumPy's type or Python's, and of integers that
    not every array can hold the value.
    """
    if isinstance(number, np.generic):
        return (number.dtype,)
    return type(number) if type(number) is not int or 0 <= number < 128 else number


@functools.lru_cache(maxsize=4096)
def _result_type(function: np.ufunc, *kinds: Any) -> np.dtype[Any]:
    """The type of a function's result, found by a call with ones."""
    samples = [
        np.ones(1, kind) if isinstance(kind, np.dtype)
        else kind[0].type(1) if isinstance(kind, tuple)
        else kind(1) if isinstance(kind, type)
        else kind
        for kind in kinds
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        found: np.dtype[Any] = function(*samples).dtype
    return found


def _large(layout: Layout) -> bool:
    """Whether passes over memory are what an operator costs: on all ranks alike."""
    own = layout.typical
    return own[-1] >= LEAST_ROW and math.prod(own) * math.prod(layout.components) >= LEAST_SIZE


def _snapshot(operand: Any) -> Any:
    """An operand as it is now: what a number will be may change."""
    if isinstance(operand, Pending):
        return operand.result()
    if isinstance(operand, np.ndarray) and not operand.ndim:
        return operand[()]
    return operand


def _expansion(ufunc: np.ufunc, array: DistArray) -> Callable[..., Any] | None:
    """The real expansion of a complex ufunc, where NumPy has one of its own."""
    return _EXPANDED.get(ufunc) if array.block.backend.host else None


def _compute_into(
    ufunc: np.ufunc, values: Sequence[Any], options: dict[str, Any], targets: Sequence[Any]
) -> None:
    """Compute a ufunc into arrays, whatever their strides.

    A block one cell wide has the stride of a row. NumPy's negative is wrong for some strides of
    input and output alike (64 bytes in NumPy 2.4), so such blocks are computed into arrays of
    NumPy's own and copied. So are several results on a device.
    """
    if all(
        target.ndim and target.shape[-1] > 1 if isinstance(target, np.ndarray) else ufunc.nout == 1
        for target in targets
    ):
        ufunc(*values, **options, out=tuple(targets))
        return
    computed = ufunc(*values, **options)
    for target, block in zip(targets, computed if ufunc.nout > 1 else [computed], strict=True):
        np.copyto(target, block, casting=options.get("casting", "same_kind"))


def _evaluate_into(
    array: DistArray,
    ufunc: np.ufunc,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    options: dict[str, Any],
) -> Any:
    for output in outputs:
        if not is_array(output):
            raise UnsupportedError(
                f"numpy.{ufunc.__name__} of distributed arrays needs distributed arrays as out=, "
                "got "
                f"{type(output).__name__}; leave out= away or make one with empty_like."
            )
    array = outputs[0]
    node = _expression(array, ufunc, inputs) if len(outputs) == 1 and not options else None
    if node is not None and _fits(node.layout, array):
        node.assign((array.block, array.component_prefix), array._written)
        return array
    values = [local_operand(array, operand) for operand in inputs]
    targets = tuple(local_operand(array, output) for output in outputs)
    components = _components(_shapes(array, values))
    for output in outputs:
        settle_readers(output.block)
        if np.broadcast_shapes(components, output.components) != output.components:
            raise ArrayError(
                f"The result of numpy.{ufunc.__name__} has components {components}, out= has "
                f"{output.components}; "
                "give an out= with the components of the result."
            )
    with np.errstate(all="ignore"), _Refusals(ufunc, inputs):
        expanded = _expansion(ufunc, array)
        if expanded is not None and any(np.result_type(v).kind == "c" for v in values):
            computed = expanded(*values)
            np.copyto(targets[0], computed, casting=options.get("casting", "same_kind"))
        else:
            _compute_into(ufunc, values, options, targets)
    for output in outputs:
        output._written()
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _fits(layout: Layout, output: DistArray) -> bool:
    """Whether the values of an expression go into an array without a cast that NumPy refuses."""
    components = np.broadcast_shapes(layout.components, output.components)
    return components == output.components and np.can_cast(layout.dtype, output.dtype, "same_kind")


class _Refusals:
    """A block in which what NumPy raises becomes an error of this library."""

    __slots__ = ("_function", "_inputs")

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
        self._function = function
        self._inputs = inputs

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if not isinstance(error, TypeError | ValueError | OverflowError):
            return
        if isinstance(error, DistArrayError):
            return
        given = " and ".join(
            str(i.dtype) if isinstance(i, np.ndarray) or is_array(i) else shown(i)
            for i in self._inputs
        )
        kind = UnsupportedError if isinstance(error, TypeError) else ArrayError
        raise kind(
            f"numpy.{self._function.__name__} does not take {given} ({str(error).rstrip('.')}); "
            "convert one with astype()."
        ) from None


def _leader(array: DistArray, operands: Sequence[Any]) -> DistArray:
    """The operand that gives the result its placement: the first on a grid, else the first."""
    if array.grid is not None:
        return array
    return next((o for o in operands if is_array(o) and o.grid is not None), array)


def _sample(value: Any) -> Any:
    """An operand of one element and the same type: what a function makes of it tells the result's
    dtype, and what it refuses, also on ranks that own nothing.
    """
    return np.ones(1, value.dtype) if is_block(value) and value.ndim else value


def require_array(value: Any, caller: str) -> None:
    """Refuse what is no DistArray. Local."""
    if not is_array(value):
        raise ArrayError(
            f"{caller} takes distributed arrays, got {shown(value)}; make one with "
            "distarray.asarray."
        )


def local_operand(array: DistArray, operand: Any) -> Any:
    """The owned values of an operand, shaped to broadcast with those of `array`. Local.

    Raises
    ------
    ArrayError
        Another shape, location or decomposition.
    """
    if is_array(operand):
        if operand.layout is not array.layout:
            require_same_placement(array, operand)
        return operand._owned
    if isinstance(operand, Pending):
        return operand.result()
    if is_profile(operand):
        return operand.broadcast_local(array)
    if isinstance(operand, list | tuple) or (isinstance(operand, np.ndarray) and operand.ndim):
        return _local_part(array, host_values(operand, f"What is combined with {array!r}"))
    if isinstance(operand, bool | int | float | complex | np.generic | np.ndarray):
        return operand
    raise UnsupportedError(
        f"{array!r} does not combine with {shown(operand)}; use numbers, NumPy arrays or "
        "distributed arrays."
    )


def _local_part(array: DistArray, values: HostArray) -> HostArray:
    """This rank's part of a host array that is the same on every rank and broadcasts with
    `array`.
    """
    points, owned = array.layout.points, array.block.owned
    extents = values.shape[-len(points) :]
    matching = points[len(points) - len(extents) :]
    if any(n not in (1, p) for n, p in zip(extents, matching, strict=True)):
        raise ArrayError(
            f"A NumPy array of shape {values.shape} does not broadcast with {array!r}; match its "
            "shape."
        )
    own = owned.slices()[len(points) - len(extents) :]
    chosen = (
        part if n == p else slice(None) for part, n, p in zip(own, extents, matching, strict=True)
    )
    index: tuple[Any, ...] = (..., *chosen)
    part: HostArray = values[index]
    return part


def _shapes(array: DistArray, values: Sequence[Any]) -> list[tuple[int, ...]]:
    """Components of operands."""
    ndim = array.layout.ndim
    return [v.shape[:-ndim] for v in values if is_block(v) and v.ndim > ndim]


def _components(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Components of a result: those of the operands, broadcast."""
    if not any(shapes):
        return ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ArrayError(
            f"Components {' and '.join(map(str, filter(None, shapes)))} do not broadcast; select "
            "components of equal shape."
        ) from None


def same_placement(array: DistArray, other: DistArray) -> bool:
    """Whether owned values of both arrays lie on the same points of one device; components may
    differ. Local.
    """
    a, b = array.layout, other.layout
    if a is b:  # arrays of different devices share no layout
        return True
    if (
        array.device != other.device
        or a.staggered != b.staggered
        or a.decomposition != b.decomposition
        or array.communicator != other.communicator
    ):
        return False
    one, two = array.grid, other.grid
    return one is two or one is None or two is None or one.same_as(two)


def require_same_placement(array: DistArray, other: DistArray) -> None:
    """Refuse an array that is not spread as `array` is: other points, location, cuts or
    communicator. Local.
    """
    if same_placement(array, other):
        return
    require_same_device(array, other)
    a, b = array.layout, other.layout
    if a.points != b.points or a.staggered != b.staggered:
        raise ArrayError(
            f"{array!r} and {other!r} differ in shape or location; interpolate by a stencil or "
            "select equal parts."
        )
    if array.communicator != other.communicator:
        raise ArrayError(
            f"{array!r} and {other!r} live on different communicators; create both on one."
        )
    if a.decomposition != b.decomposition:
        raise ArrayError(
            f"{array!r} and {other!r} are spread differently over the ranks; use "
            "redistribute(like=...) on one of them."
        )
    raise ArrayError(f"{array!r} and {other!r} lie on different grids; create both on one grid.")


def require_same_device(array: DistArray | Profile, other: DistArray | Profile | Grid) -> None:
    """Refuse what lies on another device: nothing moves between devices silently. Local."""
    if array.device != other.device:
        raise ArrayError(
            f"{array!r} and {other!r} live on different devices; move one of them, as by "
            f".to({array.device!r})."
        )


def multiply(x: Any, y: Any, **options: Any) -> Any:
    """NumPy's multiply of values of the host, complex products by their real expansion. Local."""
    dtype = _complex_type(np.multiply, options, x, y)
    if dtype is None:
        return np.multiply(x, y, **options)
    return complexmath.product(np.asarray(x, dtype), np.asarray(y, dtype))


def divide(x: Any, y: Any, **options: Any) -> Any:
    """NumPy's true_divide, complex quotients by their real expansion. Local."""
    dtype = _complex_type(np.true_divide, options, x, y)
    if dtype is None:
        return np.true_divide(x, y, **options)
    return complexmath.quotient(np.asarray(x, dtype), np.asarray(y, dtype))


def square(x: Any, **options: Any) -> Any:
    """NumPy's square, complex squares by their real expansion. Local."""
    return multiply(x, x, **options) if np.result_type(x).kind == "c" else np.square(x, **options)


def reciprocal(x: Any, **options: Any) -> Any:
    """NumPy's reciprocal, complex ones by their real expansion. Local."""
    return divide(1, x, **options) if np.result_type(x).kind == "c" else np.reciprocal(x, **options)


def _complex_type(ufunc: np.ufunc, options: dict[str, Any], *values: Any) -> np.dtype[Any] | None:
    """The dtype a ufunc computes in if it is complex, else None."""
    if all(np.result_type(v).kind != "c" for v in values) and "dtype" not in options:
        return None
    dtype: np.dtype[Any] = ufunc(*map(_sample, values), **options).dtype
    return dtype if dtype.kind == "c" else None


_EXPANDED: dict[np.ufunc, Callable[..., Any]] = {
    np.multiply: multiply,
    np.true_divide: divide,
    np.square: square,
    np.reciprocal: reciprocal,
}
