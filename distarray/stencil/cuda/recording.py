"""Leave every compiled text in a folder, to be compiled for devices that are not at hand."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def record(text: str, symbol: str, *, fast: bool) -> None:
    """Write a text to the folder `DISTARRAY_RECORD_KERNELS` names, if it does. Local.

    The file is named after its content, which begins with a line `// SYMBOL fast=0` or `fast=1`.
    """
    folder = os.environ.get("DISTARRAY_RECORD_KERNELS")
    if not folder:
        return
    content = f"// {symbol} fast={int(fast)}\n{text}"
    path = Path(folder) / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}.cu"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
