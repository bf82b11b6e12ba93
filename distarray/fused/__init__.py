"""Elementwise expressions of arrays, computed in one pass over memory when their values are needed.

Modules in order, each importing only from those above it:

recipe       what an expression computes, whatever the arrays and the numbers
program      a recipe as a program of the stencil compiler
blocks       a recipe by NumPy, in pieces that stay in the cache
probe        which compiled functions have the bits of NumPy's
executor     a recipe on arrays of one backend, in the way that pays
node         an expression of blocks, and its evaluation

An expression keeps what it reads until it has its values; those come at once if what it reads is
about to be written (see `deferred`). It gives the same bits in whatever way it is computed: those
of one NumPy call after the other on the host, of one kernel after the other on a device.
"""
