"""Files, in layers:

attributes, tiles, record  attributes as JSON; tiles and runs; what a file says about itself: pure
place, filesystem          names, fresh files and the disk; what it can do
agreement                  errors as one sentence, the same on all ranks
crc, checksums             of tiles, by all ranks together; the digest of the rest
boxes, teams               parts of arrays and the runs of a file; short runs, brought together
scales, vtk, xdmf          what xarray and ParaView find in a file, and the file beside it
hdf5, image, header        the layout of a file, the only module that loads h5py; the memory in
                           which it is made; what a file says
verify, sample             whether a file still holds what was written; a part of it, for pictures
conditions, describe       boundary conditions and arrays as plain values
outgoing, by_root, methods how the values of all ranks come into a file
write, read                a file until it is in place; its values, brought into blocks
snapshot                   save and load: all ranks at once
preemption                 signals of batch systems, and the agreement of ranks on them
background                 a file that is written behind the run
checkpoint                 numbered files of a run
"""

from distarray.io.checkpoint import Checkpointer
from distarray.io.snapshot import Snapshot, load, save

__all__ = ["Checkpointer", "Snapshot", "load", "save"]
