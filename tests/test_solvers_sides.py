"""The incompressible solver's sides, forces, schemes and pressure solvers: exact properties, files
and errors.
"""

import math

import numpy as np
import pytest

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver, PressureSolver
from solvers.incompressible.parts import Part, Stage


def solver(**options):
    return IncompressibleSolver(IncompressibleConfig(**options))


def stretched(n, strength=1.5):
    shape = np.tanh(strength * np.linspace(-1.0, 1.0, n + 1)) / math.tanh(strength)
    shape[[0, -1]] = -1.0, 1.0
    return 0.5 * (1.0 + shape)


def gathered(flow):
    return {name: values.gather() for name, values in flow.fields.items()}


# ------------------------------------------------------------------------------ stretched grids


@pytest.mark.parametrize(
    ("cells", "axes", "periodic"),
    [((12, 10), "xy", False), ((9, 8), "y", (True, False)), ((7, 6), "x", (True, False)),
     ((6, 7, 5), "xz", (False, True, False))],
)  # fmt: skip
def test_pressure_solves_the_discrete_equation_on_stretched_grids(cells, axes, periodic):
    coordinates = {name: stretched(cells["xyz".index(name)]) for name in axes}
    grid = da.Grid(cells, coordinates=coordinates, periodic=periodic)
    rhs = grid.zeros()
    rhs[...] = np.random.default_rng(4).standard_normal(cells)
    phi = grid.zeros()
    PressureSolver(grid).solve(rhs, phi)
    widths = [axis.widths(np.arange(n)) for axis, n in zip(grid.geometry, cells, strict=True)]
    volume = widths[0]
    for width in widths[1:]:
        volume = np.multiply.outer(volume, width)
    found, wanted = phi.gather(), rhs.gather()
    wanted -= (wanted * volume).sum() / volume.sum()
    assert abs((found * volume).sum()) < 1e-13
    np.testing.assert_allclose(laplacian(found, widths, grid.periodic), wanted, rtol=0, atol=1e-10)


def laplacian(values, widths, periodic):
    """Differences of neighbours over their distance, from numpy alone."""
    total = np.zeros_like(values)
    for axis, (width, wraps) in enumerate(zip(widths, periodic, strict=True)):
        values_0, total_0 = np.moveaxis(values, axis, 0), np.moveaxis(total, axis, 0)
        for i in range(len(width)):
            for j in (i - 1, i + 1):
                if wraps or 0 <= j < len(width):
                    k = j % len(width)
                    distance = 0.5 * (width[i] + width[k])
                    total_0[i] += (values_0[k] - values_0[i]) / distance / width[i]
    return total


def free_of_divergence(grid):
    """Random velocity without flow through the sides: differences of a potential on the edges."""
    random = np.random.default_rng(7)
    widths = [axis.widths(np.arange(n)) for axis, n in zip(grid.geometry, grid.shape, strict=True)]
    velocity = [
        np.zeros([n + (a == i) for a, n in enumerate(grid.shape)]) for i in range(grid.ndim)
    ]
    for i in range(grid.ndim):
        for j in range(i):
            shape = [n + (a in (i, j)) for a, n in enumerate(grid.shape)]
            potential = random.standard_normal(shape)
            for a in (i, j):
                np.moveaxis(potential, a, 0)[[0, -1]] = 0.0
            for a, b, sign in ((i, j, 1.0), (j, i, -1.0)):
                step = np.moveaxis(np.diff(potential, axis=b), b, -1) / widths[b]
                velocity[a] += sign * np.moveaxis(step, -1, b)
    return velocity, widths


