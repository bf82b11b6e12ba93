"""Arrays for kernels that break a rule, and what the error says of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distarray.errors import StencilError
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.tracing import signature
from tests.stencil_tools import traced

F8 = np.dtype("f8")
VECTOR = ArrayParameter("v", F8, (3,), (False, False))
TENSOR = ArrayParameter("t", F8, (3, 3), (False, False))
PROFILE = ArrayParameter("p", F8, (), None, profile_axis=1)
FINER = ArrayParameter("f", F8, (), (False, False), level=1)
COARSER = ArrayParameter("c", F8, (), (False, False), level=-1)
BYTES = ArrayParameter("b", np.dtype("u1"), (), (False, False))
ARRAYS = {"v": VECTOR, "t": TENSOR, "p": PROFILE, "f": FINER, "c": COARSER, "b": BYTES}


def refusal(kernel: Callable[..., Any], **options: Any) -> str:
    """The message of the error that tracing raises, without its beginning; that is checked here."""
    scalars = {name: float for name in signature(kernel).scalars if name in ("r", "s")}
    described = {name: ARRAYS[name] for name in signature(kernel).arrays if name in ARRAYS}
    with pytest.raises(StencilError) as caught:
        traced(kernel, 2, scalars=scalars, arrays=described, **options)
    message = str(caught.value)
    lines, first = inspect.getsourcelines(kernel)
    marked = [number for number, text in enumerate(lines, first) if "# here" in text]
    line = marked[0] if marked else kernel.__code__.co_firstlineno
    beginning = f"Kernel {kernel.__name__} ({Path(kernel.__code__.co_filename).name}, line {line}) "
    assert message.startswith(beginning)
    assert "\n" not in message
    return message.removeprefix(beginning)
