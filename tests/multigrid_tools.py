"""Short ways to multigrid for its tests, and an independent discretisation."""

import numpy as np

import distarray as da
from solvers.multigrid import EllipticOperator, Multigrid

D, N, R, S = da.Dirichlet, da.Neumann, da.Robin, da.Symmetry

STRETCHED = {"y": np.linspace(0.0, 1.0, 24) ** 1.3}


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def put(grid, values, **options):
    u = grid.empty(**options)
    u[...] = values
    return u


def walls(grid, condition=None):
    return {
        name: condition or D(0.0)
        for name, p in zip(grid.axes, grid.periodic, strict=False)
        if not p
    }


def solve(grid, f, a=1.0, c=0.0, boundary=None, location=None, **options):
    made = {n: options.pop(n) for n in ("rtol", "max_cycles") if n in options}
    operator = EllipticOperator(grid, a, c, boundary=boundary, location=location)
    return Multigrid(operator, **options).solve(f, **made)


def layers(u, axis, h, low, high, periodic):
    """U with a layer at both ends of an axis, as the conditions (kind, values) say."""
    first, last = (np.take(u, [n], axis) for n in (0, -1))
    if periodic:
        return np.concatenate((last, u, first), axis)

    def layer(w, distance, condition):
        match condition:
            case D(value=g):
                return 2.0 * g - w
            case N(value=g):
                return w + distance * g
            case S(sign=sign):
                return sign * w
            case R(a=a, b=b, c=c):
                return (2.0 * c * distance + (2.0 * b - a * distance) * w) / (
                    a * distance + 2.0 * b
                )

    return np.concatenate((layer(first, h[0], low), u, layer(last, h[-1], high)), axis)


def elliptic(u, widths, a, c, conditions, periodic):
    """-div(a grad u) + c u in cells; a in cells, harmonic means weighted by widths."""
    total = c * u
    for axis, h in enumerate(widths):
        shape = [1] * u.ndim
        shape[axis] = -1
        sides = conditions[axis] if not periodic[axis] else (None, None)
        q = layers(u, axis, h, *sides, periodic[axis])
        mode = "wrap" if periodic[axis] else "edge"
        pads = [(1, 1) if n == axis else (0, 0) for n in range(u.ndim)]
        coefficient = np.pad(a, pads, mode)
        wide = np.pad(h, 1, mode).reshape(shape)
        count = u.shape[axis] + 1
        below_h, above_h = (np.take(wide, range(n, n + count), axis) for n in (0, 1))
        below_a, above_a = (np.take(coefficient, range(n, n + count), axis) for n in (0, 1))
        lengths = below_h + above_h
        face = lengths / (below_h / below_a + above_h / above_a)
        flux = face * np.diff(q, axis=axis) / (0.5 * lengths)
        total = total - np.diff(flux, axis=axis) / h.reshape(shape)
    return total
