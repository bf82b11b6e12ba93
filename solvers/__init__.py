"""Flow solvers written on distarray: they name no rank, no message and no device.

- `base`           time, steps, the run loop and files that all solvers share
- `progress`       the line that says how far a run is
- `state`          the configuration of a solver as plain values, and what differs in it
- `series`         what a run writes while it goes on
- `curves`         its scalars for TensorBoard
- `comparison`     computed values beside those of a reference
- `running`        what all cases do: begin or go on, run, save, draw, compare
- `plot`           pictures of fields of cells
- `case`           a flow or problem with a name, as the command line runs it
- `box`            rules for descriptions of boxes; `even_steps`: runs in steps of one length
- `by_hand`        what measurements beside C written by hand share
- `linear`         systems of equations by iteration: CG, pipelined CG, BiCGStab, Chebyshev
- `multigrid`      elliptic equations by cycles over coarser grids
- `fft_poisson`    Poisson and Helmholtz equations, solved directly
- `poisson`        Poisson problems with exact solutions
- `hyperbolic`     what solvers of hyperbolic equations share: limiters, reconstruction, time steps
- `incompressible` Navier-Stokes of constant density: staggered grid, projection method
- `euler`          compressible flow: shocks, blasts, viscous gases
- `lbm`            nearly incompressible flow by the lattice Boltzmann method
- `shallow_water`  water over a bed: dam breaks, floods, shores
- `wave`           acoustic waves: point sources, receivers, absorbing layers, free surfaces
- `diffusion`      diffusion, explicit or by multigrid
- `advection`      linear transport
- `burgers`        Burgers' equation, with and without viscosity
- `bench`          steps and solutions beside C written by hand: `python -m solvers bench`
- `__main__`       `python -m solvers list` and `python -m solvers CASE`
"""
