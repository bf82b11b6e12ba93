"""An exchange waits for the kernel before it; on 2 and 4 ranks that share the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import RanksFailed, run_test_file


@pytest.mark.parametrize("n", [2, 4])
def test_the_halo_holds_what_a_long_kernel_writes(n):
    try:
        run_test_file(Path(__file__).with_name("ranks_race.py"), n, timeout=40.0)
    except RanksFailed as failure:
        pytest.fail(str(failure), pytrace=False)