@pytest.mark.parametrize("cells", [(12, 10), (7, 6, 5)])
def test_central_fluxes_neither_make_nor_lose_energy_on_stretched_grids(cells):
    """The sum of u . (rate of u) dV is round-off; upwind and WENO fluxes lose energy."""
    share = {}
    for advection in ("central", "upwind", "weno")[: 5 - len(cells)]:
        flow = solver(
            cells=cells,
            viscosity=0.0,
            coordinates={name: stretched(n) for name, n in zip("xyz", cells, strict=False)},
            advection=advection,
        )
        velocity, widths = free_of_divergence(flow.grid)
        for u, values in zip("uvw", velocity, strict=False):
            flow.fields[u][...] = values
        assert flow.max_divergence() < 1e-11
        dt = 1e-9
        flow.step(dt)
        powers = []
        for axis, values in enumerate(velocity):
            rate = (flow.fields["uvw"[axis]].gather() - values) / dt
            for a, width in enumerate(widths):
                weights = (
                    0.5 * (np.pad(width, (1, 0)) + np.pad(width, (0, 1))) if a == axis else width
                )
                rate = np.moveaxis(np.moveaxis(rate, a, -1) * weights, -1, a)
            powers.append(rate * values)
        share[advection] = sum(p.sum() for p in powers) / sum(abs(p).sum() for p in powers)
    assert abs(share["central"]) < 1e-5  # of the differences over dt
    assert share["upwind"] < -0.1
    assert share.get("weno", -1.0) < -0.01


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
@pytest.mark.parametrize("advection", ["central", "upwind", "weno"])
def test_energy_does_not_grow_without_forcing(scheme, advection):
    flow = solver(
        cells=(12, 10),
        viscosity=1e-3,
        coordinates={"y": stretched(10)},
        initial=(lambda x, y: np.sin(9 * x) * y, lambda x, y: np.cos(5 * x * y)),
        scheme=scheme,
        advection=advection,
    )
    before = flow.kinetic_energy()
    assert before > 1e-3
    for _ in range(20):
        flow.step(0.5 * flow.stable_dt())
        assert flow.kinetic_energy() < before
        before = flow.kinetic_energy()


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_uniform_faces_give_the_uniform_grid(scheme):
    """Kernels with profiles and kernels with numbers are the same scheme."""
    options = {"cells": (10, 8), "viscosity": 0.02, "walls": {"y+": (1.0, 0.0)}, "scheme": scheme}
    plain = solver(**options)
    faces = {"x": np.linspace(0.0, 1.0, 11), "y": np.linspace(0.0, 1.0, 9)}
    profiles = solver(**options, coordinates=faces)
    assert profiles.stable_dt() == pytest.approx(plain.stable_dt(), rel=1e-12)
    for _ in range(10):
        plain.step(0.02)
        profiles.step(0.02)
    for name, values in gathered(plain).items():
        np.testing.assert_allclose(profiles.fields[name].gather(), values, rtol=0, atol=1e-12)
    assert profiles.kinetic_energy() == pytest.approx(plain.kinetic_energy(), rel=1e-12)


@pytest.mark.parametrize("options", [
    {"advection": "weno"}, {"scheme": "ab2-cn"},
    {"coordinates": {"x": stretched(10), "y": stretched(10)}},
    {"pressure": "multigrid", "pressure_tolerance": 1e-11},
])  # fmt: skip
def test_the_turned_cavity_gives_the_turned_flow(options):
    upright = solver(cells=(10, 10), viscosity=0.02, walls={"y+": (1.0, 0.0)}, **options)
    turned = solver(cells=(10, 10), viscosity=0.02, walls={"x+": (0.0, 1.0)}, **options)
    for _ in range(8):
        upright.step(0.02)
        turned.step(0.02)
    # The factors of implicit viscosity are solved in one order.
    bound = 1e-4 if options.get("scheme") else 1e-11
    for one, other in (("u", "v"), ("v", "u"), ("p", "p")):
        np.testing.assert_allclose(
            upright.fields[one].gather(), turned.fields[other].gather().T, rtol=0, atol=bound
        )


# -------------------------------------------------------------------------------------- sides


