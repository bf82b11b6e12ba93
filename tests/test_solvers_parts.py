"""What flows carry besides momentum: a scalar with buoyancy, eddy viscosity, statistics."""

import math

import numpy as np
import pytest

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from solvers.incompressible.les import EddyViscosity, Smagorinsky
from solvers.incompressible.metrics import Metrics
from solvers.incompressible.scalar import Scalar, ScalarTransport
from solvers.incompressible.statistics import (
    EnergyHistory,
    Statistics,
    dissipation,
    enstrophy,
    kinetic_energy,
    spectrum,
)


def solver(**options):
    return IncompressibleSolver(IncompressibleConfig(**options))


def part(flow, kind):
    return next(one for one in flow.parts if isinstance(one, kind))


def velocity(flow):
    return [flow.fields[name] for name in "uvw"[: flow.config.ndim]]


# --------------------------------------------------------------------------------------- scalar


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_a_mode_decays_by_the_amplitude_of_the_discrete_scheme(scheme):
    """Four stages of half a step: the polynomial (2 y + y^4) / 3, y = 1 + z / 2, with z = dt times
    the eigenvalue of the second difference.
    """
    n, kappa, dt, steps = 16, 0.1, 0.01, 5
    flow = solver(
        cells=(n, n),
        viscosity=0.1,
        periodic=True,
        scheme=scheme,
        scalar=Scalar(kappa, initial=lambda x, y: np.sin(2 * np.pi * (x + 2 * y))),
    )
    start = flow.fields["T"].gather()
    for _ in range(steps):
        flow.step(dt)
    eigenvalue = -4.0 * n**2 * (math.sin(math.pi / n) ** 2 + math.sin(2 * math.pi / n) ** 2)
    y = 1.0 + 0.5 * dt * kappa * eigenvalue
    amplitude = ((2.0 * y + y**4) / 3.0) ** steps
    np.testing.assert_allclose(flow.fields["T"].gather(), amplitude * start, rtol=0, atol=1e-13)


@pytest.mark.parametrize("advection", ["central", "upwind", "weno"])
def test_a_scalar_is_conserved_and_a_uniform_one_stays_uniform(advection):
    options = {
        "cells": (12, 10),
        "viscosity": 0.01,
        "walls": {"y+": (1.0, 0.0)},
        "advection": advection,
    }
    flow = solver(**options, scalar=Scalar(1e-3, initial=lambda x, y: np.exp(-9 * (x - y) ** 2)))
    before = flow.fields["T"].gather().sum()
    uniform = solver(**options, scalar=Scalar(1e-3, initial=2.5))
    for _ in range(20):
        flow.step(0.02)
        uniform.step(0.02)
    assert float(abs(flow.fields["u"]).max()) > 0.1
    after = flow.fields["T"].gather()
    assert after.sum() == pytest.approx(before, rel=1e-12)
    assert part(flow, ScalarTransport).mean() == pytest.approx(before / 120, rel=1e-12)
    np.testing.assert_allclose(uniform.fields["T"].gather(), 2.5, rtol=1e-13)


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_a_carried_scalar_is_second_order_in_time(scheme):
    """Against a run with a small step, in a flow that changes with time and feels the scalar."""

    def scalar(dt):
        flow = solver(
            cells=(10, 10),
            viscosity=0.02,
            scheme=scheme,
            walls={"y+": (lambda t, x, y: np.sin(3 * t) * (x * (1 - x)) ** 2 * 16, 0.0)},
            initial=(
                lambda x, y: np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y),
                lambda x, y: -np.sin(2 * np.pi * x) * np.sin(np.pi * y) ** 2,
            ),
            scalar=Scalar(0.02, initial=lambda x, y: np.cos(np.pi * x) * y, buoyancy=(0.0, 2.0)),
        )
        for _ in range(round(0.4 / dt)):
            flow.step(dt)
        return flow.fields["T"].gather()

    exact = scalar(0.4 / 320)
    one, two = (np.sqrt(np.mean((scalar(0.4 / n) - exact) ** 2)) for n in (20, 40))
    assert math.log2(one / two) > 1.7


