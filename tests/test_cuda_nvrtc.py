"""Generated CUDA text, compiled to machine code for GPUs that are not here, and its spills.

The compiler is that of CuPy's wheels and needs no GPU. Interpreters that have it are named by
DISTARRAY_NVRTC_PYTHONS, separated by colons; else this one is used, if it has. The slow test makes
environments for CUDA 12 and 13 where none is named, and compiles all that a run of the tests with
DISTARRAY_RECORD_KERNELS=FOLDER has left in that folder, or makes such a run first:

    python -m pytest -m slow tests/test_cuda_nvrtc.py

A kernel with up to 64 live values must keep them all in registers. What others put into local
memory is at most what `spills.json` says, in bytes; its numbers may only fall.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from distarray.backends import nvrtc
from tests.cuda_texts import Usage, header, live_values, usages
from tests.harness import ROOT, clean_environment

CHILD = ROOT / "tests" / "nvrtc_child.py"
CEILINGS = ROOT / "tests" / "spills.json"
MOST_LIVE = 64
#: By the compiler's CUDA.
TARGETS = {12: ("sm_70", "sm_80", "sm_90", "sm_100"), 13: ("sm_80", "sm_90", "sm_100")}
WHEELS = {
    12: ("numpy", "cupy-cuda12x", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12"),
    13: ("numpy", "cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"),
}
PYTHONS_VARIABLE, FOLDER_VARIABLE = "DISTARRAY_NVRTC_PYTHONS", "DISTARRAY_RECORD_KERNELS"


# ---- interpreters with the compiler


@functools.cache
def named_pythons() -> tuple[str, ...]:
    """Those that are there already."""
    named = os.environ.get(PYTHONS_VARIABLE)
    if named:
        return tuple(os.path.abspath(name) for name in named.split(os.pathsep))
    code = "from cupy.cuda import nvrtc; nvrtc.getVersion()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return () if found.returncode else (sys.executable,)


@functools.cache
def made_pythons() -> tuple[str, ...]:
    """Those that are there, or else new ones for CUDA 12 and 13."""
    return named_pythons() or tuple(map(_made, WHEELS))


def _made(cuda: int) -> str:
    folder = ROOT / ".pytest_cache" / f"cuda{cuda}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *WHEELS[cuda]]
        subprocess.run(install, check=True, timeout=600)
    return str(python)


@pytest.fixture(params=[12, 13])
def python(request):
    for name in named_pythons():
        if cuda_of(name) == request.param:
            return name
    pytest.skip(f"no interpreter with CuPy for CUDA {request.param}: {PYTHONS_VARIABLE} names none")


@functools.cache
def cuda_of(python: str) -> int:
    """The CUDA of an interpreter's compiler."""
    (compiler,) = _child(python, [])
    return compiler["version"][0]


