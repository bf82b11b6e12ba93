"""Runs each file of `tests/ranks` on several ranks: one item for each file and number of ranks.

`python -m pytest tests/test_ranks.py -k ranks_harness --ranks 3,6` picks a file and the numbers of
ranks. A file may set `RANKS = (2, 4)`, the only numbers it is for, `SELDOM = (2, 4)`, those of them
that run with `-m slow` or --ranks alone, `TIMEOUT = 120`, seconds for the whole file on one number
of ranks, and `ALONE = True` if it needs processes in which no other test has run.

To start ranks takes longer than most files, so that all files for one number of ranks share a job.
Those that it did not reach, as an earlier one failed, share the next.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests import devices
from tests.harness import ROOT, RanksResult, passed, ran, run_test_files

RANKS = (1, 2, 3, 4, 8)
#: What is seldom for files that say nothing: 3 ranks cut less evenly than 2, one rank is what other
#: tests run on, and files on which others rest say that they run on 8, which have all kinds of
#: neighbours and corners.
SELDOM = (1, 2, 4, 8)
TIMEOUT = 120
#: Seconds for all files of one job, which ends itself; this is for a harness that does not.
LONGEST_JOB = 3600


def settings(path: Path) -> dict[str, Any]:
    """The constants that a test file sets for its jobs, read without importing it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("RANKS", "SELDOM", "TIMEOUT", "ALONE")
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
        found = settings(path)
        own = found.get("RANKS")
        seldom = found.get("SELDOM", () if own else SELDOM)
        chosen = metafunc.config.getoption("ranks")
        for n in numbers(chosen, own):
            slow = n in seldom and not chosen and devices.current() == "cpu"
            marks = [pytest.mark.timeout(LONGEST_JOB), *([pytest.mark.slow] if slow else [])]
            items.append(pytest.param(path, n, id=f"{path.stem}-{n}", marks=marks))
    metafunc.parametrize(("path", "n"), items)


class Jobs:
    """The jobs of the items that were chosen, each run when the first of its files is asked for."""

    def __init__(self, chosen: list[tuple[Path, int]]) -> None:
        self._files: dict[tuple[Path, int], tuple[Path, ...]] = {}
        self._results: dict[tuple[tuple[Path, ...], int], RanksResult] = {}
        for n in {n for _, n in chosen}:
            job = tuple(path for path, m in chosen if m == n and not settings(path).get("ALONE"))
            self._files.update({(path, n): job for path in job})

    def result(self, path: Path, n: int) -> RanksResult:
        """The result of the job that ran this file, or could have."""
        files = self._files.get((path, n), (path,))
        if (files, n) not in self._results:
            longest = max(settings(file).get("TIMEOUT", TIMEOUT) for file in files)
            self._results[files, n] = run_test_files(files, n, longest)
        result = self._results[files, n]
        rest = tuple(file for file in files if not ran(result, file))
        if path in rest and rest != files:
            self._files.update({(file, n): rest for file in rest})
            return self.result(path, n)
        return result


@pytest.fixture(scope="session")
def jobs(request: pytest.FixtureRequest) -> Jobs:
    items = [item for item in request.session.items if item.path == Path(__file__)]
    calls = [call for item in items if (call := getattr(item, "callspec", None))]
    return Jobs([(call.params["path"], call.params["n"]) for call in calls])


def test_ranks(jobs: Jobs, path: Path, n: int) -> None:
    result = jobs.result(path, n)
    if not passed(result, path):
        pytest.fail(result.report(), pytrace=False)
    print(result.stdout, result.stderr)
