"""The kernels that `tune` and `model` know by name, and those of a user."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm import SerialCommunicator
from distarray.errors import StencilError, shown
from distarray.grid import Grid
from distarray.kernels.apply import StencilKernel, stencil
from distarray.stencil import analysis
from distarray.stencil.expression import Program

#: Weights of the second derivative of 8th order at the offsets 0, 1, 2, 3, 4 (Fornberg 1988,
#: Mathematics of Computation 51, table 1).
_WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)

#: Cells that a kernel may read beyond its own.
_WIDEST = 16


@stencil
def heat(u: Any, new: Any, *, r: Any) -> None:
    """One explicit step of the heat equation: 7 points on three axes."""
    here = (0,) * u.ndim
    around = sum(u.shift(axis, step) for axis in range(u.ndim) for step in (1, -1))
    new[here] = u[here] + r * (around - 2.0 * u.ndim * u[here])


@stencil
def wave(old: Any, now: Any, new: Any, *, r: Any) -> None:
    """One leap-frog step of the wave equation, of 8th order in space: 25 points on three axes."""
    here = (0,) * now.ndim
    curved = now.ndim * _WEIGHTS[0] * now[here]
    for step in range(1, len(_WEIGHTS)):
        around = sum(now.shift(axis, s) for axis in range(now.ndim) for s in (step, -step))
        curved = curved + _WEIGHTS[step] * around
    new[here] = 2.0 * now[here] - old[here] + r * curved


@dataclass(frozen=True)
class Case:
    """A kernel and how a loop of it is run.

    Attributes
    ----------
    name : str
    kernel : StencilKernel
    scalars : of each step
    rotate : positions of the arrays that rotate
    """

    name: str
    kernel: StencilKernel
    scalars: dict[str, Any]
    rotate: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of its arrays."""
        parameters = inspect.signature(self.kernel.function).parameters.values()
        return sum(one.kind is not one.KEYWORD_ONLY for one in parameters)

    @property
    def cycle(self) -> int:
        """Number of steps after which the arrays are in their places again."""
        return max(1, len(self.rotate))

    def program(self, ndim: int, dtype: Any) -> Program:
        """What it is on so many axes. Local.

        Raises
        ------
        StencilError
            It is not for so many axes, or not for this element type.
        """
        grid = Grid(
            (2 * _WIDEST,) * ndim, periodic=True, halo=_WIDEST, comm=SerialCommunicator(),
            device="cpu",
        )  # fmt: skip
        arrays = [grid.empty(dtype) for _ in range(self.count)]
        return self.kernel.prepare(arrays, dict(self.scalars), 0.0)[0].program

    def arrays(self, grid: Grid, dtype: Any) -> list[DistArray]:
        """Arrays to run it on, which hold waves around 1. Collective."""
        first = grid.from_function(_waves, dtype)
        return [first, *(first.copy() for _ in range(1, self.count))]


def reach_of(program: Program) -> int:
    """How far a program reads along some axis. Local."""
    widths = (width for ends in analysis.halo(program).values() for pair in ends for width in pair)
    return max(widths, default=0)


def _waves(*position: Any) -> Any:
    return 1.0 + 0.25 * math.prod(np.sin(2 * np.pi * x) for x in position)


#: Kernels with a name: scalars with which their steps are stable, and arrays that rotate.
NAMED = {
    "heat": Case("heat", heat, {"r": 0.1}, (0, 1)),
    "wave": Case("wave", wave, {"r": 0.1}, (0, 1, 2)),
}


def case_of_name(name: str, scalars: Sequence[str] = (), rotate: Sequence[int] = ()) -> Case:
    """The kernel that the command line names. Local.

    Parameters
    ----------
    name : str
        One of `NAMED`, or MODULE:KERNEL.
    scalars : sequence of "NAME=VALUE"
        Of the kernel of a user; those of named ones may be changed.
    rotate : sequence of int
        By default as named, or (0, 1).

    Raises
    ------
    StencilError
        No such kernel, module or scalar, a scalar without a value, or arrays that cannot rotate.
    """
    found = NAMED.get(name) or Case(name, _imported(name), {}, (0, 1))
    values = found.scalars | dict(map(_value, scalars))
    needed = [n for n in found.kernel.scalar_names if n not in ("time", "dt")]
    missing, unknown = sorted(set(needed) - set(values)), sorted(set(values) - set(needed))
    if missing or unknown:
        problem = f"needs a value for {missing[0]}" if missing else f"has no scalar {unknown[0]}"
        raise StencilError(
            f"The kernel {name} {problem}; give --scalar NAME=VALUE for each of "
            f"{', '.join(needed) or 'none'}."
        )
    case = Case(name, found.kernel, values, tuple(rotate) or found.rotate)
    if len(set(case.rotate)) != case.cycle or not set(case.rotate) <= set(range(case.count)):
        raise StencilError(
            f"The kernel {name} has {case.count} arrays, of which {case.rotate} cannot rotate; "
            f"give --rotate different numbers from 0 to {case.count - 1}."
        )
    return case


def _imported(name: str) -> StencilKernel:
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise StencilError(
            f"The kernel {shown(name)} is unknown; give {', '.join(NAMED)} or MODULE:KERNEL."
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever importing a user's module raises
        raise StencilError(
            f"The kernel {name} cannot be imported ({type(error).__name__}: {error}); give the "
            "module as Python would import it from here."
        ) from error
    if not isinstance(found, StencilKernel):
        raise StencilError(f"{name} is no kernel but {shown(found)}; decorate it with da.stencil.")
    return found


def _value(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name.strip(), int(number) if number.strip().isdecimal() else float(number)
    except ValueError:
        raise StencilError(
            f"The scalar {shown(text)} is no NAME=VALUE with a number; correct it."
        ) from None
