"""Runs each file of `tests/ranks` on several ranks: one item for each file and number of ranks.

`python -m pytest tests/test_ranks.py -k ranks_harness --ranks 3,6` picks a file and the numbers of
ranks. A file may set `RANKS = (2, 4)`, the only numbers it is for, `TIMEOUT = 120`, seconds for
the whole file on one number of ranks, and `ALONE = True` if it needs processes in which no other
test has run.

To start ranks takes longer than most files, so that up to `TOGETHER` files share a job. A file that
such a job did not reach, as an earlier one failed, gets one of its own.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests import devices
from tests.harness import ROOT, RanksResult, passed, ran, run_test_files

RANKS = (1, 2, 3, 4, 8)
TIMEOUT = 120
TOGETHER = 8


def settings(path: Path) -> dict[str, Any]:
    """The constants that a test file sets for its jobs, read without importing it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("RANKS", "TIMEOUT", "ALONE")
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
        # The job ends itself; this is for a harness that does not.
        marks = pytest.mark.timeout(2 * TOGETHER * limit)
        items += [
            pytest.param(path, n, limit, id=f"{path.stem}-{n}", marks=marks)
            for n in numbers(metafunc.config.getoption("ranks"), own.get("RANKS"))
        ]
    metafunc.parametrize(("path", "n", "limit"), items)


class Jobs:
    """The jobs of the items that were chosen, each run when the first of its files is asked for."""

    def __init__(self, items: list[pytest.Item]) -> None:
        calls = [call for item in items if (call := getattr(item, "callspec", None))]
        chosen = [
            (call.params["path"], call.params["n"]) for call in calls if "path" in call.params
        ]
        self._shared: dict[tuple[Path, int], tuple[Path, ...]] = {}
        self._results: dict[tuple[tuple[Path, ...], int], RanksResult] = {}
        for n in {n for _, n in chosen}:
            files = [path for path, m in chosen if m == n and not settings(path).get("ALONE")]
            for first in range(0, len(files), TOGETHER):
                job = tuple(files[first : first + TOGETHER])
                self._shared.update({(path, n): job for path in job})

    def result(self, path: Path, n: int, limit: float) -> RanksResult:
        """The result of the job that ran this file."""
        files = self._shared.get((path, n), (path,))
        if (files, n) not in self._results:
            longest = max(settings(file).get("TIMEOUT", TIMEOUT) for file in files)
            self._results[files, n] = run_test_files(files, n, longest)
        result = self._results[files, n]
        return result if ran(result, path) else run_test_files([path], n, limit)


@pytest.fixture(scope="session")
def jobs(request: pytest.FixtureRequest) -> Jobs:
    items = [item for item in request.session.items if item.path == Path(__file__)]
    return Jobs(items)


def test_ranks(jobs: Jobs, path: Path, n: int, limit: float) -> None:
    result = jobs.result(path, n, limit)
    if not passed(result, path):
        pytest.fail(result.report(), pytrace=False)
    print(result.stdout, result.stderr)
