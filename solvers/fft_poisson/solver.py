"""The Poisson and Helmholtz equations in the cells of a box, solved directly to round-off."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

import distarray as da
from solvers.fft_poisson.modes import Modes
from solvers.fft_poisson.transforms import BY_ENDS, LIBRARY, Array, Hartley, LineMap
from solvers.fft_poisson.tridiagonal import StretchedAxis
from solvers.linear import Solution, inputs
from solvers.multigrid import EllipticOperator
from solvers.multigrid.discrete import mean_of

#: The relative residual that counts as solved: round-off, times the condition of fine grids.
_SOLVED = 1e-10


class FFTPoisson:
    """Solves `-lap(u) + c u = f` on one grid. Creation is Collective.

    Each axis is transformed to the modes of its second difference, which is then a number for each
    mode (`transforms`); along one stretched axis a tridiagonal system is solved for each mode of
    the others (`tridiagonal`), and lines of more such axes are multiplied with their modes
    (`modes`), n operations for each value. Lines are transformed by the host, also those of arrays
    on another device: by ducc0 where it is installed (the extra `fft`); else by scipy, if that is,
    but for periodic axes; else by NumPy, which took 1.9 s instead of 0.4 s for 256^3 cells on two
    ranks (`python -m solvers.fft_poisson.bench`). The bits are the same on any process grid.

    The operator is that of `solvers.multigrid.EllipticOperator`: second order, with conditions at
    the faces.

    Parameters
    ----------
    grid : Grid
        Of any number of axes, uniform or stretched.
    boundary : mapping, optional
        A condition for each side that is not periodic, as arrays take them: those whose homogeneous
        part is zero value (`da.Dirichlet`) or zero normal derivative (`da.Neumann`). Values may be
        numbers, arrays over the face or functions of time and place.
    c : number
        Not below 0, in 1 / length^2.

    Attributes
    ----------
    operator : EllipticOperator
        What is inverted.

    Raises
    ------
    SolverError
        Other conditions, or a negative c.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.fft_poisson import FFTPoisson
    >>> grid = da.Grid((4,))
    >>> poisson = FFTPoisson(grid, {"x-": da.Dirichlet(0.0), "x+": da.Dirichlet(1.0)})
    >>> poisson.solve(grid.zeros()).x.gather().round(12)
    array([0.125, 0.375, 0.625, 0.875])
    """

    def __init__(
        self, grid: da.Grid, boundary: Mapping[str, Any] | None = None, *, c: float = 0.0
    ) -> None:
        if isinstance(c, da.DistArray):
            raise da.SolverError("c must be a number, got an array; use solvers.multigrid.")
        self.operator = EllipticOperator(grid, c=c, boundary=boundary)
        self._c, self._boundary = float(c), boundary
        self._last = 0  # the axis along which all modes of the others are solved
        self._stretched: StretchedAxis | None = None
        self._transforms: dict[int, LineMap] = {}
        self._values: dict[int, Array] = {}
        for axis in range(grid.ndim):
            self._prepare(axis)
        steps = {axis: self._steps(axis) for axis in self._transforms}
        if self._stretched is None:
            self._modes_there_and_back = steps.pop(self._last)
        self._forward = [(axis, steps[axis][0]) for axis in sorted(steps, reverse=True)]
        self._backward = [(axis, steps[axis][1]) for axis in sorted(steps)]

    @property
    def singular(self) -> bool:
        """Whether constants are mapped to zero: the solution is then determined up to one."""
        return self.operator.singular

    def solve(
        self,
        rhs: da.DistArray,
        x0: da.DistArray | None = None,
        *,
        rtol: float = _SOLVED,
        time: float = 0.0,
    ) -> Solution:
        """Solve for a right-hand side. Collective.

        Parameters
        ----------
        rhs : DistArray
            f, float64 in the cells of the grid. The values of the conditions are added to it: b.
        x0 : DistArray, optional
            Not needed here; iterative solvers start from it.
        rtol : float
            The residual relative to |b| that counts as converged, above 0 and below 1.
        time : float
            At which functions of conditions are evaluated.

        Returns
        -------
        Solution
            `x` has the conditions. Where the operator is singular its mean is zero.

        Raises
        ------
        SolverError
            rtol out of range; a right-hand side that does not fit the grid, is not finite, or has a
            mean where the operator is singular; a first guess that does not fit.
        """
        limits = inputs.Tolerances(rtol=rtol)
        operator = self.operator
        self._require_right_hand_side(rhs)
        inputs.require_guess(x0, rhs)
        b = operator.zeros()
        operator.rhs(rhs, b, time=time)
        size = float(da.norm(b, reproducible=True))
        inputs.require_finite(size)
        if operator.singular:
            mean = mean_of(operator.discrete, b, reproducible=True)
            rounding = float(np.finfo(b.dtype).eps)
            inputs.require_mean_zero(mean, b.size, inputs.least_mean(limits, rounding, size))
        x = operator.solution()
        self.solve_into(b, x)
        residual = operator.zeros()
        operator.residual(x, b, residual)
        relative = float(da.norm(residual, reproducible=True)) / (size or 1.0)
        converged = relative <= rtol
        return Solution(
            x,
            1,
            (1.0 if size else 0.0, relative),
            converged,
            f"The residual of the direct solution, {relative:.3g} of the right-hand side, is "
            f"{'at most' if converged else 'above'} the tolerance {rtol:.3g}.",
        )

    def solve_into(self, rhs: da.DistArray, out: da.DistArray, *, scale: float = 1.0) -> None:
        """Put `scale` times the solution into `out`, with conditions taken as homogeneous and no
        value checked. Collective.

        Where the operator is singular the mean of `rhs` is dropped, and that of the solution is
        zero. `out` may be `rhs`; both are float64 in the cells of the grid.

        Raises
        ------
        SolverError, ArrayError
            Arrays that are not.
        """
        self._require_right_hand_side(rhs)
        solve: Any
        if self._stretched is None:
            there, back = self._modes_there_and_back
            solve = [there, functools.partial(self._divide, scale=scale), back]
        else:
            solve = functools.partial(self._solve_lines, self._stretched, scale=scale)
        da.map_lines(rhs, [*self._forward, (self._last, solve), *self._backward], out=out)

    def _prepare(self, axis: int) -> None:
        """Find out how lines along an axis are solved."""
        grid = self.operator.grid
        found, spacing = self.operator.discrete.axes[axis], grid.spacing[axis]
        ends = None if found.periodic else self._ends(found.ends, grid.axes[axis])
        if spacing is not None:
            kind = Hartley if ends is None else BY_ENDS[ends]
            transform = kind(grid.shape[axis])
            self._transforms[axis] = transform
            self._values[axis] = -transform.eigenvalues(spacing)
        elif self._stretched is None:
            self._last, self._stretched = axis, StretchedAxis(found.widths, ends)
        else:
            modes = Modes(StretchedAxis(found.widths, ends))
            self._transforms[axis], self._values[axis] = modes, modes.values

    def _steps(self, axis: int) -> tuple[Any, Any]:
        """What takes lines along an axis to their modes, and back."""
        transform = self._transforms[axis]
        if type(transform) in LIBRARY:
            name, number = LIBRARY[type(transform)]
            with contextlib.suppress(da.UnsupportedError):
                there, back = (da.fft.LineTransform(way, number) for way in (name, f"i{name}"))
                return there, back
        return (
            functools.partial(_along, axis, transform.forward),
            functools.partial(_along, axis, transform.backward),
        )

    def _divide(self, block: Array, where: tuple[slice, ...], *, scale: float) -> Array:
        """Modes of all axes, divided by their numbers: `scale` times the inverse."""
        total = self._shift(where) + self._spread(self._last, where)
        if self.singular:
            total[total == 0.0] = np.inf
        np.divide(scale, total, out=total)
        return np.multiply(block, total, out=total)

    def _solve_lines(
        self, stretched: StretchedAxis, block: Array, where: tuple[slice, ...], *, scale: float
    ) -> Array:
        """Solve along the stretched axis for each mode of the others; `scale` times the result."""
        axis = self._last
        shift = np.broadcast_to(np.moveaxis(self._shift(where), axis, 0)[0], _without(block, axis))
        lines = np.ascontiguousarray(np.moveaxis(block, axis, 0))
        return np.moveaxis(scale * stretched.solve(lines, shift), 0, axis)

    def _shift(self, where: tuple[slice, ...]) -> Array:
        """Sum of c and the numbers of the modes of all axes but the last one solved along."""
        total: Any = np.full((1,) * len(where), self._c)
        for axis in self._values:
            if axis != self._last:
                total = total + self._spread(axis, where)
        return np.asarray(total)

    def _spread(self, axis: int, where: tuple[slice, ...]) -> Array:
        """The numbers of the modes along an axis, in a block."""
        shape = (1,) * axis + (-1,) + (1,) * (len(where) - axis - 1)
        return self._values[axis][where[axis]].reshape(shape)

    def _ends(self, factors: tuple[float | None, float | None], name: str) -> tuple[bool, bool]:
        """Whether the values at both ends are zero, else the derivatives."""
        for factor, side in zip(factors, (f"{name}-", f"{name}+"), strict=True):
            if factor not in (-1.0, 1.0):
                zeros = self.operator.grid.zeros(boundary=self._boundary)
                given: Mapping[str, Any] = zeros.boundary or {}
                raise da.SolverError(
                    "FFTPoisson takes Dirichlet or Neumann conditions, got "
                    f"{type(given[side]).__name__} at {side}; use solvers.multigrid."
                )
        return factors[0] == -1.0, factors[1] == -1.0

    def _require_right_hand_side(self, rhs: Any) -> None:
        grid = self.operator.grid
        fits = isinstance(rhs, da.DistArray) and rhs.grid is not None and rhs.grid.same_as(grid)
        if not fits or rhs.location is not None or rhs.components or rhs.dtype != float:
            raise da.SolverError(
                f"The right-hand side, {inputs.described(rhs)}, must be float64 in the cells of "
                f"{grid!r}; make it there."
            )


def _along(axis: int, function: Any, block: Array, where: tuple[slice, ...]) -> Array:
    """A function of lines along the last axis, applied along another axis of a block."""
    return np.asarray(function(block.swapaxes(axis, -1)).swapaxes(axis, -1))


def _without(block: Array, axis: int) -> tuple[int, ...]:
    return (*block.shape[:axis], *block.shape[axis + 1 :])
