"""Kernels as CUDA C text. Pure.

Modules in order, each importing only from those above it:

exact        sums without rounding
preamble     types and helpers
tiles        how points are dealt out to threads
windows      columns that a thread keeps in variables
frame        what the text refers to
states       fused reductions
loops        from a thread's numbers to points
codegen      whole kernels
packing      what a launch is handed by value
"""

from distarray.stencil.cuda.codegen import CudaCode, CudaKernel, generate, source

__all__ = ["CudaCode", "CudaKernel", "generate", "source"]
