"""CUDA text that runs on the host: words of CUDA, parameters, and which compiler is used."""

from __future__ import annotations

import ctypes
import math
import random
import re

import numpy as np
import pytest

from distarray.backends import native
from distarray.backends.driver import KernelText, Parameters
from distarray.backends.simulated import SimulatedDriver, host_cuda
from distarray.errors import BackendError
from tests.simulated_tools import Block

pytestmark = pytest.mark.skipif(
    native.toolchain(host_cuda.CPP) is None, reason="no C++ compiler works"
)

INDICES = KernelText(
    """\
extern "C" __global__ void indices(int *__restrict__ out, const int count) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned i = thread + block * blockDim.x * blockDim.y * blockDim.z;
  if (i >= count) return;
  out[i] += (int)i;
}
""",
    "indices",
    ("int *", "int"),
)

STRUCTURES = KernelText(
    """\
struct layout { long long strides[2]; };
struct launch { int boxes; struct { int begin[2]; int end[2]; } box[4]; };
union scalar { double d; long long i; };
static __device__ __forceinline__ double scaled(double x, const union scalar *s) {
  return isnan(x) ? s[1].i : x * __ldg(&s[0].d);
}
extern "C" __global__ void structures(
    const double *__restrict__ u, double *__restrict__ new_u,
    const union scalar *__restrict__ scalars, const struct layout layout,
    const struct launch launch) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  for (int b = 0; b < launch.boxes; b++) {
    if (j < launch.box[b].begin[1] || j >= launch.box[b].end[1]) continue;
    for (int i = launch.box[b].begin[0]; i < launch.box[b].end[0]; i++) {
      const long long at = i * layout.strides[0] + j * layout.strides[1];
      new_u[at] = scaled(__ldg(u + at), scalars);
    }
  }
}
""",
    "structures",
    (
        "const double *",
        "double *",
        "const union scalar *",
        "struct layout",
        "struct launch",
    ),
)


