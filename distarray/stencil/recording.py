"""Leave texts of kernels in a folder, for compilers and devices that are not at hand, and to see
what a compiler says of them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def record(text: str, symbol: str, *, fast: bool, ending: str = ".cu") -> None:
    """Write a text to the folder `DISTARRAY_RECORD_KERNELS` names, if it does. Local.

    The file is named after its content, which begins with a line `// SYMBOL fast=0` or `fast=1`;
    its ending is that of the language.
    """
    folder = os.environ.get("DISTARRAY_RECORD_KERNELS")
    if not folder:
        return
    content = f"// {symbol} fast={int(fast)}\n{text}"
    path = Path(folder) / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}{ending}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
