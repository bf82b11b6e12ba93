"""How messages between devices travel.

`base` is what a transport offers: exchanges that are replayed, and collectives of device data.
`host`, `staged` and `device` carry them by MPI: by way of ordinary host memory, by way of pinned
memory, and straight from the device's memory; `nccl` has NCCL carry them as work of a stream.
`communicator` gives the ranks of a communicator one of them; `detection` asks whether MPI takes
device memory, `probe` tries it, and `choice` agrees on device and transport with the other ranks.
"""
