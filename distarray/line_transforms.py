"""Transforms of many lines in one call, by ducc0 or else by scipy, as `scipy.fft` defines them.

ducc0 is the faster one: it has vectors of the CPU's full width. Both are libraries of their own,
of which the first that is installed does all the work. This is the one place that imports them.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import UnsupportedError

#: What ducc0 calls the norms of transforms there; of those back it is 2 minus this.
_SCALES = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
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


class Transform(Protocol):
    """What to do with lines.

    Attributes
    ----------
    name : str
        "fft", "ifft", "rfft", "irfft", "dct", "idct", "dst" or "idst".
    length : int
        Of the lines afterwards.
    norm : "backward", "ortho", "forward" or None
    type : int or None
        Of cosine and sine transforms.
    """

    @property
    def name(self) -> str: ...

    @property
    def length(self) -> int: ...

    @property
    def norm(self) -> str | None: ...

    @property
    def type(self) -> int | None: ...


def transformed(what: Transform, values: HostArray, axis: int, *, overwrite: bool) -> HostArray:
    """The transforms of all lines along an axis of 2-D memory, which may be lost if `overwrite`."""
    which, module = library()
    by = _by_ducc0 if which == "ducc0" else _by_scipy
    made: HostArray = by(module, what, values, axis, overwrite)
    return made


def _by_scipy(module: Any, what: Transform, values: HostArray, axis: int, overwrite: bool) -> Any:
    options: dict[str, Any] = {"axis": axis, "norm": what.norm, "workers": 1}
    if what.type is not None:
        options["type"] = what.type
    if what.name == "irfft":
        options["n"] = what.length
    return getattr(module, what.name)(values, overwrite_x=overwrite, **options)


def _by_ducc0(module: Any, what: Transform, values: HostArray, axis: int, overwrite: bool) -> Any:
    back, scale = what.name.startswith("i"), _SCALES[what.norm]
    options: dict[str, Any] = {"axes": (axis,), "inorm": 2 - scale if back else scale}
    if what.name == "rfft":
        return module.r2c(values, **options)
    if what.name == "irfft":
        options["allow_overwriting_input"] = overwrite
        values = values.astype(np.result_type(values, np.complex64), copy=False)
        return module.c2r(values, lastsize=what.length, forward=False, **options)
    if what.type is None:
        in_place = overwrite and values.dtype.kind == "c"
        return module.c2c(values, forward=not back, out=values if in_place else None, **options)
    # Of complex values real and imaginary parts each for itself, along one axis more.
    parts = values.dtype.kind == "c"
    numbers = values[..., None].view(values.real.dtype) if parts else values
    options |= {"type": _INVERSE[what.type] if back else what.type}
    options |= {"out": numbers if overwrite else None}
    made = getattr(module, what.name.removeprefix("i"))(numbers, **options)
    return made.view(values.dtype)[..., 0] if parts else made
