"""What populations become in a cell: BGK, two relaxation times, cumulants. Pure expressions.

Populations are stored as deviations from those of the fluid at rest, `f_i - w_i`, so that small
velocities keep their digits (Skordos, P. A. (1993) Phys. Rev. E 48(6), 4823-4842). All is in units
of the lattice: lengths in cells, times in steps, density 1 at rest, speed of sound 1 / sqrt(3).

The viscosity is `(1 / omega - 1 / 2) / 3` for all of them.

- "bgk": Bhatnagar, P. L., Gross, E. P., Krook, M. (1954), with one rate `omega`; Qian et al. 1992.
- "trt": Ginzburg, I., Verhaeghe, F., d'Humieres, D. (2008) Comm. Comput. Phys. 3(2), 427-478:
  even parts of the populations relax with `omega`, odd ones with a rate by which half-way walls lie
  where they should, see `odd_rate`.
- "cumulant": Geier, M., Schonherr, M., Pasquali, A., Krafczyk, M. (2015) Comput. Math. Appl. 70(4),
  507-547, with `omega` for shear and the rate 1 for everything else, without its correction of the
  normal stresses. Stable at low viscosity. With rate 1 all cumulants of order 3 and above vanish
  after the collision: populations are then those whose moments are of a normal distribution, with
  the relaxed stress as covariance.

A constant force enters by its second-order forms: Guo, Z., Zheng, C., Shi, B. (2002) Phys. Rev. E
65(4), 046308 for the first two; for cumulants half of it moves the fluid before and half after the
collision. The velocity is `(sum of c f + force / 2) / density` before a collision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.box import shown
from solvers.lbm.lattice import Lattice, Vector

#: Square of the speed of sound.
SOUND = 1.0 / 3.0
#: Where half-way walls lie half-way in a channel: Ginzburg, I., d'Humieres, D. (2003) Phys. Rev. E
#: 68(6), 066614.
MAGIC = 3.0 / 16.0

Values = Sequence[Any]


@dataclass(frozen=True)
class State:
    """What a collision keeps, of one cell.

    Parameters
    ----------
    excess : expression
        Density less 1.
    density : expression
    momentum : sequence of expression
        Sum of c f, before the collision.
    velocity : sequence of expression
        With half of the force.
    force : sequence of expression or None
        Force per volume; None for no force.
    """

    excess: Any
    density: Any
    momentum: Values
    velocity: Values
    force: Values | None


@dataclass(frozen=True)
class Collision:
    """How populations relax.

    Parameters
    ----------
    name : str
    collide : function of (lattice, f, state, omega, odd)
        Populations after the collision; `odd` is the rate of odd parts.
    equilibrium : function of (lattice, excess, velocity)
        Populations that a collision does not change.
    """

    name: str
    collide: Callable[[Lattice, Values, State, Any, Any], list[Any]]
    equilibrium: Callable[[Lattice, Any, Values], list[Any]]


def state_of(lattice: Lattice, f: Values, force: Values | None = None, part: float = 0.5) -> State:
    """The state of populations before a collision, or, with part -1/2, of those after one."""
    differences = {i: f[i] - f[o] for i, o in lattice.pairs}
    excess = f[0] + lattice.add({i: f[i] + f[o] for i, o in lattice.pairs})
    density = 1.0 + excess
    momentum = [lattice.moment(differences, (axis,)) for axis in range(lattice.ndim)]
    moved = momentum
    if force is not None:
        moved = [j + part * g for j, g in zip(momentum, force, strict=True)]
    inverse = 1.0 / density
    return State(excess, density, momentum, [j * inverse for j in moved], force)


def pushed(state: State) -> Values:
    """The mean velocity of populations after a collision, which half of the force has moved on."""
    if state.force is None:
        return state.velocity
    inverse = 0.5 / state.density
    return [u + inverse * g for u, g in zip(state.velocity, state.force, strict=True)]


def of_stress(lattice: Lattice, stress: dict[tuple[int, int], Any]) -> list[Any]:
    """Deviations from an equilibrium with these moments of second order (the upper triangle), and
    no others.
    """
    axes = range(lattice.ndim)
    trace = SOUND * sum((stress[a, a] for a in axes[1:]), stress[0, 0])
    found = [-4.5 * lattice.weights[0] * trace]
    for i, _ in lattice.pairs:
        c = lattice.velocities[i]
        both = -trace
        for (a, b), value in stress.items():
            if c[a] * c[b]:
                both = both + (1.0 if a == b else 2.0) * c[a] * c[b] * value
        found += [4.5 * lattice.weights[i] * both] * 2
    return found


def odd_rate(omega: float, magic: float) -> float:
    """The rate of odd parts with `(1 / omega - 1 / 2) (1 / odd - 1 / 2) = magic`."""
    return 1.0 / (0.5 + magic / (1.0 / omega - 0.5))


def collision(name: str) -> Collision:
    """The collision of this name.

    Raises
    ------
    SolverError
        There is none.
    """
    if name not in COLLISIONS:
        raise da.SolverError(
            f"A collision is one of {', '.join(COLLISIONS)}, received {shown(name)}; give one of "
            "these."
        )
    return COLLISIONS[name]


# ---- one and two rates


def _two_rates(lattice: Lattice, f: Values, state: State, omega: Any, odd: Any) -> list[Any]:
    even_parts, odd_parts = _quadratic(lattice, state.excess, state.velocity, state.density)
    pushes = _forced(lattice, state, omega, odd)
    found = [f[0] - omega * (f[0] - even_parts[0])]
    if pushes is not None:
        found[0] = found[0] + pushes[0][0]
    for i, o in lattice.pairs:
        even = omega * (0.5 * (f[i] + f[o]) - even_parts[i])
        odd_ = odd * (0.5 * (f[i] - f[o]) - odd_parts[i])
        if pushes is not None:
            even, odd_ = even - pushes[0][i], odd_ - pushes[1][i]
        found += [f[i] - (even + odd_), f[o] - (even - odd_)]
    return found


def _quadratic(
    lattice: Lattice, excess: Any, velocity: Values, density: Any
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Even and odd parts of the equilibrium of second order in the velocity."""
    square = _square(velocity)
    common = excess - 1.5 * density * square
    even, odd = {0: lattice.weights[0] * common}, dict[int, Any]()
    for i, _ in lattice.pairs:
        along = lattice.product(i, velocity)
        momentum = density * along
        even[i] = lattice.weights[i] * (common + 4.5 * momentum * along)
        odd[i] = (3.0 * lattice.weights[i]) * momentum
    return even, odd


