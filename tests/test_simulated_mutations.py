"""Every record and every wait of the library is needed: without any of them a race is reported.

The quick test takes the transports on which the others are built, one that the host waits for and
one of streams alone; the slow one takes the rest.
"""

from __future__ import annotations

import pytest

from tests.harness import ROOT, RanksFailed, run_test_file

TIMEOUT = 300


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT + 30)
@pytest.mark.parametrize(
    "names", [("staged_and_nccl", "given_back_too_early"), ("device_and_host",)]
)
def test_mutations(names: tuple[str, ...]) -> None:
    try:
        run_test_file(ROOT / "tests" / "mutations.py", 2, *names, timeout=TIMEOUT)
    except RanksFailed as failure:
        pytest.fail(str(failure), pytrace=False)