def test_conduction_between_walls_is_linear_to_round_off():
    faces = 2.0 * np.linspace(0.0, 1.0, 9) ** 1.2
    hot, cold = 3.0, 1.0
    flow = solver(
        cells=(8, 4),
        viscosity=1.0,
        bounds=((0.0, 2.0), (0.0, 1.0)),
        coordinates={"x": faces},
        scalar=Scalar(
            0.5,
            initial=lambda x, y: hot + (cold - hot) * x / 2.0 + 0.0 * y,
            boundary={"x-": da.Dirichlet(hot), "x+": da.Dirichlet(cold)},
        ),
    )
    for _ in range(10):
        flow.step(1e-3)
    x, _ = flow.grid.coordinates()
    exact = hot + (cold - hot) * x / 2.0 + np.zeros((8, 4))
    np.testing.assert_allclose(flow.fields["T"].gather(), exact, rtol=0, atol=1e-12)
    carried = part(flow, ScalarTransport)
    assert carried.mean_flux(velocity(flow), 0) == pytest.approx(0.5 * (hot - cold) / 2.0)
    np.testing.assert_allclose(carried.wall_gradient("x-"), (hot - cold) / 2.0, rtol=1e-11)
    np.testing.assert_allclose(carried.wall_gradient("x+"), (cold - hot) / 2.0, rtol=1e-11)


def test_buoyancy_of_a_stratified_fluid_at_rest_is_held_by_the_pressure():
    flow = solver(
        cells=(8, 8),
        viscosity=0.1,
        initial=(0.0, 0.0),
        scalar=Scalar(0.0, initial=lambda x, y: y + 0.0 * x, buoyancy=(0.0, 5.0), reference=0.25),
    )
    flow.step(1e-2)
    for u in velocity(flow):
        assert float(abs(u).max()) < 1e-13


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"boundary": {"z-": da.Neumann(0.0)}}, "received 'z-' in the boundary"),
        ({"buoyancy": (1.0,)}, "one entry per axis, received 1 for 2 axes"),
    ],
)
def test_scalars_that_do_not_fit_are_errors(options, text):
    with pytest.raises(da.SolverError, match=text):
        solver(cells=(4, 4), viscosity=1.0, scalar=Scalar(1.0, **options))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"diffusivity": "much"}, "not negative, received 'much'"),
        ({"initial": "warm"}, "received 'warm' in initial"),
        ({"boundary": 3}, "sides and their conditions, received 3"),
        ({"buoyancy": 1.0}, "tuple of numbers, one per axis, received 1.0"),
        ({"name": 3}, "name=3"),
    ],
)
def test_scalars_of_wrong_types_are_errors(options, text):
    with pytest.raises(da.SolverError, match=text):
        Scalar(**{"diffusivity": 1.0, **options})


def test_a_gradient_at_a_side_without_a_number_is_an_error():
    given = {"x-": da.Dirichlet(lambda t, x, y: t + 0 * y)}
    flow = solver(cells=(4, 4), viscosity=1.0, scalar=Scalar(1.0, boundary=given))
    for side in ("x-", "y-"):
        with pytest.raises(da.SolverError, match="a number for its value"):
            part(flow, ScalarTransport).wall_gradient(side)


