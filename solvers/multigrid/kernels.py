"""The kernels of all levels, written once for any number of axes.

Functions here are Local: they make kernels, whose calls are Collective. The arrays of a kernel are
named per axis (`low0, low1, ...`), so that its parameters depend on the number of axes; `kernel`
gives a body of that many arrays the signature that `da.stencil` reads.

Symbols: u unknown, f right-hand side, low, high, own weights of `weights.Coupling` along an axis, t
coefficients on links.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import distarray as da

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any


@dataclass(frozen=True)
class Form:
    """What the coefficients of an operator look like; kernels are made for each form.

    Attributes
    ----------
    points : tuple of bool
        The axes along which the unknowns are points.
    links : bool
        Whether the coefficient a is given on the links; otherwise it is in the weights.
    field : bool
        Whether c is an array; otherwise it is in the weights.
    """

    points: tuple[bool, ...]
    links: bool
    field: bool

    @property
    def ndim(self) -> int:
        return len(self.points)

    @property
    def weights(self) -> tuple[str, ...]:
        """The attributes of `weights.Coupling` that kernels take along each axis."""
        return ("low", "high", "own_low", "own_high") if self.links else ("low", "high", "own")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, in the order in which kernels take them."""
        kinds = (*self.weights, "t") if self.links else self.weights
        along = tuple(f"{name}{axis}" for name in kinds for axis in range(self.ndim))
        return (*along, "c") if self.field else along


def kernel(
    name: str,
    body: Callable[..., Any],
    arrays: Sequence[str],
    *,
    scalars: Sequence[str] = (),
    static: Sequence[str] = (),
    colours: int = 1,
) -> da.StencilKernel:
    """A kernel with these parameters; `body` gets its arrays by name in one mapping. Local."""

    def function(*given: Symbol, **options: Symbol) -> Any:
        return body(dict(zip(arrays, given, strict=True)), **options)

    kinds = inspect.Parameter
    function.__name__ = function.__qualname__ = name
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kinds(array, kinds.POSITIONAL_ONLY) for array in arrays]
        + [kinds(scalar, kinds.KEYWORD_ONLY) for scalar in (*scalars, *static)]
    )
    return da.StencilKernel(function, static=tuple(static), colours=colours)


def _stencil(form: Form, arrays: dict[str, Symbol]) -> tuple[Symbol, Symbol]:
    """The sum over the neighbours of u, and what multiplies u itself: A u = own u - neighbours."""
    u, here = arrays["u"], (0,) * form.ndim
    neighbours: Symbol = 0.0
    own: Symbol = arrays["c"][here] if form.field else 0.0
    for axis, points in enumerate(form.points):
        low, high = (arrays[f"{name}{axis}"][0] for name in ("low", "high"))
        if form.links:
            t = arrays[f"t{axis}"]
            below, above = (t.shift(axis, n - points) for n in (0, 1))
            low, high = low * below, high * above
            own_low, own_high = (arrays[f"{name}{axis}"][0] for name in ("own_low", "own_high"))
            own = own + (own_low * below + own_high * above)
        else:
            own = own + arrays[f"own{axis}"][0]
        neighbours = neighbours + (low * u.shift(axis, -1) + high * u.shift(axis, 1))
    return neighbours, own


@functools.cache
def apply(form: Form) -> da.StencilKernel:
    """`out = A u`."""

    def body(arrays: dict[str, Symbol]) -> None:
        neighbours, own = _stencil(form, arrays)
        here = (0,) * form.ndim
        arrays["out"][here] = own * arrays["u"][here] - neighbours

    return kernel("multigrid_apply", body, ("u", "out", *form.names))


@functools.cache
def residual(form: Form) -> da.StencilKernel:
    """`r = f - A u`."""

    def body(arrays: dict[str, Symbol]) -> None:
        neighbours, own = _stencil(form, arrays)
        here = (0,) * form.ndim
        arrays["r"][here] = arrays["f"][here] + neighbours - own * arrays["u"][here]

    return kernel("multigrid_residual", body, ("u", "f", "r", *form.names))


