"""Tracing a function and running it with the reference executor, without grids or ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from distarray.geometry import AxisGeometry
from distarray.regions import Box
from distarray.stencil.evaluate import NumpyLaunch, bind
from distarray.stencil.expression import ArrayParameter, Program
from distarray.stencil.launch import ArrayView, LaunchGeometry
from distarray.stencil.tracing import signature, trace

Array = np.ndarray[Any, Any]


def parameters(function: Callable[..., Any], ndim: int, **options: Any) -> list[ArrayParameter]:
    """A plain float64 array for each positional parameter; options by name replace it."""
    return [
        options.get(name, ArrayParameter(name, np.dtype("f8"), (), (False,) * ndim))
        for name in signature(function).arrays
    ]


def traced(
    function: Callable[..., Any],
    ndim: int = 2,
    *,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    arrays: Mapping[str, ArrayParameter] | None = None,
    **options: Any,
) -> Program:
    """The program of a function whose arrays are float64 unless `arrays` describes them."""
    described = parameters(function, ndim, **(arrays or {}))
    return trace(function, described, scalars or {}, statics or {}, ndim=ndim, **options)


def launch(
    function: Callable[..., Any],
    *memories: Array,
    halo: int = 0,
    start: tuple[int, ...] | None = None,
    periodic: bool = False,
    cells: tuple[int, ...] | None = None,
    axes: tuple[AxisGeometry, ...] | None = None,
    scalars: Mapping[str, Any] | None = None,
    ndim: int | None = None,
    **options: Any,
) -> tuple[NumpyLaunch, Box]:
    """A launch on arrays (components first, `halo` cells around) and the box of owned cells."""
    ndim = ndim or min(memory.ndim for memory in memories)
    described = {
        name: ArrayParameter(
            name, memory.dtype, memory.shape[: memory.ndim - ndim], (False,) * ndim
        )
        for name, memory in zip(signature(function).arrays, memories, strict=True)
    }
    scalars = scalars or {}
    kinds = {name: type(value) for name, value in scalars.items()}
    program = traced(function, ndim, scalars=kinds, arrays=described, **options)
    shape = tuple(extent - 2 * halo for extent in memories[0].shape[memories[0].ndim - ndim :])
    start = start or (0,) * ndim
    views = [ArrayView(memory, (halo,) * ndim, start) for memory in memories]
    geometry = LaunchGeometry(start, cells or shape, (periodic,) * ndim, axes)
    bound = bind(program, views, geometry)
    bound.set_scalars([scalars[name] for name, _ in program.scalars])
    return bound, Box.of_shape(shape)


def run(function: Callable[..., Any], *memories: Array, **options: Any) -> NumpyLaunch:
    """Launch once over all owned cells."""
    bound, box = launch(function, *memories, **options)
    bound.run(box)
    return bound