@pytest.fixture
def driver():
    return SimulatedDriver(seed=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache and modules that have loaded nothing yet."""
    chosen = tmp_path / "cache"
    monkeypatch.setenv("DISTARRAY_CACHE", str(chosen))
    _forget()
    yield chosen
    _forget()


def _forget():
    for function in (
        native._library,
        native.toolchain,
        native._checked,
        native._temporary,
        host_cuda._loaded,
    ):
        function.cache_clear()


def pointer(block):
    return np.array(block.address, np.uint64)


@pytest.mark.parametrize(
    ("grid", "block"), [((1, 1, 1), (1, 1, 1)), ((3, 1, 1), (32, 2, 1)), ((2, 3, 4), (4, 2, 3))]
)
def test_every_thread_of_every_block_runs_once(driver, grid, block):
    threads = math.prod(grid) * math.prod(block)
    out = Block(driver, threads + 3, "i4")
    out.values[:] = 0
    parameters = Parameters([pointer(out), np.int32(threads - 1)])
    function = driver.load(INDICES)
    driver.launch(function, grid, block, parameters, driver.compute, [out.writes()], "indices")
    driver.compute.synchronize()
    expected = [*range(threads - 1), 0, 0, 0, 0]
    assert out.values.tolist() == expected


def test_structures_unions_and_scalars_in_memory_reach_the_kernel(driver):
    u, new, scalars = Block(driver, 12), Block(driver, 12), Block(driver, 2)
    u.values[:] = np.arange(12)
    u.values[7] = np.nan
    new.values[:] = -1
    scalars.values[0] = 0.5
    scalars.values.view("i8")[1] = 42
    boxes = np.zeros(1 + 4 * 4, np.int32)
    boxes[:9] = [2, 0, 0, 1, 4, 1, 1, 3, 4]  # row 0, and the last columns of rows 1 and 2
    values = [pointer(u), pointer(new), pointer(scalars), np.array([4, 1]), boxes]
    driver.launch(
        driver.load(STRUCTURES), (1, 1, 1), (32, 1, 1), Parameters(values), driver.compute,
        [u.reads(), scalars.reads(), new.writes()], "structures",
    )  # fmt: skip
    driver.compute.synchronize()
    assert new.values.tolist() == [0, 0.5, 1, 1.5, -1, 2.5, 3, 42, -1, 4.5, 5, 5.5]


def test_a_launch_waits_and_takes_the_parameters_of_now(driver):
    out = Block(driver, 4, "i4")
    out.values[:] = 0
    count = np.array(2, np.int32)
    parameters = Parameters([pointer(out), count])
    function = driver.load(INDICES)
    driver.launch(function, (1, 1, 1), (4, 1, 1), parameters, driver.compute, [out.writes()], "i")
    parameters.values[1][...] = 4
    assert out.values.tolist() == [0, 0, 0, 0]
    driver.compute.synchronize()
    assert out.values.tolist() == [0, 1, 0, 0]
    driver.launch(function, (1, 1, 1), (4, 1, 1), parameters, driver.compute, [out.writes()], "i")
    driver.compute.synchronize()
    assert out.values.tolist() == [0, 2, 2, 3]


def test_a_captured_launch_keeps_its_parameters_and_reads_memory_anew(driver):
    u, new, scalars = Block(driver, 4), Block(driver, 4), Block(driver, 2)
    u.values[:] = 1
    boxes = np.zeros(17, np.int32)
    boxes[:5] = [1, 0, 0, 1, 4]
    parameters = Parameters([pointer(u), pointer(new), pointer(scalars), np.array([4, 1]), boxes])
    function = driver.load(STRUCTURES)
    driver.begin_capture()
    driver.launch(
        function, (1, 1, 1), (32, 1, 1), parameters, driver.compute,
        [u.reads(), scalars.reads(), new.writes()], "structures",
    )  # fmt: skip
    graph = driver.end_capture()
    parameters.values[4][0] = 0  # no boxes: not for the graph
    for factor in (2.0, 3.0):
        driver.to_device(np.array([factor, 0]), scalars.writes(), driver.compute, pinned=False)
        graph.launch(driver.compute)
        driver.compute.synchronize()
        assert new.values.tolist() == [factor] * 4


def call_of(name, count, kind):
    """The text of a kernel that calls a mathematical function."""
    arguments = ", ".join(f"x[{i}]" for i in range(count))
    return KernelText(
        f'extern "C" __global__ void call(const {kind} *x, {kind} *y)\n'
        f"{{ *y = {name}({arguments}); }}\n",
        "call",
        (f"const {kind} *", f"{kind} *"),
    )


def test_all_functions_have_both_precisions_and_the_results_of_the_c_library(driver, folder):
    """One text calls each function by CUDA's three names: f(double), ff(float), f(float)."""
    library = ctypes.CDLL("libm.so.6")
    rng = random.Random(1)
    lines, expected, inputs = [], [], [rng.uniform(0.1, 0.9) for _ in range(3)]
    for count, names in enumerate(host_cuda._MATHEMATICAL, 1):
        doubles = ", ".join(f"x[{i}]" for i in range(count))
        floats = ", ".join(f"(float)x[{i}]" for i in range(count))
        for name in names:
            for called, passed in ((name, doubles), (f"{name}f", floats), (name, floats)):
                lines.append(f"y[{len(lines)}] = {called}({passed});")
            for suffix, kind in (("", ctypes.c_double), ("f", ctypes.c_float)):
                function = getattr(library, name + suffix)
                function.restype, function.argtypes = kind, (kind,) * count
                expected += [function(*inputs[:count])] * (2 if suffix else 1)
    body = "\n".join(lines)
    text = f'extern "C" __global__ void all(const double *x, double *y) {{\n{body}\n}}\n'
    x, y = Block(driver, 3), Block(driver, len(lines))
    x.values[:] = inputs
    function = driver.load(KernelText(text, "all", ("const double *", "double *")))
    parameters = Parameters([pointer(x), pointer(y)])
    driver.launch(
        function, (1, 1, 1), (1, 1, 1), parameters, driver.compute, [x.reads(), y.writes()], "all"
    )
    driver.compute.synchronize()
    np.testing.assert_array_equal(y.values, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("isnan", [1, 0, 0, 0]),
        ("isinf", [0, 1, 0, 0]),
        ("isfinite", [0, 0, 1, 1]),
        ("signbit", [0, 1, 1, 0]),
    ],
)
@pytest.mark.parametrize("kind", ["double", "float"])
def test_questions_about_numbers(driver, name, expected, kind):
    text = (
        f'extern "C" __global__ void ask(const {kind} *x, {kind} *y)\n'
        f"{{ y[threadIdx.x] = {name}(x[threadIdx.x]); }}\n"
    )
    dtype = {"double": "f8", "float": "f4"}[kind]
    x, y = Block(driver, 4, dtype), Block(driver, 4, dtype)
    x.values[:] = [np.nan, -np.inf, -0.0, 1e-40]
    function = driver.load(KernelText(text, "ask", (f"const {kind} *", f"{kind} *")))
    parameters = Parameters([pointer(x), pointer(y)])
    driver.launch(
        function, (1, 1, 1), (4, 1, 1), parameters, driver.compute, [x.reads(), y.writes()], "ask"
    )
    driver.compute.synchronize()
    assert y.values.tolist() == expected


