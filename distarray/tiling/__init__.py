"""Many steps of a time loop in one pass over memory.

- `schedule` which points of a block are computed when: a skewed wavefront of boxes (pure)
- `program`  what is done to all points, in the order of single steps: kernels, and boundary
             conditions between them
- `fills`    the C function that fills boundary layers and fixes points on faces beside a box
- `layers`   what it does for the conditions of one array
- `points`   the C functions that add at points and record there, inside a tile
- `runner`   the C function that runs through a list of boxes
- `plan`     several steps of a loop on given arrays: their boxes, halos and memory
- `refusals` what is not tiled, and why
- `loop`     whether a loop of `iterate` is tiled, and by how many steps

A tile is a range of points along the outer axes, with whole rows. In it the kernels of several
steps run one after the other, each shifted down by as much as it reads beyond, so that all a kernel
reads has been computed, in this tile or in one before, and nothing is overwritten that is still to
be read. Halos are exchanged once for all steps: each kernel computes as many halo points besides
the owned ones as those after it need. Boundary layers are filled beside each tile, right after the
points from which they follow.
"""
