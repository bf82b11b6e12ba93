"""Named flows for the command line, one file each.

- `common`              restarts, checkpoints, files and tables
- `cavity`              lid-driven cavity
- `taylor_green_2d`     decaying vortices, exact
- `taylor_green_3d`     vortices that become turbulent
- `channel`             laminar and turbulent plane channel
- `cylinder`            cylinder in a channel, steady and shedding
- `natural_convection`  heated square cavity
"""

from solvers.incompressible.cases import (
    channel,
    cylinder,
    natural_convection,
    taylor_green_3d,
)
from solvers.incompressible.cases.cavity import CASE as _CAVITY
from solvers.incompressible.cases.cavity import cavity
from solvers.incompressible.cases.taylor_green_2d import CASE as _TAYLOR_GREEN_2D
from solvers.incompressible.cases.taylor_green_2d import taylor_green

__all__ = ["CASES", "cavity", "taylor_green"]

CASES = (
    _CAVITY,
    _TAYLOR_GREEN_2D,
    taylor_green_3d.CASE,
    channel.CASE,
    cylinder.CASE,
    natural_convection.CASE,
)
