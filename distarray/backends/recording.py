"""Leaves every CUDA text that is compiled in a folder, if DISTARRAY_RECORD_KERNELS names one.

What a run of the tests leaves there can then be compiled for GPUs that are not at hand; see
`tests/test_cuda_nvrtc.py`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from distarray.backends.driver import KernelText

VARIABLE = "DISTARRAY_RECORD_KERNELS"


def record(kernel: KernelText) -> None:
    """Write a text to its file, named by its content, unless it is there already. Local.

    The first line is a comment that names the function and says whether it is fast.
    """
    folder = os.environ.get(VARIABLE)
    if folder:
        from distarray.backends import native

        path = Path(folder) / f"{native.digest(kernel.text, str(kernel.fast))}.cu"
        if not path.exists():
            _write(path, f"// {kernel.symbol} fast={int(kernel.fast)}\n{kernel.text}")


def _write(path: Path, text: str) -> None:
    """Whole or not at all: several processes may record one text at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)
