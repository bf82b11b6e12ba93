"""What tests of long flows share."""

import numpy as np
from scipy.interpolate import RegularGridInterpolator


def interpolate_fields(coarse, fine):
    """Linear interpolation of all fields, continued to the sides: a first guess."""
    for name, values in fine.fields.items():
        known = coarse.fields[name]
        lines = [line.ravel() for line in coarse.grid.coordinates(known.location)]
        guess = RegularGridInterpolator(lines, known.gather(), bounds_error=False, fill_value=None)
        places = [line.ravel() for line in fine.grid.coordinates(values.location)]
        values[...] = guess(np.stack(np.meshgrid(*places, indexing="ij"), axis=-1))