@functools.cache
def square(form: Form) -> da.StencilKernel:
    """The sum of squares of `f - A u`."""

    def body(arrays: dict[str, Symbol], *, reproducible: bool) -> Any:
        neighbours, own = _stencil(form, arrays)
        here = (0,) * form.ndim
        r = arrays["f"][here] + neighbours - own * arrays["u"][here]
        return da.reduce.sum(r * r, reproducible=reproducible)

    return kernel("multigrid_square", body, ("u", "f", *form.names), static=("reproducible",))


@functools.cache
def gauss_seidel(form: Form) -> da.StencilKernel:
    """One red-black Gauss-Seidel sweep, relaxed by `omega`."""

    def body(arrays: dict[str, Symbol], *, omega: Symbol) -> None:
        neighbours, own = _stencil(form, arrays)
        u, here = arrays["u"], (0,) * form.ndim
        solved = (arrays["f"][here] + neighbours) / own
        u[here] = u[here] + omega * (solved - u[here])

    arrays = ("u", "f", *form.names)
    return kernel("multigrid_red_black", body, arrays, scalars=("omega",), colours=2)


@functools.cache
def chebyshev(form: Form) -> da.StencilKernel:
    """`old = u + keep (u - old) + step (f - A u) / own`: afterwards `old` is the newer iterate."""

    def body(arrays: dict[str, Symbol], *, keep: Symbol, step: Symbol) -> None:
        neighbours, own = _stencil(form, arrays)
        here = (0,) * form.ndim
        u, old = arrays["u"][here], arrays["old"][here]
        change = (arrays["f"][here] + neighbours) / own - u
        arrays["old"][here] = u + keep * (u - old) + step * change

    return kernel(
        "multigrid_chebyshev", body, ("u", "old", "f", *form.names), scalars=("keep", "step")
    )


@functools.cache
def lift(form: Form) -> da.StencilKernel:
    """`b = f + ` what the conditions of z, which is zero inside, add to the equations."""
    weights = [f"{name}{axis}" for name in ("low", "high") for axis in range(form.ndim)]
    links = [f"t{axis}" for axis in range(form.ndim)] if form.links else []

    def body(arrays: dict[str, Symbol]) -> None:
        z, here = arrays["z"], (0,) * form.ndim
        total = arrays["f"][here]
        for axis, points in enumerate(form.points):
            low, high = (arrays[f"{name}{axis}"][0] for name in ("low", "high"))
            if form.links:
                t = arrays[f"t{axis}"]
                low, high = low * t.shift(axis, -int(points)), high * t.shift(axis, 1 - points)
            total = total + (low * z.shift(axis, -1) + high * z.shift(axis, 1))
        arrays["b"][here] = total

    return kernel("multigrid_lift", body, ("z", "f", "b", *weights, *links))


@functools.cache
def weighted_sum(ndim: int) -> da.StencilKernel:
    """The sum of u times the volumes that belong to its points."""
    volumes = [f"v{axis}" for axis in range(ndim)]

    def body(arrays: dict[str, Symbol], *, reproducible: bool) -> Any:
        value = arrays["u"][(0,) * ndim]
        for name in volumes:
            value = value * arrays[name][0]
        return da.reduce.sum(value, reproducible=reproducible)

    return kernel("multigrid_volume_sum", body, ("u", *volumes), static=("reproducible",))


@functools.cache
def add_number(ndim: int) -> da.StencilKernel:
    """`u += value`."""

    def body(arrays: dict[str, Symbol], *, value: Symbol) -> None:
        u, here = arrays["u"], (0,) * ndim
        u[here] = u[here] + value

    return kernel("multigrid_add", body, ("u",), scalars=("value",))


# ---- between levels, along one axis


@functools.cache
def restrict(ndim: int, axis: int, offsets: tuple[int, ...], *, inverse: bool = False) -> Any:
    """`c = ` weighted sum of fine values 2 i + d along an axis; with `inverse` the weighted
    harmonic mean.
    """
    weights = [f"w{number}" for number in range(len(offsets))]

    def body(arrays: dict[str, Symbol]) -> None:
        fine, total = arrays["f"].fine, 0.0
        for name, offset in zip(weights, offsets, strict=True):
            value = fine.shift(axis, offset)
            total = total + (arrays[name][0] / value if inverse else arrays[name][0] * value)
        arrays["c"][(0,) * ndim] = 1.0 / total if inverse else total

    return kernel(f"multigrid_restrict_{axis}", body, ("f", "c", *weights))