def test_products_and_sums_are_not_contracted(driver):
    """One a * b + c, where the exact product is rounded away: 0 in two roundings, not in one."""
    text = (
        'extern "C" __global__ void sum(const double *x, double *y)\n{ *y = x[0] * x[1] + x[2]; }\n'
    )
    x, y = Block(driver, 3), Block(driver, 1)
    a = 1 + 2.0**-30
    x.values[:] = [a, a, -(a * a)]
    function = driver.load(KernelText(text, "sum", ("const double *", "double *")))
    driver.launch(
        function, (1, 1, 1), (1, 1, 1), Parameters([pointer(x), pointer(y)]), driver.compute,
        [x.reads(), y.writes()], "sum",
    )  # fmt: skip
    driver.compute.synchronize()
    assert y.values[0] == 0.0


def test_no_flag_changes_the_floating_point_mode_or_the_machine():
    for flag in host_cuda.FLAGS:
        assert flag not in ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")
        assert not re.match("-m(arch|cpu|fma)", flag)


def test_a_kernel_is_compiled_once_and_kept(folder):
    host_cuda.load(INDICES)
    (entry,) = folder.glob("*.so")
    before = entry.stat().st_ino
    _forget()
    host_cuda.load(INDICES)
    (entry,) = folder.glob("*.so")
    assert entry.stat().st_ino == before
    host_cuda.load(KernelText(INDICES.text, INDICES.symbol, INDICES.parameters, fast=True))
    assert len(list(folder.glob("*.so"))) == 2


def test_text_that_does_not_compile_is_an_error_with_line_numbers_of_the_text(folder):
    broken = KernelText(
        'extern "C" __global__ void broken(int *x) {\n  int y = 1;\n  undefined(x);\n}\n',
        "broken",
        ("int *",),
    )
    with pytest.raises(BackendError, match=r"rejected generated C\+\+ text: .*kernel\.cu:3"):
        host_cuda.load(broken)


@pytest.mark.parametrize("text", ["__shared__ double s[4];", "__syncthreads();"])
def test_text_that_needs_threads_at_once_does_not_compile(folder, text):
    kernel = KernelText(
        f'extern "C" __global__ void k(double *x) {{\n  {text}\n}}\n', "k", ("double *",)
    )
    with pytest.raises(BackendError, match=r"rejected generated C\+\+ text"):
        host_cuda.load(kernel)


def test_the_executor_is_looked_up_each_time(driver, monkeypatch):
    assert driver.compiles
    monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    assert not driver.compiles
    with pytest.raises(BackendError, match="cannot be compiled while DISTARRAY_EXECUTOR=numpy"):
        driver.load(INDICES)
    monkeypatch.delenv("DISTARRAY_EXECUTOR")
    assert driver.compiles
    assert driver.load(INDICES) is driver.load(INDICES)


def test_without_a_compiler_nothing_compiles_after_one_warning(driver, folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(RuntimeWarning, match=r"no C\+\+ compiler \(CXX, c\+\+, g\+\+, clang\+\+, z"):
        assert not driver.compiles
    assert not driver.compiles  # a second warning would be an error
    with pytest.raises(BackendError, match=r"need a C\+\+ compiler; install one"):
        driver.load(INDICES)


def test_the_environment_chooses_the_compiler(driver, folder, tmp_path, monkeypatch):
    real, wrapper, log = native.shutil.which("c++"), tmp_path / "wrapper", tmp_path / "log"
    wrapper.write_text(f'#!/bin/sh\necho used >> {log}\nexec {real} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    driver.load(INDICES)
    assert log.read_text(encoding="utf-8").startswith("used")


def test_threads_run_in_both_orders(driver):
    """What each thread finds where all write tells which was before it."""
    text = (
        'extern "C" __global__ void chain(int *last, int *before) {\n'
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  before[i] = *last;\n  *last = i;\n}\n"
    )
    last, before = Block(driver, 1, "i4"), Block(driver, 6, "i4")
    last.values[:] = 77
    function = driver.load(KernelText(text, "chain", ("int *", "int *")))
    parameters = Parameters([pointer(last), pointer(before)])
    function((3, 1, 1), (2, 1, 1), parameters.pointer)
    assert before.values.tolist() == [77, 0, 1, 2, 3, 4]
    last.values[:] = 77
    function((3, 1, 1), (2, 1, 1), parameters.pointer, backwards=True)
    assert before.values.tolist() == [1, 2, 3, 4, 5, 77]


def test_launches_take_both_orders():
    text = 'extern "C" __global__ void last(int *out) { *out = threadIdx.x; }\n'
    found = set()
    for seed in range(20):
        driver = SimulatedDriver(seed)
        out = Block(driver, 1, "i4")
        function = driver.load(KernelText(text, "last", ("int *",)))
        parameters = Parameters([pointer(out)])
        driver.launch(
            function, (1, 1, 1), (4, 1, 1), parameters, driver.compute, [out.writes()], "last"
        )
        driver.compute.synchronize()
        found.add(int(out.values[0]))
    assert found == {0, 3}
