"""The modes of the second difference on a stretched axis: the transform that diagonalises it.

With h the widths of the cells and d the distances of their centres the rows of

    (L phi)[i] = ((phi[i+1] - phi[i]) / d[i+1] - (phi[i] - phi[i-1]) / d[i]) / h[i]

are made symmetric by the square roots of the widths, S = h^1/2 L h^-1/2 = Q diag(l) Q^T. Lines are
transformed by products with Q, n operations for each value, which for several such axes is the way
of Lynch, R. E., Rice, J. R., Thomas, D. H. (1964) Numer. Math. 6(1), 185-199.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class Modes:
    """A transform like those of `transforms`, for cells of these widths.

    Parameters
    ----------
    cell, point : arrays
        Reciprocals of the widths of cells and of the distances of centres, as
        `metrics.reciprocals` says them.
    periodic : bool
        If not, the normal derivative is zero at both ends.
    """

    def __init__(self, cell: Array, point: Array, *, periodic: bool) -> None:
        self.length = len(cell)
        root = np.sqrt(cell)
        symmetric = np.zeros((self.length, self.length))
        for i in range(0 if periodic else 1, self.length):
            for a, b, sign in ((i, i, -1), (i - 1, i - 1, -1), (i, i - 1, 1), (i - 1, i, 1)):
                symmetric[a, b] += sign * point[i] * root[a] * root[b]
        values, vectors = np.linalg.eigh(symmetric)
        # The constant, which no gradient sees, is known to the bit.
        values[-1] = 0.0
        vectors[:, -1] = (1.0 / root) / np.linalg.norm(1.0 / root)
        self._values = values
        self._forward = np.ascontiguousarray(vectors / root[:, np.newaxis])
        self._backward = np.ascontiguousarray((vectors * root[:, np.newaxis]).T)

    def forward(self, lines: Array) -> Array:
        """Coefficients of lines along the last axis."""
        return _multiplied(lines, self._forward)

    def backward(self, lines: Array) -> Array:
        """Lines of coefficients along the last axis."""
        return _multiplied(lines, self._backward)

    def eigenvalues(self) -> Array:
        """Of all modes, in the order of the coefficients."""
        return self._values


def _multiplied(lines: Array, matrix: Array) -> Array:
    """Products of lines with a matrix: by `einsum`, which adds the rows of the matrix one after the
    other. A BLAS library may add in another order where a line stands at another place.
    """
    rows = np.ascontiguousarray(lines).reshape(-1, lines.shape[-1])
    product: Array = np.einsum("li,ij->lj", rows, matrix)
    return product.reshape(lines.shape)
