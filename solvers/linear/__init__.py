"""Iterative solvers of linear systems on distributed arrays; the matrix is a function.

- `solution`   what every solver returns
"""

from solvers.linear.solution import Solution

__all__ = ["Solution"]
