"""Heat in a periodic cube: mpirun -n 8 python examples/heat.py"""

import numpy as np

import distarray as da

# Physics: du/dt = D lap(u), and one step of the explicit scheme with r = D dt / dx^2
r = 0.1


@da.stencil
def diffuse(u, new, *, r):
    """One explicit step."""
    new[0, 0, 0] = u[0, 0, 0] + r * (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]
                                     + u[0, 0, 1] + u[0, 0, -1] - 6.0 * u[0, 0, 0])  # fmt: skip


# Numerics
grid = da.Grid((64, 64, 64), bounds=[(0.0, 1.0)] * 3, periodic=True)

# Fields
u = grid.from_function(lambda x, y, z: np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y) + 0 * z)
new = grid.empty_like(u)

# Time loop
u = da.iterate(diffuse, u, new, steps=1000, r=r)
da.save("heat.h5", {"temperature": u}, step=1000, time=0.5)
da.log("peak", u.max())
