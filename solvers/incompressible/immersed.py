"""Solid bodies in the flow by an immersed boundary of second order on the staggered grid.

A body is where a signed distance phi is negative. A velocity point is *covered* if it lies within
the body or outside by less than half the distance to the next point beyond, all others are open and
obey the momentum equation as if there were no body. A covered point near the surface gets the value
that makes the velocity linear between the surface, which has the velocity of the wall, and the open
points farther out along the normal (the idea of Fadlun, E. A., Verzicco, R., Orlandi, P.,
Mohd-Yusof, J. (2000) J. Comput. Phys. 161, 35-60, here for points on both sides of the surface, so
that all weights are bounded and the errors of the two kinds, which have opposite signs, cancel in
the mean). Deeper points move with the wall.

Covered points follow the open ones from step to step: within a step they keep what the velocity at
its start, which is free of divergence, asks for. The error is of the order of h dt. With R the
change of the open faces that balances one of the covered faces, and L what these ask for in return,
their changes d obey d[n+1] = L R d[n], which decays: beside a flat surface L is between -1 and 1/3,
and R between 0 and 1. If they followed the velocity before its projection, which has the pressure
gradient of the last step, it would be d[n+1] = L R (2 d[n] - d[n-1]): that grows, whatever the time
step, where L R is below -1/3, as beside bodies that are wide or stand near a wall.

The pressure equation is solved with the covered faces closed: `div(open grad phi) = div(u*) / dt`
in the cells with an open face. The velocity of covered faces is prescribed; what flows through them
out of each body, of second order in the spacing, is taken out evenly before, so that the flow out
of a body is zero to round-off, and the divergence of all cells of the fluid to the tolerance of the
solver. That is conjugate gradients, preconditioned by the direct solver of the box without bodies;
the number of iterations does not grow with the grid.

The force on a body is the flux of momentum, by pressure, viscosity and convection, through the
steps of faces around its covered points, from the fields at one time. For a steady flow it balances
the flux through any surface farther out, to round-off. The rate of change of the momentum between
these steps and the surface is left out: it is of second order in the spacing, as the steps lie on
both sides of the surface and move with it to first order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers import linear
from solvers.box import require_known, shown
from solvers.incompressible import immersed_kernels as kernels
from solvers.incompressible.checks import require_value
from solvers.incompressible.metrics import AXES, Floats, Metrics, side_names
from solvers.incompressible.parts import Limit, Part, Stage, Velocity
from solvers.incompressible.shapes import Shape

#: The root mean square of the divergence that is left in the fluid, as a share of the largest
#: velocity over the smallest width of a cell.
DIVERGENCE = 1e-10
#: The same as a share of the right-hand side, all that is left of it where nothing moves.
ROUND_OFF = 1e-14
MAX_ITERATIONS = 200
#: How far cells count in the fit of the pressure at a surface, and how many are taken each way.
FIT_WIDTH, FIT_CELLS = 1.5, 4

#: A number, or a function of the coordinates (x, y[, z]) of points on the surface.
SurfaceValue = float | Callable[..., Any]


@dataclass(frozen=True)
class Obstacle:
    """A solid body that stays where it is.

    Parameters
    ----------
    shape : Shape
    velocity : tuple of (number or function f(x, y[, z])), optional
        Velocity of its surface, one entry per axis, along the surface: see `turning`. At rest by
        default.

    Raises
    ------
    SolverError
        The shape is none, or the velocity is no tuple of two or three numbers and functions.
    """

    shape: Shape
    velocity: tuple[SurfaceValue, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise da.SolverError(
                f"An obstacle has a shape, received {shown(self.shape)}; give one of "
                "solvers.incompressible.shapes, such as Level(function)."
            )
        if self.velocity is None:
            return
        if not isinstance(self.velocity, tuple) or len(self.velocity) not in (2, 3):
            raise da.SolverError(
                f"The velocity of an obstacle has one entry per axis, received "
                f"{shown(self.velocity)}; give a tuple of two or three."
            )
        for value in self.velocity:
            require_value("A velocity", "an obstacle", value)


@dataclass(frozen=True)
class Turning:
    """One component of the velocity of a body that turns about an axis along z."""

    component: int
    centre: tuple[float, ...]
    rate: float

    def __call__(self, *coords: Any) -> Any:
        if self.component == 0:
            return -self.rate * (coords[1] - self.centre[1])
        if self.component == 1:
            return self.rate * (coords[0] - self.centre[0])
        return 0.0 * coords[0]


def turning(centre: tuple[float, ...], rate: float) -> tuple[Turning, ...]:
    """The velocity of a surface that turns about an axis along z, by `rate` radians per time,
    counter-clockwise.
    """
    return tuple(Turning(component, centre, rate) for component in range(len(centre)))


class ImmersedBoundary(Part):
    """The bodies of one flow. Collective.

    Parameters
    ----------
    obstacles : sequence of Obstacle
    config : with `viscosity`
    grid : Grid

    Attributes
    ----------
    grid : Grid
    open : list of DistArray, float64, on the faces normal to each axis
        1 where the momentum equation holds, 0 at covered faces and at the ends of the box.
    active : DistArray, float64, in the cells
        1 in cells with an open face, else 0.

    Raises
    ------
    SolverError
        The bodies fill the box, or fit its number of axes badly.
    """

    def __init__(self, obstacles: Sequence[Obstacle], config: Any, grid: da.Grid) -> None:
        self._obstacles = tuple(obstacles)
        self._viscosity = float(config.viscosity)
        self.grid = grid
        self._moving = any(obstacle.velocity is not None for obstacle in self._obstacles)
        for obstacle in self._obstacles:
            if obstacle.velocity is not None and len(obstacle.velocity) != grid.ndim:
                raise da.SolverError(
                    f"The velocity of an obstacle has one entry per axis, received "
                    f"{len(obstacle.velocity)} for {grid.ndim} axes; give {grid.ndim}."
                )
        metrics = Metrics(grid)
        self._cover, self._leak = metrics.bind(kernels.cover), metrics.bind(kernels.leak)
        self._traction = metrics.bind(kernels.traction)
        axes = range(grid.ndim)
        self._distance = [self._component(axis, self._nearest) for axis in axes]
        for distance in self._distance:
            require_known("The distance of obstacles", distance)
        self._owner = [self._ownership(axis) for axis in axes]
        self._wall = self._walls() if self._moving else self._distance
        self._fastest = self._surface_speeds() if self._moving else ()
        self._scratch = [grid.zeros(location=AXES[axis]) for axis in axes]
        self._covered: list[da.DistArray] = []
        self.open = [self._opening(axis, metrics) for axis in axes]
        self.active = grid.zeros(boundary=self._sides(da.Neumann(0.0)))
        metrics.bind(kernels.mark_active)(*self.open, self.active)
        self._steps = [self._step(axis) for axis in axes]
        self._areas = self._through(metrics.bind(kernels.area), self._steps)
        self._dt, self._speed = 1.0, 0.0
        self._fit: tuple[Any, Any] | None = None  # of the points of the last surface pressure
        self._finest = 1.0 / max(metrics.largest)
        if float(self.active.sum()) == 0.0:
            raise da.SolverError(
                "Obstacles leave room for the fluid, received ones that cover all cells; "
                "make them smaller."
            )

    # The part's protocol.

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        self._dt = dt
        if not self._covered:
            self._covered = [u.copy() for u in velocity]
        for u, covered in zip(velocity, self._covered, strict=True):
            covered[...] = u
        self.cover(self._covered, time=time + dt)
        self.close(self._covered)

    def constrain(self, new: Velocity, stage: Stage) -> None:
        # In every stage, so that a steady flow is one for each of them.
        for axis, u in enumerate(new):
            kernels.copy(self._covered[axis], self.open[axis], self._owner[axis], u)
        if stage.last:
            self._speed = max(float(abs(u).max()) for u in new)

    def limit(self, values: Sequence[float]) -> Limit:
        return Limit(speeds=self._fastest)

    def pressure(self, solver: Any) -> ClosedPressure:
        return ClosedPressure(self, solver)

    def projected(self, star: Velocity, velocity: Velocity) -> None:
        for u, before, opening in zip(velocity, star, self.open, strict=True):
            kernels.put_back(u, before, opening)

    def leave_fluid(self, values: da.DistArray) -> None:
        kernels.mask(values, self.active)

    # What it is made of.

    def cover(self, velocity: Sequence[da.DistArray], *, time: float | None = None) -> None:
        """Give covered points the velocity that the surface asks for, in place, with the velocity
        of the sides at a time. Collective.
        """
        for axis, u in enumerate(velocity):
            self._cover(
                u, self._distance[axis], self._wall[axis], self._scratch[axis],
                axis=axis, moving=self._moving, time=time,
            )  # fmt: skip
            kernels.copy(self._scratch[axis], self.open[axis], self._owner[axis], u)

    def close(self, velocity: Sequence[da.DistArray]) -> None:
        """Take out what flows out of each body, in place. Collective."""
        for which, (volume, area) in enumerate(zip(self.leak(velocity), self._areas, strict=True)):
            for u, steps, owner in zip(velocity, self._steps, self._owner, strict=True):
                kernels.close(u, steps, owner, which=which, speed=volume / max(area, 1e-300))

    def largest_rate(self) -> float:
        """What the divergence over dt is compared with: largest velocity / (finest width * dt)."""
        return self._speed / (self._finest * self._dt)

    def leak(self, velocity: Sequence[da.DistArray]) -> list[float]:
        """Volume that flows out of each body per time. Collective; the same bits on any ranks."""
        return self._through(self._leak, velocity, self._steps)

    def _through(self, kernel: Any, *arrays: Sequence[da.DistArray]) -> list[float]:
        """Sums over the steps around each body, of arrays that have one entry per axis."""
        sums = [
            [
                kernel(*of_axis, axis=axis, which=which)
                for axis, of_axis in enumerate(zip(*arrays, self._owner, strict=True))
            ]
            for which in range(len(self._obstacles))
        ]
        return [math.fsum(float(value) for value in of_body) for of_body in sums]

    def forces(
        self, velocity: Sequence[da.DistArray], pressure: da.DistArray
    ) -> list[tuple[float, ...]]:
        """Force of the fluid on each body, one entry per axis, divided by the density (and, with
        two axes, per length of the third). Collective; the same bits on any ranks.
        """
        sums = [
            [
                self._traction(
                    *velocity, pressure, self.open[axis], self._owner[axis],
                    axis=axis, nu=self._viscosity, which=which,
                )
                for axis in range(self.grid.ndim)
            ]
            for which in range(len(self._obstacles))
        ]  # fmt: skip
        return [tuple(float(value) for value in of_body) for of_body in sums]

    def surface_pressure(self, pressure: da.DistArray, points: Any) -> Any:
        """Pressure at points of the surface: of the polynomial of second degree that fits that of
        the fluid in the cells around best, near ones counting more. Collective.

        Parameters
        ----------
        pressure : DistArray, in the cells
        points : array, shape (points, axes)

        Returns
        -------
        float64 array, shape (points,), the same on every rank
        """
        points = np.asarray(points, np.float64)
        key = points.shape, points.tobytes()
        if self._fit is None or self._fit[0] != key:
            self._fit = key, self._fit_at(points)
        cells, rows = self._fit[1]
        values = cells.sample(pressure, order=0)
        return np.array([np.dot(weights, values[part]) for part, weights in rows])

    def _fit_at(self, points: Floats) -> tuple[Any, list[tuple[slice, Floats]]]:
        """The cells around points, and for each point which of them it reads and the weights with
        which they make the value of the fit there. Collective.
        """
        around = [self._cells_around(point) for point in points]
        cells = self.grid.points(np.concatenate([places for places, _ in around]))
        inside, rows, start = cells.sample(self.active, order=0), list[tuple[slice, Floats]](), 0
        for point, (places, width) in zip(points, around, strict=True):
            part = slice(start, start + len(places))
            away = (places - point) / width
            weight = inside[part] * np.exp(-0.5 * np.sum(away**2, axis=1) / FIT_WIDTH**2)
            terms = [np.ones(len(away)), *away.T]
            for i, x in enumerate(away.T):
                terms += [x * y for y in away.T[i:]]
            matrix = np.stack(terms, axis=1) * weight[:, None]
            rows.append((part, np.linalg.pinv(matrix)[0] * weight))
            start = part.stop
        return cells, rows

    def _cells_around(self, point: Any) -> tuple[Any, Any]:
        """Centres of the cells around a point, and the width of its cell along each axis."""
        lines, widths = [], []
        for axis, x in enumerate(point):
            along, cells = self.grid.geometry[axis], self.grid.shape[axis]
            low = along.point_positions(np.arange(cells))
            here = int(np.clip(np.searchsorted(low, x, side="right") - 1, 0, cells - 1))
            near = np.arange(max(here - FIT_CELLS, 0), min(here + FIT_CELLS + 1, cells))
            lines.append(along.centre_positions(near))
            widths.append(float(along.widths(np.array([here]))[0]))
        mesh = np.meshgrid(*lines, indexing="ij")
        return np.stack([line.ravel() for line in mesh], axis=1), np.array(widths)

    # Geometry.

    def _nearest(self, *coords: Any) -> Any:
        nearest = self._obstacles[0].shape.distance(*coords)
        for obstacle in self._obstacles[1:]:
            nearest = np.minimum(nearest, obstacle.shape.distance(*coords))
        return nearest

    def _number(self, *coords: Any) -> Any:
        """The number of the nearest body."""
        distances = [
            np.broadcast_arrays(obstacle.shape.distance(*coords), *coords)[0]
            for obstacle in self._obstacles
        ]
        return np.argmin(distances, axis=0).astype(np.float64)

    def _surface_velocity(self, axis: int, *coords: Any) -> Any:
        """Velocity of the nearest body at the nearest point of its surface."""
        coords = tuple(np.broadcast_arrays(*coords))
        points = np.stack([np.ravel(x) for x in coords], axis=-1)
        distance = self._nearest(*points.T)
        surface = points - np.expand_dims(distance, -1) * self._normals(points)
        owner = self._number(*points.T)
        total = np.zeros(len(points))
        for which, obstacle in enumerate(self._obstacles):
            value: Any = 0.0 if obstacle.velocity is None else obstacle.velocity[axis]
            value = value(*surface.T) if callable(value) else value
            total = np.where(owner == which, value, total)
        return total.reshape(coords[0].shape)

    def _normals(self, points: Any) -> Any:
        """Outward unit normals of the bodies near points, by central differences."""
        step = 1e-5 * max(high - low for low, high in self.grid.bounds)
        slopes = []
        for axis in range(self.grid.ndim):
            move = np.zeros(self.grid.ndim)
            move[axis] = step
            above, below = (self._nearest(*(points + s * move).T) for s in (1.0, -1.0))
            slopes.append((above - below) / (2.0 * step))
        found = np.stack(slopes, axis=-1)
        return found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-30)

    def _sides(self, condition: Any, end: Any = None, along: int = -1) -> dict[str, Any]:
        """A condition on all sides that are no seams, with another at the ends of one axis."""
        return {
            side: end if AXES.index(side[0]) == along else condition
            for side in side_names(self.grid.periodic)
        }

    def _component(self, axis: int, function: Callable[..., Any]) -> da.DistArray:
        return self.grid.from_function(
            function, location=AXES[axis], boundary=self._sides(da.Extrapolate(1))
        )

    def _ownership(self, axis: int) -> da.DistArray:
        """The number of the nearest body at the points of a component; -1 at the ends of the box,
        which are closed but belong to no body.
        """
        sides = self._sides(da.Neumann(0.0), end=da.Dirichlet(-1.0), along=axis)
        return self.grid.from_function(self._number, location=AXES[axis], boundary=sides)

    def _surface_speeds(self) -> tuple[float, ...]:
        """Largest velocity of the surfaces along each axis, from points within a cell of them."""
        reach = max(
            float(along.widths(np.arange(cells)).max())
            for along, cells in zip(self.grid.geometry, self.grid.shape, strict=True)
        )
        pairs = zip(self._wall, self._distance, strict=True)
        return tuple(float(kernels.near(wall, phi, reach=reach)) for wall, phi in pairs)

    def _walls(self) -> list[da.DistArray]:
        """Velocity of the nearest point of a surface, at the points of each component."""
        return [
            self._component(axis, functools.partial(self._surface_velocity, axis))
            for axis in range(self.grid.ndim)
        ]

    def _opening(self, axis: int, metrics: Metrics) -> da.DistArray:
        """The array `open` of one axis; what is fixed at the ends of the box is closed."""
        ends = self._sides(da.Neumann(0.0), end=da.Dirichlet(0.0), along=axis)
        found = self.grid.zeros(location=AXES[axis], boundary=ends)
        metrics.bind(kernels.mark_open)(self._distance[axis], found, axis=axis)
        return found

    def _step(self, axis: int) -> da.DistArray:
        found = self.grid.zeros(location=AXES[axis])
        kernels.mark_steps(self.active, self.open[axis], found, axis=axis)
        return found


class ClosedPressure:
    """The Poisson equation in the fluid around bodies, whose faces are closed. Collective.

    Parameters
    ----------
    boundary : ImmersedBoundary
    solver : with `solve(rhs, out)`
        Solves it in the box without bodies.

    Attributes
    ----------
    iterations : int
        How many the last solution took.
    """

    def __init__(self, boundary: ImmersedBoundary, solver: Any) -> None:
        self._boundary = boundary
        self._solver = solver
        grid = boundary.grid
        metrics = Metrics(grid)
        self._laplacian = metrics.bind(kernels.closed_laplacian)
        self._weigh, self._unweigh = metrics.bind(kernels.weigh), metrics.bind(kernels.unweigh)
        self._integrals = metrics.bind(kernels.integrals)
        self._rhs = grid.zeros(boundary=boundary.active.boundary)
        self._scaled = grid.zeros()
        self._gradients = linear.LinearSolver(
            self._operator, preconditioner=self._precondition, reproducible=True, nullspace=None
        )
        self.iterations = 0

    def solve(self, rhs: da.DistArray, out: da.DistArray) -> None:
        """Put the solution into `out`, zero in cells without fluid; what `rhs` has as a mean over
        the fluid is dropped. Collective; the same bits on any ranks.

        Raises
        ------
        SolverError
            The iteration did not converge, or the velocity is no longer finite.
        """
        active = self._boundary.active
        total, volume, squares = (float(value) for value in self._integrals(rhs, active))
        self._weigh(rhs, active, self._rhs, mean=total / volume)
        atol = DIVERGENCE * self._boundary.largest_rate() * math.sqrt(squares)
        if not math.isfinite(atol):
            raise da.SolverError(
                "The velocity around the obstacles is no longer finite; use a smaller time step."
            )
        # From zero, not from the last solution: where nothing is left to correct, a steady flow
        # then keeps its pressure.
        solution = self._gradients.solve(
            self._rhs, rtol=ROUND_OFF, atol=atol, max_iterations=MAX_ITERATIONS, out=out
        )
        if not solution.converged:
            raise da.SolverError(
                f"The pressure around the obstacles does not converge: {solution.reason} Use a "
                "finer grid or a smaller time step."
            )
        self.iterations = solution.iterations
        kernels.mask(out, active)

    def _operator(self, x: da.DistArray, out: da.DistArray) -> None:
        self._laplacian(x, *self._boundary.open, out)

    def _precondition(self, r: da.DistArray, out: da.DistArray) -> None:
        self._unweigh(r, self._scaled)
        self._solver.solve(self._scaled, out)
