"""What is said where no GPU can be used, and which GPU is taken where there are some."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import distarray as da
from distarray import spans
from distarray.backends import cuda, nvidia
from distarray.errors import BackendError
from distarray.launcher import OnNode, on_node
from tests.fake_cupy import FakeCupy, FakeLibrary
from tests.harness import ROOT


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Nothing is known of this machine, and no CuPy is installed unless a test says so."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    caches = (nvidia.look, nvidia.library, cuda.available, cuda.driver)
    for function in caches:
        function.cache_clear()
    yield
    spans.show_ranges(None)
    for function in caches:
        function.cache_clear()


def use(monkeypatch, library=None, cupy=None):
    """Have this driver's library, or none, and this CuPy."""
    if library is None:
        monkeypatch.setattr(nvidia, "LIBRARY", "libcuda-absent.so.1")
    else:
        monkeypatch.setattr(nvidia, "library", lambda: library)
    if cupy is not None:
        cupy.install(monkeypatch)


def test_no_driver(monkeypatch):
    use(monkeypatch)
    works, why = cuda.available()
    assert not works
    assert why.startswith("device='cuda' needs a GPU, and no NVIDIA driver can be loaded (libcuda-")
    assert why.endswith("); install the driver or use 'cpu'.")


def test_a_driver_that_does_not_start(monkeypatch):
    use(monkeypatch, FakeLibrary(status=100))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cuda.available() == (
        False,
        "device='cuda' needs a GPU, and the NVIDIA driver offers none (CUDA_ERROR_NO_DEVICE, "
        "CUDA_VISIBLE_DEVICES=''); see what nvidia-smi reports or use 'cpu'.",
    )


def test_a_status_without_a_name(monkeypatch):
    use(monkeypatch, FakeLibrary(status=803))
    assert "offers none (error 803); see" in cuda.available()[1]


def test_no_device(monkeypatch):
    use(monkeypatch, FakeLibrary(devices=0))
    assert cuda.available() == (
        False,
        "device='cuda' needs a GPU, and the NVIDIA driver offers none; see what nvidia-smi reports "
        "or use 'cpu'.",
    )


def test_an_old_driver(monkeypatch):
    use(monkeypatch, FakeLibrary(cuda=11080))
    assert cuda.available()[1] == (
        "device='cuda' needs a GPU, and the NVIDIA driver supports CUDA 11.8, older than 12.0; "
        "install a newer driver or use 'cpu'."
    )


@pytest.mark.parametrize(
    ("version", "shown", "extra"),
    [(12040, "12.4", "cuda12"), (13010, "13.1", "cuda13"), (14000, "14.0", "cuda13")],
)
def test_no_cupy_names_the_extra_for_the_driver(monkeypatch, version, shown, extra):
    use(monkeypatch, FakeLibrary(cuda=version))
    assert cuda.available()[1] == (
        f"device='cuda' needs CuPy, which is not installed; install the extra {extra} (in a clone: "
        f"pip install '.[{extra}]'); the driver is for CUDA {shown}."
    )


def test_a_cupy_that_cannot_be_imported(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('libfoo.so: gone')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy")
    use(monkeypatch, FakeLibrary())
    assert cuda.available()[1] == (
        "device='cuda' needs CuPy, which cannot be imported (libfoo.so: gone); install the "
        "extra cuda12 (in a clone: pip install '.[cuda12]')."
    )


def test_cupy_is_not_imported_without_a_driver(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy")
    use(monkeypatch)
    assert "imported" not in cuda.available()[1]


def test_an_old_cupy(monkeypatch):
    use(monkeypatch, FakeLibrary(), FakeCupy(version="13.6.0"))
    assert cuda.available()[1] == (
        "device='cuda' needs CuPy 14 or newer, and this is 13.6.0; install the "
        "extra cuda12 (in a clone: pip install '.[cuda12]')."
    )


def test_a_cupy_for_a_newer_cuda_than_the_driver(monkeypatch):
    use(monkeypatch, FakeLibrary(cuda=12040), FakeCupy(runtime_version=13020))
    assert cuda.available()[1] == (
        "device='cuda' needs a driver for CUDA 13, for which the installed CuPy is made, and this "
        "one is for CUDA 12.4; install the extra cuda12 (in a clone: pip install "
        "'.[cuda12]') instead of it."
    )


def test_no_compiler_library(monkeypatch):
    fake = FakeCupy()
    fake.refuse["getVersion"] = [RuntimeError("libnvrtc.so.12 is not there")]
    use(monkeypatch, FakeLibrary(), fake)
    assert cuda.available()[1] == (
        "device='cuda' needs NVRTC, which cannot be loaded (libnvrtc.so.12 is not there); "
        "install the extra cuda12 (in a clone: pip install '.[cuda12]')."
    )


def test_an_older_cupy_than_the_driver_works(monkeypatch):
    use(monkeypatch, FakeLibrary(cuda=13010), FakeCupy(runtime_version=12090))
    assert cuda.available() == (True, "")


def test_errors_only_where_cuda_was_asked_for(monkeypatch):
    monkeypatch.setenv("DISTARRAY_DEVICE", "auto")
    use(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert da.Grid((8, 8), device="auto").device == "cpu"
    with pytest.raises(BackendError, match=r"device='cuda' needs a GPU, and no NVIDIA driver"):
        da.Grid((8, 8), device="cuda")


def test_the_cpu_loads_no_cupy():
    code = (
        "import sys, distarray as da; da.Grid((8, 8)); "
        "assert 'cupy' not in sys.modules and 'mpi4py.MPI' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


# ---- which GPU


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, OnNode(3, 4)),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, OnNode(1, 2)),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, OnNode(1, 2)),
        ({"PALS_LOCAL_RANKID": "5"}, OnNode(5, 0)),
        ({"FLUX_TASK_LOCAL_ID": "2"}, OnNode(2, 0)),
        ({"SLURM_LOCALID": "2", "SLURM_NTASKS_PER_NODE": "8"}, OnNode(2, 8)),
        # mpirun inside a batch job: what started the process counts.
        ({"SLURM_LOCALID": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}, OnNode(3, 0)),
        ({"SLURM_LOCALID": "none"}, None),
    ],
)
def test_the_rank_on_the_node(variables, expected):
    assert on_node(variables) == expected


