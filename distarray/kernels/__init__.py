"""Kernels on distributed arrays: a stencil program meets halos, conditions and memory.

Modules in order, each importing only from those above it:

recent    what was used last
arguments what a kernel is called with
fused     what a kernel reduced on one rank becomes a reduction over all ranks
extents   what a rank can read and may write of a kernel's arguments
refresh   halos and boundary layers of some arrays, kept fresh
reads     the halo regions and layers that a kernel reads
plan      what one kernel does to one set of arrays
apply     StencilKernel, `da.stencil`: calls, scalars and traces
"""
