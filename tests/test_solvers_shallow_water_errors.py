"""Shallow water on one rank: files, given discharges, and input that is refused."""

import math

import numpy as np
import pytest

import distarray as da
from tests.test_solvers_shallow_water import broken_dam, depth_of, flow_of, middles

# ------------------------------------------------------------------------------------------- files


def test_a_restart_has_the_same_bits(tmp_path):
    options = {
        "depth": lambda x: np.where(x < 0.5, 1.0, 0.1),
        "bathymetry": lambda x: 0.05 * np.sin(9.0 * x),
        "manning": 0.02,
    }
    flow = flow_of((40,), **options)
    flow.run(max_steps=10)
    flow.save(tmp_path / "state.h5")
    flow.run(max_steps=10)
    again = flow_of((40,), **(options | {"bathymetry": options["bathymetry"]}))
    again.restore(tmp_path / "state.h5")
    assert again.step_count == 10
    again.run(max_steps=10)
    assert again.time == flow.time
    for name, values in flow.fields.items():
        assert values.gather().tobytes() == again.fields[name].gather().tobytes()
    saved = da.load(tmp_path / "state.h5", flow.grid).arrays
    assert saved.keys() == {"depth", "discharge", "bathymetry"}
    np.testing.assert_allclose(
        saved["bathymetry"].gather(), 0.05 * np.sin(9.0 * middles(40)), atol=1e-15
    )


def test_a_given_discharge_fills_the_basin():
    flow = flow_of(
        (50,), depth=1.0, gravity=1.0, inflow={"x-": (lambda t, x: 0.1 * np.minimum(t, 1.0),)}
    )
    flow.run(until=2.0)
    # The integral of the discharge over time; what waves at the side do to it is of second order.
    assert flow.scalars()["volume"] - 1.0 == pytest.approx(0.15, rel=2e-2)


# ------------------------------------------------------------------------------------------ errors

DEEP = {"cells": (8,), "depth": 1.0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"depth": lambda x: x - 0.5}, "A depth is at least 0, received one of -0.4375"),
        ({"bathymetry": None}, "'bathymetry' is a finite number or a function, received None"),
        ({"depth": -1.0}, "A depth is at least 0, received depth=-1.0"),
        ({"depth": lambda x: x * np.nan}, "A depth is at least 0, received one of nan"),
        ({"riemann": "hlle"}, "'riemann' is one of 'hll', 'hllc', 'roe', received 'hlle'"),
        ({"reconstruction": "weno5"}, "'reconstruction' is one of 'constant', 'muscl', received"),
        ({"limiter": "central"}, "'minmod', 'van_leer', 'mc', 'superbee', received 'central'"),
        ({"integrator": "rk4"}, "one of 'euler', 'ssp_rk2', 'ssp_rk3', received 'rk4'"),
        ({"dtype": "float16"}, "'dtype' is one of 'float64', 'float32', received 'float16'"),
        ({"courant": 0.6}, "A Courant number is above 0 and at most 0.5, received courant=0.6"),
        ({"gravity": 0.0}, "Gravity is a number above 0, received gravity=0.0"),
        ({"gravity": -9.81}, "Gravity is a number above 0, received gravity=-9.81"),
        ({"manning": -0.1}, "received manning=-0.1; give one."),
        ({"drag": math.inf}, "received drag=inf; give one."),
        ({"coriolis": 1.0}, "turns flows on two axes, received 1.0 on 1"),
        ({"thin": 0.0}, "The depth of thin water is a number above 0, received thin=0.0"),
        ({"cells": (8, 8, 8)}, "one or two axes with two cells or more, received cells=(8, 8, 8)"),
        ({"cells": (1,)}, "one or two axes with two cells or more, received cells=(1,)"),
        ({"surface": 1.0}, "a depth or a surface, received both"),
        ({"depth": None}, "a depth or a surface, received neither"),
        ({"bathymetry": "flat"}, "'bathymetry' is a finite number or a function, received 'flat'"),
        ({"velocity": (1.0, 0.0)}, "'velocity' has one entry per axis, received (1.0, 0.0) for 1"),
        ({"velocity": (None,)}, "'velocity' is a finite number or a function, received None"),
        ({"periodic": (True, True)}, "'periodic' has one entry per axis"),
        ({"outflow": "x+"}, "'outflow' is a tuple of sides, received 'x+'"),
        ({"outflow": ("z+",)}, "This box has the sides x-, x+, received 'z+'"),
        ({"outflow": ("x+",), "uniform": ("x+",)}, "A side is of one kind, received 'x+' twice"),
        ({"inflow": ("x-",)}, "'inflow' names sides and what they have, received ('x-',)"),
        ({"bounds": ((1.0, 0.0),)}, "(low, high) with low < high, received (1.0, 0.0)"),
        ({"bathymetry": lambda x, y: x}, "'bathymetry' is called as f(x), received"),
        ({"inflow": {"x-": (lambda x: x,)}}, "is called as f(t, x), received"),
        ({"inflow": {"x-": 1.0}}, "'inflow['x-']' has one entry per axis, received 1.0"),
        ({"side_depth": {"x-": 1.0}}, "A depth is given where water enters or leaves"),
        ({"outflow": ("x+",), "side_depth": {"x+": -1.0}}, "received -1.0 at 'x+'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(changes, text):
    with pytest.raises(da.SolverError) as raised:
        flow_of(**(DEEP | changes))
    message = str(raised.value)
    assert text in message
    assert message.endswith(".")
    assert message.count(". ") == 0


def test_a_step_beyond_the_limit_is_refused():
    flow = broken_dam(0.5, 100)
    before = depth_of(flow)
    with pytest.raises(da.SolverError, match=r"has at most the Courant number 0\.5, received dt=1"):
        flow.step(1.0)
    np.testing.assert_array_equal(depth_of(flow), before)


def test_a_depth_that_was_made_negative_is_found():
    flow = flow_of((8,), depth=1.0)
    flow.fields["depth"][...] = -1.0
    with pytest.raises(da.SolverError, match="A depth is at least 0, received one of -1"):
        flow.run(until=1.0)


def test_dry_ground_has_no_time_step():
    with pytest.raises(da.SolverError, match="nothing moves"):
        flow_of((8,), depth=0.0).run(until=1.0)
