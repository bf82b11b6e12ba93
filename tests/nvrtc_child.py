"""Compiles CUDA text for GPUs that are not here, with the CuPy of the interpreter that runs it.

Started by `tests/test_cuda_nvrtc.py`, and needs nothing but CuPy with NVRTC: standard input is a
list of jobs in JSON, {"path", "options"}; each gives a line of JSON, {"path", "log"} or {"path",
"error"}, the first line says which compiler it is. With `--calls` it calls what `backends.cuda`
calls, with the arguments that it hands over, and prints those that CuPy does not take.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def main() -> None:
    from cupy.cuda import nvrtc

    compiler = {"version": nvrtc.getVersion(), "targets": nvrtc.getSupportedArchs()}
    print(json.dumps(compiler), flush=True)
    for job in json.load(sys.stdin):
        print(json.dumps({"path": job["path"], **_compiled(nvrtc, **job)}), flush=True)


def _compiled(nvrtc: Any, path: str, options: list[str]) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        program = nvrtc.createProgram(file.read(), path, (), ())
    try:
        nvrtc.compileProgram(program, (*options, "--ptxas-options=-v"))
        if not nvrtc.getCUBIN(program).startswith(b"\x7fELF"):
            return {"error": "no machine code"}
        return {"log": nvrtc.getProgramLog(program)}
    except RuntimeError as error:
        return {"error": f"{error}\n{nvrtc.getProgramLog(program)}"}
    finally:
        nvrtc.destroyProgram(program)


def calls() -> None:
    """Without a driver each call fails, but only one whose arguments fit fails in CUDA."""
    import cupy

    cuda, wrong = cupy.cuda, []
    runtime, driver = cuda.runtime, cuda.driver
    image = b""
    for call, arguments in (
        (runtime.setDevice, (0,)),
        (runtime.memGetInfo, ()),
        (runtime.malloc, (512,)),
        (runtime.free, (0,)),
        (runtime.deviceSynchronize, ()),
        (runtime.memsetAsync, (0, 255, 0, 0)),
        (runtime.memcpyAsync, (0, 0, 0, runtime.memcpyHostToDevice, 0)),
        (runtime.memcpyAsync, (0, 0, 0, runtime.memcpyDeviceToHost, 0)),
        (runtime.eventRecord, (0, 0)),
        (runtime.eventQuery, (0,)),
        (runtime.eventSynchronize, (0,)),
        (runtime.streamWaitEvent, (0, 0)),
        (runtime.streamSynchronize, (0,)),
        (runtime.graphLaunch, (0, 0)),
        (runtime.runtimeGetVersion, ()),
        (driver.moduleLoadData, (image,)),
        (driver.moduleGetFunction, (0, "name")),
        (driver.launchKernel, (0, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)),
        (cuda.alloc, (512,)),
        (runtime.hostAlloc, (512, runtime.hostAllocPortable)),
        (runtime.freeHost, (0,)),
        (runtime.pointerGetAttributes, (0,)),
        (lambda: cuda.Device(0).__enter__(), ()),
        (cuda.Event, ()),
        (lambda: cuda.Event(disable_timing=True), ()),
        (cuda.Stream, ()),
        (lambda: cuda.Stream(non_blocking=True, priority=-1000), ()),
        (cuda.Stream.null.begin_capture, ()),
        (cuda.Stream.null.end_capture, ()),
        (lambda: cuda.Device(0).compute_capability, ()),
        (lambda: cupy.get_default_memory_pool().free_all_blocks(), ()),
        (cuda.nvtx.RangePush, ("core",)),
        (cuda.nvtx.RangePop, ()),
        (lambda: cuda.nvtx.RangeEnd(cuda.nvtx.RangeStart("exchange", -1)), ()),
    ):
        try:
            call(*arguments)
        except (TypeError, AttributeError, ValueError) as error:
            wrong.append(f"{call}{arguments}: {type(error).__name__}: {error}")
        except Exception:  # CUDA's own, and those of the libraries that are not there
            pass
    wrong += _classes(cuda)
    print(json.dumps(wrong))


def _classes(cuda: Any) -> list[str]:
    """What is relied upon besides calls."""
    stream = cuda.Stream.null
    expected = {
        "handles of streams are numbers": isinstance(stream.ptr, int),
        "errors of CUDA are RuntimeError": issubclass(cuda.runtime.CUDARuntimeError, RuntimeError),
        "errors of the driver are RuntimeError": issubclass(
            cuda.driver.CUDADriverError, RuntimeError
        ),
        "errors of NVRTC are RuntimeError": issubclass(cuda.nvrtc.NVRTCError, RuntimeError),
        "a full pool is a MemoryError": issubclass(cuda.memory.OutOfMemoryError, MemoryError),
        "graphs are launched": hasattr(cuda.graph.Graph, "launch"),
        "it is said whether there are ranges": isinstance(cuda.nvtx.available, bool),
        "devices can be current": hasattr(cuda.Device, "__exit__"),
        "streams can be current": hasattr(cuda.Stream, "__enter__"),
    }
    return [what for what, holds in expected.items() if not holds]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    calls() if "--calls" in sys.argv else main()