def _quadratic_equilibrium(lattice: Lattice, excess: Any, velocity: Values) -> list[Any]:
    even, odd = _quadratic(lattice, excess, velocity, 1.0 + excess)
    found = [even[0]]
    for i, _ in lattice.pairs:
        found += [even[i] + odd[i], even[i] - odd[i]]
    return found


def _forced(
    lattice: Lattice, state: State, omega: Any, odd: Any
) -> tuple[dict[int, Any], dict[int, Any]] | None:
    """Even and odd parts of what a force adds to the populations."""
    if state.force is None:
        return None
    work = _product(state.velocity, state.force)
    even_share, odd_share = 1.0 - 0.5 * omega, 1.0 - 0.5 * odd
    even = {0: even_share * (-3.0 * lattice.weights[0] * work)}
    pushes = dict[int, Any]()
    for i, _ in lattice.pairs:
        push, along = lattice.product(i, state.force), lattice.product(i, state.velocity)
        even[i] = even_share * (lattice.weights[i] * (9.0 * along * push - 3.0 * work))
        pushes[i] = odd_share * (3.0 * lattice.weights[i] * push)
    return even, pushes


# ---- cumulants


def _cumulants(lattice: Lattice, f: Values, state: State, omega: Any, odd: Any) -> list[Any]:
    axes = range(lattice.ndim)
    inverse = 1.0 / state.density
    before = [j * inverse for j in state.momentum]
    sums = {i: f[i] + f[o] for i, o in lattice.pairs}
    stress = {}
    for a in axes:
        for b in axes[a:]:
            raw = lattice.moment(sums, (a, b))
            if a == b:
                raw = raw - SOUND * state.excess
            stress[a, b] = raw * inverse - before[a] * before[b]
    mean = (1.0 / lattice.ndim) * sum((stress[a, a] for a in axes[1:]), stress[0, 0])
    keep = 1.0 - omega
    relaxed = {
        (a, b): keep * (value - mean if a == b else value) for (a, b), value in stress.items()
    }
    after = before
    if state.force is not None:
        after = [u + g * inverse for u, g in zip(before, state.force, strict=True)]
    return _normal(lattice, state.excess, after, relaxed)


