"""The incompressible solver gives the same bits on any number of ranks and any process grid."""

import pytest
from mpi4py import MPI

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver

CAVITY = IncompressibleConfig(
    cells=(18, 13), viscosity=0.01, walls={"y+": (1.0, 0.0)}, measure_every=4
)
BOX = IncompressibleConfig(
    cells=(10, 9, 8),
    viscosity=0.02,
    periodic=(False, True, False),
    walls={"z+": (1.0, 0.25, 0.0)},
    initial=(0.0, 0.5, 0.0),
    force=(0.0, lambda x, y, z: x * z, 0.0),
    measure_every=4,
)

NARROW = IncompressibleConfig(
    cells=(16, 3), viscosity=0.05, walls={"x-": (0.0, 1.0)}, measure_every=4
)


def state(config, **options):
    flow = IncompressibleSolver(config, **options)
    flow.run(max_steps=8)
    values = {name: u.gather().tobytes() for name, u in flow.fields.items()}
    return values | {"time": flow.time, "residual": flow.residual}


def process_grids(size, ndim):
    """All ways to cut `ndim` axes into `size` blocks."""
    if ndim == 1:
        return [(size,)]
    return [
        (n, *rest)
        for n in range(1, size + 1)
        if size % n == 0
        for rest in process_grids(size // n, ndim - 1)
    ]


def fits(config, ranks):
    return all(n >= r for n, r in zip(config.cells, ranks, strict=True))


def replaced(config, **changes):
    return IncompressibleConfig(**{**vars(config), **changes})


def compare(config):
    size = MPI.COMM_WORLD.Get_size()
    alone = state(config, comm=MPI.COMM_SELF)
    assert state(config) == alone
    for ranks in process_grids(size, config.ndim):
        if fits(config, ranks):
            assert state(replaced(config, ranks=ranks)) == alone, ranks


def test_cavity_has_the_same_bits():
    compare(CAVITY)


def test_box_has_the_same_bits():
    compare(BOX)


def test_a_box_narrower_than_the_ranks_has_the_same_bits():
    compare(NARROW)


def test_restart_on_other_ranks_has_the_same_bits(folder):
    flow = IncompressibleSolver(CAVITY)
    flow.run(max_steps=6)
    flow.save(folder / "state.h5")
    alone = IncompressibleSolver(CAVITY, comm=MPI.COMM_SELF)
    alone.restore(folder / "state.h5")
    for one in (flow, alone):
        one.run(max_steps=10)
    assert flow.residual == alone.residual
    for name, values in flow.fields.items():
        assert values.gather().tobytes() == alone.fields[name].gather().tobytes()


def test_a_state_that_blows_up_is_the_same_error_on_all_ranks():
    flow = IncompressibleSolver(replaced(CAVITY, viscosity=0.5))
    with pytest.raises(da.SolverError) as raised:
        step_often(flow)
    texts = MPI.COMM_WORLD.allgather(str(raised.value))
    assert set(texts) == {str(raised.value)}


def step_often(flow):
    for _ in range(200):
        flow.step(1.0)


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for config in (CAVITY, BOX):
        expected = state(config, comm=MPI.COMM_SELF, device="cpu")
        assert state(config, device="simulated") == expected
