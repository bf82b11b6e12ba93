"""CUDA C text of one kernel as a function of the host: a header, the text, and loops over threads.

The header gives the words of CUDA that generated text uses: `__global__`, `__device__`, `__ldg`,
the thread indices, and the mathematical functions under the names that NVRTC knows them by. Nothing
of the text is changed but that the kernel takes structures by reference: to copy them for each
thread would take longer than a thread. No header of the system is read, since it would take five
times as long to compile as a kernel. Threads run one after another, so text that needs several at
once, with shared memory or barriers, does not compile.
"""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any

from distarray.backends import native
from distarray.backends.driver import Extents, KernelText
from distarray.errors import BackendError
from distarray.stencil.recording import record

#: Short to compile; nothing that changes the bits of a result, and no instructions that fuse.
FLAGS = (
    "-std=gnu++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
)
#: What NVRTC does for a fast kernel too: it contracts, but never reassociates, which exact sums in
#: such a kernel rely on.
FAST_FLAG = "-ffp-contract=fast"

#: Functions of one, two and three numbers.
_MATHEMATICAL = (
    (
        "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor",
        "ceil", "trunc", "rint", "nearbyint", "round", "fabs", "erf", "erfc", "tgamma", "lgamma",
    ),
    (
        "pow", "atan2", "hypot", "fmod", "remainder", "copysign", "nextafter", "fmin", "fmax",
        "fdim",
    ),
    ("fma",),
)  # fmt: skip


def _functions() -> str:
    """Declarations of the C library's functions, and C++'s for float under the same names."""
    lines = []
    for count, names in enumerate(_MATHEMATICAL, 1):
        for name in names:
            for kind, suffix in (("double", ""), ("float", "f")):
                parameters = ", ".join([kind] * count)
                lines.append(f'extern "C" {kind} {name}{suffix}({parameters});')
            declared = ", ".join(f"float {letter}" for letter in "abc"[:count])
            passed = ", ".join("abc"[:count])
            lines.append(f"static inline float {name}({declared}) {{ return {name}f({passed}); }}")
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        lines += [
            f"static inline bool {name}({kind} x) {{ return __builtin_{name}(x); }}"
            for kind in ("double", "float")
        ]
    return "\n".join(lines)


# Text is told that it is compiled by NVRTC, so that what it says for that alone is tried out too.
_HEADER = f"""\
#define __CUDACC_RTC__
#define __global__ inline __attribute__((always_inline))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct dim3 {{ unsigned x, y, z; }};
static dim3 gridDim, blockDim, blockIdx, threadIdx;
template <class T> static inline T __ldg(const T *p) {{ return *p; }}
extern "C" void *memcpy(void *, const void *, __SIZE_TYPE__);
static inline float __int_as_float(int x) {{ union {{ int i; float f; }} u = {{x}}; return u.f; }}
{_functions()}
#line 1 "kernel.cu"
"""

_LOOPS = """
#line 1 "loops"
static inline dim3 place(unsigned i, const dim3 &n) {{
  return dim3{{i % n.x, i / n.x % n.y, i / n.x / n.y}};
}}
extern "C" void {symbol}_host(
    void *const *parameters, const unsigned *grid, const unsigned *block, unsigned backwards) {{
  gridDim = dim3{{grid[0], grid[1], grid[2]}};
  blockDim = dim3{{block[0], block[1], block[2]}};
  const unsigned blocks = grid[0] * grid[1] * grid[2], threads = block[0] * block[1] * block[2];
  for (unsigned b = 0; b < blocks; b++) {{
    blockIdx = place(backwards ? blocks - 1 - b : b, gridDim);
    for (unsigned t = 0; t < threads; t++) {{
      threadIdx = place(backwards ? threads - 1 - t : t, blockDim);
      {symbol}({arguments});
    }}
  }}
}}
"""

_TRIAL = """\
extern "C" double sqrt(double);
template <class T> static T root(T x) { return sqrt(x); }
extern "C" void trial(double *x) { *x = root(*x); }
"""

CPP = native.Language(
    "C++", ".cpp", "CXX", ("c++", "g++", "clang++"), "c++", FLAGS, _TRIAL, tuned=False
)

#: A structure among parameters.
_STRUCTURE = re.compile(r"(?:const\s+)?((?:struct|union)\s+\w+)\s+(\w+)(?=\s*[,)])")

_Three = ctypes.c_uint * 3


class HostKernel:
    """A kernel that runs on the host. Calls return when it is done."""

    def __init__(self, function: Any) -> None:
        function.restype = None
        function.argtypes = (*[ctypes.c_void_p] * 3, ctypes.c_uint)
        self._function = function

    def __call__(
        self, grid: Extents, block: Extents, parameters: Any, *, backwards: bool = False
    ) -> None:
        """Run all threads of a grid of blocks, one after another or the last of them first.

        `parameters` is an array of the addresses of the values, or the address of one.
        """
        self._function(parameters, _three(*grid), _three(*block), backwards)


@functools.lru_cache(maxsize=1024)
def _three(x: int, y: int, z: int) -> Any:
    return _Three(x, y, z)


def available() -> bool:
    """Whether kernels may be compiled and a C++ compiler works. Local."""
    return native.enabled() and native.toolchain(CPP) is not None


def load(kernel: KernelText) -> HostKernel:
    """The function of a kernel's text; compiled once per node, kept on disk. Local.

    Raises
    ------
    BackendError
        The text does not compile, or no compiler works.
    """
    if not native.enabled():
        raise BackendError(
            "Kernels cannot be compiled while DISTARRAY_EXECUTOR=numpy; unset it, or give the work "
            "as Python functions."
        )
    return _loaded(kernel)


@functools.cache
def _loaded(kernel: KernelText) -> HostKernel:
    record(kernel.text, kernel.symbol, fast=kernel.fast)
    tools = native.toolchain(CPP)
    if tools is None:
        raise BackendError(
            "Kernels of the simulated device need a C++ compiler; install one, or the extra "
            "compiler (in a clone: pip install '.[compiler]')."
        )
    flags = (*FLAGS, *((FAST_FLAG,) if kernel.fast else ()))
    library = native.library(CPP, (*tools.command, *flags), host_text(kernel))
    return HostKernel(getattr(library, f"{kernel.symbol}_host"))


def host_text(kernel: KernelText) -> str:
    """The C++ text that runs a kernel as `SYMBOL_host(parameters, grid, block)`. Pure."""
    arguments = ", ".join(f"*({kind} *)parameters[{i}]" for i, kind in enumerate(kernel.parameters))
    text = re.sub(
        rf"\bvoid\s+{kernel.symbol}\s*\([^)]*\)",
        lambda found: _STRUCTURE.sub(r"const \1 &\2", found[0]),
        kernel.text,
    )
    return _HEADER + text + _LOOPS.format(symbol=kernel.symbol, arguments=arguments)
