"""Runs each file of `tests/ranks` on several ranks: one item for each file and number of ranks.

`python -m pytest tests/test_ranks.py -k ranks_harness --ranks 3,6` picks a file and the numbers of
ranks. A file may set `RANKS = (2, 4)`, the only numbers it is for, and `TIMEOUT = 120`, seconds for
the whole file on one number of ranks.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests import devices
from tests.harness import ROOT, RanksFailed, run_test_file

RANKS = (1, 2, 3, 4, 8)
TIMEOUT = 120


def settings(path: Path) -> dict[str, Any]:
    """The constants RANKS and TIMEOUT of a test file, read without importing it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("RANKS", "TIMEOUT")
    }


def numbers(chosen: str | None, own: tuple[int, ...] | None) -> list[int]:
    """The numbers of ranks for a file: those chosen, as far as the file is for them."""
    if chosen is None:
        most = max(RANKS) if devices.current() == "cpu" else devices.MOST_RANKS
        return [n for n in own or RANKS if n <= most]
    return [n for n in map(int, chosen.split(",")) if own is None or n in own]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item for each file and number of ranks."""
    items = []
    for path in sorted((ROOT / "tests" / "ranks").glob("ranks_*.py")):
        own = settings(path)
        limit = own.get("TIMEOUT", TIMEOUT)
        for n in numbers(metafunc.config.getoption("ranks"), own.get("RANKS")):
            marks = pytest.mark.timeout(limit + 30)
            items.append(pytest.param(path, n, limit, id=f"{path.stem}-{n}", marks=marks))
    metafunc.parametrize(("path", "n", "limit"), items)


def test_ranks(path: Path, n: int, limit: float) -> None:
    try:
        result = run_test_file(path, n, timeout=limit)
    except RanksFailed as failure:
        pytest.fail(str(failure), pytrace=False)
    print(result.stdout, result.stderr)
