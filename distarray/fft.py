"""Fourier, cosine and sine transforms of distributed arrays, as `scipy.fft` defines them.

Each function transforms one axis after the other (see `pencils`) by a library's transforms of
single lines, on the host, also for arrays on another device. The order of the axes is fixed, and
lines are transformed in full groups of vectors, so that the bits are the same on any process grid.

The result is an array of no grid, without halo, in the process grid in which the last axis
transformed is whole: that is the first axis for forward transforms, and the last for inverse ones,
which bring the values of slabs and pencils (cut along the first axis, or the first two of three)
back to where they were. `ranks=`, `like=` or `out=` choose another placement; `like=field` makes
the result of an inverse transform a field on that grid.

This needs ducc0, the extra `fft`, or scipy; the former is faster.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray import line_transforms
from distarray.arguments import fewer_ranks
from distarray.array import DistArray
from distarray.decomposition import Decomposition
from distarray.elementwise import require_array, require_same_device
from distarray.errors import ArrayError, shown
from distarray.layout import Layout
from distarray.line_transforms import NORMS, AxisTransform, LineTransform
from distarray.lines import carry_out
from distarray.placement import placed_like

if TYPE_CHECKING:
    from distarray.grid import Grid

__all__ = ["LineTransform", "dctn", "dstn", "fftn", "idctn", "idstn", "ifftn", "irfftn", "rfftn"]

Axes = int | str | Sequence[int | str] | None
Ranks = Sequence[int] | None


def fftn(
    u: DistArray,
    *,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The discrete Fourier transform of real or complex values, as `scipy.fft.fftn`. Collective.

    Parameters
    ----------
    u : DistArray
        Components are transformed each for itself. Integers are taken as float64.
    axes : int, str or sequence of these, optional
        Numbers of axes (components counted, as in the shape) or names of grid axes; all grid axes
        by default.
    norm : "backward", "ortho", "forward" or None
        Where the factor 1 / n goes, as in scipy; None is "backward".
    ranks : sequence of int, optional
        Process grid of the result.
    like : DistArray or Grid, optional
        Place the result as this is placed, on its grid if it has one.
    out : DistArray, optional
        Takes the result; of its shape and element type, and on any process grid.

    Returns
    -------
    DistArray
        complex64 for float32 and complex64, else complex128; placed as the module says, or `out`.

    Raises
    ------
    ArrayError
        Axes that the array does not have, components, or the same twice; an axis without elements;
        a norm that there is not; `like` or `out` of another shape, element type or communicator.
    UnsupportedError
        Neither ducc0 nor scipy is installed.

    Examples
    --------
    >>> import distarray as da
    >>> u = da.ones((4, 6))
    >>> complex(da.fft.fftn(u)[0, 0])
    (24+0j)
    """
    axes, norm = _checked(u, axes, norm, "fftn")
    kind = _complex_type(u)
    steps = [AxisTransform("fft", axis, u.layout.points[axis], kind, norm) for axis in axes[::-1]]
    return _transformed("fftn", u, steps, _Place(ranks, like, out))


