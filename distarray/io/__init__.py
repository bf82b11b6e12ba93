"""Files, in layers:

plain, record          attributes as JSON, and what a file says about itself: plain values, pure
place                  names, fresh files and the disk
hdf5                   the layout of a file; the only module that loads h5py
conditions, describe   boundary conditions and arrays as plain values
snapshot               save and load: all ranks at once
checkpoint             numbered files of a run
"""

from distarray.io.checkpoint import Checkpointer
from distarray.io.snapshot import Snapshot, load, save

__all__ = ["Checkpointer", "Snapshot", "load", "save"]
