"""Boundary conditions: what halo cells outside the domain hold, and which points on its faces are
fixed.

conditions        what users write: Dirichlet, Neumann, Robin, Symmetry, Extrapolate, Outflow, ...
face              where a side of the domain lies in an array; there everything is counted inward
values            numbers, arrays over the face and functions, of one component and on one region
rules, custom     what one condition does to one component: its formula, or a traced kernel
requirements      which halo regions fills read, decided alike on all ranks
fill              the layers of one rank filled, axis after axis
points            points on faces, fixed or free
array_conditions  all conditions of an array
mapping           `Boundary`, the mapping that users see
"""

from distarray.boundary.conditions import (
    Condition,
    Custom,
    Dirichlet,
    Extrapolate,
    Neumann,
    Outflow,
    Piecewise,
    Robin,
    Symmetry,
    Unset,
)
from distarray.boundary.fill import BoundaryFill
from distarray.boundary.mapping import Boundary

__all__ = [
    "Boundary",
    "BoundaryFill",
    "Condition",
    "Custom",
    "Dirichlet",
    "Extrapolate",
    "Neumann",
    "Outflow",
    "Piecewise",
    "Robin",
    "Symmetry",
    "Unset",
]
