"""What solvers ask of their options, right-hand sides and first guesses. Functions are Local, but
for `Tolerances.require_alike`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import distarray as da
from solvers.box import shown

#: Called after each iteration with its number and the relative residual.
Callback = Callable[[int, float], Any]

#: Units of rounding, of all values together, that a mean may have and still count as zero.
_MEAN_ROUNDING = 32.0


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """How small a residual must be, and who is told. Creation is Local.

    Raises
    ------
    SolverError
        A tolerance that makes no sense, or a callback that is no function.
    """

    rtol: float = 1e-8
    atol: float = 0.0
    callback: Callback | None = None

    def __post_init__(self) -> None:
        if not (_is_number(self.rtol) and 0.0 <= self.rtol < 1.0):
            raise da.SolverError(
                f"rtol must be a number of at least 0 and below 1, got {shown(self.rtol)}; use "
                "1e-8."
            )
        if not (_is_number(self.atol) and 0.0 <= self.atol < math.inf):
            raise da.SolverError(
                f"atol must be a finite number of at least 0, got {shown(self.atol)}; use 0.0 for "
                "none."
            )
        if self.rtol == self.atol == 0.0:
            raise da.SolverError(
                "rtol and atol are both 0, which no residual falls below; give rtol=1e-8."
            )
        require_function_or_none("callback", self.callback)

    def require_alike(self, communicator: Any) -> None:
        """An error where ranks have different numbers: they would end at different iterations, and
        wait for each other. Collective; one small message.
        """
        if communicator.size == 1:
            return
        names = [one.name for one in fields(self) if _is_number(getattr(self, one.name))]
        numbers = np.array([getattr(self, name) for name in names], float)
        both = communicator.allreduce(np.concatenate((numbers, -numbers)), "max")
        for name, most, least in zip(names, both, -both[len(names) :], strict=False):
            if most != least:
                raise da.SolverError(
                    f"{name} differs between ranks, from {least:g} to {most:g}; pass the same on "
                    "all ranks."
                )

    def relative(self, scale: float) -> float:
        """The largest residual, relative to the size |b| of the right-hand side."""
        return max(self.rtol, self.atol / scale)

    def report(self, number: int, residual: float) -> None:
        """Tell the callback, if there is one."""
        if self.callback is not None:
            self.callback(number, residual)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def described(value: Any) -> str:
    """What an error says of a value, on one line and alike on all ranks: numbers, texts and arrays
    of grids as they are written, of anything else the type.
    """
    plain = value is None or isinstance(value, da.DistArray | da.Grid | str | complex | np.number)
    return repr(value) if plain or _is_number(value) else f"one of type {type(value).__name__}"


def require_whole(name: str, value: Any, least: int, instead: int) -> None:
    """An error unless an option is a whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise da.SolverError(
            f"{name} must be a whole number of at least {least}, got {shown(value)}; use {instead}."
        )


def require_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """An error unless an option is one of these names."""
    if not isinstance(value, str) or value not in choices:
        raise da.SolverError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}; name "
            "one of them."
        )


def require_bool(name: str, value: Any) -> None:
    """An error unless an option is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise da.SolverError(f"{name} must be True or False, got {shown(value)}; use one of them.")


def require_function_or_none(name: str, value: Any) -> None:
    """An error unless an option is a function or left out."""
    if value is not None and not callable(value):
        raise da.SolverError(
            f"{name}= takes a function, got {type(value).__name__}; leave it out for none."
        )


def require_guess(
    x0: Any, rhs: da.DistArray, alike: Sequence[str] = (), *, name: str = "x0"
) -> None:
    """An error unless a first guess (or another array, by its name) fits the right-hand side, with
    the same attributes `alike` besides those of all solvers.
    """
    if x0 is None:
        return
    if not isinstance(x0, da.DistArray):
        raise da.SolverError(
            f"{name} must be a DistArray like the right-hand side, got {type(x0).__name__}; leave "
            "it out for zeros."
        )
    if not _on_one_grid(x0, rhs):
        raise da.SolverError(
            f"{name} lies on another grid ({x0.grid!r}) than the right-hand side ({rhs.grid!r}); "
            "make both on one."
        )
    for attribute in ("shape", "components", "location", "device", *alike):
        mine, other = getattr(x0, attribute), getattr(rhs, attribute)
        if mine != other:
            raise da.SolverError(
                f"{name} and the right-hand side differ in {attribute}, {mine} and {other}; make "
                f"{name} by grid.zeros_like(rhs)."
            )


def _on_one_grid(u: da.DistArray, v: da.DistArray) -> bool:
    if u.grid is None or v.grid is None:
        return u.grid is v.grid
    return u.grid is v.grid or u.grid.same_as(v.grid)


def require_finite(size: float) -> None:
    """An error unless a norm, or the largest value, of the right-hand side is finite."""
    if not math.isfinite(size):
        raise da.SolverError(
            "The right-hand side has values that are not finite; look for them with abs(rhs).max()."
        )


def least_mean(
    tolerances: Tolerances, rounding: float, size: float, residual: float = 0.0
) -> float:
    """The size below which the mean of a right-hand side counts as zero: what the solution may
    leave of the `size` of it, and `rounding` of that and of the first residual. In the 2-norm.
    """
    rounding *= _MEAN_ROUNDING
    return max(max(tolerances.rtol, rounding) * size, rounding * residual, tolerances.atol)


def require_mean_zero(mean: Any, points: int, least: float) -> None:
    """An error for a right-hand side whose mean, as a vector of so many points, is longer than
    `least`, where the operator maps constants to zero.
    """
    if abs(mean) * math.sqrt(points) > least:
        raise da.SolverError(
            f"The right-hand side, with what conditions add to it, has the mean {mean:.6g}, but "
            "the operator maps constants to zero, so that there is a solution for mean zero "
            "alone; subtract the mean."
        )
