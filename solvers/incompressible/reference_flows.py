"""Other flows beside what is known of them: exact solutions, benchmarks, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from solvers.comparison import Comparison, Row, relative
from solvers.incompressible.metrics import Floats
from solvers.incompressible.reference import centre_line, faces, peak, read_table
from solvers.incompressible.scalar import ScalarTransport
from solvers.incompressible.solver import IncompressibleSolver
from solvers.incompressible.statistics import Statistics

#: Largest dissipation of the 3-D Taylor-Green flow at Re = 1600 and its time, from the full-rate
#: spectral data of which `tgv1600.csv` holds every tenth of a unit: the head of that table.
VORTEX_PEAK, VORTEX_PEAK_TIME = 0.0128575, 8.97
#: Shares of the reference that a scheme of second order keeps in the 3-D Taylor-Green flow at
#: t <= 4 and at the peak of dissipation, by cells per axis.
VORTEX_GATES = {64: (0.005, None), 128: (0.01, 0.10), 256: (0.01, 0.05)}


def compare_taylor_green_2d(flow: IncompressibleSolver, start: float) -> Comparison:
    """The energy of the decaying vortices beside `exp(-4 nu t)`, and their largest u beside
    `exp(-2 nu t)`; `start` is the energy at time 0. Collective.

    The gate is twice the share by which the discrete decay is slower, (k h)^2 / 12 of the exponent,
    and dt^2 of it for the pressure, which is that of the step before: of second order in time, too.
    """
    nu, time = flow.config.viscosity, flow.time
    slower = (2.0 * math.pi / min(flow.config.cells)) ** 2 / 12.0
    lag = (time / max(flow.step_count, 1)) ** 2
    initial: Any = flow.config.initial
    first = flow.grid.from_function(initial[0], location="x")
    rows = []
    for name, value, scale, rate in (
        ("energy", flow.kinetic_energy(), start, 4.0),
        ("largest u", float(abs(flow.fields["u"]).max()), float(abs(first).max()), 2.0),
    ):
        exact = scale * math.exp(-rate * nu * time)
        gate = rate * nu * time * (2.0 * slower + lag) * exact + 1e-6 * exact
        rows.append(Row(f"{name}, t = {time:g}", value, exact, gate))
    return Comparison("the exact decay of Taylor and Green", tuple(rows))


def compare_taylor_green_3d(
    history: Sequence[tuple[float, float, float]], cells: int, viscosity: float
) -> Comparison | None:
    """Energy and dissipation, `2 nu enstrophy` and `-dE/dt`, beside the spectral 512^3 solution at
    Re = 1600, at whole times. None for another viscosity, and where no whole time was recorded.
    Local.

    Parameters
    ----------
    history : rows (time, energy, enstrophy)
        From the start or from a restart.
    cells : int
        Per axis.
    viscosity : float
    """
    if abs(viscosity * 1600.0 - 1.0) > 1e-9 or len(history) < 3:
        return None
    table = read_table("tgv1600.csv")
    known = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    time, energy, rotation = np.array(history).T
    middle, decay = 0.5 * (time[1:] + time[:-1]), -np.diff(energy) / np.diff(time)
    shares = VORTEX_GATES.get(max((n for n in VORTEX_GATES if n <= cells), default=0), (None, None))
    rows = []
    first = max(1, math.ceil(time[0] - 1e-9))
    for at in range(first, int(time[-1] + 1e-9) + 1):
        reference = float(np.interp(at, known["t"], known["spec_ke"]))
        share = shares[0] if at <= 4 else None
        rows.append(relative(f"energy, t = {at}", _at(time, energy, at), reference, share))
        reference = float(np.interp(at, known["t"], known["spec_eps"]))
        value = 2.0 * viscosity * _at(time, rotation, at)
        rows.append(relative(f"2 nu enstrophy, t = {at}", value, reference, None))
        if middle[0] <= at < middle[-1]:
            rows.append(relative(f"-dE/dt, t = {at}", _at(middle, decay, at), reference, None))
    # A record that begins later may lack the rise to the peak.
    if time[0] < VORTEX_PEAK_TIME - 1.0 and time[-1] >= 10.0:
        when, value = peak(middle, decay)
        rows.append(relative("largest -dE/dt", value, VORTEX_PEAK, shares[1]))
        rows.append(Row("its time", when, VORTEX_PEAK_TIME, 0.3 if cells >= 256 else None))
    if not rows:
        return None
    source = "a spectral solution on 512^3 (van Rees et al. 2011), Re = 1600"
    late = f"; records begin at time {time[0]:g}" if first > 1 else ""
    return Comparison(source + late, tuple(rows))


def compare_poiseuille(flow: IncompressibleSolver, force: float) -> Comparison:
    """The mean profile of a steady plane channel, u(y) of a body force along x, beside the exact
    discrete one: the parabola, and on a uniform axis the constant `force h^2 / (8 nu)`, since walls
    lie half a cell from the values. Collective.
    """
    ends = faces(flow, 1)
    low, high = float(ends[0]), float(ends[-1])
    h = (high - low) / flow.config.cells[1]
    y = 0.5 * (ends[1:] + ends[:-1])
    nu = flow.config.viscosity
    exact = force * (y - low) * (high - y) / (2.0 * nu) + force * h * h / (8.0 * nu)
    u = np.asarray(flow.fields["u"].gather())
    computed = u.mean(axis=tuple(a for a in range(u.ndim) if a != 1))
    chosen = np.unique(np.linspace(0, len(y) - 1, 9).round().astype(int))
    gate = 1e-6 * float(exact.max())
    rows = tuple(Row(f"u at y = {y[k]:.4f}", float(computed[k]), float(exact[k]), gate)
                 for k in chosen)  # fmt: skip
    return Comparison("the exact discrete flow of Poiseuille", rows)


def compare_turbulent_channel(
    statistics: Statistics, flow: IncompressibleSolver, force: float
) -> Comparison:
    """Friction and profile of a channel of half height 1 and bulk velocity 1 beside correlations of
    Dean, R. B. (1978) J. Fluids Eng. 100(2), 215-223, and the balance of stresses
    `nu dU/dy - <u'v'> = force (1 - y)`. Collective.

    Parameters
    ----------
    statistics : Statistics
        Averaged over x and z.
    force : float
        Mean force that drove the flow.
    """
    nu, ends = flow.config.viscosity, faces(flow, 1)
    y, u = 0.5 * (ends[1:] + ends[:-1]), statistics.mean(0)
    bulk = float(np.sum(u * np.diff(ends)) / (ends[-1] - ends[0]))
    reynolds = 2.0 * bulk / nu
    slope = np.gradient(u, y)
    total = nu * slope - statistics.stress(0, 1)
    rows = [
        relative("friction coefficient", 2.0 * force / bulk**2, 0.073 * reynolds**-0.25, None),
        relative("U(centre) / U(bulk)", float(u.max()) / bulk, 1.28 * reynolds**-0.0116, None),
    ]
    middle = 0.5 * (ends[0] + ends[-1])
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        at = float(ends[0]) + share * (middle - float(ends[0]))
        value = float(np.interp(at, y, total))
        rows.append(Row(f"total stress at y = {at:.3f}", value, force * (middle - at)))
    return Comparison("correlations of Dean (1978) and the balance of stresses", tuple(rows))


def compare_steady_cylinder(
    drag: float, lift: float, pressure: float, diameter_cells: float
) -> Comparison:
    """Benchmark 2D-1 of Schafer and Turek, Re = 20. Local.

    Parameters
    ----------
    drag, lift : float
        Coefficients, 2 F / (U^2 D).
    pressure : float
        Difference between front and back of the cylinder.
    diameter_cells : float
        Cells across the cylinder: from 20 on the gates hold.
    """
    known = _cylinder("2D-1")
    fine = diameter_cells >= 20
    return Comparison(
        "Nabh (1998), benchmark 2D-1 of Schafer and Turek, Re = 20",
        (
            relative("drag coefficient", drag, known["cd"], 0.015 if fine else None),
            relative("lift coefficient", lift, known["cl"], 0.3 if fine else None),
            relative("pressure difference", pressure, known["dp"], 0.02 if fine else None),
        ),
    )


def compare_shedding_cylinder(history: Any, diameter_cells: float) -> Comparison | None:
    """Benchmark 2D-2 of Schafer and Turek, Re = 100; None for less than two periods. Local.

    Parameters
    ----------
    history : array, rows (time, drag coefficient, lift coefficient, pressure difference)
        The last six periods are taken.
    diameter_cells : float
        Cells across the cylinder: from 20 on the gates hold.
    """
    time, drag, lift, pressure = np.asarray(history, np.float64).T
    starts = rising(time, lift)[-7:]
    if len(starts) < 3:
        return None
    inside = (time >= starts[0]) & (time <= starts[-1])
    period = (starts[-1] - starts[0]) / (len(starts) - 1)
    time, drag, lift, pressure = (x[inside] for x in (time, drag, lift, pressure))
    when, cl_max = peak(time, lift)
    known = _cylinder("2D-2")
    fine = diameter_cells >= 20
    later = when + 0.5 * period
    if later > time[-1]:
        later -= period
    rows = (
        relative("largest drag", peak(time, drag)[1], known["cd_max"], 0.04 if fine else None),
        relative("smallest drag", -peak(time, -drag)[1], known["cd_min"], None),
        relative("largest lift", cl_max, known["cl_max"], 0.05 if fine else None),
        relative("smallest lift", -peak(time, -lift)[1], known["cl_min"], None),
        # D / (U T) with D = 0.1 and U = 1.
        relative("Strouhal number", 0.1 / period, known["strouhal"], 0.02 if fine else None),
        relative("pressure difference, half a period later",
                 float(np.interp(later, time, pressure)),
                 known["dp_half_period_after_cl_max"], None),
    )  # fmt: skip
    return Comparison("FeatFlow's level 6, benchmark 2D-2 of Schafer and Turek, Re = 100", rows)


def rising(time: Floats, values: Floats) -> Floats:
    """Times at which the values, less their mean over the second half, pass zero upwards. Local."""
    shifted = values - values[len(values) // 2 :].mean()
    k = np.nonzero((shifted[:-1] < 0.0) & (shifted[1:] >= 0.0))[0]
    share = shifted[k] / (shifted[k] - shifted[k + 1])
    return np.asarray(time[k] + share * (time[k + 1] - time[k]))


def compare_natural_convection(
    flow: IncompressibleSolver, scalar: ScalarTransport, rayleigh: float
) -> Comparison | None:
    """The heated square cavity of de Vahl Davis (1983), in units of diffusivity 1 and side 1: hot
    at x = 0, cold at x = 1, a difference of 1. None for Rayleigh numbers without a row. Collective.

    Nu is gated on 64^2 cells for Ra <= 1e4 and on 128^2 above.
    """
    known = next(
        (row for row in read_table("de_vahl_davis.csv") if float(row["ra"]) == rayleigh), None
    )
    if known is None:
        return None
    fine = min(flow.config.cells) >= (64 if rayleigh <= 1e4 else 128)
    share = (0.01 if rayleigh <= 1e4 else 0.02) if fine else None
    speeds = 0.015 if fine else None
    velocity = [flow.fields[name] for name in "uv"]
    at_u, u = peak(*centre_line(flow, 0))
    at_v, v = peak(*centre_line(flow, 1))
    hot = scalar.wall_gradient("x-")
    where, most = peak(0.5 * (faces(flow, 1)[1:] + faces(flow, 1)[:-1]), hot)
    widths = np.diff(faces(flow, 1))
    mean = scalar.mean_flux(velocity, 0) / flow.config.scalar.diffusivity  # type: ignore[union-attr]
    rows = (
        relative("Nu, mean of the cavity", mean, float(known["nu_mean"]), share),
        relative("Nu, hot wall", float(np.sum(hot * widths)), float(known["nu_hot"]), share),
        relative("Nu, largest", most, float(known["nu_max"]), None),
        Row("its y", where, float(known["y_nu_max"])),
        relative("Nu, smallest", float(hot.min()), float(known["nu_min"]), None),
        relative("largest u(1/2, y)", u, float(known["u_max"]), speeds),
        Row("its y", at_u, float(known["y_u_max"])),
        relative("largest v(x, 1/2)", v, float(known["v_max"]), speeds),
        Row("its x", at_v, float(known["x_v_max"])),
    )
    return Comparison(f"de Vahl Davis (1983), Pr = 0.71, Ra = {rayleigh:g}", rows)


def _at(time: Floats, values: Floats, at: float) -> float:
    return float(np.interp(at, time, values))


def _cylinder(case: str) -> dict[str, float]:
    return {
        row["quantity"]: 0.5 * (float(row["lower"]) + float(row["upper"]))
        for row in read_table("schafer_turek.csv")
        if row["kind"] == "later" and row["case"] == case
    }
