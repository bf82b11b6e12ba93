"""Transforms of many lines in one call, by ducc0 or else by scipy, as `scipy.fft` defines them.

ducc0 is the faster one: it has vectors of the CPU's full width. Both are libraries of their own,
of which the first that is installed does all the work. This is the one place that imports them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import ArrayError, UnsupportedError, shown
from distarray.pencils import Lines
from distarray.regions import Box

#: What ducc0 calls the norms of transforms there; of those back it is 2 minus this.
_SCALES = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
#: What transforms are asked for by users.
NORMS = tuple(_SCALES)
#: The types of the transforms back.
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


@functools.cache
def library() -> tuple[str, ModuleType]:
    """The name and the module of the library that is used.

    Raises
    ------
    UnsupportedError
        Neither is installed.
    """
    try:
        import ducc0.fft

        return "ducc0", ducc0.fft
    except ImportError:
        pass
    try:
        import scipy.fft

        return "scipy", scipy.fft
    except ImportError:
        raise UnsupportedError(
            "Transforms need ducc0 or scipy, and neither is installed; install the extra fft (in "
            "a clone: pip install '.[fft]')."
        ) from None


#: Gives memory of a shape and an element type, filled with anything.
Take = Callable[[Sequence[int], np.dtype[Any]], HostArray]

#: The names of transforms that keep number and type of values.
_REAL = ("dct", "idct", "dst", "idst", "dht", "idht")


@dataclass(frozen=True)
class LineTransform:
    """A transform of lines as a step of `map_lines`: a cosine or sine transform as `scipy.fft`
    defines it, or that of Hartley, `X[k] = sum_i x[i] (cos + sin)(2 pi i k / n)`, which is its own
    inverse but for the factor that norms are about.

    Parameters
    ----------
    name : "dct", "idct", "dst", "idst", "dht" or "idht"
    type : int
        1, 2, 3 or 4, of cosine and sine transforms.
    norm : "backward", "ortho" or "forward", optional
        As of `dctn`.

    Raises
    ------
    ArrayError
        Another name, type or norm.
    UnsupportedError
        Neither ducc0 nor scipy is installed; for Hartley's, ducc0 is not.
    """

    name: str
    type: int = 2
    norm: str | None = None

    def __post_init__(self) -> None:
        for what, value, kinds, known in (
            ("name", self.name, str, _REAL),
            ("type", self.type, int | np.integer, (1, 2, 3, 4)),
            ("norm", self.norm, str | None, NORMS),
        ):
            if isinstance(value, bool) or not isinstance(value, kinds) or value not in known:
                raise ArrayError(
                    f"The {what} of a LineTransform is one of {', '.join(map(repr, known))}, got "
                    f"{shown(value)}; use one of them."
                )
        if library()[0] != "ducc0" and self.name.endswith("dht"):
            raise UnsupportedError(
                f"The transform {self.name} needs ducc0, found scipy alone; install the extra fft "
                "(in a clone: pip install '.[fft]')."
            )

    def along(self, axis: int, length: int, dtype: np.dtype[Any]) -> AxisTransform:
        """The transform along a grid axis of so many values.

        Raises
        ------
        ArrayError
            Integers, or too short a line for the type.
        """
        if dtype.kind not in "fc":
            raise ArrayError(
                f"A LineTransform takes real or complex values, got {dtype}; use astype first."
            )
        least = 2 if self.type == 1 and self.name.endswith("dct") else 1
        if length < least:
            raise ArrayError(
                f"{self.name} of type {self.type} needs at least {least} value{'s' * (least > 1)} "
                f"along its axis, got {length}; use another axis{' or type' * (length > 0)}."
            )
        return AxisTransform(self.name, axis, length, dtype, self.norm, int(self.type))


@dataclass(frozen=True)
class AxisTransform:
    """A transform along one grid axis; see `pencils.LineWork`.

    Attributes
    ----------
    name : str
        "fft", "ifft", "rfft", "irfft", "dct", "idct", "dst", "idst", "dht" or "idht".
    axis : int
    length : int
        Of the lines afterwards.
    dtype : of the values afterwards
    norm : "backward", "ortho", "forward" or None
    type : int or None
        Of cosine and sine transforms.
    """

    name: str
    axis: int
    length: int
    dtype: np.dtype[Any]
    norm: str | None
    type: int | None = None

    def __call__(self, lines: Lines, box: Box) -> Lines:
        made = transformed(
            self, lines.memory, lines.along, lines.room.take, overwrite=not lines.kept
        )
        return lines.made(made)


def transformed(
    what: AxisTransform, values: HostArray, axis: int, take: Take, *, overwrite: bool
) -> HostArray:
    """The transforms of all lines along an axis of 2-D memory, which may be lost if `overwrite`.

    They are in that memory, in memory that `take` gives, or in what the library makes.
    """
    if library()[0] == "ducc0":
        made: HostArray = _by_ducc0(what, values, axis, take, overwrite)
    else:
        made = _by_scipy(what, values, axis, overwrite)
    return made


def _by_scipy(what: AxisTransform, values: HostArray, axis: int, overwrite: bool) -> Any:
    module: Any = library()[1]
    options: dict[str, Any] = {"axis": axis, "norm": what.norm, "workers": 1}
    if what.type is not None:
        options["type"] = what.type
    if what.name == "irfft":
        options["n"] = what.length
    return getattr(module, what.name)(values, overwrite_x=overwrite, **options)


def _by_ducc0(
    what: AxisTransform, values: HostArray, axis: int, take: Take, overwrite: bool
) -> Any:
    module: Any = library()[1]
    back, scale = what.name.startswith("i"), _SCALES[what.norm]
    options: dict[str, Any] = {"axes": (axis,), "inorm": 2 - scale if back else scale}
    shape, kind = list(values.shape), np.result_type(values, np.complex64)
    shape[axis] = what.length
    if what.name == "rfft":
        return module.r2c(values, out=take(shape, kind), **options)
    if what.name == "irfft":
        options |= {"lastsize": what.length, "allow_overwriting_input": overwrite}
        out = take(shape, kind.type(0).real.dtype)
        return module.c2r(values.astype(kind, copy=False), forward=False, out=out, **options)
    if what.type is None:
        in_place = overwrite and values.dtype == kind
        out = values if in_place else take(shape, kind)
        return module.c2c(values, forward=not back, out=out, **options)
    # Of complex values real and imaginary parts each for itself, along one axis more.
    parts = values.dtype.kind == "c"
    numbers = values[..., None].view(values.real.dtype) if parts else values
    options |= {"out": numbers if overwrite else take(numbers.shape, numbers.dtype)}
    if what.name.endswith("dht"):
        made = module.separable_fht(numbers, **options)
    else:
        options |= {"type": _INVERSE[what.type] if back else what.type}
        made = getattr(module, what.name.removeprefix("i"))(numbers, **options)
    return made.view(values.dtype)[..., 0] if parts else made
