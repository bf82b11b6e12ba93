"""Acoustic waves by leap-frog: second order in time, order 2 to 16 in space.

A step is a list of kernels and the positions of their arrays, as `da.iterate` takes it: in
perfectly matched layers one for the slope along each of their axes, then one for all else, and
after them sources that are added and receivers that are read (see `positions`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

import distarray as da
from solvers.box import AXES, field_of, is_number, shown
from solvers.even_steps import EvenSteps, change, require_step
from solvers.wave import coefficients, kernels, layers
from solvers.wave.config import SIDES, Source, WaveConfig, require_squares
from solvers.wave.positions import Axis, Floats, Positions
from solvers.wave.traces import Traces

#: Steps of a run that are worth a loop: to plan one for fewer takes longer than what it saves, and
#: `iterate` tries tiles from so many on.
_WORTH = 48


class WaveSolver(EvenSteps):
    """A wave described by a `WaveConfig`. Collective.

    Attributes
    ----------
    config : WaveConfig
    fields : dict
        "p", the pressure at `time`, and "old", the one a step before (at time 0, dp/dt); then
        "psi_x", "zeta_x", ... of perfectly matched layers; all float64, in the cells. A step lets
        the first two change places: look them up anew after it.
    traces : Traces
        What the receivers recorded.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.wave import WaveConfig, WaveSolver
    >>> wave = WaveSolver(
    ...     WaveConfig(cells=(32,), periodic=True, initial=lambda x: np.sin(2 * np.pi * x))
    ... )
    >>> wave.run(until=1.0)
    >>> round(float(wave.fields["p"].max()), 2)
    1.0
    """

    config: WaveConfig

    def __init__(self, config: WaveConfig, *, comm: Any = None, device: str = "auto") -> None:
        super().__init__(measure_every=config.measure_every)
        self.config, self._comm = config, comm
        self.grid = da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            halo=config.order // 2,
            ranks=config.ranks,
            comm=comm,
            device=device,
        )
        self._dt = 0.0  # of the last step
        self._layers_for = math.nan  # the time step that the profiles of layers are of
        self._make_medium()
        self._make_fields()
        self._make_layers()
        self._make_points()

    # ---- what a wave is made of

    def _make_medium(self) -> None:
        """The velocity squared, as a number or an array, and the largest velocity."""
        velocity = self.config.velocity
        self._medium: tuple[da.DistArray, ...] = ()
        self._c2 = self.speed = float("nan")
        if is_number(velocity):
            self.speed = float(velocity)  # type: ignore[arg-type]
            self._c2 = self.speed * self.speed
            return
        c = field_of(self.grid, velocity, halo=0)
        least, self.speed = float(c.min()), float(c.max())
        if not (least > 0.0 and math.isfinite(self.speed)):
            raise da.SolverError(
                f"The velocity is above 0 and finite everywhere, its values lie between {least} "
                f"and {self.speed}; change it."
            )
        require_squares(least, self.speed)
        self._medium = (c * c,)

    def _make_fields(self) -> None:
        kinds = self.config.kinds
        boundary = {side: da.Symmetry(int(SIDES[kind])) for side, kind in kinds.items()}
        self.fields = {}
        for name, given in (("p", "initial"), ("old", "initial_rate")):
            found = field_of(self.grid, getattr(self.config, given), boundary=boundary, name=name)
            wrong = int(da.where(np.isfinite(found), 0, 1).sum())
            if wrong:
                raise da.SolverError(
                    f"'{given}' is finite everywhere, received a function whose values are not in "
                    f"{wrong} of {math.prod(self.grid.shape)} cells; change it."
                )
            self.fields[name] = found

    def _make_layers(self) -> None:
        """The arrays of layers, and the step: kernels and positions of their arrays."""
        config = self.config
        axes = tuple(axis for axis in range(config.ndim) if any(config.absorbs(axis)))
        matched = axes if config.absorber == "cpml" else ()
        self._form = kernels.Form(
            config.ndim,
            config.order,
            varies=bool(self._medium),
            matched=matched,
            tapered=() if matched else axes,
        )
        self._depths = {
            axis: layers.depth(config.cells[axis], config.width, low=low, high=high)
            for axis in axes
            for low, high in [config.absorbs(axis)]
        }
        for axis in matched:
            name = AXES[axis]
            self.fields[f"psi_{name}"] = self.grid.zeros(
                boundary={name: da.Symmetry()},
                halo=[config.order // 2 if other == axis else 0 for other in range(config.ndim)],
                name=f"psi_{name}",
            )
        for axis in matched:
            self.fields[f"zeta_{AXES[axis]}"] = self.grid.zeros(halo=0, name=f"zeta_{AXES[axis]}")
        self._profiles: tuple[da.Profile, ...] = ()

    def _make_points(self) -> None:
        config = self.config
        axes = [
            Axis(n, low, h, wraps, config.signs(axis))
            for axis, (n, (low, _), h, wraps) in enumerate(
                zip(config.cells, config.box, config.spacing, config.periodic_axes, strict=True)
            )
        ]
        rule: dict[str, Any] = {"kind": config.interpolation, "order": config.order}
        places = [source.position for source in config.sources]
        self._sources = Positions(self.grid, axes, places, **rule)
        self._sources.scale(self._medium[0] if self._medium else self._c2)
        self._receivers = Positions(self.grid, axes, config.receivers, **rule)
        self.traces = Traces(config.receivers)
        self._record()

    # ---- the time step

    def stable_dt(self) -> float:
        """The largest stable time step, times `config.safety`."""
        return self.config.safety * self.limit

    @property
    def limit(self) -> float:
        """The largest stable time step, `2 / (c sqrt(sum_i S / h_i^2))` with S the largest value of
        the second difference's symbol (`coefficients.largest`).
        """
        symbol = coefficients.largest(self.config.order)
        rate = self.speed * math.sqrt(sum(symbol / h**2 for h in self.config.spacing))
        return 2.0 / rate if rate else math.inf

    def step(self, dt: float) -> None:
        """Advance by one time step. Collective.

        Raises
        ------
        SolverError
            The time step is not above 0, or beyond the limit of stability.
        """
        self.advance(1, dt)

    def advance(self, steps: int, dt: float) -> None:
        """Advance by so many steps of the same length. Collective.

        Raises
        ------
        SolverError
            The time step is not above 0, or beyond the limit of stability.
        """
        require_step(f"order {self.config.order}", dt, self.limit)
        self._renew_layers(dt)
        done = 0
        while done < steps:
            # The first steps of a length differ from the others.
            many = steps - done if self._dt == dt else 1
            many = min(many, self._at_once())
            self._leap(many, dt)
            done += many

    def _at_once(self) -> int:
        return self._measure_every - self.step_count % self._measure_every

    def _make(self, steps: int, dt: float) -> None:
        if steps < _WORTH:
            super()._make(steps, dt)
        else:
            self.advance(steps, dt)

    def _complete(self) -> None:
        """Measurements are many steps apart: the state at the end is looked at too."""
        super()._complete()
        if self.step_count % self._measure_every:
            largest = change(self.fields["p"], self.fields["old"])
            self._require_finite([float(largest)], self._dt)

    def _leap(self, steps: int, dt: float) -> None:
        first = self.step_count == 0
        if first:
            kernels.begin(self.fields["p"], self.fields["old"], dt=dt)
        before = 0.0 if first else self._dt
        times = [self.time]  # at the start of each step and the end
        for _ in range(steps):
            times.append(times[-1] + dt)
        weight = 0.5 * dt * (dt + before)
        keep = 1.0 if first else dt / before
        self._run(times, keep=keep, weight=weight)
        self.time = times[-1]
        self.step_count += steps
        self._dt = dt
        if self.step_count % self._measure_every == 0:
            largest = change(self.fields["p"], self.fields["old"])
            self._measure(dt, [largest], [])

    def _run(self, times: Sequence[float], *, keep: float, weight: float) -> None:
        """Some steps, after each of which p and old change places."""
        stages, arrays = self._stages()
        scalars: dict[str, Any] = self._scalars | {"keep": keep, "weight": weight}
        steps = len(times) - 1

        def strengths(number: int) -> Floats:
            sources = enumerate(self.config.sources)
            return weight * np.array([_strength(k, one, times[number]) for k, one in sources])

        p, old = arrays[:2]
        rows: list[Floats] = []
        if steps > 1:
            recording = self._receivers.recording()
            points: list[tuple[Any, tuple[int, ...]]] = []
            if len(self._sources):
                points.append((self._sources.adding(strengths), (1,)))
            if len(self._receivers):
                points.append((recording, (1,)))
            da.iterate([*stages, *points], *arrays, steps=steps, **scalars)
            if len(self._receivers):
                rows = self._receivers.recorded(recording)
        else:  # to plan a loop takes longer than the step of a small grid
            for kernel, positions in stages:
                given = {name: scalars[name] for name in kernel.scalar_names}
                kernel(*(arrays[position] for position in positions), **given)
            if len(self._sources):
                self._sources.add(old, strengths(0))
            if len(self._receivers):
                rows.append(self._receivers.sample(old))
        for time, row in zip(times[1:], rows, strict=False):
            self.traces.add(time, row)
        self.fields["p"], self.fields["old"] = (old, p) if steps % 2 else (p, old)

    @property
    def _scalars(self) -> dict[str, float]:
        scalars = {f"r{axis}": 1.0 / h for axis, h in enumerate(self.config.spacing)}
        return scalars if self._medium else scalars | {"c2": self._c2}

    def _stages(self) -> tuple[list[tuple[da.StencilKernel, tuple[int, ...]]], list[Any]]:
        """The kernels of a step with the positions of their arrays, and all arrays."""
        form = self._form
        states = [self.fields["p"], self.fields["old"], *self._medium]
        names = [f"{kind}_{AXES[axis]}" for kind in ("psi", "zeta") for axis in form.matched]
        arrays = [*states, *(self.fields[name] for name in names), *self._profiles]
        count, psi = len(form.matched), len(states)
        a = psi + 2 * count
        stages = [
            (kernels.match(form.order, axis), (0, psi + k, a + k, a + count + k))
            for k, axis in enumerate(form.matched)
        ]
        return [*stages, (kernels.leap(form), tuple(range(len(arrays))))], arrays

    def _renew_layers(self, dt: float) -> None:
        """The profiles of the layers for a time step."""
        if self._layers_for == dt or not self._depths:
            return
        self._layers_for = dt
        if self._form.tapered:
            found = [(axis, layers.sponge(d)) for axis, d in self._depths.items()]
        else:
            pairs = {axis: self._matched(axis, d, dt) for axis, d in self._depths.items()}
            found = [(axis, pair[which]) for which in (0, 1) for axis, pair in pairs.items()]
        self._profiles = tuple(self.grid.profile(axis, values, halo=0) for axis, values in found)

    def _matched(self, axis: int, d: layers.Floats, dt: float) -> tuple[layers.Floats, ...]:
        thickness = self.config.width * self.config.spacing[axis]
        return layers.matched(
            d, thickness=thickness, speed=self.speed, frequency=self.frequency, dt=dt
        )

    @property
    def frequency(self) -> float:
        """That CPML is made for; 0 where nothing names one."""
        if self.config.frequency is not None:
            return self.config.frequency
        named = (getattr(source.wavelet, "frequency", None) for source in self.config.sources)
        return float(next((f for f in named if f is not None), 0.0))

    def _record(self) -> None:
        if len(self._receivers):
            self.traces.add(self.time, self._receivers.sample(self.fields["p"]))

    # ---- what is measured

    def velocity(self) -> da.DistArray:
        """The velocity in the cells. Collective."""
        return field_of(self.grid, self.config.velocity, name="velocity")

    def energy(self) -> float:
        """The energy that leap-frog conserves, between the last two times. Collective; the same
        bits on any ranks.

        It is that of the sum of `(p_t / c)^2 / 2 + |grad p|^2 / 2` over the box, in units of p^2
        times a length to the power ndim - 2; before the first step that of the start.
        """
        total = kernels.energy(self._form_of_energy)(
            self.fields["p"],
            self.fields["old"],
            *self._medium,
            start=self.step_count == 0,
            dt=self._dt or 1.0,
            **self._scalars,
        )
        return 0.5 * float(total) * math.prod(self.config.spacing)

    @property
    def _form_of_energy(self) -> kernels.Form:
        return kernels.Form(self._form.ndim, self._form.order, varies=self._form.varies)

    def scalars(self) -> dict[str, float]:
        return {"energy": self.energy(), "largest": float(abs(self.fields["p"]).max())}

    # ---- files

    def save_traces(self, folder: str | os.PathLike[str]) -> None:
        """Write what the receivers recorded, see `Traces.save`. Collective."""
        self.traces.save(folder, self.grid, self._comm)

    def _attributes(self) -> dict[str, Any]:
        return {**super()._attributes(), "dt": self._dt, "traces": self.traces.packed()}

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        super()._restore_attributes(attrs)
        self._dt = float(attrs["dt"])
        self.traces.unpack(attrs["traces"])


def _strength(number: int, source: Source, time: float) -> float:
    """What a source gives at a time."""
    found = source.wavelet(time)
    value = found[()] if isinstance(found, np.ndarray) and not found.shape else found
    if not isinstance(value, Real):
        raise da.SolverError(
            f"The wavelet of source {number} gives a real number at each time, received "
            f"{shown(found)} at time {time:.6g}; let it return one."
        )
    return float(value)
