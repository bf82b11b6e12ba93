"""How the CUDA driver compiles, keeps and launches kernels: its calls of CuPy."""

# Fixtures are imported by name.
# ruff: noqa: F811

from __future__ import annotations

import ctypes
import stat

import numpy as np
import pytest

from distarray.backends import cuda, nvrtc
from distarray.backends.driver import KernelText, Parameters
from distarray.errors import BackendError
from tests.cuda_driver_tools import SCALE, _empty_cache, at, driver, fake  # noqa: F401
from tests.fake_cupy import CUDARuntimeError

# ---- kernels


def test_a_kernel_is_compiled_loaded_and_found_once(driver, fake):
    function = driver.load(SCALE)
    assert driver.load(SCALE) == function
    names = [call[0] for call in fake.calls if call[0] != "getVersion"]
    assert names == [
        "createProgram", "compileProgram", "destroyProgram", "moduleLoadData", "moduleGetFunction",
    ]  # fmt: skip
    assert fake.named("createProgram") == [("createProgram", "scale.cu", (), ())]
    options = fake.named("compileProgram")[0][1]
    assert options == (
        "--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--fmad=false",
        "--gpu-architecture=sm_90",
    )  # fmt: skip
    image = fake.named("moduleLoadData")[0][1]
    assert image.startswith(b"cubin")
    assert image.endswith(SCALE.text.encode())
    assert fake.named("moduleGetFunction")[0][2] == "scale"


def test_functions_of_one_text_share_its_module(driver, fake):
    second = KernelText(SCALE.text, "scale_combine", ())
    assert driver.load(SCALE) != driver.load(second)
    assert len(fake.named("moduleLoadData")) == 1
    assert {call[1] for call in fake.named("moduleGetFunction")} == {
        fake.named("moduleGetFunction")[0][1]
    }


def test_fast_kernels_are_contracted_and_kept_apart(driver, fake):
    driver.load(SCALE)
    driver.load(KernelText(SCALE.text, SCALE.symbol, SCALE.parameters, fast=True))
    plain, fast = (call[1] for call in fake.named("compileProgram"))
    assert "--fmad=false" in plain
    assert "--fmad=true" in fast
    assert {"--fmad=true", "--fmad=false"} - set(fast) == {"--fmad=false"}
    assert len(fake.named("moduleLoadData")) == 2


def test_other_processes_find_the_code_in_the_cache(driver, fake, tmp_path):
    driver.load(SCALE)
    image = fake.named("moduleLoadData")[0][1]
    entries = list((tmp_path / "kernels").glob("*.cubin"))
    assert len(entries) == 1
    assert stat.S_IMODE((tmp_path / "kernels").stat().st_mode) == 0o700
    fake.calls.clear()
    cuda.CudaDriver(0).load(SCALE)
    assert not fake.named("compileProgram")
    assert fake.named("moduleLoadData") == [("moduleLoadData", image)]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: b"x" + data, lambda data: b""]
)
def test_a_damaged_entry_counts_as_absent(driver, fake, tmp_path, damage):
    driver.load(SCALE)
    image = fake.named("moduleLoadData")[0][1]
    (entry,) = (tmp_path / "kernels").glob("*.cubin")
    entry.write_bytes(damage(entry.read_bytes()))
    cuda.CudaDriver(0).load(SCALE)
    assert len(fake.named("compileProgram")) == 2
    assert fake.named("moduleLoadData")[1] == ("moduleLoadData", image)
    assert entry.read_bytes().startswith(image)


@pytest.mark.parametrize("change", ["text", "version", "architecture"])
def test_what_the_code_depends_on_is_in_the_name_of_the_entry(fake, change):
    rtc = fake.cuda.nvrtc
    nvrtc.machine_code(rtc, SCALE, 90)
    if change == "version":
        rtc.version = (12, 8)
    kernel = KernelText("other", "scale", ()) if change == "text" else SCALE
    nvrtc.machine_code(rtc, kernel, 80 if change == "architecture" else 90)
    assert len(fake.named("compileProgram")) == 2


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        (90, "sm_90"),
        (86, "sm_86"),
        (89, "sm_86"),
        (103, "sm_100"),
        (120, "compute_100"),
        (52, "sm_50"),
    ],
)
def test_the_target_for_a_gpu(capability, target):
    assert nvrtc.target(capability, (50, 80, 86, 90, 100)) == target


