"""Diffusion with fluxes through faces: second order in space, explicit or implicit in time.

Implicit stages solve `u / (d dt) - div(D grad u) = ...` by multigrid, for the change of u, so that
the tolerance is relative to that change. What the solution is short of the equation, in the mean
over the box, is added to it: nothing is lost or gained, whatever the tolerance.
"""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers.box import AXES, field_of, finite_field, is_number
from solvers.diffusion import kernels
from solvers.diffusion.config import DiffusionConfig
from solvers.even_steps import EvenSteps, change, require_step
from solvers.linear.vectors import homogeneous
from solvers.multigrid import EllipticOperator, Multigrid


class DiffusionSolver(EvenSteps):
    """Diffusion described by a `DiffusionConfig`. Collective.

    Attributes
    ----------
    config : DiffusionConfig
    fields : dict
        "u", float64, in the cells. A step of the explicit scheme puts another array there: look it
        up anew after it.

    Examples
    --------
    >>> from solvers.diffusion import DiffusionConfig, DiffusionSolver
    >>> import distarray as da
    >>> heat = DiffusionSolver(
    ...     DiffusionConfig(cells=(16,), boundary={"x-": da.Dirichlet(1.0)}, scheme="tr-bdf2")
    ... )
    >>> heat.run(until=10.0)
    >>> round(float(heat.fields["u"].min()), 6)
    1.0
    """

    config: DiffusionConfig

    def __init__(self, config: DiffusionConfig, *, comm: Any = None, device: str = "auto") -> None:
        super().__init__(measure_every=config.measure_every)
        self.config = config
        self.grid = da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            ranks=config.ranks,
            comm=comm,
            device=device,
        )
        self._scheme = config.integrator
        self.fields = {
            "u": finite_field(self.grid, config.initial, boundary=config.conditions, name="u")
        }
        self._make_diffusivity()
        self._make_source()
        self._spare = self.grid.empty_like(self.fields["u"])
        self._rates = [self.grid.zeros() for _ in self._scheme.times[:-1]]
        self._right = self.grid.zeros()
        self._solver: tuple[float, Multigrid] | None = None  # and the time step that it is for
        if self._scheme.implicit:
            self._operator(1.0)  # refuses what it cannot solve

    # ---- what it is made of

    def _make_diffusivity(self) -> None:
        """Numbers, or arrays on faces, and the largest value along each axis."""
        along = self.config.along
        self._faces: tuple[da.DistArray, ...] = ()
        if all(map(is_number, along)):
            self._largest = tuple(map(float, along))  # type: ignore[arg-type]
            return
        self._faces = tuple(self._on_faces(axis, k) for axis, k in enumerate(along))
        least = min(float(k.min()) for k in self._faces)
        self._largest = tuple(float(k.max()) for k in self._faces)
        if not (least >= 0.0 and 0.0 < max(self._largest) < math.inf):
            raise da.SolverError(
                "The diffusivity is finite, nowhere below 0 and somewhere above, its values lie "
                f"between {least} and {max(self._largest)}; change it."
            )

    def _on_faces(self, axis: int, k: Any) -> da.DistArray:
        name = AXES[axis]
        if is_number(k) or callable(k):
            return field_of(self.grid, k, location=name)
        mirrors = dict.fromkeys(self.config.conditions, da.Symmetry())
        found = self.grid.zeros(location=name)
        kernels.faces(field_of(self.grid, k, boundary=mirrors), found, axis=axis)
        return found

    def _make_source(self) -> None:
        source = self.config.source
        self._source: tuple[da.DistArray, ...] = ()
        self._source_time = math.nan
        if self.config.source_takes_time:
            self._source = (self.grid.zeros(),)
        elif not is_number(source) or source != 0.0:
            self._source = (finite_field(self.grid, source, name="source"),)
        self._form = kernels.Form(self.config.ndim, bool(self._faces), bool(self._source))
        self._scalars = {f"r{axis}": 1.0 / h for axis, h in enumerate(self.config.spacing)}
        if not self._faces:
            self._scalars |= {f"k{axis}": k for axis, k in enumerate(self._largest)}

    def _coefficients(self, time: float) -> tuple[da.DistArray, ...]:
        """The arrays that kernels take, with the source of a time."""
        source: Any = self.config.source
        if self.config.source_takes_time and self._source_time != time:
            self._source[0][...] = self.grid.from_function(lambda *x: source(time, *x))
            self._source_time = time
        return (*self._faces, *self._source)

    # ---- the time step

    @property
    def limit(self) -> float:
        """The largest stable time step, `2 / sum_i (4 D_i / h_i^2)` with the largest D_i of each
        axis; infinite for implicit schemes.
        """
        return math.inf if self._scheme.implicit else self._explicit_limit

    @property
    def _explicit_limit(self) -> float:
        spacing = self.config.spacing
        rate = sum(k / h**2 for k, h in zip(self._largest, spacing, strict=True))
        return 0.5 / rate if rate else math.inf

    def stable_dt(self) -> float:
        """The configured time step, or `config.safety` times the limit of the explicit scheme, for
        implicit ones 10 times as much, which accuracy may ask for, not stability.

        Raises
        ------
        SolverError
            The configured time step is beyond the limit.
        """
        if self.config.time_step is not None:
            require_step(f"the scheme '{self._scheme.name}'", self.config.time_step, self.limit)
            return self.config.time_step
        return self.config.safety * self._explicit_limit * (10.0 if self._scheme.implicit else 1.0)

    def step(self, dt: float) -> None:
        """Advance by one time step. Collective.

        Raises
        ------
        SolverError
            The time step is not above 0, or beyond the limit of stability; or the equation of a
            stage was not solved to the tolerance.
        """
        require_step(f"the scheme '{self._scheme.name}'", dt, self.limit)
        largest = self._advance_stages(dt) if self._scheme.implicit else self._advance_explicit(dt)
        self.step_count += 1
        self.time += dt
        if largest is not None:
            self._measure(dt, [largest], [])

    def _advance_explicit(self, dt: float) -> Any:
        """One step of Euler; the largest change, pending, if it is due."""
        u, new = self.fields["u"], self._spare
        arrays = self._coefficients(self.time)
        kernels.explicit(self._form)(u, new, *arrays, dt=dt, time=self.time, **self._scalars)
        self.fields["u"], self._spare = new, u
        return change(new, u) if self._due() else None

    def _advance_stages(self, dt: float) -> Any:
        """All stages of a step; the largest change of the last one, pending, if it is due."""
        u, stage, due = self.fields["u"], self._spare, self._due()
        count, largest = len(self._scheme.times), None
        for i, (c, row) in enumerate(zip(self._scheme.times, self._scheme.rows, strict=True)):
            time, last = self.time + c * dt, i == count - 1
            now = u
            if row[-1]:
                now = u if last else stage
                largest = self._solve_stage(u, now, row, time=time, dt=dt)
            if not last:
                arrays = self._coefficients(time)
                rate = kernels.rate(self._form)
                rate(now, self._rates[i], *arrays, time=time, **self._scalars)
        return largest if due else None

    def _solve_stage(
        self, u: da.DistArray, out: da.DistArray, row: tuple[float, ...], *, time: float, dt: float
    ) -> Any:
        """Write to `out` the stage `u + dt (sum_j a_j f_j + d f(out))`; the largest change,
        pending.
        """
        *weights, d = row
        scale = 1.0 / (d * dt)
        kernels.residual(self._form, len(weights))(
            u,
            self._right,
            *self._coefficients(time),
            *self._rates[: len(weights)],
            time=time,
            **self._scalars,
            **{f"w{j}": a / d for j, a in enumerate(weights)},
        )
        multigrid = self._multigrid(scale)
        found = multigrid.solve(self._right, rtol=self.config.tolerance)
        if not found.converged:
            raise da.SolverError(
                f"A stage of '{self._scheme.name}' at time {time:.6g} was not solved to "
                f"tolerance={self.config.tolerance:g}: {found.reason}; use a smaller time step or "
                "a larger tolerance."
            )
        multigrid.operator.residual(found.x, self._right, self._right)
        short = float(self._right.mean(reproducible=True)) / scale
        return kernels.add(u, found.x, out, shift=short)

    def _multigrid(self, scale: float) -> Multigrid:
        if self._solver is None or self._solver[0] != scale:
            self._solver = scale, Multigrid(self._operator(scale), reproducible=True)
        return self._solver[1]

    def _operator(self, scale: float) -> EllipticOperator:
        """`scale u - div(D grad u)` with homogeneous conditions. Collective."""
        sides = {side: homogeneous(given) for side, given in self.config.conditions.items()}
        names, largest = AXES[: self.config.ndim], self._largest
        if not self._faces and len(set(largest)) == 1:
            return EllipticOperator(self.grid, largest[0], scale, boundary=sides)
        faces = self._faces or tuple(
            self.grid.full(k, location=name) for name, k in zip(names, largest, strict=True)
        )
        links = dict(zip(names, faces, strict=True))
        return EllipticOperator(self.grid, links, scale, boundary=sides)

    # ---- what is measured

    def scalars(self) -> dict[str, float]:
        """The integral of u over the box, exact to the last bit, and its smallest and largest
        value. Collective.
        """
        u, volume = self.fields["u"], math.prod(high - low for low, high in self.config.box)
        content = float(u.mean(reproducible=True)) * volume
        return {"content": content, "smallest": float(u.min()), "largest": float(u.max())}