@pytest.mark.parametrize(
    ("count", "ranks", "index"),
    [
        (8, None, 0),
        (8, OnNode(5, 8), 5),
        (8, OnNode(5, 0), 5),
        (2, OnNode(0, 0), 0),
        (1, OnNode(0, 1), 0),
    ],
)
def test_one_gpu_for_each_rank_is_nothing_to_say(count, ranks, index):
    assert nvidia.choose(count, ranks, {}) == nvidia.GpuChoice(index, "")


@pytest.mark.parametrize(
    ("count", "ranks", "index", "number"),
    [(2, OnNode(3, 4), 1, 4), (1, OnNode(0, 4), 0, 4), (2, OnNode(2, 0), 0, 3)],
)
def test_sharing_is_a_warning(count, ranks, index, number):
    choice = nvidia.choose(count, ranks, {})
    assert choice.index == index
    assert choice.warning == (
        f"{number} or more ranks of a node share {count} GPU{'s' if count > 1 else ''} and take "
        "turns on them; start one rank for each GPU."
    )


def test_one_visible_gpu_for_each_rank_is_a_warning():
    choice = nvidia.choose(1, OnNode(2, 4), {"CUDA_VISIBLE_DEVICES": "2"})
    assert choice.index == 0
    assert choice.warning.startswith("Each rank sees one GPU only (CUDA_VISIBLE_DEVICES=2): ")
    assert choice.warning.endswith("for example by srun --gpu-bind=none.")


def test_the_driver_is_that_of_the_rank_and_warns_once(monkeypatch):
    fake = FakeCupy()
    use(monkeypatch, FakeLibrary(devices=2), fake)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3")
    with pytest.warns(RuntimeWarning, match="4 or more ranks of a node share 2 GPUs"):
        driver = cuda.driver()
    assert driver.index == 1
    assert fake.calls.index(("setDevice", 1)) < fake.calls.index(("memGetInfo",))
    assert cuda.driver() is driver


def test_ranks_other_than_the_first_do_not_repeat_the_warning(monkeypatch):
    use(monkeypatch, FakeLibrary(devices=1), FakeCupy())
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cuda.driver().index == 0


@pytest.mark.parametrize(("value", "warned"), [("1", True), ("0", False), (None, False)])
def test_default_streams_without_an_order_are_warned_of(monkeypatch, value, warned):
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    name = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)
    use(monkeypatch, FakeLibrary(), FakeCupy())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        cuda.driver()
    expected = (
        f"{name}=1 lets CuPy work in streams that are not ordered with this library's; wait for "
        "the device between its work and yours, or unset the variable."
    )
    assert [str(one.message) for one in found] == [expected] * warned


def test_work_is_shown_as_ranges_once_there_is_a_driver(monkeypatch):
    """Nested as it is, by its name and that of the kernel; `exchange` overlaps other work."""
    fake = FakeCupy()
    use(monkeypatch, FakeLibrary(), fake)
    core, exchange = spans.tally("core", "heat"), spans.tally("exchange")
    with spans.span("before"):
        cuda.driver()
    with spans.span("write", "save"):
        under_way = spans.enter(exchange)
        start = spans.enter(core)
        spans.leave(exchange, under_way)
        spans.leave(core, start)
    assert fake.nvtx.noted == [
        "push write save", "start exchange", "push core heat", "end exchange", "pop core heat",
        "pop write save",
    ]  # fmt: skip


def test_work_that_an_error_ended_is_no_range_of_what_follows(monkeypatch):
    fake = FakeCupy()
    use(monkeypatch, FakeLibrary(), fake)
    cuda.driver()
    with spans.span("write"):
        spans.enter(spans.tally("core"))
    with spans.span("read"):
        pass
    assert fake.nvtx.noted == [
        "push write", "push core", "pop core", "pop write", "push read", "pop read"
    ]  # fmt: skip


def test_a_cupy_without_ranges_shows_none(monkeypatch):
    fake = FakeCupy()
    fake.nvtx.available = False
    use(monkeypatch, FakeLibrary(), fake)
    cuda.driver()
    with spans.span("write"):
        pass
    assert fake.nvtx.noted == []
