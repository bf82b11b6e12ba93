"""Boundary conditions: what halo cells outside the domain hold, and which points on its faces are
fixed.

conditions      what users write: Dirichlet, Neumann, Robin, Symmetry, Extrapolate, Outflow,
Piecewise, Custom face            where a side of the domain lies in an array: everything is counted
inward values          numbers, arrays over the face and functions, per component, evaluated where
they are needed rules, custom   what one condition does to one component: its formula on prepared
views, or a traced kernel requirements    which halo regions fills read, decided alike on all ranks
fill            the layers of one rank filled, axis after axis; points on faces fixed
array_conditions
                all conditions of an array
mapping         `Boundary`, the mapping users see and what refreshes ask
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