def test_a_side_that_warms_in_time_counts_at_its_time():
    """The flux of a fluid at rest, from the differences at both faces of every cell."""
    given = {"x-": da.Dirichlet(lambda t, x, y: t + 0 * y)}
    flow = solver(cells=(4, 3), viscosity=1.0, scalar=Scalar(0.1, boundary=given))
    for _ in range(2):
        flow.step(0.05)
    t = part(flow, ScalarTransport).values.gather()
    slopes = np.diff(np.concatenate([2.0 * flow.time - t[:1], t, t[-1:]]), axis=0) / 0.25
    expected = -0.1 * (0.5 * (slopes[1:] + slopes[:-1])).mean()
    found = part(flow, ScalarTransport).mean_flux(velocity(flow), 0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_enstrophy_sees_the_wall_at_the_end_of_the_step():
    flow = solver(
        cells=(3, 4),
        viscosity=0.1,
        periodic=(True, False),
        walls={"y+": (lambda t, x, y: t + 0 * x, 0.0)},
    )
    flow.step(0.5)
    u = flow.fields["u"].gather()[0]
    slopes = np.diff(np.concatenate([-u[:1], u, 2.0 * 0.5 - u[-1:]])) / 0.25
    expected = 0.5 * (0.5 * (slopes[1:] ** 2 + slopes[:-1] ** 2)).mean()
    assert enstrophy(velocity(flow)) == pytest.approx(expected, rel=1e-12)


def test_a_negative_diffusivity_is_an_error():
    with pytest.raises(da.SolverError, match="diffusivity is not negative, received -1"):
        Scalar(-1.0)


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_a_restart_with_a_scalar_has_the_same_bits(tmp_path, scheme):
    config = IncompressibleConfig(
        cells=(8, 6),
        viscosity=0.02,
        walls={"y+": (1.0, 0.0)},
        scheme=scheme,
        measure_every=3,
        scalar=Scalar(
            0.01, initial=lambda x, y: x * y, buoyancy=(0.0, 1.0), boundary={"x-": da.Dirichlet(1)}
        ),
    )
    flow, again = IncompressibleSolver(config), IncompressibleSolver(config)
    flow.run(max_steps=4)
    flow.save(tmp_path / "state.h5")
    again.restore(tmp_path / "state.h5")
    for one in (flow, again):
        one.run(max_steps=5)
    for name, values in flow.fields.items():
        assert again.fields[name].gather().tobytes() == values.gather().tobytes(), name


# -------------------------------------------------------------------------------- eddy viscosity


@pytest.mark.parametrize(
    ("shear", "magnitude"),
    [
        ((lambda x, y: 3.0 * y + 0 * x, lambda x, y: 0 * x * y), 3.0),
        ((lambda x, y: 2.0 * x + 0 * y, lambda x, y: -2.0 * y + 0 * x), 4.0),
        ((lambda x, y: y + 0 * x, lambda x, y: 2.0 * x + 0 * y), 3.0),
        ((lambda x, y: -y + 0 * x, lambda x, y: x + 0 * y), 0.0),
    ],
)
def test_eddy_viscosity_of_linear_velocities_is_exact(shear, magnitude):
    """|S| is |du/dy| in a shear, 2 |a| in a strain (a x, -a y), nothing in a rotation."""
    faces = np.linspace(0.0, 1.0, 13) ** 1.2
    flow = solver(cells=(10, 12), viscosity=1.0, coordinates={"y": faces}, les=Smagorinsky(0.2))
    for f, u, location in zip(shear, velocity(flow), "xy", strict=True):
        u[...] = flow.grid.from_function(f, location=location)
    model = part(flow, EddyViscosity)
    model.begin(velocity(flow), time=0.0, dt=1.0)
    inside = (slice(1, -1),) * 2
    area = 0.1 * np.diff(faces)
    expected = 0.2**2 * area * magnitude + np.zeros((10, 12))
    np.testing.assert_allclose(
        model.viscosity.gather()[inside], expected[inside], rtol=1e-12, atol=1e-14
    )


def test_uniform_eddies_add_their_viscosity():
    """With uniform nu_t and no divergence the stress is nu_t lap u, on every kind of grid."""
    faces = np.linspace(0.0, 1.0, 17) ** 1.1
    flow = solver(
        cells=(16, 16),
        viscosity=1.0,
        coordinates={"y": faces},
        les=Smagorinsky(),
        initial=(
            lambda x, y: np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y),
            lambda x, y: -np.sin(2 * np.pi * x) * np.sin(np.pi * y) ** 2,
        ),
    )
    model = part(flow, EddyViscosity)
    model.viscosity.fill(1.0)
    added = [u.copy() for u in velocity(flow)]
    widths = Metrics(flow.grid)
    from solvers.incompressible import kernels
    from solvers.incompressible.les import stress

    for axis, u in enumerate(velocity(flow)):
        added[axis][...] = 0.0
        widths.bind(stress)(*velocity(flow), model.viscosity, added[axis], axis=axis, scale=1.0)
        expected = u.copy()
        expected[...] = 0.0
        widths.bind(kernels.diffuse)(u, expected, axis=axis, scale=1.0)
        inside = (slice(2, -2),) * 2
        np.testing.assert_allclose(
            added[axis].gather()[inside], expected.gather()[inside], rtol=0, atol=1e-9
        )