def ifftn(
    u: DistArray,
    *,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The inverse of `fftn`, with its parameters, result and errors. Collective."""
    axes, norm = _checked(u, axes, norm, "ifftn")
    kind = _complex_type(u)
    steps = [AxisTransform("ifft", axis, u.layout.points[axis], kind, norm) for axis in axes]
    return _transformed("ifftn", u, steps, _Place(ranks, like, out))


def rfftn(
    u: DistArray,
    *,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The Fourier transform of real values without the half that follows by symmetry, as
    `scipy.fft.rfftn`. Collective.

    Parameters and errors are those of `fftn`; complex values are an ArrayError too.

    Returns
    -------
    DistArray
        As of `fftn`; of the n elements along the last of `axes` n // 2 + 1 are left.
    """
    axes, norm = _checked(u, axes, norm, "rfftn")
    if u.dtype.kind == "c":
        raise ArrayError(f"rfftn takes real values, got {u!r}; use fftn or the real part.")
    kind, points, last = _complex_type(u), u.layout.points, axes[-1]
    steps = [AxisTransform("rfft", last, points[last] // 2 + 1, kind, norm)]
    steps += [AxisTransform("fft", axis, points[axis], kind, norm) for axis in axes[-2::-1]]
    return _transformed("rfftn", u, steps, _Place(ranks, like, out))


def irfftn(
    u: DistArray,
    *,
    axes: Axes = None,
    length: int | None = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The inverse of `rfftn`. Collective.

    Parameters and errors are those of `fftn`, and besides:

    Parameters
    ----------
    length : int, optional
        Elements of the result along the last of `axes`, where `u` has n: 2 (n - 1), which is the
        default, or 2 (n - 1) + 1, which is the only one for n = 1.

    Returns
    -------
    DistArray
        float32 for complex64 and float32, else float64; placed as that of `fftn`.
    """
    axes, norm = _checked(u, axes, norm, "irfftn")
    points, last = u.layout.points, axes[-1]
    length = _checked_length(u, length, points[last])
    kind = _complex_type(u)
    steps = [AxisTransform("ifft", axis, points[axis], kind, norm) for axis in axes[:-1]]
    steps += [AxisTransform("irfft", last, length, np.empty(0, kind).real.dtype, norm)]
    return _transformed("irfftn", u, steps, _Place(ranks, like, out))


def dctn(
    u: DistArray,
    *,
    type: int = 2,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The cosine transform of type 1, 2, 3 or 4, as `scipy.fft.dctn`. Collective.

    Parameters, placement and errors are those of `fftn`; a type that there is not, and type 1 of an
    axis of one element, are an ArrayError. Real and imaginary parts of complex values are
    transformed each for itself.

    Returns
    -------
    DistArray
        Of the element type of `u`; float64 for integers.
    """
    place = _Place(ranks, like, out)
    return _trigonometric("dct", u, type, place, axes=axes, norm=norm)


def idctn(
    u: DistArray,
    *,
    type: int = 2,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The inverse of `dctn` of the same type; parameters, result and errors are its. Collective."""
    place = _Place(ranks, like, out)
    return _trigonometric("idct", u, type, place, axes=axes, norm=norm)


def dstn(
    u: DistArray,
    *,
    type: int = 2,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The sine transform of type 1, 2, 3 or 4, as `scipy.fft.dstn`; parameters, result and errors
    as of `dctn`. Collective.
    """
    place = _Place(ranks, like, out)
    return _trigonometric("dst", u, type, place, axes=axes, norm=norm)


def idstn(
    u: DistArray,
    *,
    type: int = 2,
    axes: Axes = None,
    norm: str | None = None,
    ranks: Ranks = None,
    like: DistArray | Grid | None = None,
    out: DistArray | None = None,
) -> DistArray:
    """The inverse of `dstn` of the same type; parameters, result and errors are its. Collective."""
    place = _Place(ranks, like, out)
    return _trigonometric("idst", u, type, place, axes=axes, norm=norm)


def _trigonometric(
    name: str, u: DistArray, type: Any, place: _Place, *, axes: Axes, norm: str | None
) -> DistArray:
    caller = f"{name}n"
    axes, norm = _checked(u, axes, norm, caller)
    if not isinstance(type, int | np.integer) or isinstance(type, bool) or not 1 <= type <= 4:
        raise ArrayError(f"{caller} has types 1 to 4, got type={shown(type)}; use one of them.")
    points = u.layout.points
    if name.endswith("dct") and type == 1 and any(points[axis] == 1 for axis in axes):
        raise ArrayError(
            f"{caller} of type 1 needs at least 2 elements along each axis, got {u!r}; use another "
            "type."
        )
    order = axes if name.startswith("i") else axes[::-1]
    kind = u.dtype if u.dtype.kind in "fc" else np.dtype(float)
    steps = [AxisTransform(name, axis, points[axis], kind, norm, int(type)) for axis in order]
    return _transformed(caller, u, steps, place)


def _checked(
    u: DistArray, axes: Axes, norm: str | None, caller: str
) -> tuple[tuple[int, ...], str | None]:
    """Numbers of grid axes, components not counted, and the norm."""
    require_array(u, caller)
    line_transforms.library()
    if not (norm is None or isinstance(norm, str)) or norm not in NORMS:
        raise ArrayError(
            f"{caller} has the norms 'backward', 'ortho' and 'forward', got norm={shown(norm)}; "
            "use one of them."
        )
    if axes is None:
        chosen = tuple(range(u.layout.ndim))
    else:
        given = list(axes) if isinstance(axes, list | tuple | range) else [axes]
        chosen = tuple(_grid_axis(u, axis, caller) for axis in given)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ArrayError(
            f"{caller} takes each axis once and at least one, got axes={shown(axes)}; correct it."
        )
    if any(u.layout.points[axis] == 0 for axis in chosen):
        raise ArrayError(f"{caller} needs elements along its axes, got {u!r}; leave such axes out.")
    return chosen, norm


def _grid_axis(u: DistArray, axis: Any, caller: str) -> int:
    if isinstance(axis, str) and u.grid is not None:
        return u.grid.axis_number(axis)
    depth = len(u.components)
    try:
        number = u.ndim if isinstance(axis, bool) else operator.index(axis)
    except TypeError:
        number = u.ndim
    if not -u.ndim <= number < u.ndim or number % u.ndim < depth:
        raise ArrayError(
            f"{caller} has no axis {shown(axis)} to transform in {u!r}; use {depth} to "
            f"{u.ndim - 1}."
        )
    return number % u.ndim - depth


def _checked_length(u: DistArray, length: int | None, points: int) -> int:
    lengths = [n for n in (2 * points - 2, 2 * points - 1) if n]
    if length is None:
        return lengths[0]
    whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
    if not whole or length not in lengths:
        raise ArrayError(
            f"irfftn of {points} elements gives {' or '.join(map(str, lengths))}, got "
            f"length={shown(length)} for {u!r}; use {lengths[0]}."
        )
    return int(length)


def _complex_type(u: DistArray) -> np.dtype[Any]:
    return np.dtype(np.complex64 if u.dtype in (np.float32, np.complex64) else np.complex128)


@dataclass(frozen=True)
class _Place:
    """Where the caller wants the result: at most one of these."""

    ranks: Ranks
    like: DistArray | Grid | None
    out: DistArray | None


def _transformed(
    caller: str, u: DistArray, steps: Sequence[AxisTransform], place: _Place
) -> DistArray:
    """Carry the transforms out. Collective."""
    if sum(choice is not None for choice in (place.ranks, place.like, place.out)) > 1:
        raise ArrayError(
            f"{caller} takes one of ranks=, like= and out=, got several; leave the others out."
        )
    if u.dtype.kind not in "fc":
        u = u.astype(float)
    return carry_out(steps, u, _target(caller, u, steps, place))


def _target(
    caller: str, u: DistArray, steps: Sequence[AxisTransform], place: _Place
) -> DistArray | None:
    """The array for the result where the caller chooses it."""
    points, out = list(u.layout.points), place.out
    for step in steps:
        points[step.axis] = step.length
    layout = Layout(
        Decomposition(points, (1,) * u.layout.ndim),
        (False,) * u.layout.ndim,
        (0,) * u.layout.ndim,
        u.components,
        steps[-1].dtype,
    )
    if place.ranks is not None:
        chosen = fewer_ranks(tuple(points), u.communicator.size, place.ranks, halo=0)
        layout = replace(layout, decomposition=Decomposition(points, chosen))
        return u._place(layout, u.topology.divided(layout.decomposition))
    if place.like is not None:
        return placed_like(u, place.like, layout, caller)
    if out is None:
        return None
    require_array(out, caller)
    require_same_device(out, u)
    if (out.shape, out.dtype, out.communicator) != (layout.shape, layout.dtype, u.communicator):
        raise ArrayError(
            f"{out!r} cannot take what {caller} makes of {u!r}: shape {layout.shape} of "
            f"{layout.dtype}, on the same communicator; make it so, or leave out= away."
        )
    return out
