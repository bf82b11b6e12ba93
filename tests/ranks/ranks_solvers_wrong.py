"""What users give to solvers and must not: one error of one sentence, the same on all ranks."""

import math
import re

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.diffusion import DiffusionConfig, DiffusionSolver
from solvers.euler.problems import gresho_flow
from solvers.incompressible import IncompressibleConfig
from solvers.lbm import LatticeConfig, LatticeSolver
from solvers.wave import Source, WaveConfig, WaveSolver

RANKS = (1, 2, 3)

PLANE = {"cells": (24, 20), "order": 4, "periodic": True}


def refuse(pattern, function, *args, **kwargs):
    with pytest.raises(da.SolverError) as raised:
        function(*args, **kwargs)
    text = str(raised.value)
    assert set(MPI.COMM_WORLD.allgather(text)) == {text}
    assert re.fullmatch(pattern, text), text


def test_runs_say_what_they_cannot_call_or_visit_before_the_first_step():
    wave = WaveSolver(WaveConfig(**PLANE))
    called = r"is called as f\(\), received <function .*, which takes other .*\."
    for options, pattern in (
        ({"callback": "x"}, r"'callback' is a function, .* received 'x'; write one\."),
        ({"callback": lambda time: time}, rf"'callback' {called}"),
        ({"visits": 3}, r"'visits' is a list of \(time, function\), received 3; put .*\."),
        ({"visits": [(0.1, lambda time: time)]}, rf"The function of visit 0 {called}"),
        ({"visits": [(0.1, lambda: 0), (0.2, 1.0)]}, r"A visit is .* as number 1; give .*\."),
    ):
        refuse(pattern, wave.run, 0.3, every=1, **options)
    assert wave.step_count == 0


def test_wavelets_that_give_no_number_are_refused():
    def waves(wavelet, steps=1):
        sources = (Source((0.5, 0.5), wavelet),)
        return WaveSolver(WaveConfig(**PLANE, sources=sources)).run(max_steps=steps)

    what = "The wavelet of source 0"
    given = r"is called as f\(time\), received <function .*, which takes other arguments; .*\."
    refuse(f"{what} {given}", waves, lambda t, x: 1.0)
    refuse(f"{what} {given}", waves, lambda: 1.0)
    refuse(rf"{what} is a function, called as f\(time\), received 1.0; write one\.", waves, 1.0)
    rule = "gives a real number at each time, received"
    for value, text in (
        ("3", "'3'"), (None, "None"), (1j, "1j"), (np.ones(1), r"array\(\[1\.\]\)"),
    ):  # fmt: skip
        refuse(rf"{what} {rule} {text} at time 0; let .*\.", waves, lambda t, value=value: value)
    # In the midst of a loop over many steps, too.
    refuse(rf"{what} {rule} 'x' at time 0\.3\d*; let .*\.", waves, late, steps=96)
    waves(lambda t: np.where(t < 1, 1.0, 0.0))


def late(t):
    return 1.0 if t < 0.3 else "x"


def test_numbers_beyond_what_floats_hold_are_refused():
    def waves(**options):
        WaveSolver(WaveConfig(**PLANE | options)).run(0.1, max_steps=2)

    for width in (1e-320, 1e-200, 1e200):
        box = re.escape(f"(0, {width}) for 24 cells")
        refuse(
            rf"The width of a cell, .* received {box}; change .*\.",
            waves,
            bounds=((0, width), (0, 1)),
        )
    for c in (1e-200, 1e200):
        pattern = (
            rf"The velocity squared is .*, received {re.escape(str(c))} for the velocity; .*\."
        )
        for velocity in (c, np.full(PLANE["cells"], c), lambda x, y, c=c: c + 0 * x + 0 * y):
            refuse(pattern, waves, velocity=velocity)
    refuse(r"A run ends in fewer than 10\^15 steps, .*\.", waves, velocity=1e100)
    steps = r"A time step is finite and above 0, but the stable one is (0\.0|inf) here; .*\."
    for diffusivity in (1e308, 1e-320):
        heat = DiffusionSolver(DiffusionConfig((8,), diffusivity=diffusivity, periodic=True))
        refuse(steps, heat.run, 1.0)
        refuse(steps, heat.run, max_steps=1)
        refuse(r"The time of a run is divided by, received until=1e-320; .*\.", heat.run, 1e-320)
    lattice = LatticeSolver(LatticeConfig((8, 8), viscosity=0.1, periodic=True))
    refuse(r"A run ends in fewer than 10\^15 steps, .*\.", lattice.run, 1e308)
    for mach in (0, -1, 1e-320, 1e308, math.inf, math.nan, "1"):
        refuse(
            r"A Mach number is above 0, and .*, received mach=.*; .*\.",
            gresho_flow,
            (16, 16),
            mach=mach,
        )


def test_functions_are_named_without_their_addresses():
    pattern = r"'initial' is called as f\(x, y\), received <function .*<lambda>>, which .*\."
    refuse(pattern, WaveConfig, **PLANE, initial=(lambda x: x))
    refuse(
        r"'periodic' is one of False, True, received <object object>; name .*\.",
        WaveConfig,
        **PLANE | {"periodic": (object(), True)},
    )


def test_what_is_no_number_is_named_without_its_address():
    thing = r"<object object>;? .*\."
    for name in ("safety", "width", "frequency", "measure_every", "receivers"):
        refuse(f".*, received {thing}", WaveConfig, **PLANE, **{name: object()})
    heat = DiffusionSolver(DiffusionConfig((8,), periodic=True))
    refuse(rf"A time step of .*, received dt={thing}", heat.step, object())
    plane = {"cells": (8, 8), "viscosity": 0.1}
    for name in ("viscosity", "safety", "periodic", "inflow", "scalar", "measure_every"):
        refuse(f".*, received {thing}", IncompressibleConfig, **plane | {name: object()})