def test_a_gpu_of_an_unknown_generation_gets_intermediate_code(fake):
    assert nvrtc.machine_code(fake.cuda.nvrtc, SCALE, 120).startswith(b"ptx")


def test_a_gpu_that_is_too_old_is_a_backend_error():
    with pytest.raises(BackendError) as error:
        nvrtc.target(70, (75, 80))
    assert str(error.value) == (
        "NVRTC makes no code for GPUs of compute capability 7.0 any more, only from 7.5 on; "
        "install the extra for an older CUDA."
    )


def test_a_text_that_does_not_compile_is_a_backend_error_with_the_reason(driver, fake, tmp_path):
    fake.refuse["compileProgram"] = [RuntimeError("NVRTC_ERROR_COMPILATION (6)")]
    fake.cuda.nvrtc.log = "scale.cu(1): error: expected a thing\n\n1 error detected.\n"
    with pytest.raises(BackendError) as error:
        driver.load(SCALE)
    assert str(error.value) == (
        "NVRTC rejected the generated CUDA text of scale (NVRTC_ERROR_COMPILATION (6)): "
        "scale.cu(1): error: expected a thing | 1 error detected; clear the cache if CUDA was "
        "updated, else report the text, kernel.source('cuda')."
    )
    assert fake.named("destroyProgram")
    assert not list((tmp_path / "kernels").glob("*.cubin"))


def test_a_module_that_is_refused_is_a_backend_error(driver, fake):
    fake.refuse["moduleLoadData"] = [CUDARuntimeError(200)]
    with pytest.raises(BackendError, match="GPU 2 failed at loading kernel scale, or in work"):
        driver.load(SCALE)


def test_a_launch_hands_over_addresses_of_the_present_values(driver, fake):
    function = driver.load(SCALE)
    pointer, factor = np.array([0x1000], np.uint64), np.array([2.5])
    parameters = Parameters([pointer, factor])
    fake.calls.clear()
    driver.launch(function, (7, 2, 1), (32, 4, 1), parameters, driver.communication, (), "scale")
    ((name, *arguments),) = fake.calls
    assert name == "launchKernel"
    stream = driver.communication.pointer
    assert arguments == [function, (7, 2, 1), (32, 4, 1), 0, stream, parameters.pointer, 0]
    table = (ctypes.c_void_p * 2).from_address(parameters.pointer)
    parameters.values[1][0] = 3.5
    assert ctypes.c_uint64.from_address(table[0]).value == 0x1000
    assert ctypes.c_double.from_address(table[1]).value == 3.5


def test_a_launch_that_is_refused_names_the_kernel(driver, fake):
    fake.refuse["launchKernel"] = [CUDARuntimeError(1)]
    with pytest.raises(BackendError) as error:
        driver.launch(1, (0, 1, 1), (32, 1, 1), Parameters([]), driver.compute, (), "diffuse")
    assert str(error.value) == (
        "GPU 2 failed at launching diffuse (grid (0, 1, 1), block (32, 1, 1)), or in work given "
        "before: cudaError1: made up; set CUDA_LAUNCH_BLOCKING=1 to find the call."
    )


def test_python_functions_are_refused(driver):
    with pytest.raises(BackendError, match="A GPU cannot run the Python function f; give it a ker"):
        driver.call(lambda: None, driver.compute, (), "f")


# ---- recorded texts


def test_compiled_texts_are_recorded_once(fake, tmp_path, monkeypatch):
    folder = tmp_path / "recorded"
    monkeypatch.setenv("DISTARRAY_RECORD_KERNELS", str(folder))
    fast = KernelText(SCALE.text, "scale", (), fast=True)
    for kernel in (SCALE, fast, SCALE):
        nvrtc.machine_code(fake.cuda.nvrtc, kernel, 90)
    texts = sorted(path.read_text() for path in folder.glob("*.cu"))
    assert texts == [f"// scale fast=0\n{SCALE.text}", f"// scale fast=1\n{SCALE.text}"]


def test_nothing_is_recorded_unless_asked_for(fake, tmp_path, monkeypatch):
    monkeypatch.delenv("DISTARRAY_RECORD_KERNELS", raising=False)
    nvrtc.machine_code(fake.cuda.nvrtc, SCALE, 90)
    assert not list(tmp_path.rglob("*.cu"))
