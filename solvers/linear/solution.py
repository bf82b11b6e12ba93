"""What every linear solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import distarray as da


@dataclass(frozen=True)
class Solution:
    """The outcome of an iterative solution of `A x = b`.

    Attributes
    ----------
    x : DistArray
        The last iterate, of the right-hand side's grid, location and components.
    iterations : int
        Iterations (multigrid: cycles) that were made; 0 where the first guess solves already.
    residuals : tuple of float
        Relative residuals `|r_k| / |b|` in the 2-norm, the first guess's first: `iterations + 1` of
        them. The 2-norm is over all points and components. Where b is zero they are `|r_k|`.
    converged : bool
        Whether the last residual fell below the tolerance.
    reason : str
        One sentence: which tolerance was met, or why the iteration ended without.
    """

    x: da.DistArray
    iterations: int
    residuals: tuple[float, ...]
    converged: bool
    reason: str
