"""`A x = b` as the methods see it: checked inputs, the iterate, its residual, and fused sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.linear import kernels, nullspace, vectors

#: Writes `A u` to `out`, at every point: `operator(u, out)`. Collective. u and out are made like
#: the first guess, or like the right-hand side where there is none.
Operator = Callable[[da.DistArray, da.DistArray], Any]

#: Writes an approximation of `A^-1 r` to `z`: `preconditioner(r, z)`. Collective.
Preconditioner = Callable[[da.DistArray, da.DistArray], Any]

#: Called after each iteration with its number and the relative residual.
Callback = Callable[[int, float], Any]

#: Sums of squares outside this range lose digits or overflow.
_LEAST, _MOST = 1e-280, 1e280


@dataclass(frozen=True)
class Options:
    """What all methods take, checked. Creation is Local.

    Raises
    ------
    SolverError
        A tolerance, a number of iterations or a name that makes no sense.
    """

    rtol: float = 1e-8
    atol: float = 0.0
    max_iterations: int = 1000
    preconditioner: Preconditioner | None = None
    reproducible: bool = False
    nullspace: str | None = "auto"
    callback: Callback | None = None

    def __post_init__(self) -> None:
        if not (_is_number(self.rtol) and 0.0 <= self.rtol < 1.0):
            raise da.SolverError(
                f"rtol must be a number of at least 0 and below 1, got {self.rtol!r}; use 1e-8."
            )
        if not (_is_number(self.atol) and 0.0 <= self.atol < math.inf):
            raise da.SolverError(
                f"atol must be a finite number of at least 0, got {self.atol!r}; use 0.0 for none."
            )
        if self.rtol == self.atol == 0.0:
            raise da.SolverError(
                "rtol and atol are both 0, which no residual falls below; give rtol=1e-8."
            )
        whole = isinstance(self.max_iterations, int | np.integer)
        if not whole or isinstance(self.max_iterations, bool) or self.max_iterations < 0:
            raise da.SolverError(
                "max_iterations must be a whole number of at least 0, got "
                f"{self.max_iterations!r}; use 1000."
            )
        if self.nullspace not in ("auto", "constant", None):
            raise da.SolverError(
                f"nullspace must be 'auto', 'constant' or None, got {self.nullspace!r}; use "
                "'constant' where the operator maps constants to zero."
            )
        for name in ("preconditioner", "callback"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise da.SolverError(
                    f"{name}= takes a function, got {type(value).__name__}; leave it out for none."
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


class System:
    """One linear system and the state of its solution. Creation is Collective.

    Attributes
    ----------
    x : DistArray
        The iterate, with the conditions of the first guess.
    r : DistArray
        Its residual, as far as the method keeps it up.
    square : float
        |r|^2 when r was last computed as b - A x.
    scale : float
        |b|, what the operator makes of inhomogeneous conditions subtracted; 0 if x = 0 solves.
    static : dict
        Options of all kernels with sums.
    """

    def __init__(self, operator: Operator, rhs: Any, x0: Any, options: Options) -> None:
        _require_vectors(rhs, x0)
        if not callable(operator):
            raise da.SolverError(
                f"The operator must be a function operator(u, out), got {type(operator).__name__}."
            )
        self.options = options
        self._operator, self._rhs = operator, rhs
        self.components: tuple[int, ...] = rhs.components
        self.static: dict[str, Any] = {
            "components": rhs.components,
            "reproducible": bool(options.reproducible),
        }
        self.rounding = float(np.finfo(rhs.dtype).eps)
        like = rhs if x0 is None else x0
        self._changes = vectors.changes(like)
        if x0 is None and self._changes:
            raise da.SolverError(
                "The right-hand side has inhomogeneous conditions on "
                f"{', '.join(self._changes)}, which belong to the solution; give them to x0=."
            )
        self.x = vectors.zeros_like(like) if x0 is None else x0.copy()
        self.r = vectors.zeros_like(like)
        if self.r.boundary is not None:
            self.r.boundary.update(self._changes)
        self._image = self.vector()
        self._groups: tuple[nullspace.Group, ...] = ()
        self._removed: tuple[nullspace.Group, ...] = ()
        self._start(x0 is None)

    # ---- what methods do with it

    def vector(self) -> da.DistArray:
        """A new vector of zeros, on which the operator is linear. Collective."""
        return vectors.zeros_like(self.r)

    def apply(self, u: da.DistArray, out: da.DistArray) -> None:
        """`out = A u`. Collective."""
        self._operator(u, out)

    def precondition(self, r: da.DistArray, z: da.DistArray) -> None:
        """`z = M r`, for a method that has checked that there is one. Collective."""
        if self.options.preconditioner is not None:
            self.options.preconditioner(r, z)

    @property
    def preconditioned(self) -> bool:
        return self.options.preconditioner is not None

    def inner(self, u: da.DistArray, v: da.DistArray) -> Any:
        """The real part of (u, v), pending. Collective."""
        return kernels.inner(u, v, **self.static)

    def project(self, u: da.DistArray) -> None:
        """Remove from u what no image of the operator has. Collective."""
        nullspace.remove(self, u, self._removed)

    def renew_residual(self) -> float:
        """Compute `r = b - A x`; |r|^2. Collective."""
        self.apply(self.x, self._image)
        self.square = float(kernels.subtract(self._rhs, self._image, self.r, **self.static))
        self._clean_residual()
        return self.square

    def _clean_residual(self) -> None:
        """Remove from the residual what no image of the operator has."""
        cleaned = nullspace.remove(self, self.r, self._removed)
        if cleaned is not None:
            self.square = cleaned

    def finish(self) -> None:
        """Remove the mean of the iterate where it is arbitrary. Collective."""
        nullspace.remove(self, self.x, self._groups)

    @property
    def borrowed(self) -> tuple[da.DistArray, da.DistArray]:
        """Two vectors for use while the residual is not computed yet."""
        return self.r, self._image

    # ---- setting up

    def _start(self, from_zero: bool) -> None:
        """Scale, null space and first residual."""
        self.scale = self._norm_of_rhs()
        if self.scale == 0.0:
            self.x.fill(0)
            self.square = 0.0
            return
        mode = self.options.nullspace
        if mode == "auto":
            self._groups = nullspace.find(self)
        elif mode == "constant":
            self._groups = nullspace.whole(self.components)
        if self._groups and (mode == "constant" or nullspace.is_left_null(self, self._groups)):
            self._removed = self._groups
        self.square = self._checked_residual(self.x)
        if from_zero and float(self.inner(self._image, self._image)) > 0.0:
            raise da.SolverError(
                "The operator gives values that are not zero for x = 0, so that it is not linear; "
                "move them to the right-hand side, or give conditions to x0=."
            )
        self._require_compatible()
        self._clean_residual()

    def _norm_of_rhs(self) -> float:
        """|b|, where the conditions of x are inhomogeneous |b - A 0|."""
        square, largest = kernels.load(self._rhs, self.r, **self.static)
        self._require_range(float(square), float(largest))
        if self._changes:
            lift = self.x.copy()
            lift.fill(0)
            return math.sqrt(self._checked_residual(lift))
        return math.sqrt(float(square))

    def _checked_residual(self, x: da.DistArray) -> float:
        """`r = b - A x` and |r|^2, where the operator may leave points out."""
        self._image.fill(math.nan)
        self.apply(x, self._image)
        square = float(kernels.subtract(self._rhs, self._image, self.r, **self.static))
        if math.isfinite(square):
            return square
        if not math.isfinite(float(self.inner(x, x))):
            raise da.SolverError(
                "The first guess x0 has values that are not finite; look for them with "
                "abs(x0).max()."
            )
        raise da.SolverError(
            "The operator leaves points of its output unwritten or not finite; it must write all, "
            "which at a side that is not periodic needs conditions: create x0 (or rhs) with "
            "boundary=."
        )

    def _require_range(self, square: float, largest: float) -> None:
        if not math.isfinite(largest):
            raise da.SolverError(
                "The right-hand side has values that are not finite; look for them with "
                "abs(rhs).max()."
            )
        if largest > 0.0 and not _LEAST < square < _MOST:
            raise da.SolverError(
                f"The right-hand side has values up to {largest:.3g}, whose squares leave the range"
                " of double precision; scale the system."
            )

    def _require_compatible(self) -> None:
        """Refuse a right-hand side with a part that no x can make."""
        rounding = 32.0 * self.rounding
        tolerance = max(
            max(self.options.rtol, rounding) * self.scale,
            rounding * math.sqrt(self.square),
            self.options.atol,
        )
        points = math.sqrt(self.r.size)
        for mean in nullspace.means(self, self.r, self._removed):
            if abs(mean) * points > tolerance:
                raise da.SolverError(
                    f"The right-hand side has the mean {mean:.6g}, but the operator maps constants "
                    "to zero, so that there is a solution for mean zero alone; subtract the mean."
                )


def _require_vectors(rhs: Any, x0: Any) -> None:
    if not isinstance(rhs, da.DistArray) or rhs.dtype.kind not in "fc":
        kind = f"one of {rhs.dtype}" if isinstance(rhs, da.DistArray) else type(rhs).__name__
        raise da.SolverError(
            f"The right-hand side must be a DistArray of float or complex numbers, got {kind}; "
            "make one on a grid."
        )
    if x0 is None:
        return
    if not isinstance(x0, da.DistArray):
        raise da.SolverError(
            f"x0 must be a DistArray like the right-hand side, got {type(x0).__name__}; leave it "
            "out to start from zero."
        )
    if not _on_one_grid(x0, rhs):
        raise da.SolverError(
            f"x0 lies on another grid ({x0.grid!r}) than the right-hand side ({rhs.grid!r}); "
            "make both on one."
        )
    for name in ("dtype", "shape", "components", "location", "ranks", "device"):
        mine, other = getattr(x0, name), getattr(rhs, name)
        if mine != other:
            raise da.SolverError(
                f"x0 and the right-hand side differ in {name}, {mine} and {other}; make x0 by "
                "grid.zeros_like(rhs)."
            )


def _on_one_grid(u: da.DistArray, v: da.DistArray) -> bool:
    if u.grid is None or v.grid is None:
        return u.grid is v.grid
    return u.grid is v.grid or u.grid.same_as(v.grid)
