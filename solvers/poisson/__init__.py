"""Poisson problems with exact solutions, solved by multigrid.

- `problems` what is solved: the published problem, and those that are hard for multigrid
- `cases`    what the command line runs
"""
