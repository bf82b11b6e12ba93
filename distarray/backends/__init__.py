"""Devices behind one protocol: memory, copies and compiled kernels.

`base` is what the rest of the package knows; `cpu` is NumPy memory with compiled C, by way of
`native`, the compiler and its cache, `threads`, how many kernels use, `first_touch`, which of them
memory is near to, `calls`, functions with prepared arguments, and `copies`, many strided copies in
one call.

Accelerators are one backend, `accelerator`, over a `driver`: `cuda`, or the package `simulated`. In
order: `device_array` is memory as the host knows it, `device_copies` many copies in one launch,
`device_scalars` numbers that kernels read, `device_executors` and `device_launch` programs bound to
memory, `device_lines` and `device_map` elementwise functions as kernels of one line, and
`device_functions` what NumPy's functions become. `cuda` is served by `nvidia`, `nvrtc`,
`cuda_memory`, `cuda_streams` and `cuda_nccl`.
"""
