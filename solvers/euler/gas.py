"""An ideal gas: its states as kernels and NumPy take them. Pure.

A primitive state is a sequence (rho, u_0, ..., p): density, one velocity per axis, pressure. A
conserved one is (rho, m_0, ..., E): density, momentum per volume, energy per volume, with

    m = rho u,    E = p / (gamma - 1) + rho |u|^2 / 2.

Entries are symbols while a kernel is traced, numbers or arrays otherwise. Sums over axes do not
depend on their order, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solvers.hyperbolic import total

# Entries of a state are symbols while a kernel is traced.
Symbol = Any
State = Sequence[Any]


def velocity(state: State) -> State:
    """The velocities of a primitive state, or the momentum of a conserved one."""
    return state[1:-1]


def dot(a: State, b: State) -> Symbol:
    """The sum of products."""
    return total([x * y for x, y in zip(a, b, strict=True)])


def total_energy(state: State, gamma: Symbol) -> Symbol:
    """E of a primitive state."""
    u = velocity(state)
    return state[-1] * (1.0 / (gamma - 1.0)) + 0.5 * state[0] * dot(u, u)


def conserved(state: State, gamma: Symbol) -> list[Symbol]:
    """The conserved state of a primitive one."""
    rho = state[0]
    return [rho, *(rho * u for u in velocity(state)), total_energy(state, gamma)]


def primitive(state: State, gamma: Symbol) -> list[Symbol]:
    """The primitive state of a conserved one."""
    share = 1.0 / state[0]
    u = [m * share for m in velocity(state)]
    return [state[0], *u, (gamma - 1.0) * (state[-1] - 0.5 * dot(velocity(state), u))]


def sound_speed(state: State, gamma: Symbol) -> Symbol:
    """The speed of sound, sqrt(gamma p / rho), of a primitive state."""
    return np.sqrt(gamma * state[-1] / state[0])


def flux(state: State, axis: int, gamma: Symbol) -> list[Symbol]:
    """What flows along an axis of mass, momentum and energy, of a primitive state."""
    u, p = velocity(state), state[-1]
    mass = state[0] * u[axis]
    momentum = [mass * v for v in u]
    momentum[axis] = momentum[axis] + p
    return [mass, *momentum, u[axis] * (total_energy(state, gamma) + p)]
