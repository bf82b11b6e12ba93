"""A device without hardware, which checks that work is ordered.

`clocks` counts what comes before what, `overlap` compares ranges of memory, `memory` keeps who
touched which range when, `races` reports who did so in no order, `schedule` has streams and events
and puts work off, `capture` keeps work as graphs, and `driver` offers all that as a `Driver`.
`host_cuda` compiles the text of kernels for the host. `nccl` stands in for the library of that
name, with `mail` for its messages.
"""

from distarray.backends.simulated.driver import SimulatedDriver, finish
from distarray.backends.simulated.races import races_seen

__all__ = ["SimulatedDriver", "finish", "races_seen"]
