"""Direct solution of the Poisson and Helmholtz equations in O(n log n).

- `transforms`   of lines, to the modes of the second difference
- `tridiagonal`  systems along one stretched axis
- `modes`        of further stretched axes
- `solver`       `FFTPoisson`
- `bench`        the time of a solution: `python -m solvers.fft_poisson.bench`
"""

from solvers.fft_poisson.solver import FFTPoisson

__all__ = ["FFTPoisson"]