def _normal_equilibrium(lattice: Lattice, excess: Any, velocity: Values) -> list[Any]:
    return _normal(lattice, excess, velocity, {})


def _normal(
    lattice: Lattice, excess: Any, mean: Values, covariance: dict[tuple[int, int], Any]
) -> list[Any]:
    """Populations with the moments of a normal distribution.

    Parameters
    ----------
    mean : sequence of expression
    covariance : dict of (axis, axis) to expression
        Upper triangle, less 1/3 on the diagonal; what is missing is 0.
    """
    known: dict[Vector, tuple[float, Any]] = {}

    def moment(exponents: Vector) -> tuple[float, Any]:
        """Of the fluid at rest, and the deviation from it, by Stein's lemma: E[x_a g] =
        mean_a E[g] + sum over b of cov_ab E[dg/dx_b].
        """
        if exponents not in known:
            known[exponents] = derived(exponents) if any(exponents) else (1.0, None)
        return known[exponents]

    def derived(exponents: Vector) -> tuple[float, Any]:
        axis = next(a for a, n in enumerate(exponents) if n)
        lower = _less(exponents, axis)
        rest, deviation = 0.0, _times(mean[axis], moment(lower))
        for b, n in enumerate(lower):
            if not n:
                continue
            inner = moment(_less(lower, b))
            spread = covariance.get((min(axis, b), max(axis, b)))
            if spread is not None:
                deviation = deviation + n * _times(spread, inner)
            if b == axis:
                rest += n * SOUND * inner[0]
                if inner[1] is not None:
                    deviation = deviation + (n * SOUND) * inner[1]
        return rest, deviation

    density = 1.0 + excess
    moments: dict[Vector, Any] = {}
    for exponents in lattice.exponents:
        rest, deviation = moment(exponents)
        found = None if deviation is None else density * deviation
        if rest:
            found = rest * excess if found is None else rest * excess + found
        moments[exponents] = found
    values = _inverse(lattice, moments)
    return [values[c] for c in lattice.velocities]


def _times(factor: Any, moment: tuple[float, Any]) -> Any:
    """A factor times a whole moment."""
    rest, deviation = moment
    if deviation is None:
        return factor if rest == 1.0 else rest * factor
    return factor * (rest + deviation if rest else deviation)


def _inverse(lattice: Lattice, moments: dict[Vector, Any]) -> dict[Vector, Any]:
    """Populations by velocity from moments by exponents, one axis after the other."""
    values = moments
    for axis in range(lattice.ndim):
        found: dict[Vector, Any] = {}
        for key in values:
            if key[axis]:
                continue
            zeroth, first, second = (values.get(_with(key, axis, n)) for n in range(3))
            if second is None:  # velocities along this axis that the lattice lacks
                found[key] = zeroth
                continue
            found[key] = zeroth - second
            found[_with(key, axis, 1)] = 0.5 * (second + first)
            found[_with(key, axis, -1)] = 0.5 * (second - first)
        values = found
    return values


# ---- sums


def _square(vector: Values) -> Any:
    return _product(vector, vector)


def _product(one: Values, other: Values) -> Any:
    terms = [a * b for a, b in zip(one, other, strict=True)]
    return sum(terms[1:], terms[0])


def _less(exponents: Vector, axis: int) -> Vector:
    return _with(exponents, axis, exponents[axis] - 1)


def _with(vector: Vector, axis: int, entry: int) -> Vector:
    return (*vector[:axis], entry, *vector[axis + 1 :])


COLLISIONS: dict[str, Collision] = {
    found.name: found
    for found in (
        Collision("bgk", _two_rates, _quadratic_equilibrium),
        Collision("trt", _two_rates, _quadratic_equilibrium),
        Collision("cumulant", _cumulants, _normal_equilibrium),
    )
}
