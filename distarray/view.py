"""Say what is in a file that `save` wrote: its grid, arrays and attributes, as a table. Where asked
to, compare it with its checksums, and draw a plane of an array, or three of a grid of three axes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from distarray import launcher
from distarray.arguments import unwritable
from distarray.errors import FileError
from distarray.io import attributes, header
from distarray.io.record import ArrayRecord, FileRecord, GridRecord
from distarray.io.sample import read_chunks
from distarray.io.verify import verify
from distarray.panels import Choice, WrongArgument, label_of, panels_of, title_of
from distarray.pictures import draw

_LONGEST = 72


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("file", help="a file written by save")
    parser.add_argument(
        "--verify", action="store_true", help="read all and compare it with the checksums"
    )
    parser.add_argument(
        "--minmax", action="store_true", help="read all and show the smallest and largest values"
    )
    parser.add_argument("--png", metavar="OUT", help="draw to this file")
    parser.add_argument("--array", metavar="NAME", help="what is drawn (default: the first array)")
    parser.add_argument(
        "--component", type=int, nargs="+", metavar="I",
        help="the component that is drawn (default: the magnitude of all)",
    )  # fmt: skip
    parser.add_argument(
        "--slice", action="append", default=[], metavar="AXIS=POSITION", dest="slices",
        help="where to cut, such as z=0.5; may be repeated (default: in the middle, across each "
        "axis in turn)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print the table, by one rank; 1 if the file is damaged or cannot be read, 2 if an option does
    not fit it. Local.
    """
    launch = launcher.launched(os.environ)
    if launch is not None and launch.rank:
        return 0
    try:
        return _view(options)
    except _ClosedError:
        # As where the output goes to `head`: nobody reads on. Python would say so when it ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (FileError, WrongArgument) as error:
        print(f"python -m distarray view: {error}", file=sys.stderr)
        return 1 if isinstance(error, FileError) else 2


class _ClosedError(Exception):
    """What is printed goes nowhere."""


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        raise _ClosedError from error


def _view(options: argparse.Namespace) -> int:
    path = options.file
    record = header.read_record(path)
    component = None if options.component is None else tuple(options.component)
    choice = Choice(options.array, component, tuple(options.slices))
    if not options.png and choice != Choice(None, None, ()):
        raise WrongArgument("--array, --component and --slice choose a picture; give --png OUT.")
    if options.png and os.path.exists(options.png) and os.path.samefile(options.png, path):
        raise WrongArgument(f"--png would overwrite the file '{path}' itself; give another path.")
    if options.png and os.path.splitext(options.png)[1].lower() not in ("", ".png"):
        raise WrongArgument(
            f"--png writes a picture of type PNG, received '{_safe(options.png)}'; give a name "
            "that ends in .png."
        )
    reason = unwritable(options.png) if options.png else ""
    if reason:  # before all is read
        raise FileError(
            f"The picture '{options.png}' cannot be written: {reason}; give another path."
        )
    _value(path, record.attrs)  # pictures show units from it
    panels = panels_of(path, record, choice) if options.png else []
    for line in table(path, record, minmax=options.minmax):
        _say(line)
    if panels:
        draw(options.png, panels, title_of(path, record, choice), label_of(record, choice))
        _say(f"wrote {_safe(options.png)}")
    return _verify(path, record) if options.verify else 0


def _verify(path: str, record: FileRecord) -> int:
    if not record.digest:
        _say("not verified: files of format 1 have no checksums")
        return 0
    found = verify(path)
    for problem in found.problems:
        _say(problem)
    if not found.whole:
        count = len(found.problems)
        _say(f"damaged: {count} problem{'s'[: count != 1]}, {found.tiles} tiles compared")
        return 1
    _say(f"verified: metadata and all {found.tiles} tiles are as they were written")
    return 0


# The table.


