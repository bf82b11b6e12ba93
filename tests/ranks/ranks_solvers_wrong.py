"""What users give to solvers and must not: one error of one sentence, the same on all ranks."""

import re

import pytest
from mpi4py import MPI

import distarray as da
from solvers.wave import WaveConfig, WaveSolver

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
