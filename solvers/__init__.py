"""Flow solvers written on distarray: they name no rank, no message and no device.

- `base`           time, steps, the run loop and files that all solvers share
- `progress`       the line that says how far a run is
- `incompressible` Navier-Stokes of constant density: staggered grid, projection method
- `__main__`       `python -m solvers list` and `python -m solvers CASE`
"""
