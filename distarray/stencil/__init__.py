"""The stencil language: from a Python function to code that runs over a block.

Modules in order, each importing only from those above it:

expression   what a kernel computes: immutable nodes, programs
calls        NumPy functions of expressions and their types
lowering     functions written in terms of others
symbols      what a kernel's function handles while it is traced
values       the state of a trace: values, positions, errors
access       the state of a trace: reads and writes of arrays
tracing      a function and its arguments become a program
language     da.where, da.index, da.coordinate, da.spacing, da.reduce
analysis     what a program reads, writes and costs
probing      a program before the first call
coverage     which points a kernel computes on one rank
launch       what executors share
partials     fused reductions of the reference executor
evaluate     the reference executor, NumPy
patterns     which values are those of a neighbouring point
schedule     the stages that keep some of them
sharing      which of them are computed once
stages       a kernel that keeps them
printing     one node as C text
writing      identifiers and lines of C text
frame        what the text refers to: arrays, strides, scalars, loop variables
accumulators where fused reductions collect
body         assignments at the loop level they need
point        what is done at one point
preamble     C functions that kernels call
loops        the loops around a point
staged       the loops of a kernel in stages
codegen      whole kernels as C text
cuda         whole kernels as CUDA text
memory       what compiled kernels are handed of one rank's memory
recording    texts into a folder
compile      text becomes a launch
"""
