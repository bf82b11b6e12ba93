"""Flows that others have solved, too, as configurations. Local.

Numerics are passed on to `EulerConfig`. Each problem says when it is looked at.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import distarray as da
from solvers.euler.config import EulerConfig
from solvers.euler.exact import (
    ShockTube,
    double_mach_front,
    gresho,
    require_mach,
    sedov_radius,
    vortex,
)
from solvers.euler.sides import Inflow, Outflow, Side, Split, Wall

SHU_OSHER_TIME = 1.8
BLAST_TIME = 0.038
SEDOV_TIME = 1.0
GRESHO_TIME = 1.0
INSTABILITY_TIME = 1.5
DOUBLE_MACH_TIME = 0.2
#: Where the shock of the blast is at the time 1, which says what energy it has.
SEDOV_RADIUS = 0.75
#: States of the double Mach reflection behind and ahead of the shock.
BEHIND = (8.0, 8.25 * math.cos(math.pi / 6.0), -8.25 * math.sin(math.pi / 6.0), 116.5)
AHEAD = (1.4, 0.0, 0.0, 1.0)


def tube(case: ShockTube, cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """A shock tube whose waves leave through both ends."""
    return EulerConfig(
        cells=cells,
        initial=lambda x: case.states(x, 0.0),
        bounds=(case.bounds,),
        sides={"x-": Outflow(), "x+": Outflow()},
        **numerics,
    )


def shu_osher(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """A shock of Mach number 3 that runs into waves of density (Shu, C.-W., Osher, S. (1989) J.
    Comput. Phys. 83(1), 32-78, example 8).
    """
    behind = 27.0 / 7.0, 4.0 * math.sqrt(35.0) / 9.0, 31.0 / 3.0

    def initial(x: Any) -> Any:
        ahead = 1.0 + 0.2 * np.sin(5.0 * x), 0.0, 1.0
        return [np.where(x < -4.0, a, b) for a, b in zip(behind, ahead, strict=True)]

    sides: dict[str, Side] = {"x-": Inflow(behind), "x+": Outflow()}
    return EulerConfig(cells=cells, initial=initial, bounds=((-5.0, 5.0),), sides=sides, **numerics)


def blast_waves(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """Two blasts between walls that meet (Woodward, P., Colella, P. (1984) J. Comput. Phys. 54(1),
    115-173).
    """

    def initial(x: Any) -> Any:
        return 1.0, 0.0, np.where(x < 0.1, 1000.0, np.where(x < 0.9, 0.01, 100.0))

    return EulerConfig(cells=cells, initial=initial, **numerics)


def sedov(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """A blast in the middle of gas almost without pressure, on one to three axes. Its energy lies
    evenly in the cells within 3.5 widths of the middle, a symmetric number of them.
    """
    ndim = len(cells)
    energy = (SEDOV_RADIUS / sedov_radius(1.0, ndim)) ** (ndim + 2)
    width = 2.0 / min(cells)

    def inside(*coords: Any) -> Any:
        return sum(x * x for x in coords) < (3.5 * width) ** 2

    axes = [-1.0 + (np.arange(n) + 0.5) * 2.0 / n for n in cells]
    count = int(np.count_nonzero(inside(*np.meshgrid(*axes, indexing="ij", sparse=True))))
    high = 0.4 * energy / (count * math.prod(2.0 / n for n in cells))

    def initial(*coords: Any) -> Any:
        return 1.0, *(0.0,) * ndim, np.where(inside(*coords), high, 1e-5)

    return EulerConfig(
        cells=cells,
        initial=initial,
        bounds=((-1.0, 1.0),) * ndim,
        **{"positivity": True} | numerics,
    )


def vortex_flow(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """A vortex that is carried along the diagonal of a periodic square (`exact.vortex`)."""
    return EulerConfig(
        cells=cells,
        initial=lambda x, y: vortex(0.0, x, y),
        bounds=((-10.0, 10.0),) * 2,
        periodic=True,
        **numerics,
    )


def gresho_flow(cells: tuple[int, ...], *, mach: float = 0.1, **numerics: Any) -> EulerConfig:
    """A steady vortex (`exact.gresho`)."""
    require_mach(mach)
    return EulerConfig(
        cells=cells,
        initial=lambda x, y: gresho(x, y, mach=mach),
        bounds=((-0.5, 0.5),) * 2,
        periodic=True,
        **numerics,
    )


def kelvin_helmholtz(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """Two smooth shear layers that roll up (McNally, C. P., Lyra, W., Passy, J.-C. (2012)
    Astrophys. J. Suppl. 201(2), 18).
    """

    def ramp(y: Any, low: float, high: float) -> Any:
        """From low to high at y = 1/4 and back at 3/4."""
        half = 0.5 * (low - high)
        return np.select(
            [y < 0.25, y < 0.5, y < 0.75],
            [
                low - half * np.exp((y - 0.25) / 0.025),
                high + half * np.exp((0.25 - y) / 0.025),
                high + half * np.exp((y - 0.75) / 0.025),
            ],
            low - half * np.exp((0.75 - y) / 0.025),
        )

    def initial(x: Any, y: Any) -> Any:
        return ramp(y, 1.0, 2.0), ramp(y, 0.5, -0.5), 0.01 * np.sin(4.0 * math.pi * x), 2.5

    return EulerConfig(cells=cells, initial=initial, gamma=5.0 / 3.0, periodic=True, **numerics)


def double_mach(cells: tuple[int, ...], **numerics: Any) -> EulerConfig:
    """A shock of Mach number 10 that a ramp of 30 degrees reflects (Woodward, Colella 1984). The
    shock stands exactly where it would without the ramp along the upper side.
    """

    def initial(x: Any, y: Any) -> Any:
        left = x < double_mach_front(0.0, y)
        return [np.where(left, a, b) for a, b in zip(BEHIND, AHEAD, strict=True)]

    sides: dict[str, Side] = {
        "x-": Inflow(BEHIND),
        "x+": Outflow(),
        "y-": Split(lambda t, x, y: x < 1.0 / 6.0, Inflow(BEHIND), Wall()),
        "y+": Split(lambda t, x, y: x < double_mach_front(t, y), Inflow(BEHIND), Inflow(AHEAD)),
    }
    return EulerConfig(
        cells=cells, initial=initial, bounds=((0.0, 4.0), (0.0, 1.0)), sides=sides, **numerics
    )


def mixing(flow_velocity: da.DistArray, grid: da.Grid) -> float:
    """The amplitude of the mode sin(4 pi x) of the transverse velocity in the shear layers
    (McNally et al., equations 9 to 13). Collective; the same bits on any ranks.
    """

    def weight(wave: Any) -> Any:
        def weighted(x: Any, y: Any) -> Any:
            near = np.where(y < 0.5, abs(y - 0.25), abs(0.75 - y))
            return wave(4.0 * math.pi * x) * np.exp(-4.0 * math.pi * near)

        return grid.from_function(weighted)

    total = float(weight(lambda x: 1.0 + 0.0 * x).sum(reproducible=True))
    s, c = (
        float((flow_velocity * weight(wave)).sum(reproducible=True)) / total
        for wave in (np.sin, np.cos)
    )
    return 2.0 * math.hypot(s, c)
