"""Viscous stresses and the conduction of heat through the face between two cells, of second order.
Pure; called while a kernel is traced.

    tau_ij = mu (du_i / dx_j + du_j / dx_i - 2/3 delta_ij div u),    q = -k dT / dx,

with T = p / rho (the gas constant is 1) and k = mu gamma / ((gamma - 1) Pr).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solvers.euler.gas import State, Symbol, velocity
from solvers.hyperbolic import total

#: The primitive state at an offset from the first cell above a face.
Around = Callable[[Sequence[int]], State]


def viscous(
    sides: tuple[State, State], around: Around, axis: int, *, rates: Sequence[Symbol],
    mu: Symbol, conductivity: Symbol,
) -> list[Symbol]:  # fmt: skip
    """Mass, momentum and energy that stresses and heat carry through a face: to be subtracted.

    Parameters
    ----------
    sides : two states
        The cells beside the face, images of fluid where they are solid.
    around : function of an offset
    axis : int
        Of the normal of the face.
    rates : one symbol per axis
        1 / h.
    mu, conductivity : symbol
    """
    low, high = sides
    along = [(b - a) * rates[axis] for a, b in zip(velocity(low), velocity(high), strict=True)]
    across = {
        other: _across(around, (axis, other), rates) for other in range(len(rates)) if other != axis
    }
    divergence = total([along[axis], *(slopes[other] for other, slopes in across.items())])
    stress = [
        mu * (2.0 * along[i] - 2.0 / 3.0 * divergence)
        if i == axis
        else mu * (along[i] + across[i][axis])
        for i in range(len(rates))
    ]
    work = conductivity * ((high[-1] / high[0] - low[-1] / low[0]) * rates[axis])
    done = [0.5 * (low[1 + i] + high[1 + i]) * tau for i, tau in enumerate(stress)]
    return [0.0, *stress, work + total(done)]


def _across(around: Around, axes: tuple[int, int], rates: Sequence[Symbol]) -> list[Symbol]:
    """Derivatives of the velocities on a face along another axis: means of both cells."""
    axis, other = axes

    def cell(n: int, m: int) -> State:
        offset = [0] * len(rates)
        offset[axis], offset[other] = n, m
        return velocity(around(offset))

    corners = [cell(n, m) for m in (1, -1) for n in (-1, 0)]
    return [0.25 * ((a + b) - (c + d)) * rates[other] for a, b, c, d in zip(*corners, strict=True)]
