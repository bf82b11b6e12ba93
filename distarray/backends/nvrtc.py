"""CUDA C text to machine code, by the compiler library NVRTC, kept in the user's cache.

An entry is named by a digest of the text, the options, the compiler's version and the machine code
it is for. Nothing here needs a GPU or CuPy: the library's calls are handed in, as
`cupy.cuda.nvrtc` offers them.
"""

from __future__ import annotations

from typing import Any

from distarray.backends import native
from distarray.backends.driver import KernelText
from distarray.errors import BackendError
from distarray.stencil.recording import record

#: Numbers as the CPU has them: no flushing of tiny ones, quotients and roots rounded correctly.
OPTIONS = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
#: Products and sums are contracted only where the kernel says `fast`.
FAST_OPTION, PLAIN_OPTION = "--fmad=true", "--fmad=false"

_ENTRY_VERSION = "1"
_LOG_LINES = 5


def options(target: str, *, fast: bool) -> tuple[str, ...]:
    """The compiler's options for a target such as "sm_90". Local."""
    return (*OPTIONS, FAST_OPTION if fast else PLAIN_OPTION, f"--gpu-architecture={target}")


def target(capability: int, supported: tuple[int, ...]) -> str:
    """What to compile for on a GPU of compute capability `capability` (90 for 9.0). Local.

    Machine code ("sm_90"), also that of an older GPU of the same generation; for a generation that
    the compiler does not know, the intermediate code of the newest it does ("compute_90"), which
    the driver translates.

    Raises
    ------
    BackendError
        The GPU is older than all that the compiler knows.
    """
    older = [known for known in sorted(supported) if known <= capability]
    if not older:
        raise BackendError(
            f"NVRTC makes no code for GPUs of compute capability {_dotted(capability)} any more, "
            f"only from {_dotted(min(supported))} on; install the extra for an older CUDA."
        )
    best = older[-1]
    return f"sm_{best}" if best // 10 == capability // 10 else f"compute_{best}"


def _dotted(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"


def machine_code(nvrtc: Any, kernel: KernelText, capability: int) -> bytes:
    """The code of a kernel's text for a GPU, compiled once per node and user. Local.

    Raises
    ------
    BackendError
        The text does not compile, or others may write to the cache.
    """
    record(kernel.text, kernel.symbol, fast=kernel.fast)
    chosen = options(target(capability, nvrtc.getSupportedArchs()), fast=kernel.fast)
    version = ".".join(map(str, nvrtc.getVersion()))
    key = native.digest(_ENTRY_VERSION, kernel.text, *chosen, version)
    return native.cached(f"{key}.cubin", lambda: compiled(nvrtc, kernel, chosen)[0])


def compiled(nvrtc: Any, kernel: KernelText, chosen: tuple[str, ...]) -> tuple[bytes, str]:
    """The code of a kernel's text with these options, and the compiler's remarks. Local.

    Raises
    ------
    BackendError
        The text does not compile.
    """
    program = nvrtc.createProgram(kernel.text, f"{kernel.symbol}.cu", (), ())
    try:
        try:
            nvrtc.compileProgram(program, chosen)
        except RuntimeError as error:  # NVRTCError is one
            lines = [line for line in nvrtc.getProgramLog(program).splitlines() if line.strip()]
            reason = " | ".join(lines[:_LOG_LINES]) or "no message"
            raise BackendError(
                f"NVRTC rejected the generated CUDA text of {kernel.symbol} ({error}): "
                f"{reason.rstrip('.')}; clear the cache if CUDA was updated, else report the text, "
                "kernel.source('cuda')."
            ) from error
        machine = any(option.startswith("--gpu-architecture=sm_") for option in chosen)
        code = nvrtc.getCUBIN(program) if machine else nvrtc.getPTX(program)
        return code, nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)
