"""Damaged entries: a FileError that names the file, so that the checkpoint before is taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import distarray as da
from tests.io_tools import sealed_again
from tests.ranks.io_fields import error, on_root

RANKS = (1, 3)


def damage_attribute(name: str, value: Any, file: h5py.File) -> None:
    owner, _, key = name.rpartition("/")
    (file[owner] if owner else file).attrs[key] = value


def damage_text(name: str, text: str, file: h5py.File) -> None:
    del file[name]
    file.create_dataset(name, data=np.bytes_(text))


def evil(dtype: str) -> str:
    return f'{{"a": {{"__array__": [1], "dtype": "{dtype}", "shape": [1]}}}}'


DAMAGE: dict[str, Callable[[h5py.File], None]] = {
    "version": partial(damage_attribute, "library_version", np.zeros(0, "S1")),
    "halo": partial(damage_attribute, "u/halo", np.array([99, 99])),
    "negative halo": partial(damage_attribute, "u/halo", np.array([-5, -5])),
    "vast halo": partial(damage_attribute, "u/halo", np.array([2**62, 1])),
    "short halo": partial(damage_attribute, "u/halo", np.array([1])),
    "location": partial(damage_attribute, "u/location", np.bytes_(b"q")),
    "twice": partial(damage_attribute, "u/location", np.bytes_(b"qq")),
    "no location": partial(damage_attribute, "u/location", np.zeros(0, "S1")),
    "dtype": partial(damage_text, "distarray/attrs", evil("f8,(")),
    "fields": partial(damage_text, "distarray/attrs", evil("f8,f8")),
    "list": partial(damage_text, "distarray/attrs", "[]"),
    "side": partial(damage_text, "distarray/boundary/u", '{"q-": {"kind": "Outflow"}}'),
    "number": partial(damage_text, "distarray/boundary/u", '{"x-": 3}'),
    "boundary dtype": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Dirichlet", "value": {"__array__": [1], "dtype": "f8,(", "shape": [1]}}}',
    ),
    "values": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Neumann", "value": {"__array__": [1, 2], "dtype": "f8", "shape": [2]}}}',
    ),
    "degree": partial(
        damage_text, "distarray/boundary/u", '{"x-": {"kind": "Extrapolate", "degree": 77}}'
    ),
    "field": partial(damage_text, "distarray/boundary/u", '{"x-": {"kind": "Robin", "q": 1}}'),
    "components": partial(
        damage_text, "distarray/boundary/u", '{"x-": [{"kind": "Outflow"}, {"kind": "Outflow"}]}'
    ),
    "integer": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Dirichlet", "value": 1' + 3000 * "0" + "}}",
    ),
}


def test_damaged_entries_name_the_file_and_are_skipped(folder: Path) -> None:
    grid = da.Grid((12, 9))
    for what, damage in DAMAGE.items():
        place = folder / what
        checkpoints = da.Checkpointer(place, every=1)
        for step in (1, 2):
            checkpoints.save({"u": grid.ones()}, step=step)
        path = place / "checkpoint_0000000002.h5"

        def change(path: Path = path, damage: Callable[[h5py.File], None] = damage) -> None:
            with h5py.File(path, "r+") as file:
                damage(file)
            sealed_again(path)

        on_root(change)
        text = error(lambda path=path: da.load(path, grid))
        assert f"file '{path}'" in text, (what, text)
        assert "no error" not in text
        assert "\n" not in text
        found = checkpoints.latest(grid)
        assert found is not None, what
        assert found.step == 1, what
