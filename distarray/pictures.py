"""Pictures of planes and lines of an array. The one file of this package that needs matplotlib (the
extra `plot`), and only when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import FileError
from distarray.panels import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Planes that are longer than this share of their height, or the other way round, are not drawn to
#: scale.
LONGEST = 12.0
_INCHES = 4.5  # of the longest side
_MAP, _TWO_SIDED = "viridis", "RdBu_r"


def draw(path: str, panels: Sequence[Panel], title: str, label: str) -> None:
    """Draw panels beside one another, planes in the same colours, and write them as PNG. Local.

    Raises
    ------
    FileError
        matplotlib is missing, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FileError(
            f"Pictures need matplotlib, which cannot be imported ({error}); "
            "install the extra plot (in a clone: pip install '.[plot]')."
        ) from error
    planes = all(len(panel.labels) == 2 for panel in panels)
    shapes = _shapes(panels) if planes else [(1.5, 0.9)] * len(panels)
    height = _INCHES * max(height for _, height in shapes)
    width = sum(_INCHES * width + 0.9 for width, _ in shapes)
    # Room for titles, labels and the colour bar.
    figure = Figure(
        figsize=(max(width + 1.0 * planes + 0.3, 4.5), max(height + 1.1, 2.6)), layout="constrained"
    )
    ratios = [width for width, _ in shapes]
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=ratios)[0]
    if planes:
        _draw_planes(figure, axes, panels, label)
    else:
        for one, panel in zip(axes, panels, strict=True):
            _draw_line(one, panel, label)
    figure.suptitle(_text(title))
    try:
        figure.savefig(path, dpi=150, format="png")
    except OSError as error:
        raise FileError(
            f"The picture '{path}' cannot be written: {error.strerror}; give another path."
        ) from error


def _shapes(panels: Sequence[Panel]) -> list[tuple[float, float]]:
    """Widths and heights of planes, the largest of which is 1; in one scale if that can be."""
    lengths = [panel.lengths for panel in panels]
    largest = max(map(max, lengths))
    if all(map(_to_scale, panels)) and min(map(max, lengths)) > 0.3 * largest:
        return [(width / largest, height / largest) for width, height in lengths]
    return [(1.0, 0.6)] * len(panels)


def _to_scale(panel: Panel) -> bool:
    """Whether both axes of a plane are drawn in one scale."""
    return max(panel.lengths) <= LONGEST * min(panel.lengths)


def _draw_planes(figure: Any, axes: Sequence[Axes], panels: Sequence[Panel], label: str) -> None:
    low, high = colour_limits([panel.values for panel in panels])
    colours = _TWO_SIDED if low == -high else _MAP
    for one, panel in zip(axes, panels, strict=True):
        mesh = one.pcolormesh(
            *panel.edges,
            np.ma.masked_invalid(panel.values.T),
            vmin=low,
            vmax=high,
            cmap=colours,
            rasterized=True,
        )
        one.set_facecolor("0.75")  # where there is no number
        one.set_aspect("equal" if _to_scale(panel) else "auto")
        one.set_xlabel(_text(panel.labels[0]))
        one.set_ylabel(_text(panel.labels[1]))
        one.set_title(_text(panel.title), fontsize="medium")
    figure.colorbar(mesh, ax=list(axes), label=_text(label), aspect=25, pad=0.02)


def _draw_line(one: Axes, panel: Panel, label: str) -> None:
    few = panel.values.size <= 64
    one.plot(panel.positions[0], panel.values, marker="." if few else None)
    one.set_xlim(panel.edges[0][0], panel.edges[0][-1])
    one.set_xlabel(_text(panel.labels[0]))
    one.set_ylabel(_text(label))
    one.set_title(_text(panel.title), fontsize="medium")
    one.grid(alpha=0.3)


def colour_limits(values: Sequence[HostArray]) -> tuple[float, float]:
    """The numbers at the ends of the colour bar: the smallest and the largest, or as much on both
    sides of zero where numbers of both signs matter.
    """
    finite = [part[np.isfinite(part)] for part in values]
    parts = [part for part in finite if part.size]
    if not parts:
        return 0.0, 1.0
    low, high = float(min(map(np.min, parts))), float(max(map(np.max, parts)))
    if low == high:
        margin = 0.5 * abs(low) or 0.5
        return low - margin, high + margin
    if min(-low, high) > 0.1 * max(-low, high):
        return -max(-low, high), max(-low, high)
    return low, high


def _text(text: str) -> str:
    """A text without what matplotlib takes for formulas."""
    return text.replace("$", r"\$")