def test_damping_of_van_driest():
    flow = solver(
        cells=(2, 8),
        viscosity=0.01,
        periodic=(True, False),
        slip=("y+",),
        les=Smagorinsky(0.1, friction_velocity=0.5),
    )
    y = flow.grid.coordinates()[1][0]
    u = flow.fields["u"]
    u[...] = flow.grid.from_function(lambda x, y: y + 0 * x, location="x")
    model = part(flow, EddyViscosity)
    model.begin(velocity(flow), time=0.0, dt=1.0)
    length = 0.1 * math.sqrt(0.5 * 0.125) * (1.0 - np.exp(-y * 50.0 / 25.0))
    # The cells at both sides see the conditions there.
    np.testing.assert_allclose(model.viscosity.gather()[0][1:-1], (length**2)[1:-1], rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{"constant": -0.1}, {"damping": 0.0}, {"constant": "low"}, {"damping": None}]
)
def test_negative_constants_of_the_model_are_errors(options):
    with pytest.raises(da.SolverError, match="constants that are not negative"):
        Smagorinsky(**options)


def test_a_friction_velocity_of_zero_is_an_error():
    with pytest.raises(da.SolverError, match="friction velocity is above 0, received 0"):
        Smagorinsky(friction_velocity=0.0)


# ------------------------------------------------------------------------------------ statistics


def box(n=12, **options):
    return solver(
        cells=(n,) * 3,
        viscosity=0.05,
        bounds=((0.0, 2 * np.pi),) * 3,
        periodic=True,
        initial=(
            lambda x, y, z: np.sin(x) * np.cos(y) * np.cos(z),
            lambda x, y, z: -np.cos(x) * np.sin(y) * np.cos(z),
            0.0,
        ),
        **options,
    )


def test_spectrum_of_single_modes():
    """Taylor-Green vortices have all their energy, 1/8, at |k| = sqrt(3), which rounds to 2."""
    flow = box()
    k, energy = spectrum(velocity(flow))
    np.testing.assert_allclose(k[:3], [0.0, 1.0, 2.0])
    assert energy[2] == pytest.approx(0.125, rel=1e-13)
    assert abs(np.delete(energy, 2)).max() < 1e-17


@pytest.mark.parametrize("n", [8, 9])
def test_spectrum_holds_the_energy(n):
    flow = box(n)
    rng = np.random.default_rng(3)
    for u in velocity(flow):
        u[...] = rng.standard_normal(u.shape)
    _, energy = spectrum(velocity(flow))
    exact = 0.5 * sum(np.mean(u.gather() ** 2) for u in velocity(flow))
    assert energy.sum() == pytest.approx(exact, rel=1e-13)
    assert kinetic_energy(velocity(flow)) == pytest.approx(exact, rel=1e-13)


