"""The simulated device, which runs the CUDA text, has the same bits as the CPU.

`tests/gpu/test_cuda_bits.py` compares a GPU in the same way.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests import gpu_kernels


@pytest.fixture(scope="module")
def cpu():
    return gpu_kernels.results("cpu")


def test_all_kernels_have_the_same_bits(cpu):
    assert gpu_kernels.differences(gpu_kernels.results("simulated"), cpu) == []


def test_results_are_worth_comparing(cpu):
    for name, values in cpu.items():
        assert np.isfinite(values).all(), name
        assert values.any(), name


@pytest.mark.parametrize("name", ["diffuse float64", "mixed count", "mixed new"])
def test_differences_are_noticed(cpu, name):
    changed = {**cpu, name: cpu[name].copy()}
    values = changed[name].reshape(-1)
    values[-1] += 1 if values.dtype.kind == "i" else 1e-3
    (line,) = gpu_kernels.differences(changed, cpu)
    assert line.startswith(f"{name}: ")
