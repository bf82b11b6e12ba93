"""What tests of errors share: the arrays that are named in them, and how a refusal is checked.

A case is an expression and the whole text of the error that it raises. In the text, `$name` stands
for the repr of what is called so in the expressions, `$size` for the number of ranks, `$more` for
one more, `$wide` for twice as many and one, `$last` for the highest rank, `$rows` for the cells of
the narrowest block along x, `$device` for the device under test, and (here) for the place of a line
in a kernel. A text that ends with `...` says how the error begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from tests import devices
from tests.ranks.common import SIZE

world = MPI.COMM_WORLD

_NUMBERS = {
    "size": SIZE,
    "more": SIZE + 1,
    "wide": 2 * SIZE + 1,
    "last": SIZE - 1,
    "rows": 9 // SIZE,
}


def names() -> dict[str, Any]:
    """What expressions may name: grids of 9 x 8 cells cut along x, and arrays on them."""
    ranks = (SIZE, 1)
    grid = da.Grid((9, 8), ranks=ranks)
    periodic = da.Grid((9, 8), ranks=ranks, periodic=True)
    return {
        "da": da,
        "np": np,
        "MPI": MPI,
        "SIZE": SIZE,
        "grid": grid,
        "periodic": periodic,
        "somewhere": grid.points([[0.5, 0.5]]),
        "u": grid.zeros(name="u"),
        "new": grid.zeros(name="new"),
        "v": periodic.zeros(name="v"),
        "vector": grid.zeros(components=(3,), name="vector"),
        "pair": grid.zeros(components=(2,), name="pair"),
        "faces": grid.zeros(location="x", name="faces"),
        "narrow": grid.zeros(halo=0, name="narrow"),
        "whole": grid.zeros(dtype=int, name="whole"),
        "flags": grid.zeros(dtype=bool, name="flags"),
        "phasor": grid.zeros(dtype=complex, name="phasor"),
        "other": da.Grid((9, 8), ranks=ranks, bounds=[(0, 2), (0, 1)]).zeros(name="other"),
        "plain": da.zeros((9, 8), ranks=ranks, name="plain"),
        "alone": da.Grid((9, 8), comm=MPI.COMM_SELF).zeros(name="alone"),
    }


def refuse(
    kind: type[Exception], cases: Mapping[str, str], extra: Mapping[str, Any] | None = None
) -> None:
    """Each expression raises an error of this class with its text on all ranks, after which the
    job still works.
    """
    known = {**names(), **(extra or {})}
    texts = {**_NUMBERS, "device": devices.current()}
    texts |= {name: repr(value) for name, value in known.items()}
    for expression, text in cases.items():
        message = _message(kind, expression, known)
        expected = Template(text).substitute(texts)
        start, dots = expected.removesuffix("..."), expected.endswith("...")
        assert message.startswith(start) if dots else message == expected, (
            f"{expression}: {message}"
        )
        assert "\n" not in message
        assert len(set(world.allgather(message))) == 1, f"{expression}: {message}"
    still_works(known)


def _message(kind: type[Exception], expression: str, known: dict[str, Any]) -> str:
    with pytest.raises(kind) as caught:
        _fail(expression, eval(expression, dict(known)))
    assert isinstance(caught.value, da.DistArrayError), f"{expression}: {caught.value!r}"
    return re.sub(r"\((?:\S+, )?line \d+\)", "(here)", str(caught.value))


def _fail(expression: str, found: Any) -> None:
    pytest.fail(f"{expression} gave {found!r}")


@da.stencil
def _neighbours(u: Any, new: Any) -> Any:
    new[0, 0] = u[1, 0] + u[-1, 0]
    return da.reduce.sum(new[0, 0])


def still_works(known: Mapping[str, Any]) -> None:
    """No rank is left in a message: halos, reductions and gathers give what they should."""
    grid = known["periodic"]
    u = grid.from_function(lambda x, y: 9 * x + 0 * y)
    new = grid.empty_like(u)
    total = _neighbours(u, new)
    x = np.arange(9) + 0.5
    expected = np.repeat((np.roll(x, 1) + np.roll(x, -1))[:, None], 8, axis=1)
    assert np.allclose(new.gather(), expected, rtol=1e-14)
    assert np.isclose(float(total), expected.sum())
    assert np.isclose(u.sum(), 8 * x.sum())