def _child(python: str, jobs: list[dict[str, object]], *options: str) -> list[dict[str, object]]:
    environment = {**clean_environment(), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [python, str(CHILD), *options],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- compiling and judging


def compiled(python: str, folder: Path, targets: Sequence[str]) -> dict[tuple[Path, str], str]:
    """The compiler's remarks on each recorded text for each target."""
    paths = sorted(folder.glob("*.cu"))
    assert paths, f"nothing was recorded in {folder}"
    jobs = [
        {"path": str(path), "options": nvrtc.options(target, fast=header(path)[1])}
        for target in targets
        for path in paths
    ]
    found = _child(python, jobs)[1:]
    wrong = [f"{answer['path']}: {answer['error']}" for answer in found if "error" in answer]
    assert not wrong, "\n".join([f"{len(wrong)} texts are rejected", *wrong[:5]])
    keys = [(path, target) for target in targets for path in paths]
    return {key: str(answer["log"]) for key, answer in zip(keys, found, strict=True)}


def judged(python: str, folder: Path, targets: Sequence[str] = ()) -> list[str]:
    """What is wrong with the spills of all recorded kernels, by default for all targets."""
    all_targets = TARGETS[cuda_of(python)]
    ceilings = json.loads(CEILINGS.read_text())
    worst: dict[tuple[str, str], int] = defaultdict(int)
    wrong = []
    for (path, target), log in compiled(python, folder, targets or all_targets).items():
        for usage in usages(log):
            if not usage.spills:
                continue
            live = _live(path, usage)
            if live <= MOST_LIVE:
                wrong.append(
                    f"{usage.symbol} ({path.name}) with {live} live values spills {usage.spills} "
                    f"bytes on {target}"
                )
            key = (usage.symbol, f"CUDA {cuda_of(python)} {target}")
            worst[key] = max(worst[key], usage.spills)
    for (symbol, place), spilled in worst.items():
        allowed = ceilings.get(symbol, {}).get(place, 0)
        if spilled > allowed:
            wrong.append(f"{symbol} spills {spilled} bytes, ceiling {allowed}: {place}")
    return wrong


@functools.cache
def _live(path: Path, usage: Usage) -> int:
    return live_values(path.read_text(encoding="utf-8"), usage.symbol)


# ---- texts


def run_recording(folder: Path, *command: str) -> None:
    """Run a program on the simulated device and keep its texts."""
    environment = {
        **clean_environment(),
        "DISTARRAY_DEVICE": "simulated",
        FOLDER_VARIABLE: str(folder),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"


@pytest.fixture(scope="module")
def some_texts(tmp_path_factory):
    """The kernels of README and of the solvers, and some of every other kind."""
    folder = tmp_path_factory.mktemp("some")
    run_recording(folder, "tests.gpu_kernels")
    return folder


def all_texts(folder: Path) -> Path:
    """What a run of all tests on the simulated device left, now or before."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named and any(Path(named).glob("*.cu")):
        return Path(named)
    run_recording(folder, "tests.gpu_kernels")
    run_recording(folder, "pytest", "-q", "--device", "simulated", "--ranks", "2")
    own = (
        "tests/test_cuda_host.py",
        "tests/test_backend_simulated.py",
        "tests/test_device_array.py",
    )
    run_recording(folder, "pytest", "-q", "--device", "cpu", *own)
    return folder


# ---- tests


def test_kernels_compile_without_spills(python, some_texts):
    # The slow test has all targets; here the oldest for CUDA 12 and the newest for CUDA 13.
    target = TARGETS[cuda_of(python)][0 if cuda_of(python) == 12 else -1]
    assert judged(python, some_texts, [target]) == []


def test_the_calls_of_the_driver_are_those_of_cupy(python):
    (wrong,) = _child(python, [], "--calls")
    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_kernels_of_the_tests_compile_for_all_gpus(tmp_path):
    folder = all_texts(tmp_path)
    pythons = made_pythons()
    assert {cuda_of(python) for python in pythons} == set(TARGETS)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda python: judged(python, folder), pythons)
    assert [line for lines in found for line in lines] == []


# ---- the judge itself


TEXT = """// k fast=0
static __device__ double twice(double x) { const double unused = x; return 2 * unused; }
extern "C" __global__ void k(const double *__restrict__ x, double *__restrict__ y, int n) {
  const double a = 1, b = 2;
  double *c = y + (1 + n);
  for (int i = 0; i < n; i++) {
    const double d = a * i;
    const double e = d + c[0];
    c[i] = e;
  }
  const double f = b;
  y[0] = f;
}
"""


def test_live_values_by_hand():
    # At the line of e: a and c, which the next turn of the loop needs, b, i and d.
    assert live_values(TEXT, "k") == 5


def test_arrays_count_with_all_their_elements():
    text = TEXT.replace(
        "const double f = b;", "double f[7] = {b}, g = 0, h[3];\n  f[0] += g + h[0];"
    )
    assert live_values(text, "k") == 11


def test_the_remarks_of_the_compiler_are_understood():
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     40 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 255 registers, used 0 barriers, 40 bytes cumulative stack size\n"
        "ptxas info    : Compiling entry function 'other' for 'sm_90'\n"
        "ptxas info    : Function properties for other\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 8 registers\n"
    )
    assert list(usages(log)) == [Usage("k", 255, 40, 24), Usage("other", 8, 0, 0)]


def test_spills_are_noticed(python, tmp_path):
    # 160 numbers that are all needed at the end do not fit into 255 registers of 4 bytes.
    names = [f"v{n}" for n in range(160)]
    reads = "\n".join(f"  const double {name} = x[{n} * n];" for n, name in enumerate(names))
    sums = "\n".join(f"  y[{n}] = {name} * total;" for n, name in enumerate(names))
    reads += f"\n  const double total = {' + '.join(names)};"
    head = 'extern "C" __global__ void k(const volatile double *x, double *y, int n) {\n'
    (tmp_path / "k.cu").write_text(f"// k fast=0\n{head}{reads}\n{sums}\n}}\n")
    (wrong,) = judged(python, tmp_path, ["sm_90"])
    assert wrong.startswith("k spills ")


def test_rejected_texts_are_noticed(python, tmp_path):
    (tmp_path / "k.cu").write_text('// k fast=0\nextern "C" __global__ void k() { none = 1; }\n')
    with pytest.raises(AssertionError, match="texts are rejected"):
        compiled(python, tmp_path, ["sm_90"])
