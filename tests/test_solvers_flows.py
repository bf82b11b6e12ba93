"""Flows with exact solutions: what the discrete scheme gives to the bit of the mathematics, and
orders of accuracy on three grids.
"""

import math

import numpy as np
import pytest

from solvers.incompressible import IncompressibleConfig, IncompressibleSolver, kernels
from solvers.incompressible.metrics import Widths

SCHEMES = ("ssp-rk3", "ab2-cn")


def solver(**options):
    return IncompressibleSolver(IncompressibleConfig(**options))


def channel(n, scheme, **options):
    """Fluid between y = 0 and 1, the same at all x."""
    return solver(cells=(2, n), periodic=(True, False), scheme=scheme, **options)


def stretched(n, low=0.0, high=1.0, strength=1.5):
    """Faces that are closer at both ends."""
    shape = np.tanh(strength * np.linspace(-1.0, 1.0, n + 1)) / math.tanh(strength)
    shape[[0, -1]] = -1.0, 1.0
    return low + (high - low) * 0.5 * (1.0 + shape)


def centres(n, low=0.0, high=1.0):
    return low + (np.arange(n) + 0.5) * (high - low) / n


def march(flow, until, steps):
    start = flow.time
    for _ in range(steps):
        flow.step((until - start) / steps)


def profile(flow):
    """The profile of u along y; it must not depend on x."""
    u = flow.fields["u"].gather()
    np.testing.assert_allclose(u[0], u[1], rtol=0, atol=1e-13)
    return u[0]


def error(flow, exact, name, location):
    """Root mean square difference from a function of the coordinates."""
    values = flow.grid.from_function(exact, location=location).gather()
    return float(np.sqrt(np.mean((flow.fields[name].gather() - values) ** 2)))


def orders(sizes, find):
    found = np.array([find(n) for n in sizes])
    return np.log2(found[:-1] / found[1:])


