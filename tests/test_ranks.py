"""Runs each file of `tests/ranks` on several ranks: one item for each file and number of ranks.

`python -m pytest tests/test_ranks.py -k ranks_harness-4` picks one. A file may set `RANKS = (2, 4)`
and `TIMEOUT = 120` (seconds for the whole file on one number of ranks).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.harness import ROOT, RanksFailed, run_test_file

RANKS = (1, 2, 3, 4, 8)
TIMEOUT = 120


def settings(path: Path) -> dict[str, object]:
    """The constants RANKS and TIMEOUT of a test file, read without importing it."""
    found: dict[str, object] = {"RANKS": RANKS, "TIMEOUT": TIMEOUT}
    for node in ast.parse(path.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in found
        ):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def items() -> list[object]:
    """One parameter set for each file and number of ranks."""
    found = []
    for path in sorted((ROOT / "tests" / "ranks").glob("ranks_*.py")):
        chosen = settings(path)
        for n in chosen["RANKS"]:
            limit = chosen["TIMEOUT"]
            found.append(
                pytest.param(
                    path, n, limit, id=f"{path.stem}-{n}", marks=pytest.mark.timeout(limit + 30)
                )
            )
    return found


@pytest.mark.parametrize(("path", "n", "limit"), items())
def test_ranks(path: Path, n: int, limit: float) -> None:
    try:
        result = run_test_file(path, n, timeout=limit)
    except RanksFailed as failure:
        pytest.fail(str(failure), pytrace=False)
    print(result.stdout, result.stderr)
