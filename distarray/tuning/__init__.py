"""What `python -m distarray tune` measures and keeps, and what "auto" makes of it.

- `store`    choices kept for this machine, and how all ranks agree on them
- `kernels`  what is timed: kernels with a name, or those of a user
- `measure`  candidates timed in turn
- `options`  options that it shares with `python -m distarray model`
- `command`  the command line and its table

The model is cuDecomp's autotuning (Romero et al. 2022, "Distributed-memory simulations of turbulent
flows on modern GPU systems using an adaptive pencil decomposition library"): candidates are the
process grids times the ways of messages, those far behind after a first trial are left out, and
what is found holds for the very shape and number of ranks that were timed.
"""
