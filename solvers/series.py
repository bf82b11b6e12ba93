"""What a run writes while it goes on, in one folder:

    step-0000100.h5        the state, one file for each output, with step-0000100.xdmf beside it
                           where `da.save` says that arrays need one
    scalars.csv            one row for each output: step, time, dt, residual and the solver's own
    steps.vtkhdf.series    the files as an animation for ParaView: arrays of cells, uniform grids
    steps.xdmf             the same for what the .xdmf files show: faces, edges, stretched grids
    events.out.tfevents.*  the scalars as curves for TensorBoard, where they are asked for

A row is written by one call, and flushed to the disk before the next; what a crash leaves is whole
rows and perhaps a torn one at the end. A run that goes on from an earlier step cuts that off, and
all rows of later steps with it, so that no step is there twice. Rows are written after their files.

The two lists follow from the rows. They are written anew, under another name, then renamed, when a
run begins or goes on; an output then takes no longer the more there were: it puts its entry, and
the end of the list behind it, in the place of that end, by one call. Only a machine that fails in
this very call can tear a list, which is whole again once the run goes on.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import distarray as da
from solvers.curves import Curves

#: Start and end of the lists, and what stands between entries.
_SERIES = ('{\n "file-series-version": "1.0",\n "files": [\n', "\n ]\n}\n", ",\n")
_XDMF = (
    '<?xml version="1.0" ?>\n<Xdmf Version="2.0" '
    'xmlns:xi="http://www.w3.org/2001/XInclude">\n  <Domain>\n'
    '    <Grid Name="steps" GridType="Collection" CollectionType="Temporal">\n',
    "    </Grid>\n  </Domain>\n</Xdmf>\n",
)


@dataclass(frozen=True)
class Entry:
    """A row of scalars.csv as far as the lists need it."""

    step: int
    time: float

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"step-{self.step:07d}.h5"


class Series:
    """The output of one run. Collective.

    Parameters
    ----------
    folder : path, made if it is not there
    grid : Grid
    fields : dict of str to DistArray
        What each file will hold.
    columns : sequence of str
        The scalars; "step" and "time" are put before them.
    step : int
        Where the run begins or goes on: what the folder says about later steps is dropped. Their
        files stay until they are written again.
    tensorboard : bool
        Show the scalars as curves too.

    Raises
    ------
    FileError
        The folder cannot be made or takes no files, or its scalars.csv has other columns or is no
        table. The same on all ranks.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        grid: da.Grid,
        fields: Mapping[str, da.DistArray],
        columns: Sequence[str],
        step: int,
        *,
        tensorboard: bool = False,
    ) -> None:
        make_folder(folder, grid)
        self.folder = Path(folder)
        self._grid = grid
        self._as_image = any(_is_in_image(grid, field) for field in fields.values())
        self._header = ",".join(["step", "time", *columns])
        self._series = _List(self.folder / "steps.vtkhdf.series", *_SERIES)
        self._drawn = _List(self.folder / "steps.xdmf", *_XDMF)
        self._at_root(lambda: self._go_on(step))
        self._curves = Curves(folder, grid, columns, step) if tensorboard else None

    @property
    def table(self) -> Path:
        """The path of the table of scalars."""
        return self.folder / "scalars.csv"

    def path(self, step: int) -> Path:
        """Where the state of a step belongs."""
        return self.folder / Entry(step, 0.0).name

    def add(self, step: int, time: float, values: Sequence[float]) -> None:
        """Append the scalars of a step, whose file is in place, and list it. Collective.

        Raises
        ------
        FileError
            The folder cannot be written, or the disk is full. The same on all ranks.
        """
        entry = Entry(step, time)
        row = ",".join([str(step), *(repr(float(value)) for value in (time, *values))])
        self._at_root(lambda: self._append(entry, row))
        if self._curves is not None:
            curves, speed = self._curves, self._curves.speed(step)
            self._at_root(lambda: curves.add(step, values, speed))

    def close(self) -> None:
        """End the file of curves, if there is one. Local."""
        if self._curves is not None:
            self._curves.close()

    # Root alone.

    def _at_root(self, action: Callable[[], None]) -> None:
        """Run this on root and raise its error on all ranks. Collective."""
        error = None
        if self._grid.is_root:
            try:
                action()
            except da.FileError as problem:
                error = problem
            except OSError as problem:
                error = da.FileError(
                    f"The folder '{self.folder}' cannot be written: {problem.strerror}; check its "
                    "rights and the free space."
                )
        self._grid.communicator.agree(error)

    def _go_on(self, step: int) -> None:
        size, entries = 0, list[Entry]()
        if self.table.exists():
            size, entries = kept_rows(self.table, self._header, step)
        descriptor = os.open(self.table, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
            if not size:
                _write_whole(descriptor, 0, f"{self._header}\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_folder(self.folder)
        self._list(entries)

    def _append(self, entry: Entry, row: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.table, flags)
        try:
            _write_whole(descriptor, os.fstat(descriptor).st_size, f"{row}\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if (self.folder / entry.name).exists():
            if self._as_image:
                self._series.add(series_entry(entry))
            if (self.folder / _xdmf(entry)).exists():
                self._drawn.add(xdmf_entry(entry))

    def _list(self, entries: Sequence[Entry]) -> None:
        """Write the lists of the files that are there."""
        there = [entry for entry in entries if (self.folder / entry.name).exists()]
        drawn = [entry for entry in there if (self.folder / _xdmf(entry)).exists()]
        self._series.write([series_entry(entry) for entry in there if self._as_image])
        self._drawn.write([xdmf_entry(entry) for entry in drawn])


class _List:
    """A file of entries between a fixed start and a fixed end; none where there are no entries."""

    def __init__(self, path: Path, start: str, end: str, between: str = "") -> None:
        self._path = path
        self._start = start
        self._end = end
        self._between = between
        self._size = 0

    def write(self, entries: Sequence[str]) -> None:
        """Write the whole file anew."""
        text = self._start + self._between.join(entries) + self._end if entries else None
        _replace(self._path, text)
        self._size = 0 if text is None else len(text.encode())

    def add(self, entry: str) -> None:
        """Put an entry behind the others."""
        if not self._size or not self._path.exists():
            self.write([entry])
            return
        octets = (self._between + entry + self._end).encode()
        place = self._size - len(self._end.encode())
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.pwrite(descriptor, octets, place) < len(octets):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            os.pwrite(descriptor, self._end.encode(), place)  # where bytes were before
            os.ftruncate(descriptor, self._size)
            raise
        finally:
            os.close(descriptor)
        self._size = place + len(octets)


def make_folder(path: str | os.PathLike[str], grid: da.Grid) -> None:
    """Make a folder unless it is there, and see that it takes files. Collective.

    Raises
    ------
    FileError
        On all ranks, if it cannot be made or takes no files.
    """
    error = None
    if grid.is_root:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as problem:
            error = da.FileError(
                f"The folder '{path}' has to take files, received: {problem.strerror}; "
                f"give another folder."
            )
    grid.communicator.agree(error)


# The table.


def kept_rows(table: Path, header: str, step: int) -> tuple[int, list[Entry]]:
    """The bytes of a table that stay in a run that goes on from this step, and their rows. Local.

    Raises
    ------
    FileError
        The table has another header, or something other than its last row is no row.
    """
    first, *lines = table.read_bytes().split(b"\n")
    if not lines and header.encode().startswith(first):
        return 0, []  # torn in its first line
    if first != header.encode() or not lines:
        raise da.FileError(
            f"The table '{table}' has the columns '{first[:200].decode(errors='replace')}', this "
            f"run writes '{header}'; move it away or give another folder."
        )
    size, entries = len(first) + 1, list[Entry]()
    whole = lines[:-1]  # what stands behind the last newline is torn, or nothing
    for k, line in enumerate(whole):
        entry = _parsed(line, header.count(",") + 1)
        if entry is None or (entries and entry.step <= entries[-1].step):
            if k == len(whole) - 1:
                break  # bytes that never reached the disk
            raise da.FileError(
                f"The table '{table}' is damaged: line {k + 2} is no row of a step above those "
                f"before it; move it away or cut it off there."
            )
        if entry.step > step:
            break
        size += len(line) + 1
        entries.append(entry)
    return size, entries


def _parsed(line: bytes, columns: int) -> Entry | None:
    """The step and the time of a row; None if it is no row."""
    fields = line.split(b",")
    try:
        step, *values = int(fields[0]), *map(float, fields[1:])
    except ValueError:
        return None
    return Entry(step, values[0]) if len(fields) == columns else None


def _write_whole(descriptor: int, size: int, text: str) -> None:
    """Write a text by one call behind the first `size` bytes, or leave the file as it was."""
    octets = text.encode()
    try:
        written = os.write(descriptor, octets)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    if written < len(octets):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# The lists.


def _is_in_image(grid: da.Grid, field: Any) -> bool:
    """Whether VTK finds a field in the file itself (see `da.save`)."""
    points = set(field.location or "") == set(grid.axes) and not any(grid.periodic)
    uniform = all(width is not None for width in grid.spacing)
    return uniform and (field.location is None or points) and field.dtype.kind in "biuf"


def _xdmf(entry: Entry) -> str:
    return entry.name.removesuffix(".h5") + ".xdmf"


def series_entry(entry: Entry) -> str:
    """A file in ParaView's format for series of files of any kind. Local."""
    return "  " + json.dumps({"name": entry.name, "time": entry.time})


def xdmf_entry(entry: Entry) -> str:
    """A step in a collection in time: the grids that the XDMF file of the step describes. Local."""
    return (
        f'      <Grid Name="step {entry.step}" GridType="Collection" CollectionType="Spatial">\n'
        f'        <Time Value="{entry.time!r}"/>\n'
        f"        <xi:include href={quoteattr(_xdmf(entry))} "
        'xpointer="xpointer(/Xdmf/Domain/Grid/Grid)"/>\n'
        "      </Grid>\n"
    )


def _replace(path: Path, text: str | None) -> None:
    """Give a small file this text, whole or not at all; no file for None."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
