"""Conservation laws: errors of all ranks are the same, and files carry on to other ranks."""

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.burgers import BurgersConfig, BurgersSolver
from tests.ranks.common import from_root

RANKS = (1, 3, 4)
SELDOM = (1, 4)

WAVES = BurgersConfig(
    cells=(30,), initial=(lambda x: 0.5 + np.sin(2 * np.pi * x),), scheme="muscl", courant=0.5
)


def test_restart_on_other_ranks_has_the_same_bits(folder):
    flow = BurgersSolver(WAVES)
    flow.run(max_steps=5)
    flow.save(folder / "state.h5")
    flow.run(max_steps=6)
    expected = flow.time, flow.residual, flow.fields["u"].gather().tobytes()

    def continued():
        again = BurgersSolver(WAVES, comm=MPI.COMM_SELF)
        again.restore(folder / "state.h5")
        again.run(max_steps=6)
        return again.time, again.residual, again.fields["u"].gather().tobytes()

    assert from_root(continued) == expected


def test_a_step_beyond_the_limit_is_the_same_error_on_all_ranks():
    flow = BurgersSolver(WAVES)
    with pytest.raises(
        da.SolverError, match=r"at most the Courant number 1, received dt=0\.1"
    ) as e:
        flow.step(0.1)
    assert set(MPI.COMM_WORLD.allgather(str(e.value))) == {str(e.value)}
    flow.step(0.01)  # and the state is as it was
    assert flow.step_count == 1


def test_an_unknown_scheme_is_the_same_error_on_all_ranks():
    with pytest.raises(da.SolverError, match="'scheme' is one of 'constant', 'upwind3'") as e:
        BurgersConfig(cells=(30,), initial=(0.0,), scheme="weno7")
    assert set(MPI.COMM_WORLD.allgather(str(e.value))) == {str(e.value)}