def table(path: str, record: FileRecord, *, minmax: bool = False) -> Iterator[str]:
    """The lines that say what is in a file. Local."""
    size = _bytes_text(os.path.getsize(path))
    yield _safe(path)
    yield f"  format {record.version} of distarray {_safe(record.library_version)}, {size}"
    step = "none" if record.step is None else str(record.step)
    time = "none" if record.time is None else repr(record.time)
    yield f"  step {step}, time {time}"
    yield ""
    yield from _columns(_axis_rows(record.grid))
    yield ""
    yield from _columns(_array_rows(path, record, minmax=minmax))
    attributes = list(_attribute_rows("", _value(path, record.attrs)))
    if attributes:
        yield ""
        yield from _columns([("attribute", "value"), *attributes])


def _axis_rows(grid: GridRecord) -> Iterator[tuple[str, ...]]:
    yield "axis", "cells", "from", "to", "cell width", ""
    parts = zip(grid.axes, grid.cells, grid.bounds, grid.faces, grid.periodic, strict=True)
    for axis, cells, (low, high), faces, periodic in parts:
        if faces is None:
            width = f"{(high - low) / max(cells, 1):.6g}"
        else:
            widths = np.diff(faces)
            width = f"{widths.min():.6g} to {widths.max():.6g}"
        yield axis, str(cells), f"{low:g}", f"{high:g}", width, "periodic" if periodic else ""


def _array_rows(path: str, record: FileRecord, *, minmax: bool) -> Iterator[tuple[str, ...]]:
    extremes = ("min", "max") if minmax else ()
    yield "array", "shape", "type", "at", "components", "bytes", *extremes, "boundary"
    for array in record.arrays:
        yield (
            array.name,
            " x ".join(map(str, array.shape)),
            str(np.dtype(array.dtype)),
            _location_text(record.grid, array),
            " x ".join(map(str, array.components)) or "-",
            _bytes_text(array.nbytes),
            *(_extremes(path, array) if minmax else ()),
            _sides_text(_value(path, array.boundary)),
        )


def _location_text(grid: GridRecord, array: ArrayRecord) -> str:
    if array.location is None:
        return "cells"
    axes = "".join(axis for axis in grid.axes if axis in array.location)
    if len(axes) == len(grid.axes):
        return "nodes"
    return f"{axes} {'faces' if len(axes) == 1 else 'edges'}"


def _value(path: str, text: str) -> Any:
    """What a JSON text of the file says."""
    try:
        return attributes.loads(text)
    except ValueError as error:
        raise header.damaged(path, str(error)) from error


def _sides_text(sides: Any) -> str:
    """Kinds of conditions and the sides that have them."""
    found: dict[str, list[str]] = {}
    for side, value in sides.items() if isinstance(sides, dict) else ():
        one = value.get("kind") if isinstance(value, dict) else "by component"
        found.setdefault(str(one), []).append(side)
    return ", ".join(f"{kind} {' '.join(sides)}" for kind, sides in found.items()) or "-"


def _extremes(path: str, array: ArrayRecord) -> tuple[str, str]:
    """The smallest and the largest value, of complex numbers those of the magnitude; NaN counts as
    either.
    """
    low, high = None, None
    for values in read_chunks(path, array):
        numbers = np.abs(values) if values.dtype.kind == "c" else values
        least, most = numbers.min(), numbers.max()
        low = least if low is None else np.minimum(low, least)
        high = most if high is None else np.maximum(high, most)
    return ("-", "-") if low is None or high is None else (f"{low:.6g}", f"{high:.6g}")


def _attribute_rows(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Attributes, those in dicts under the names of both, joined by a dot."""
    if isinstance(value, dict) and (value or not prefix):
        for key, item in value.items():
            yield from _attribute_rows(f"{prefix}.{key}" if prefix else key, item)
        return
    text = repr(value)
    yield prefix, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _columns(rows: Any) -> Iterator[str]:
    """Rows as lines, each column as wide as its widest text."""
    texts = [tuple(map(_safe, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _bytes_text(count: int) -> str:
    number, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


def _safe(text: str) -> str:
    """A text of a file as it may go to a terminal."""
    return text if text.isprintable() else repr(text)
