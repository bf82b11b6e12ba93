"""Every record and every wait of the library is needed: without any of them a race is reported."""

from __future__ import annotations

import pytest

from tests.harness import ROOT, RanksFailed, run_test_file

TIMEOUT = 300


@pytest.mark.timeout(TIMEOUT + 30)
def test_mutations() -> None:
    try:
        run_test_file(ROOT / "tests" / "mutations.py", 2, timeout=TIMEOUT)
    except RanksFailed as failure:
        pytest.fail(str(failure), pytrace=False)