def test_a_spectrum_needs_a_periodic_box():
    flow = solver(cells=(4, 4), viscosity=1.0)
    with pytest.raises(da.SolverError, match="periodic along all axes"):
        spectrum(velocity(flow))
    flow = solver(cells=(4, 4), viscosity=1.0, periodic=True, bounds=((0.0, 1.0), (0.0, 2.0)))
    with pytest.raises(da.SolverError, match="equal sides"):
        spectrum(velocity(flow))


def test_enstrophy_of_a_mode_is_that_of_its_differences():
    """Sin x cos y cos z on the staggered grid: each difference is exact but for the factor
    sin(h/2) / (h/2).
    """
    flow = box()
    h = 2 * np.pi / 12
    factor = (math.sin(h / 2) / (h / 2)) ** 2
    assert enstrophy(velocity(flow)) == pytest.approx(0.375 * factor, rel=1e-12)
    assert dissipation(velocity(flow), 0.05) == pytest.approx(0.0375 * factor, rel=1e-12)


def test_energy_falls_at_the_rate_of_dissipation():
    flow = box()
    history = EnergyHistory()
    flow.add(history)
    history.note(velocity(flow), 0.0)
    for _ in range(4):
        flow.step(1e-3)
    _, rate = history.decay()
    time, energy, rotation = np.array(history.rows).T
    assert energy[0] == pytest.approx(0.125, rel=1e-12)
    np.testing.assert_allclose(time, 1e-3 * np.arange(5), atol=1e-15)
    np.testing.assert_allclose(rate, 0.05 * (rotation[1:] + rotation[:-1]), rtol=1e-5)


def test_running_means_and_fluctuations():
    flow = solver(cells=(6, 5), viscosity=0.05, walls={"y+": (lambda t, x, y: np.sin(9 * t), 0.0)})
    statistics = Statistics(flow.grid, start=0.015)
    flow.add(statistics)
    samples, weights = [], []
    for dt in (0.02, 0.01, 0.03):
        flow.step(dt)
        u, v = flow.fields["u"].gather(), flow.fields["v"].gather()
        centres = 0.5 * (u[1:] + u[:-1]), 0.5 * (v[:, 1:] + v[:, :-1])
        samples.append((*centres, flow.fields["p"].gather()))
        weights.append(min(dt, flow.time - 0.015))
    u, v, p = (np.array(values) for values in zip(*samples, strict=True))
    mean = [np.average(values, axis=0, weights=weights) for values in (u, v, p)]
    product = np.average(u * v, axis=0, weights=weights) - mean[0] * mean[1]
    square = np.average(u * u, axis=0, weights=weights) - mean[0] ** 2
    assert statistics.time == pytest.approx(0.045)
    np.testing.assert_allclose(statistics.mean(0), mean[0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(statistics.mean_pressure(), mean[2], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(statistics.stress(1, 0), product, rtol=0, atol=1e-15)
    np.testing.assert_allclose(statistics.rms(0) ** 2, square, rtol=0, atol=1e-15)


def test_a_file_without_what_statistics_hold_is_refused(tmp_path):
    flow, path = solver(cells=(6, 5), viscosity=0.05), tmp_path / "flow.h5"
    flow.save(path)
    statistics = Statistics(flow.grid)
    flow.add(statistics)
    lacking = next(name for name in statistics.fields)
    with pytest.raises(da.FileError, match=f"flow.h5' has no field '{lacking}', .* only u, v, p;"):
        flow.restore(path)


def test_statistics_are_averaged_over_homogeneous_axes():
    flow = solver(cells=(6, 5), viscosity=0.05, walls={"y+": (1.0, 0.0)})
    statistics = Statistics(flow.grid, average=(0,))
    flow.add(statistics)
    flow.step(0.02)
    u = flow.fields["u"].gather()
    centres = 0.5 * (u[1:] + u[:-1])
    np.testing.assert_allclose(statistics.mean(0), centres.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(statistics.rms(0), centres.std(axis=0), rtol=1e-6, atol=1e-9)
