"""Devices behind one protocol: memory, copies and compiled kernels.

`base` is what the rest of the package knows; `cpu` is NumPy memory with compiled C, by way of
`native`, the compiler and its cache, `calls`, functions with prepared arguments, and `copies`, many
strided copies in one call.
"""
