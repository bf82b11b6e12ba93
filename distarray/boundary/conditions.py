"""The boundary conditions a user writes. Immutable descriptions; nothing here knows an array or a
grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from distarray.arraylike import is_array
from distarray.errors import BoundaryError, shown

if TYPE_CHECKING:
    from distarray.array import DistArray


class Condition:
    """Base of all boundary conditions.

    With `d` the distance between boundary layer m = 1, 2, ... and its mirror point inside (cells (2
    m - 1) h, points lying on the face 2 m h) and `w` the value at the mirror point, each kind says
    what layer m holds.

    A value is a number, an array over the face (the global shape without the face's axis), or a
    function `f(t, *coords)`: `f(t, x)`, `f(t, x, y)` or `f(t, x, y, z)`, as the grid has axes. `t`
    is the time, and `coords` are the coordinates of the face points that a rank holds, one float64
    array per axis with an axis for each of the grid, so that they broadcast; the one along the
    face's axis has length 1 and is the position of the face. The function returns a number or an
    array that broadcasts with them. For an array with components a list or tuple holds one value
    per component; a function may return such a list or tuple. Arrays are copied.

    A function is evaluated on the ranks at the face: when the condition is assigned, at the time
    used last (0.0 at first), and when the time changes. Assign the condition again if it is to
    answer differently at the same time. A function that fails on some ranks at the assignment makes
    that fail on all of them. At a later time no rank waits for the others to agree: the error of
    one rank then ends the job with its traceback.

    Examples
    --------
    >>> import distarray as da
    >>> u = da.Grid((4, 2)).zeros(boundary={"x-": da.Neumann(1.0), "x+": da.Outflow()})
    >>> isinstance(u.boundary["x-"], da.Condition)
    True
    """

    #: Fields that may differ from component to component.
    value_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.value_fields:
            object.__setattr__(self, name, _frozen(getattr(self, name), type(self).__name__))

    @property
    def constant(self) -> bool:
        """Whether only numbers and arrays enter, so that the condition can be written to a file."""
        return all(_is_constant(getattr(self, name)) for name in self.value_fields)


@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """The value is `value` on the face: layer m holds 2 value - w.

    Points that lie on the face are fixed to the value: kernels do not write them, while reductions,
    `gather` and files see them. A point on two such faces takes the value of the later axis.

    Parameters
    ----------
    value : number, array over the face, or function f(t, *coords)
        The function gets the time and the coordinates of the face points, `f(t, x, y)` in two
        dimensions; see `Condition`.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0, 0] = u[-1, 0]
    >>> grid = da.Grid((2, 2))
    >>> u = grid.zeros(boundary={"x-": da.Dirichlet(lambda t, x, y: t + y)})
    >>> new = grid.zeros()
    >>> left(u, new, time=1.0)
    >>> new.gather()
    array([[2.5, 3.5],
           [0. , 0. ]])
    """

    value: Any = 0.0
    value_fields = ("value",)


@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """The outward normal derivative is `value` on the face: layer m holds w + d value.

    Parameters
    ----------
    value : number, array over the face, or function f(t, *coords)
        The function gets the time and the coordinates of the face points, `f(t, x, y)` in two
        dimensions; see `Condition`.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((4,))
    >>> u = grid.ones(boundary={"x-": da.Neumann(lambda t, x: 2.0 + t)})
    >>> new = grid.zeros()
    >>> left(u, new, time=2.0)
    >>> new.gather()
    array([2., 1., 1., 1.])
    """

    value: Any = 0.0
    value_fields = ("value",)


@dataclass(frozen=True, eq=False)
class Robin(Condition):
    """a u + b du/dn = c on the face, with u = (layer + w) / 2 and du/dn = (layer - w) / d, n
    pointing outward.

    Layer m holds 2 c d / (a d + 2 b) + (2 b - a d) / (a d + 2 b) w; a d + 2 b = 0 is refused
    wherever it is met. Points that lie on the face are left to the kernel and do not enter.

    Parameters
    ----------
    a, b, c : number, array over the face, or function f(t, *coords)
        A function gets the time and the coordinates of the face points, `f(t, x, y)` in two
        dimensions; see `Condition`.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((2,))
    >>> u = grid.ones(boundary={"x-": da.Robin(2.0, 0.5, lambda t, x: 4.0 * t)})
    >>> new = grid.zeros()
    >>> left(u, new, time=1.0)
    >>> new.gather()
    array([2., 1.])
    """

    a: Any
    b: Any
    c: Any
    value_fields = ("a", "b", "c")


@dataclass(frozen=True, eq=False)
class Symmetry(Condition):
    """Layer m holds sign w, with sign 1 (a scalar, a tangential component) or -1 (a normal
    component).

    Parameters
    ----------
    sign : {1, -1}, or a sequence of these
        A sequence holds one sign per component; no array over the face and no function.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((2,))
    >>> u, new = grid.ones(boundary={"x-": da.Symmetry(-1)}), grid.zeros()
    >>> left(u, new)
    >>> new.gather()
    array([-1.,  1.])
    """

    sign: Any = 1
    value_fields = ("sign",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _all_signs(self.sign):
            raise BoundaryError(
                "The sign of Symmetry must be 1 or -1, or a sequence of these for components, "
                f"not {shown(self.sign)}."
            )


@dataclass(frozen=True, eq=False)
class Extrapolate(Condition):
    """The layers continue the polynomial of this degree through the nearest cells.

    Points that lie on the face count among the nearest. Layer m is the sum of Lagrange weights
    times values, nearest first: with v1, v2 the nearest values and even spacing, (m + 1) v1 - m v2
    for degree 1.

    Parameters
    ----------
    degree : int
        At least 0; degree + 1 values are read along the axis.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((4,))
    >>> u = grid.from_function(lambda x: 8 * x, boundary={"x-": da.Extrapolate(1)})
    >>> new = grid.zeros()
    >>> left(u, new)
    >>> new.gather()
    array([-1.,  1.,  3.,  5.])
    """

    degree: int

    def __post_init__(self) -> None:
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not whole or self.degree < 0:
            raise BoundaryError(
                "The degree of Extrapolate must be an integer of at least 0, not "
                f"{shown(self.degree)}."
            )
        object.__setattr__(self, "degree", int(self.degree))


class Outflow(Extrapolate):
    """All layers hold the nearest value: Extrapolate(0).

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((4,))
    >>> u = grid.from_function(lambda x: 8 * x, boundary={"x-": da.Outflow()})
    >>> new = grid.zeros()
    >>> left(u, new)
    >>> new.gather()
    array([1., 1., 3., 5.])
    """

    def __init__(self) -> None:
        super().__init__(0)

    def __repr__(self) -> str:
        return "Outflow()"


@dataclass(frozen=True, eq=False)
class Piecewise(Condition):
    """`first` where `mask(*coords)` is true on the face, `second` elsewhere.

    Layer m holds what the condition chosen at its place says.

    Parameters
    ----------
    mask : function of *coords
        Gets the coordinates of the face points as the functions of values do, without the time:
        `mask(x, y)` in two dimensions. Returns bool; see `Condition` for the coordinates.
    first, second : Condition
        Their values are numbers, arrays over the face, or functions `f(t, *coords)`.

    Examples
    --------
    >>> import distarray as da
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0, 0] = u[-1, 0]
    >>> grid = da.Grid((2, 2))
    >>> heated = da.Piecewise(lambda x, y: y < 0.5, da.Dirichlet(1.0), da.Neumann(0.0))
    >>> u, new = grid.zeros(boundary={"x-": heated}), grid.zeros()
    >>> left(u, new)
    >>> new.gather()
    array([[2., 0.],
           [0., 0.]])
    """

    mask: Callable[..., Any]
    first: Condition
    second: Condition

    def __post_init__(self) -> None:
        if not callable(self.mask):
            raise BoundaryError(
                "The mask of Piecewise must be a function of the face coordinates, not "
                f"{shown(self.mask)}."
            )
        for condition in (self.first, self.second):
            require_condition(condition, "Piecewise")

    @property
    def constant(self) -> bool:
        return False


class Custom(Condition):
    """The layers are written by a stencil kernel: `kernel(u, *arrays)` with u the array that has
    the condition.

    Along the face's axis offsets count inward from the face, alike on low and high sides:

    * offset 0 is the layer being filled. The kernel writes u there, once for each layer m = 1, 2,
      ...; reading another array there gives that array's own layer m.
    * offset k >= 1 reads the k-th value inside, counted from the face, for every layer m: the k-th
      cell, or for values lying on the face the point on the face (k = 1) and the points behind it.
      Every array counts its own cells or points.

    Along the other axes offsets are the usual ones. In the array itself a non-zero offset there
    needs an axis that is periodic, or an earlier axis with conditions on its sides, since layers
    are filled axis by axis. `da.index(axis)` and `da.coordinate(axis)` along the face's axis are
    those of the layer. The kernel may name the keyword-only scalar `time`; other keyword-only
    parameters keep their defaults. It is traced when the condition is assigned. A kernel for an
    array with components writes all of them.

    Parameters
    ----------
    kernel : function or da.stencil kernel
    *arrays : DistArray
        Arrays on the same grid as u. Their halos are refreshed as the kernel needs them.

    Examples
    --------
    Layer m holds the nearest value inside plus the position of the layer, which is -0.25 here.

    >>> import distarray as da
    >>> def beyond(u):
    ...     u[0] = u[1] + da.coordinate(0)
    >>> @da.stencil
    ... def left(u, new):
    ...     new[0] = u[-1]
    >>> grid = da.Grid((2,))
    >>> u, new = grid.ones(boundary={"x-": da.Custom(beyond)}), grid.zeros()
    >>> left(u, new)
    >>> new.gather()
    array([0.75, 1.  ])
    """

    def __init__(self, kernel: Any, *arrays: Any) -> None:
        function = getattr(kernel, "function", kernel)
        if not callable(function):
            raise BoundaryError(
                "The kernel of Custom must be a function or a da.stencil kernel, not "
                f"{shown(kernel)}."
            )
        for array in arrays:
            if not is_array(array):
                raise BoundaryError(
                    f"The arrays of Custom must be DistArrays, not {type(array).__name__}; give "
                    "numbers as defaults "
                    "of keyword-only parameters of the kernel."
                )
        self.kernel = kernel
        self.function: Callable[..., Any] = function
        self.arrays: tuple[DistArray, ...] = arrays

    @property
    def constant(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Custom({getattr(self.function, '__name__', 'kernel')}, {len(self.arrays)} arrays)"


@dataclass(frozen=True, eq=False)
class Unset(Condition):
    """Stands for a condition that could not be stored; what asks for its values meets an error.

    Parameters
    ----------
    kind : str
        The kind of the condition that this stands for.
    message : str
        Text of the BoundaryError.
    """

    kind: str
    message: str

    @property
    def constant(self) -> bool:
        return False

    @property
    def fixes(self) -> bool:
        """Whether points that lie on the face may have been fixed."""
        return self.kind in {"Dirichlet", "Piecewise"}


def require_condition(condition: object, where: str) -> None:
    """Refuse what is no boundary condition."""
    if not isinstance(condition, Condition):
        raise BoundaryError(
            f"{where} takes boundary conditions such as da.Dirichlet(0.0) or da.Neumann(0.0), not "
            f"{shown(condition)}."
        )


def _frozen(value: Any, kind: str) -> Any:
    """The value with arrays copied and sequences as tuples."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        copied = value.copy()
        copied.flags.writeable = False
        return copied
    if isinstance(value, list | tuple):
        return tuple(_frozen(part, kind) for part in value)
    if isinstance(value, Number) or callable(value):
        return value
    raise BoundaryError(
        f"A value of {kind} must be a number, an array over the face, a function f(t, *coords) or "
        f"a sequence of these for components, not {shown(value)}."
    )


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if isinstance(value, tuple) else not callable(value)


def _all_signs(sign: Any) -> bool:
    if isinstance(sign, tuple):
        return all(map(_all_signs, sign))
    return isinstance(sign, int | float) and sign in (1, -1)
