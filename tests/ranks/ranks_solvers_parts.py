"""Bodies, scalars, eddies and statistics give the same bits on any ranks and process grid."""

import numpy as np
from mpi4py import MPI

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from solvers.incompressible.immersed import ImmersedBoundary, Obstacle, turning
from solvers.incompressible.les import Smagorinsky
from solvers.incompressible.scalar import Scalar, ScalarTransport
from solvers.incompressible.shapes import Circle, Sphere
from solvers.incompressible.statistics import Statistics, enstrophy, kinetic_energy, spectrum
from tests.ranks.common import from_root

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)
TIMEOUT = 240
SIZE = MPI.COMM_WORLD.Get_size()

BODY = {
    "cells": (18, 13),
    "viscosity": 0.02,
    "bounds": ((0.0, 1.8), (0.0, 1.3)),
    "inflow": {"x-": (lambda t, x, y: 4.0 * y * (1.3 - y) / 1.69 + 0.0 * x, 0.0)},
    "outflow": ("x+",),
    "initial": (1.0, 0.0),
    "obstacles": (
        Obstacle(Circle((0.61, 0.62), 0.23), turning((0.61, 0.62), 1.5)),
        Obstacle(Circle((1.31, 0.52), 0.15)),
    ),
    "measure_every": 2,
}
SPHERE = {
    "cells": (10, 9, 8),
    "viscosity": 0.05,
    "periodic": (True, False, True),
    "force": (1.0, 0.0, 0.0),
    "obstacles": (Obstacle(Sphere((0.5, 0.52, 0.47), 0.24)),),
    "measure_every": 2,
}
CONVECTION = {
    "cells": (12, 11),
    "viscosity": 0.05,
    "scalar": Scalar(
        0.05,
        initial=lambda x, y: 1.0 - x + 0.1 * y,
        boundary={"x-": da.Dirichlet(1.0), "x+": da.Dirichlet(0.0)},
        buoyancy=(0.0, 20.0),
    ),
    "les": Smagorinsky(0.2),
    "measure_every": 2,
}
BOX = {
    "cells": (12, 12, 12),
    "viscosity": 0.01,
    "bounds": ((0.0, 2 * np.pi),) * 3,
    "periodic": True,
    "initial": (
        lambda x, y, z: np.sin(x) * np.cos(y) * np.cos(z) + 0.2 * np.sin(3 * z),
        lambda x, y, z: -np.cos(x) * np.sin(y) * np.cos(z),
        0.0,
    ),
}


def grids(ndim):
    """The process grid that the flow chooses, slabs along the first axis, and those along the
    last.
    """
    return [None, (*(1,) * (ndim - 1), SIZE)]


def compare(options, measured, steps=3):
    """`measured(flow)` on one rank and on all, for every process grid."""

    def result(ranks, comm):
        flow = IncompressibleSolver(IncompressibleConfig(**options, ranks=ranks), comm=comm)
        statistics = Statistics(flow.grid, average=(0,))
        flow.add(statistics)
        flow.run(max_steps=steps)
        fields = {name: u.gather().tobytes() for name, u in flow.fields.items()}
        return fields, flow.residual, statistics.rms(0).tobytes(), measured(flow)

    alone = from_root(lambda: result(None, MPI.COMM_SELF))
    for ranks in grids(len(options["cells"])):
        assert result(ranks, MPI.COMM_WORLD) == alone, ranks


def velocity(flow):
    return [flow.fields[name] for name in "uvw"[: flow.config.ndim]]


def on_bodies(flow):
    body = next(part for part in flow.parts if isinstance(part, ImmersedBoundary))
    points = [(0.3, 0.5), (0.4, 0.6)] if flow.config.ndim == 2 else [(0.3, 0.5, 0.5)]
    return (
        body.forces(velocity(flow), flow.fields["p"]),
        body.leak(velocity(flow)),
        body.surface_pressure(flow.fields["p"], points).tobytes(),
    )


def test_bodies_have_the_same_bits():
    compare(BODY, on_bodies)


def test_a_sphere_has_the_same_bits():
    compare(SPHERE, on_bodies, steps=2)


def test_a_scalar_has_the_same_bits():
    def measured(flow):
        scalar = next(part for part in flow.parts if isinstance(part, ScalarTransport))
        flux = scalar.mean_flux(velocity(flow), 0)
        return flux, scalar.mean(), scalar.wall_gradient("x-").tobytes()

    compare(CONVECTION, measured)


def test_sums_over_a_box_have_the_same_bits():
    def measured(flow):
        k, energy = spectrum(velocity(flow))
        sums = enstrophy(velocity(flow)), kinetic_energy(velocity(flow))
        return k.tobytes(), energy.tobytes(), *sums

    compare(BOX, measured, steps=2)
