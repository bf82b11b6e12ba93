"""`A x = b` as the methods see it: checked inputs, the iterate, its residual, and fused sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.linear import inputs, kernels, nullspace, vectors
from solvers.linear.inputs import Tolerances

#: Writes `A u` to `out`, at every point: `operator(u, out)`. Collective. u and out are made like
#: the first guess, or like the right-hand side where there is none.
Operator = Callable[[da.DistArray, da.DistArray], Any]

#: Writes an approximation of `A^-1 r` to `z`: `preconditioner(r, z)`. Collective.
Preconditioner = Callable[[da.DistArray, da.DistArray], Any]

#: What users may say about constants that the operator maps to zero.
_NULLSPACES = ("auto", "constant", None)

#: Sums of squares outside this range lose digits or overflow.
_LEAST, _MOST = 1e-280, 1e280


@dataclass(frozen=True, kw_only=True)
class Options(Tolerances):
    """What all methods take, checked. Creation is Local.

    Raises
    ------
    SolverError
        A tolerance, a number of iterations or a name that makes no sense.
    """

    max_iterations: int = 1000
    preconditioner: Preconditioner | None = None
    reproducible: bool = False
    nullspace: str | None = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs.require_whole("max_iterations", self.max_iterations, 0, 1000)
        if not isinstance(self.nullspace, str | None) or self.nullspace not in _NULLSPACES:
            raise da.SolverError(
                "nullspace must be 'auto', 'constant' or None, got "
                f"{inputs.described(self.nullspace)}; use 'constant' where the operator maps "
                "constants to zero."
            )
        inputs.require_function_or_none("preconditioner", self.preconditioner)
        inputs.require_bool("reproducible", self.reproducible)


class System:
    """One linear system and the state of its solution. Creation is Collective.

    `begin` takes up another right-hand side, with the vectors that there are.

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
        require_operator(operator)
        self._operator = operator
        self.components: tuple[int, ...] = rhs.components
        self.static: dict[str, Any] = {
            "components": rhs.components,
            "reproducible": bool(options.reproducible),
        }
        self.rounding = float(np.finfo(rhs.dtype).eps)
        like = rhs if x0 is None else x0
        self._kind = vectors.kind(like)
        self._changes = vectors.changes(like)
        if self._changes:
            self._require_conditions(x0)
        self.r = vectors.zeros_like(like)
        if self.r.boundary is not None:
            self.r.boundary.update(self._changes)
        self.x, self._image = self.vector(), self.vector()
        self._groups: tuple[nullspace.Group, ...] | None = None
        self._removed: tuple[nullspace.Group, ...] = ()
        self.begin(rhs, x0, options)

    def begin(self, rhs: da.DistArray, x0: da.DistArray | None, options: Options) -> None:
        """Take up a right-hand side and a first guess that `suits` says are alike. Collective."""
        options.require_alike(self.r.communicator)
        self.options, self._rhs = options, rhs
        if x0 is None:
            self.x.fill(0)
        elif self._changes:  # values of conditions may be functions of time, which x0 knows
            self.x = x0.copy()
        else:
            self.x[...] = x0
        self._start(x0 is None)

    def suits(self, rhs: Any, x0: Any) -> bool:
        """Whether its vectors are like those that these would lead to. Local; the same on all
        ranks.
        """
        _require_vectors(rhs, x0)
        if x0 is None and self._changes:
            return False
        return vectors.same(self._kind, vectors.kind(rhs if x0 is None else x0))

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
        nullspace.remove(self, self.x, self._groups or ())

    @property
    def borrowed(self) -> tuple[da.DistArray, da.DistArray]:
        """Two vectors for use while the residual is not computed yet."""
        return self.r, self._image

    # ---- setting up

    def _require_conditions(self, x0: Any) -> None:
        """Refuse values of conditions where they have no effect."""
        sides = ", ".join(self._changes)
        if x0 is None:
            raise da.SolverError(
                f"The right-hand side has inhomogeneous conditions on {sides}, which belong to the "
                "solution; give them to x0=."
            )
        if getattr(self._operator, "ignores_conditions", False):
            raise da.SolverError(
                f"The conditions of x0 on {sides} have values, which this operator ignores; take "
                "A.rhs(f, out) for the right-hand side and A.zeros() for x0."
            )

    def _start(self, from_zero: bool) -> None:
        """Scale, null space and first residual."""
        self.scale = self._norm_of_rhs()
        if self.scale == 0.0:
            self.x.fill(0)
            self.square = 0.0
            return
        if self._groups is None:
            self._groups, self._removed = self._null_spaces()
        self.square = self._checked_residual(self.x)
        if from_zero and float(self.inner(self._image, self._image)) > 0.0:
            raise da.SolverError(
                "The operator gives values that are not zero for x = 0, so that it is not linear; "
                "move them to the right-hand side, or give conditions to x0=."
            )
        self._require_compatible()
        self._clean_residual()

    def _null_spaces(self) -> tuple[tuple[nullspace.Group, ...], ...]:
        """What the operator maps to zero, and what no image of it has."""
        mode = self.options.nullspace
        if mode == "constant":
            groups = nullspace.whole(self.components)
            return groups, groups
        groups = nullspace.find(self) if mode == "auto" else ()
        return groups, groups if groups and nullspace.is_left_null(self, groups) else ()

    def _norm_of_rhs(self) -> float:
        """|b|, where the conditions of x are inhomogeneous |b - A 0|."""
        if not self._rhs.size:
            return 0.0
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
        inputs.require_finite(largest)
        if largest > 0.0 and not _LEAST < square < _MOST:
            raise da.SolverError(
                f"The right-hand side has values up to {largest:.3g}, whose squares leave the range"
                " of double precision; scale the system."
            )

    def _require_compatible(self) -> None:
        """Refuse a right-hand side with a part that no x can make."""
        least = inputs.least_mean(self.options, self.rounding, self.scale, math.sqrt(self.square))
        for mean in nullspace.means(self, self.r, self._removed):
            inputs.require_mean_zero(mean, self.r.size, least)


def require_operator(operator: Any) -> None:
    """An error unless the operator is a function. Local."""
    if not callable(operator):
        raise da.SolverError(
            f"The operator must be a function operator(u, out), got {type(operator).__name__}."
        )


def _require_vectors(rhs: Any, x0: Any) -> None:
    if not isinstance(rhs, da.DistArray) or rhs.dtype.kind not in "fc":
        kind = f"one of {rhs.dtype}" if isinstance(rhs, da.DistArray) else type(rhs).__name__
        raise da.SolverError(
            f"The right-hand side must be a DistArray of float or complex numbers, got {kind}; "
            "make one on a grid."
        )
    inputs.require_guess(x0, rhs, ("dtype", "ranks"))
