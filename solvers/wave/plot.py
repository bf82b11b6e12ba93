"""Pictures of what receivers recorded, by matplotlib if it is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from solvers.plot import picture
from solvers.wave.solver import WaveSolver
from solvers.wave.traces import Floats, Traces

#: The largest pressures are drawn alike from this quantile on, so that reflections are seen.
_CLIP = 0.98


def shot_record(wave: WaveSolver, path: str | os.PathLike[str]) -> bool:
    """Draw the velocity, the pressure now and the shot record of a wave on two axes, the second of
    which is depth; says whether matplotlib was there. Collective.
    """
    panels: dict[str, Any] = {
        "velocity": wave.velocity().gather(root=0),
        "pressure": wave.fields["p"].gather(root=0),
    }

    def paint(figure: Any) -> None:
        for place, (name, values) in enumerate(panels.items()):
            axes = figure.add_subplot(2, 2, 1 + 2 * place, xlabel="x", ylabel="depth", title=name)
            figure.colorbar(_section(axes, wave, values, grey=place > 0), ax=axes)
        _record(figure.add_subplot(1, 2, 2), wave.traces)
        figure.suptitle(f"{' x '.join(map(str, wave.config.cells))} cells, time {wave.time:.4g}")

    return picture(wave.grid, path, (13.0, 5.5), paint)


def _section(axes: Any, wave: WaveSolver, values: Floats, *, grey: bool) -> Any:
    """The ground from the side, with the receivers and sources."""
    (left, right), (top, bottom) = wave.grid.bounds
    options = _grey(values) if grey else {"cmap": "viridis"}
    image = axes.imshow(values.T, extent=(left, right, bottom, top), aspect="auto", **options)
    axes.plot(*zip(*wave.traces.positions, strict=True), "v", color="white", markersize=2)
    for source in wave.config.sources:
        axes.plot(*source.position, "*", color="red")
    return image


def _grey(values: Floats) -> dict[str, Any]:
    largest = float(np.quantile(abs(values), _CLIP)) or 1.0
    return {"cmap": "gray", "vmin": -largest, "vmax": largest}


def _record(axes: Any, traces: Traces) -> None:
    places = [position[0] for position in traces.positions]
    last = traces.times[-1] or 1.0  # without a step there is one time
    extent = (places[0], places[-1], last, traces.times[0])
    axes.imshow(traces.values, extent=extent, aspect="auto", **_grey(traces.values))
    axes.set(xlabel="x of the receiver", ylabel="time", title="shot record")


def traces(wave: WaveSolver, exact: Sequence[Floats], path: str | os.PathLike[str]) -> bool:
    """Draw each trace over the exact one; says whether matplotlib was there. Local: all ranks hold
    the traces, rank 0 draws them.
    """
    times, found = wave.traces.times, wave.traces.values

    def paint(figure: Any) -> None:
        for number, values in enumerate(exact):
            axes = figure.add_subplot(len(exact), 1, 1 + number, xlabel="time", ylabel="pressure")
            axes.plot(times, values, color="black", linewidth=0.8, label="exact")
            axes.plot(times, found[:, number], "--", label="computed")
            axes.legend(title=f"receiver {number}")

    return picture(wave.grid, path, (8.0, 2.5 * len(exact)), paint)