def parabola(n, viscosity=1.0):
    """The discrete flow of unit force between walls."""

    def u(t, x, y):
        return (0.5 * y * (1.0 - y) + 0.125 / n**2) / viscosity + 0 * x

    return u


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
@pytest.mark.parametrize("faces", [None, stretched(7)])
def test_developed_flow_passes_an_outflow_unchanged(scheme, faces):
    u = parabola(8)
    flow = solver(
        cells=(7, 8),
        viscosity=1.0,
        inflow={"x-": (u, 0.0)},
        outflow=("x+",),
        initial=(lambda x, y: u(0.0, x, y), 0.0),
        scheme=scheme,
        coordinates=None if faces is None else {"x": faces},
    )
    for _ in range(20):
        flow.step(2e-3)
    y = (np.arange(8) + 0.5) / 8
    np.testing.assert_allclose(
        flow.fields["u"].gather(), np.tile(u(0.0, 0.0, y), (8, 1)), rtol=0, atol=1e-13
    )
    assert float(abs(flow.fields["v"]).max()) < 1e-13
    slope = np.diff(flow.fields["p"].gather(), axis=0)
    distances = flow.grid.geometry[0].centre_distances(np.arange(1, 7))
    np.testing.assert_allclose(slope, -np.tile(distances[:, None], (1, 8)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
@pytest.mark.parametrize(
    ("entry", "turn"),
    [
        ("x-", lambda a: a),
        ("x+", lambda a: a[::-1]),
        ("y-", np.transpose),
        ("y+", lambda a: a.T[:, ::-1]),
    ],
)
def test_as_much_leaves_as_enters_by_any_side(scheme, entry, turn):
    """A jet that starts from rest, from each side; all are the first one turned."""
    along = "xy".index(entry[0])
    inward = 1.0 if entry[1] == "-" else -1.0

    def jet(t, x, y):
        s = y if along == 0 else x
        return inward * (1.0 - np.exp(-5.0 * t)) * np.sin(np.pi * s) + 0 * (x + y)

    velocity = (jet, 0.0) if along == 0 else (0.0, jet)
    other = entry[0] + ("+" if entry[1] == "-" else "-")
    flow = solver(
        cells=(8, 8), viscosity=0.05, inflow={entry: velocity}, outflow=(other,), scheme=scheme
    )
    for _ in range(12):
        flow.step(0.02)
        assert flow.max_divergence() < 1e-12
    normal = flow.fields["uv"[along]].gather()
    ends = (
        np.moveaxis(normal, along, 0)[[0, -1]]
        if inward > 0
        else np.moveaxis(normal, along, 0)[[-1, 0]]
    )
    middle = (np.arange(8) + 0.5) / 8
    enters = (1.0 - math.exp(-5.0 * flow.time)) * np.sin(np.pi * middle)
    np.testing.assert_allclose(inward * ends[0], enters, rtol=1e-13)
    assert inward * ends[1].sum() == pytest.approx(enters.sum(), rel=1e-13)
    first = solver(
        cells=(8, 8),
        viscosity=0.05,
        scheme=scheme,
        outflow=("x+",),
        inflow={"x-": (lambda t, x, y: abs(jet(t, y, y)), 0.0)},
    )
    for _ in range(12):
        first.step(0.02)
    bound = 1e-3 if scheme == "ab2-cn" and along == 1 else 1e-12  # factors are solved in one order
    np.testing.assert_allclose(
        turn(first.fields["u"].gather()), inward * normal, rtol=0, atol=bound
    )


@pytest.mark.parametrize("advection", ["central", "weno"])
def test_planes_of_symmetry_give_the_quarter_of_the_periodic_flow(advection):
    def u(x, y):
        return np.sin(x) * np.cos(y) + 0.5 * np.sin(2 * x) * np.cos(3 * y)

    def v(x, y):
        return -np.cos(x) * np.sin(y) - np.cos(2 * x) * np.sin(3 * y) / 3.0

    options = {"viscosity": 0.05, "initial": (u, v), "advection": advection}
    whole = solver(cells=(16, 16), bounds=((0.0, 2 * np.pi),) * 2, periodic=True, **options)
    sides = ("x-", "x+", "y-", "y+")
    part = solver(cells=(8, 8), bounds=((0.0, np.pi),) * 2, slip=sides, **options)
    for _ in range(10):
        whole.step(0.02)
        part.step(0.02)
    for name in "uv":
        values = part.fields[name].gather()
        within = whole.fields[name].gather()[tuple(slice(0, n) for n in values.shape)]
        np.testing.assert_allclose(values, within, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_uniform_flow_stays_uniform_between_sides(scheme):
    flow = solver(
        cells=(6, 5, 4),
        viscosity=0.1,
        initial=(1.0, 0.0, 0.0),
        inflow={"x-": (1.0, 0.0, 0.0)},
        outflow=("x+",),
        slip=("y-", "y+"),
        periodic=(False, False, True),
        scheme=scheme,
    )
    for _ in range(5):
        flow.step(0.01)
    for name, value in (("u", 1.0), ("v", 0.0), ("w", 0.0)):
        np.testing.assert_allclose(flow.fields[name].gather(), value, rtol=0, atol=1e-15)


def test_suction_and_blowing_through_opposite_sides():
    """Between porous walls with cross flow V the steady profile under a force G is
    (G / V) (y - (exp(V y / nu) - 1) / (exp(V / nu) - 1)): to second order.
    """

    def error(n, cross=1.0, nu=0.2):
        flow = solver(
            cells=(2, n),
            viscosity=nu,
            periodic=(True, False),
            inflow={"y-": (0.0, cross), "y+": (0.0, cross)},
            initial=(0.0, cross),
            force=(1.0, 0.0),
        )
        flow.run(until=6.0)
        y = (np.arange(n) + 0.5) / n
        exact = (y - np.expm1(cross * y / nu) / np.expm1(cross / nu)) / cross
        return np.sqrt(np.mean((flow.fields["u"].gather()[0] - exact) ** 2))

    assert math.log2(error(12) / error(24)) == pytest.approx(2.0, abs=0.1)


def test_given_velocities_limit_the_time_step():
    options = {"cells": (8, 8), "viscosity": 0.0, "slip": ("y-", "y+"), "outflow": ("x+",)}
    one = solver(**options, inflow={"x-": (1.0, 0.0)})
    two = solver(**options, inflow={"x-": (lambda t, x, y: 2.0 + 0 * y, 0.0)})
    assert one.stable_dt() == pytest.approx(2.0 * two.stable_dt(), rel=1e-12)


@pytest.mark.parametrize("advection", ["central", "upwind", "weno"])
@pytest.mark.parametrize("scheme", ["ssp-rk3", "ab2-cn"])
def test_the_stable_time_step_is_stable(advection, scheme):
    flow = solver(
        cells=(12, 12),
        viscosity=1e-3,
        walls={"y+": (1.0, 0.0)},
        coordinates={"y": stretched(12)},
        advection=advection,
        scheme=scheme,
        safety=1.0,
    )
    flow.run(max_steps=150)
    assert flow.residual < 1.0
    assert float(abs(flow.fields["u"]).max()) < 1.2


# ------------------------------------------------------------------------------------- forces


def test_a_force_of_the_time_is_the_steady_one_where_it_does_not_change():
    given = {"cells": (6, 5), "viscosity": 0.1}
    steady = solver(**given, force=(lambda x, y: y, lambda x, y: np.sin(x)))
    timed = solver(**given, force=(lambda t, x, y: y + 0 * t, lambda t, x, y: np.sin(x) + 0 * y))
    for _ in range(4):
        steady.step(0.01)
        timed.step(0.01)
    for name, values in gathered(steady).items():
        np.testing.assert_array_equal(timed.fields[name].gather(), values)


class Drag(Part):
    """A part: a force against the velocity, half of it by pushing and half by constraining."""

    def __init__(self, grid):
        self.fields = {"steps": grid.zeros()}
        self.calls = []

    def push(self, now, new, stage, *, scale):
        for u, target in zip(now, new, strict=True):
            target[...] = target - 0.5 * scale * u

    def finish(self, velocity, pressure, *, time, dt):
        self.fields["steps"] += 1.0
        self.calls.append(time)


def test_a_part_takes_part(tmp_path):
    options = {"cells": (6, 6), "viscosity": 0.0, "periodic": True, "initial": (1.0, 0.0)}
    flow, part = solver(**options), None
    part = Drag(flow.grid)
    flow.add(part)
    for _ in range(50):
        flow.step(0.02)
    assert flow.fields["u"].gather() == pytest.approx(math.exp(-0.5), rel=1e-7)
    assert part.calls[-1] == flow.time
    flow.save(tmp_path / "state.h5")
    again = solver(**options)
    again.add(Drag(again.grid))
    again.restore(tmp_path / "state.h5")
    assert float(again.fields["steps"].min()) == 50.0
    with pytest.raises(da.SolverError, match="received another 'steps'"):
        flow.add(Drag(flow.grid))


def test_stages_reach_the_end_of_the_step():
    flow = solver(cells=(4, 4), viscosity=0.1)
    seen: list[Stage] = []

    class Watch(Part):
        def stage(self, velocity, stage):
            seen.append(stage)

    flow.add(Watch())
    flow.step(0.5)
    assert [s.number for s in seen] == [0, 1, 2, 3]
    assert [s.time for s in seen] == [0.0, 0.25, 0.5, 0.25]
    assert [s.after for s in seen] == [0.25, 0.5, 0.25, 0.5]
    assert [s.last for s in seen] == [False, False, False, True]


# ------------------------------------------------------------------------- pressure by cycles


def test_multigrid_gives_the_flow_of_the_direct_solver():
    options = {"cells": (12, 8), "viscosity": 0.02, "walls": {"y+": (1.0, 0.0)},
               "coordinates": {"y": stretched(8, 1.0)}}  # fmt: skip
    direct = solver(**options)
    cycles = solver(**options, pressure="multigrid", pressure_tolerance=1e-10)
    for _ in range(4):
        direct.step(0.01)
        cycles.step(0.01)
    assert cycles.max_divergence() < 1e-8
    for name, values in gathered(direct).items():
        np.testing.assert_allclose(cycles.fields[name].gather(), values, rtol=0, atol=1e-8)


def test_cycles_that_do_not_reach_the_tolerance_are_an_error():
    flow = solver(cells=(16, 16), viscosity=0.1, walls={"y+": (1.0, 0.0)}, pressure="multigrid",
                  pressure_tolerance=1e-30)  # fmt: skip
    with pytest.raises(da.SolverError, match="larger pressure_tolerance than 1e-30"):
        flow.run(max_steps=3)


# ------------------------------------------------------------------------------- files, errors

RESTARTS = {
    "stretched": {"coordinates": {"x": stretched(8), "y": stretched(9)}},
    "ab2-cn": {"scheme": "ab2-cn"},
    "weno": {"advection": "weno"},
    "multigrid": {"pressure": "multigrid"},
    "outflow": {"inflow": {"x-": (lambda t, x, y: np.sin(3 * t) * y, 0.0)}, "outflow": ("x+",)},
    "outflow ab2-cn": {"inflow": {"y-": (0.0, 1.0)}, "outflow": ("y+",), "slip": ("x-",),
                       "walls": {}, "scheme": "ab2-cn"},
    "flow rate": {"periodic": (True, False), "flow_rate": {"x": 0.5}},
    "flow rate ab2-cn": {"periodic": (True, False), "flow_rate": {"x": 0.5}, "scheme": "ab2-cn"},
    "force": {"force": (lambda t, x, y: np.cos(t) * y, 1.0)},
}  # fmt: skip


@pytest.mark.parametrize("name", RESTARTS)
def test_restart_continues_with_the_same_bits(tmp_path, name):
    given = {"cells": (8, 9), "viscosity": 0.02, "walls": {"y+": (1.0, 0.0)}, "measure_every": 3}
    config = IncompressibleConfig(**(given | RESTARTS[name]))
    flow = IncompressibleSolver(config)
    flow.step(0.01)
    flow.run(max_steps=3)
    flow.save(tmp_path / "state.h5")
    flow.run(max_steps=5)
    again = IncompressibleSolver(config)
    again.restore(tmp_path / "state.h5")
    again.run(max_steps=5)
    assert (again.step_count, again.time, again.residual) == (
        flow.step_count, flow.time, flow.residual,
    )  # fmt: skip
    assert again.scalars() == flow.scalars()
    for field, values in gathered(flow).items():
        assert again.fields[field].gather().tobytes() == values.tobytes(), field


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scheme": "rk4"}, "'ssp-rk3' or 'ab2-cn', received 'rk4'"),
        ({"pressure": "cg"}, "'auto', 'fft' or 'multigrid', received 'cg'"),
        ({"pressure_tolerance": 0.0}, "lies in (0, 1), received 0.0"),
        ({"viscosity": math.inf}, "viscosity is a number of at least 0, received inf"),
        ({"viscosity": "small"}, "viscosity is a number of at least 0, received 'small'"),
        ({"cells": (8, 0)}, "two or three axes, received cells=(8, 0)"),
        ({"cells": (8, 8.5)}, "two or three axes, received cells=(8, 8.5)"),
        ({"safety": "high"}, "received 'high'"),
        ({"cells": (8, 2), "advection": "weno"}, "reads 3 neighbours, received cells=(8, 2)"),
        ({"measure_every": 2.5}, "received 2.5"),
        ({"periodic": None}, "'periodic' has one entry per axis, received None"),
        ({"walls": ["y+"]}, "'walls' names sides and their velocities, received ['y+']"),
        ({"walls": {"y+": 1.0}}, "'walls['y+']' has one entry per axis, received 1.0"),
        ({"walls": {"y+": ("fast", 0.0)}}, "received 'fast' in walls['y+']"),
        ({"inflow": {"x-": (1.0,)}}, "'inflow['x-']' has one entry per axis, received 1"),
        ({"inflow": {"x": (1.0, 0.0)}}, "received 'x' in 'inflow'"),
        ({"inflow": {"x-": (math.nan, 0.0)}}, "received nan in inflow['x-']"),
        ({"outflow": ("z+",)}, "received 'z+' in 'outflow'"),
        ({"outflow": "x+"}, "'outflow' is a tuple of sides, received 'x+'"),
        ({"slip": ("y+",), "walls": {"y+": (1.0, 0.0)}}, "received 'y+' in 'walls' and in 'slip'"),
        ({"flow_rate": {"x": 1.0}}, "here none, received 'x'"),
        ({"flow_rate": {"x": math.nan}, "periodic": True}, "received nan along 'x'"),
        ({"flow_rate": 1.0, "periodic": True}, "'flow_rate' names axes and mean velocities"),
        ({"force": (lambda x: x, 0.0)}, "called as f(x, y) or f(t, x, y)"),
        ({"force": ("down", 0.0)}, "received 'down' in force"),
        ({"initial": (None, 0.0)}, "received None in initial"),
        ({"coordinates": [0.0, 1.0]}, "'coordinates' names axes and face positions"),
    ],
)  # fmt: skip
def test_a_wrong_config_says_what_is_wrong(options, text):
    with pytest.raises(da.SolverError) as raised:
        IncompressibleConfig(**({"cells": (8, 8), "viscosity": 0.1} | options))
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"inflow": {"x-": (1.0, 0.0)}}, da.SolverError, "received a net inflow of 1 through x-"),
        ({"inflow": {"x-": (lambda t, x: 1.0, 0.0)}}, da.BoundaryError, "called as f(t, x, y)"),
        ({"coordinates": {"y": [0.0, 1.0]}}, da.GridError, "y"),
        ({"ranks": (2, 2)}, da.DecompositionError, "ranks"),
        (
            {"inflow": {"x-": (lambda t, x, y: np.ones(3), 0.0)}},
            da.SolverError,
            "received the shape (3,) for (1, 8) points of 'x-'",
        ),
    ],
)
def test_what_makes_no_flow_is_an_error(options, error, text):
    with pytest.raises(error) as raised:
        solver(**({"cells": (8, 8), "viscosity": 0.1} | options))
    assert text in str(raised.value)
