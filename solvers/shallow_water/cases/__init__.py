"""Named flows for the command line.

- `common`     choices of schemes, errors
- `dam_break`  dams on wet and dry beds
- `lakes`      lakes at rest, and one that swings
- `bump`       steady flow over a bump
"""

from solvers.shallow_water.cases import bump, dam_break, lakes

CASES = (*dam_break.CASES, *lakes.CASES, *bump.CASES)