# ------------------------------------------------------------------------------------- channels


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n", [4, 9])
def test_poiseuille_is_the_parabola_and_a_constant(scheme, n):
    """Odd reflection at the walls adds exactly G h^2 / (8 nu), the maximum over n^2."""
    flow = channel(n, scheme, viscosity=1.0, force=(1.0, 0.0))
    march(flow, 3.0, 300 if scheme == "ssp-rk3" else 150)
    y = centres(n)
    expected = 0.5 * y * (1.0 - y) + 0.125 / n**2
    np.testing.assert_allclose(profile(flow), expected, rtol=0, atol=1e-10)
    assert float(abs(flow.fields["v"]).max()) < 1e-14


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("faces", [None, stretched(9, strength=1.0)])
def test_couette_is_linear(scheme, faces):
    flow = channel(
        9,
        scheme,
        viscosity=1.0,
        walls={"y+": (1.0, 0.0)},
        coordinates=None if faces is None else {"y": faces},
    )
    march(flow, 3.0, 700 if scheme == "ssp-rk3" else 200)
    y = centres(9) if faces is None else 0.5 * (faces[1:] + faces[:-1])
    np.testing.assert_allclose(profile(flow), y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_held_flow_rate_makes_the_force_of_the_parabola(scheme):
    n, mean = 8, 0.25
    flow = channel(n, scheme, viscosity=1.0, flow_rate={"x": mean})
    for _ in range(200):
        flow.step(0.015)
        assert profile(flow).mean() == pytest.approx(mean, rel=1e-14)
    # The mean of the discrete parabola above.
    expected = mean / (1.0 / 12.0 + 1.0 / (6.0 * n**2))
    assert flow.scalars()["force_x"] == pytest.approx(expected, rel=1e-8)
    y = centres(n)
    parabola = expected * (0.5 * y * (1.0 - y) + 0.125 / n**2)
    np.testing.assert_allclose(profile(flow), parabola, rtol=0, atol=1e-9)


def womersley(n, alpha, scheme):
    """Channel |y| < 1 driven by cos(w t): error after a quarter of a period."""
    rate = float(alpha) ** 2  # w h^2 / nu = alpha^2
    wave = (1.0 + 1.0j) * math.sqrt(0.5 * rate)

    def exact(t, y):
        shape = 1.0 - np.cosh(wave * y) / np.cosh(wave)
        return np.real(rate * shape * np.exp(1j * rate * t) / (1j * rate))

    flow = channel(
        n,
        scheme,
        viscosity=1.0,
        bounds=((0.0, 1.0), (-1.0, 1.0)),
        initial=(lambda x, y: exact(0.0, y) + 0 * x, 0.0),
        force=(lambda t, x, y: rate * math.cos(rate * t) + 0 * x, 0.0),
    )
    end = 0.5 * math.pi / rate
    march(flow, end, 2 * n if scheme == "ab2-cn" else int(n**2 / rate) + n)
    difference = profile(flow) - exact(end, centres(n, -1.0, 1.0))
    return np.sqrt(np.mean(difference**2))


@pytest.mark.parametrize(
    ("alpha", "scheme"),
    [
        pytest.param(1, "ab2-cn", marks=pytest.mark.slow),
        (5, "ab2-cn"),
        pytest.param(15, "ab2-cn", marks=pytest.mark.slow),
        (5, "ssp-rk3"),
    ],
)
def test_womersley_is_second_order(alpha, scheme):
    found = orders((16, 32, 64), lambda n: womersley(n, alpha, scheme))
    assert found[-1] > 1.9, found


def stokes(n, scheme, faces):
    """A wall that moved off at time 0, from time 0.1 to 0.3."""
    nu = 0.1
    erfc = np.vectorize(math.erfc)

    def exact(t, y):
        return erfc(y / math.sqrt(4.0 * nu * t))

    box = {"coordinates": {"y": faces(n)}} if faces else {"bounds": ((0.0, 1.0), (0.0, 2.0))}
    flow = channel(
        n,
        scheme,
        viscosity=nu,
        walls={"y-": (1.0, 0.0)},
        initial=(lambda x, y: exact(0.1, y) + 0 * x, 0.0),
        **box,
    )
    flow.time = 0.1
    march(flow, 0.3, n**2 // 16 if scheme == "ssp-rk3" else n)
    positions = faces(n) if faces else np.linspace(0.0, 2.0, n + 1)
    difference = profile(flow) - exact(0.3, 0.5 * (positions[1:] + positions[:-1]))
    return np.sqrt(np.mean(difference**2))


def one_sided(n):
    """Faces of (0, 2) that are closer at 0."""
    return 2.0 * np.expm1(2.0 * np.linspace(0.0, 1.0, n + 1)) / math.expm1(2.0)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("faces", [None, one_sided])
def test_stokes_first_problem_is_second_order(scheme, faces):
    found = orders((16, 32, 64), lambda n: stokes(n, scheme, faces))
    assert found[-1] > 1.9, found


# --------------------------------------------------------------- vortices, with their pressure


def vortices(n, scheme, nu=0.05):
    """Taylor-Green vortices in two dimensions: errors of u and of p, which is of mid-step."""
    flow = solver(
        cells=(n, n),
        viscosity=nu,
        bounds=((0.0, 2.0 * np.pi),) * 2,
        periodic=True,
        initial=(lambda x, y: np.cos(x) * np.sin(y), lambda x, y: -np.sin(x) * np.cos(y)),
        scheme=scheme,
    )
    steps = 2 * n
    march(flow, 0.5, steps)
    middle = 0.5 - 0.25 / steps
    return (
        error(flow, lambda x, y: np.exp(-nu) * np.cos(x) * np.sin(y), "u", "x"),
        error(
            flow,
            lambda x, y: -np.exp(-4.0 * nu * middle) * (np.cos(2 * x) + np.cos(2 * y)) / 4.0,
            "p",
            None,
        ),
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_decaying_vortices_are_second_order_in_velocity_and_pressure(scheme):
    found = orders((16, 32, 64), lambda n: vortices(n, scheme))
    assert np.all(abs(found[-1] - 2.0) < 0.1), found


# --------------------------------------------------------- given velocities on the sides


def kovasznay(n, **options):
    """Flow behind a grid at Re = 40 (Kovasznay, L. I. G. (1948) Proc. Camb. Phil. Soc. 44(1),
    58-62), steady: errors of u and v at the discrete steady state.
    """
    nu = 1.0 / 40.0
    rate = 0.5 / nu - math.sqrt(0.25 / nu**2 + 4.0 * math.pi**2)

    def u(x, y):
        return 1.0 - np.exp(rate * x) * np.cos(2 * np.pi * y)

    def v(x, y):
        return rate / (2 * np.pi) * np.exp(rate * x) * np.sin(2 * np.pi * y)

    given = (lambda t, x, y: u(x, y), lambda t, x, y: v(x, y))
    flow = solver(
        cells=(n, n),
        viscosity=nu,
        bounds=((-0.5, 1.0), (-0.5, 0.5)),
        periodic=(False, True),
        inflow={"x-": given, "x+": given},
        initial=(u, v),
        **options,
    )
    flow.run(until=3.0)
    assert flow.max_divergence() < 1e-11
    return error(flow, u, "u", "x"), error(flow, v, "v", "y")


def test_kovasznay_is_second_order():
    found = orders((8, 16, 32), kovasznay)
    assert np.all(found[-1] > 1.9), found


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["second", "between"])
def test_a_broken_stencil_fails_the_order_test(monkeypatch, broken):
    """Viscosity 2 % too large; momentum carried by the velocity of one side."""

    def second(self, u, axis, *, on_points, scale):
        return 1.02 * right(self, u, axis, on_points=on_points, scale=scale)

    def between(self, axis, low, high):
        return low + 0.0 * high

    right = Widths.second
    monkeypatch.setattr(Widths, broken, {"second": second, "between": between}[broken])
    kernels.momentum.cache_clear()
    try:
        found = orders((8, 16, 32), kovasznay)
    finally:
        kernels.momentum.cache_clear()
    assert np.any(found[-1] < 1.9), found


def ethier_steinman(n):
    """Beltrami flow in a box with its velocity on all sides (Ethier, C. R., Steinman, D. A. (1994)
    Int. J. Numer. Methods Fluids 19(5), 369-375) at t = 0.05: errors of the components.
    """
    a, d, nu = 0.25 * np.pi, 0.5 * np.pi, 1.0

    def component(t, x, y, z):
        first = np.exp(a * x) * np.sin(a * y + d * z)
        second = np.exp(a * z) * np.cos(a * x + d * y)
        return -a * (first + second) * np.exp(-(d**2) * nu * t)

    exact = (
        component,
        lambda t, x, y, z: component(t, y, z, x),
        lambda t, x, y, z: component(t, z, x, y),
    )
    flow = solver(
        cells=(n, n, n),
        viscosity=nu,
        bounds=((-1.0, 1.0),) * 3,
        inflow=dict.fromkeys(("x-", "x+", "y-", "y+", "z-", "z+"), exact),
        initial=tuple(lambda x, y, z, f=f: f(0.0, x, y, z) for f in exact),
    )
    flow.run(until=0.05)
    assert flow.max_divergence() < 1e-11
    return [
        error(flow, lambda x, y, z, f=f: f(0.05, x, y, z), name, location)
        for f, name, location in zip(exact, "uvw", "xyz", strict=True)
    ]


@pytest.mark.slow
def test_ethier_steinman_is_second_order():
    found = orders((16, 32, 64), ethier_steinman)
    assert np.all(found[-1] > 1.9), found


def driven(n, advection, scheme="ssp-rk3"):
    """A manufactured flow that changes in time, in a box stretched along both axes: errors of u
    and v at t = 0.2.
    """
    nu, pi = 0.05, np.pi

    def u(t, x, y):
        return np.cos(t) * np.sin(pi * x) ** 2 * np.sin(2 * pi * y)

    def v(t, x, y):
        return -np.cos(t) * np.sin(2 * pi * x) * np.sin(pi * y) ** 2

    def force(t, x, y, sign=1.0):
        """du/dt + u du/dx + v du/dy - nu lap u, for p = 0. With x and y exchanged the velocity
        changes its sign.
        """
        sx, wave = np.sin(pi * x) ** 2, np.sin(2 * pi * y)
        bend = 2 * pi**2 * np.cos(2 * pi * x) * wave - 4 * pi**2 * sx * wave
        along = u(t, x, y) * np.cos(t) * pi * np.sin(2 * pi * x) * wave
        across = v(t, x, y) * np.cos(t) * sx * 2 * pi * np.cos(2 * pi * y)
        return sign * (-np.sin(t) * sx * wave - nu * np.cos(t) * bend) + along + across

    flow = solver(
        cells=(n, n),
        viscosity=nu,
        coordinates={"x": stretched(n, strength=0.8), "y": stretched(n, strength=0.5)},
        initial=(lambda x, y: u(0.0, x, y), lambda x, y: v(0.0, x, y)),
        force=(force, lambda t, x, y: force(t, y, x, -1.0)),
        advection=advection,
        scheme=scheme,
    )
    if scheme == "ssp-rk3":
        flow.run(until=0.2)
    else:
        march(flow, 0.2, n)
    return (
        error(flow, lambda x, y: u(0.2, x, y), "u", "x"),
        error(flow, lambda x, y: v(0.2, x, y), "v", "y"),
    )


@pytest.mark.parametrize(
    ("advection", "scheme"),
    [
        ("central", "ssp-rk3"),
        pytest.param("weno", "ssp-rk3", marks=pytest.mark.slow),
        ("central", "ab2-cn"),
    ],
)
def test_a_driven_flow_on_a_stretched_grid_is_second_order(advection, scheme):
    found = orders((16, 32, 64), lambda n: driven(n, advection, scheme))
    assert np.all(found[-1] > 1.9), found


def test_upwind_fluxes_are_first_order_only():
    found = orders((16, 32), lambda n: driven(n, "upwind"))
    assert np.all(found[-1] < 1.5), found