@functools.cache
def prolong(ndim: int, axis: int, *, add: bool) -> da.StencilKernel:
    """`f = ` interpolated values along an axis, or `f += ` them."""

    def body(arrays: dict[str, Symbol]) -> None:
        coarse, f, here = arrays["c"].coarse, arrays["f"], (0,) * ndim
        total = arrays["w1"][0] * coarse.shift(axis, 0)
        total = total + (
            arrays["w0"][0] * coarse.shift(axis, -1) + arrays["w2"][0] * coarse.shift(axis, 1)
        )
        f[here] = f[here] + total if add else total

    return kernel(f"multigrid_prolong_{axis}", body, ("c", "f", "w0", "w1", "w2"))


@functools.cache
def restrict_by_shares(
    ndim: int, axis: int, offsets: tuple[tuple[int, bool], ...]
) -> da.StencilKernel:
    """As `restrict`, where the share s of a fine value belongs to the neighbour of its own coarse
    one: with each offset comes whether it is taken by its own.
    """
    weights = [f"w{number}" for number in range(len(offsets))]

    def body(arrays: dict[str, Symbol]) -> None:
        fine, shares, total = arrays["f"].fine, arrays["s"].fine, 0.0
        for name, (offset, own) in zip(weights, offsets, strict=True):
            share = shares.shift(axis, offset)
            part = 1.0 - share if own else share
            total = total + arrays[name][0] * part * fine.shift(axis, offset)
        arrays["c"][(0,) * ndim] = total

    return kernel(f"multigrid_restrict_by_shares_{axis}", body, ("f", "c", "s", *weights))


@functools.cache
def prolong_by_shares(ndim: int, axis: int, *, add: bool) -> da.StencilKernel:
    """As `prolong`, s being the share of the neighbour that `low` and `high` choose."""

    def body(arrays: dict[str, Symbol]) -> None:
        coarse, f, here = arrays["c"].coarse, arrays["f"], (0,) * ndim
        own, share = coarse.shift(axis, 0), arrays["s"][here]
        low, high = (arrays[name][0] for name in ("low", "high"))
        neighbour = low * coarse.shift(axis, -1) + high * coarse.shift(axis, 1)
        total = own + share * (neighbour - own)
        f[here] = f[here] + total if add else total

    return kernel(f"multigrid_prolong_by_shares_{axis}", body, ("c", "f", "s", "low", "high"))


@functools.cache
def shares(ndim: int, axis: int, *, points: bool) -> da.StencilKernel:
    """The share of the resistance between two coarse unknowns that lies before a fine one.

    Links of lengths `near`, `middle` and `far` are in series; `up` chooses the direction.
    """

    def body(arrays: dict[str, Symbol]) -> None:
        t, up = arrays["t"], arrays["up"][0]
        lengths = [arrays[name][0] for name in ("near", "middle", "far")]
        offsets = ((-1, -1), (0, 0), (0, 0)) if points else ((0, 1), (1, 0), (2, -1))
        near, middle, far = (
            length / da.where(up > 0.5, t.shift(axis, above), t.shift(axis, below))
            for length, (above, below) in zip(lengths, offsets, strict=True)
        )
        arrays["s"][(0,) * ndim] = near / (near + middle + far)

    return kernel(f"multigrid_shares_{axis}", body, ("t", "s", "near", "middle", "far", "up"))


@functools.cache
def mean(ndim: int, axis: int, *, harmonic: bool) -> da.StencilKernel:
    """Means of the cells beside points of an axis; `p` and `q` are the shares of the distance in
    the cell below and in that above.
    """

    def body(arrays: dict[str, Symbol]) -> None:
        below, above = (arrays["a"].shift(axis, n) for n in (-1, 0))
        p, q = arrays["p"][0], arrays["q"][0]
        arrays["out"][(0,) * ndim] = (
            1.0 / (p / below + q / above) if harmonic else q * below + p * above
        )

    return kernel(f"multigrid_mean_{axis}", body, ("a", "out", "p", "q"))
