"""The modes of the second difference on a stretched axis: a transform that diagonalises it.

The rows of L (`tridiagonal`) are made symmetric by the square roots of the widths of the cells,
h^1/2 L h^-1/2 = Q diag(l) Q^T. Lines are transformed by products with Q, n operations for each
value, which for several such axes is the way of Lynch, R. E., Rice, J. R., Thomas, D. H. (1964)
Numer. Math. 6(1), 185-199.
"""

from __future__ import annotations

import numpy as np

from solvers.fft_poisson.transforms import Array
from solvers.fft_poisson.tridiagonal import StretchedAxis

#: Lines are multiplied in full groups of so many, so that the bits of a line do not depend on how
#: many are transformed together: a multiple of the rows that BLAS libraries compute at once.
GROUP = 48


class Modes:
    """A transform like those of `transforms`.

    Attributes
    ----------
    values : array
        The number that stands for L, for each mode.
    """

    def __init__(self, axis: StretchedAxis) -> None:
        root = np.sqrt(axis.widths)[:, np.newaxis]
        self.values, vectors = np.linalg.eigh(axis.matrix() * (root / root.T))
        if axis.closed:
            # The constant, which no gradient sees, is known to the bit.
            self.values[0] = 0.0
            vectors[:, :1] = root / np.linalg.norm(root)
        self._forward = np.ascontiguousarray(vectors * root)
        self._backward = np.ascontiguousarray((vectors / root).T)

    def forward(self, lines: Array) -> Array:
        """Coefficients of lines along the last axis."""
        return _multiplied(lines, self._forward)

    def backward(self, lines: Array) -> Array:
        """Lines of coefficients along the last axis."""
        return _multiplied(lines, self._backward)


def _multiplied(lines: Array, matrix: Array) -> Array:
    count = lines.size // lines.shape[-1]
    groups = -(-count // GROUP)
    padded = np.zeros((groups * GROUP, lines.shape[-1]))
    padded[:count] = lines.reshape(count, -1)
    product: Array = padded.reshape(groups, GROUP, -1) @ matrix
    return product.reshape(padded.shape)[:count].reshape(lines.shape)
