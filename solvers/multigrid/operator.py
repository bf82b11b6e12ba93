"""The elliptic operator that users make: coefficients and conditions, checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

import distarray as da
from solvers.box import shown
from solvers.linear.inputs import described
from solvers.linear.vectors import homogeneous
from solvers.multigrid import kernels
from solvers.multigrid.discrete import Discrete, Side, Sides, link_location, private
from solvers.multigrid.transfer import to_links


class EllipticOperator:
    """`-div(a grad u) + c u` with conditions at the sides, second order. Creation is Collective.

    Along each axis the flux through the middle of the link between two unknowns is the coefficient
    there times the difference of the unknowns over their distance: the 5- or 7-point operator on
    uniform cells, a finite volume method on stretched ones.

    The operator is linear: it ignores the values of the conditions, its own and those of arrays,
    and takes points that a condition fixes to be zero. What the values add belongs to the
    right-hand side: `A.rhs(f, out)` adds it.

    Parameters
    ----------
    grid : Grid
    a : number, DistArray or mapping
        The coefficient, above 0: a number, an array of cells, or for each axis (by name) an array
        on the links: for unknowns in cells the faces, location "x" for the axis x; along an axis
        with unknowns on points that letter is missing, so that for the axis x and unknowns on "x"
        the links are in the cells.
    c : number or DistArray
        Not below 0; an array lies where the unknowns are.
    boundary : mapping, optional
        A condition for each side that is not periodic, as arrays take them. Values may be numbers,
        arrays over the face or functions; `a` and `b` of Robin are numbers.
    location : str, optional
        Where the unknowns are: cells by default, "x" for faces normal to x, and so on.
    mean : {"harmonic", "arithmetic"}
        How an array of cells is taken to links.
    dtype : float32 or float64
        Of the unknowns.

    Attributes
    ----------
    grid, location, dtype
        As given.
    ignores_conditions : bool
        True: what `solvers.linear` asks, which then refuses a guess whose conditions have values.
    singular : bool
        Whether constants are mapped to zero: no c, and all axes periodic or with zero flux.

    Raises
    ------
    SolverError
        Coefficients or conditions that the operator cannot have.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.multigrid import EllipticOperator
    >>> grid = da.Grid((4,))
    >>> A = EllipticOperator(grid, boundary={"x": da.Dirichlet(0.0)})
    >>> u, out = A.zeros(), A.zeros()
    >>> u[...] = 1.0
    >>> A(u, out)
    >>> out.gather()
    array([32.,  0.,  0., 32.])
    """

    ignores_conditions = True

    def __init__(
        self,
        grid: da.Grid,
        a: Any = 1.0,
        c: Any = 0.0,
        *,
        boundary: Mapping[str, Any] | None = None,
        location: str | None = None,
        mean: str = "harmonic",
        dtype: Any = float,
    ) -> None:
        if not isinstance(grid, da.Grid):
            raise da.SolverError(
                f"EllipticOperator takes a Grid, got {described(grid)}; make one by da.Grid."
            )
        self.grid, self.location, self.dtype = grid, location, _float_type(dtype)
        if mean not in ("harmonic", "arithmetic"):
            raise da.SolverError(
                f"mean must be 'harmonic' or 'arithmetic', got {described(mean)}; use 'harmonic'."
            )
        template = grid.zeros(self.dtype, location=location, boundary=boundary, halo=1)
        self._conditions = dict(template.boundary or {})
        self._template = template
        links, number = self._links(a, mean), 1.0
        reaction = self._reaction(c, as_array=links is not None)
        if links is None:
            number = _number("a", a, least=np.finfo(float).tiny)
        self._discrete = Discrete(
            grid, location, self._sides(), number, links, reaction, self.dtype
        )
        self._scratch: da.DistArray | None = None

    @property
    def discrete(self) -> Discrete:
        """The operator as kernels take it, with homogeneous conditions."""
        return self._discrete

    @property
    def singular(self) -> bool:
        return self._discrete.singular

    @property
    def homogeneous(self) -> bool:
        """Whether all values of the conditions are zero."""
        return all(homogeneous(given) is given for given in self._conditions.values())

    def zeros(self) -> da.DistArray:
        """Zeros where the unknowns are, with homogeneous conditions. Collective."""
        return self._discrete.zeros()

    def solution(self) -> da.DistArray:
        """Zeros where the unknowns are, with the conditions as given. Collective."""
        return self.grid.zeros(
            self.dtype, location=self.location, boundary=self._conditions or None
        )

    def __call__(self, u: da.DistArray, out: da.DistArray) -> None:
        """`out = A u`, conditions taken as homogeneous, whatever those of u are. Collective.

        Points of `out` that its own conditions fix are left to them.
        """
        discrete = self._discrete
        kernels.apply(discrete.form)(self._readable(u), out, *discrete.coefficients)

    def residual(self, u: da.DistArray, f: da.DistArray, out: da.DistArray) -> None:
        """`out = f - A u`, conditions taken as homogeneous, whatever those of u are: f is what
        `rhs` makes. Collective.
        """
        discrete = self._discrete
        kernels.residual(discrete.form)(self._readable(u), f, out, *discrete.coefficients)

    def rhs(self, f: da.DistArray, out: da.DistArray, *, time: float = 0.0) -> None:
        """`out = f` and what the values of the conditions add: `A u = out` then holds for the
        homogeneous operator. Collective.
        """
        if self.homogeneous:
            out[...] = f
            return
        links = self._discrete.links or ()
        lift = kernels.lift(self._discrete.form)
        lift(self._template, f, out, *self._lift_weights, *links, time=time)

    @functools.cached_property
    def _lift_weights(self) -> list[da.Profile]:
        discrete = self._discrete
        return [
            discrete.profile(axis, discrete.a * getattr(coupling, name))
            for name in ("lift_low", "lift_high")
            for axis, coupling in enumerate(discrete.couplings)
        ]

    def _readable(self, u: da.DistArray) -> da.DistArray:
        """u, or its values in an array with layers that kernels can read and zeros at fixed points.
        Collective.
        """
        if not isinstance(u, da.DistArray):
            raise da.SolverError(
                f"The operator applies to DistArrays, got {described(u)}; make one by A.zeros()."
            )
        if min(u.halo) > 0 and all(self._suits(u, side) for side in self._conditions):
            return u
        if self._scratch is None:
            self._scratch = self.zeros()
        self._scratch[...] = u
        return self._scratch

    def _suits(self, u: da.DistArray, side: str) -> bool:
        """Whether what u has at a side is what the operator takes it for: finite values beyond it,
        which meet weights of zero, or zeros on it. Local.
        """
        given = None if u.boundary is None else u.boundary.get(side)
        if given is None or isinstance(given, da.Custom) or homogeneous(given) is not given:
            return False
        return isinstance(given, da.Dirichlet) or not self._discrete.sides[side].fixed

    # ---- what is given

    def _sides(self) -> Sides:
        found = {}
        for name, periodic in zip(self.grid.axes, self.grid.periodic, strict=False):
            for side in () if periodic else (f"{name}-", f"{name}+"):
                found[side] = _side(side, self._conditions.get(side), name in (self.location or ""))
        return found

    def _links(self, a: Any, mean: str) -> tuple[da.DistArray, ...] | None:
        names = self.grid.axes[: self.grid.ndim]
        if isinstance(a, da.DistArray):
            _require_on(self.grid, "a", a, None)
            _require_least("a", a, np.finfo(self.dtype).tiny)
            a = a.astype(self.dtype)
            axes = range(len(names))
            return tuple(to_links(a, self.location, n, harmonic=mean == "harmonic") for n in axes)
        if not isinstance(a, Mapping):
            return None
        if set(a) != set(names):
            raise da.SolverError(
                f"a has arrays for the axes {', '.join(map(str, a))}, but the grid has "
                f"{', '.join(names)}; give one for each."
            )
        return tuple(self._given_links(f"a['{name}']", a[name], name, names) for name in names)

    def _given_links(self, label: str, given: Any, name: str, names: Sequence[str]) -> da.DistArray:
        location = link_location(self.location, name, names)
        _require_on(self.grid, label, given, location)
        _require_least(label, given, 0.0)
        found = private(self.grid, location, self.dtype)
        found[...] = given
        return found

    def _reaction(self, c: Any, *, as_array: bool) -> Any:
        """The coefficient c as a number where it can be in the weights, else as an array."""
        if isinstance(c, da.DistArray):
            _require_on(self.grid, "c", c, self.location)
            _require_least("c", c, 0.0)
        else:
            c = _number("c", c, least=0.0)
            if not (c and as_array):
                return c
        found = private(self.grid, self.location, self.dtype)
        found[...] = c
        return found


def _float_type(dtype: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.float32, np.float64):
        raise da.SolverError(
            f"The unknowns must be float32 or float64, got dtype={dtype!r}; use float."
        )
    return found


def _number(name: str, value: Any, *, least: float) -> float:
    if not isinstance(value, Real | np.number) or not least <= float(value) < np.inf:
        rule = "above 0" if least > 0.0 else "of at least 0"
        raise da.SolverError(
            f"{name} must be a finite number {rule} or a DistArray of them, got "
            f"{described(value)}; change it."
        )
    return float(value)


def _require_on(grid: da.Grid, name: str, array: Any, location: str | None) -> None:
    if not isinstance(array, da.DistArray) or array.grid is None or array.components:
        raise da.SolverError(
            f"{name} must be a DistArray of a grid without components, got {described(array)}; "
            "make one by grid.from_function."
        )
    if not array.grid.same_as(grid) or array.location != location:
        raise da.SolverError(
            f"{name} is {array!r}, but belongs on {grid!r} at location {location!r}; make it there."
        )


def _require_least(name: str, array: da.DistArray, least: float) -> None:
    if array.dtype.kind == "c":
        raise da.SolverError(f"{name} must be real, got {array!r}; take its real part.")
    found = float(array.min())
    if not found >= least:
        rule = "above 0" if least > 0.0 else "not below 0"
        raise da.SolverError(
            f"{name} must be {rule} everywhere, its minimum is {found}; change it."
        )


def _sound(a: float, b: float) -> bool:
    """Whether a condition with these numbers lets flow out what is too much."""
    return 0.0 <= a < np.inf and 0.0 <= b < np.inf and a + b > 0.0


def _side(name: str, condition: Any, points: bool) -> Side:
    """A condition without its value."""
    match condition:
        case da.Dirichlet():
            return Side(1.0, 0.0, fixed=points)
        case da.Neumann():
            return Side(0.0, 1.0)
        case da.Symmetry(sign=1):
            return Side(0.0, 1.0)
        case da.Symmetry(sign=-1):
            return Side(1.0, 0.0)
        case da.Robin(a=int() | float() as a, b=int() | float() as b) if _sound(a, b):
            return Side(float(a), float(b))
        case da.Robin():
            raise da.SolverError(
                f"The condition Robin at '{name}' needs numbers a and b not below 0, got "
                f"a={shown(condition.a)}, b={shown(condition.b)}; only c may vary along the side."
            )
        case None:
            raise da.SolverError(
                f"The side '{name}' has no condition, which the operator needs; add one to "
                "boundary=."
            )
    raise da.SolverError(
        f"The condition at '{name}' must be Dirichlet, Neumann, Robin or Symmetry, got "
        f"{shown(condition)}; use one of these."
    )
