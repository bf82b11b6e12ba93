"""The CPU's memory, copies and compiler cache."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from distarray.backends import native, processor
from distarray.backends.base import BoxCopy
from distarray.backends.copies import _pairs
from distarray.backends.cpu import CpuBackend, padded_strides
from distarray.errors import BackendError

DOUBLE = """#include <stdint.h>
void twice(double *x, int64_t n) { for (int64_t i = 0; i < n; i++) x[i] *= 2; }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache and a module that has loaded nothing yet."""
    chosen = tmp_path / "cache"
    monkeypatch.setenv("DISTARRAY_CACHE", str(chosen))
    _forget()
    yield chosen
    _forget()


def _forget():
    for function in (native._library, native.toolchain, native._checked, native._temporary):
        function.cache_clear()


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i1", "?"])
@pytest.mark.parametrize(
    ("components", "shape", "halo"),
    [
        ((), (7,), (2,)),
        ((3,), (5, 9), (1, 1)),
        ((2, 2), (4, 6, 34), (1, 2, 3)),
        ((), (0, 5), (0, 0)),
        ((), (1, 1, 1), (0, 0, 0)),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_allocated_rows_are_zero_and_contiguous_and_the_owned_part_starts_a_cache_line(
    components, shape, halo, dtype, wide, monkeypatch
):
    monkeypatch.setattr(processor, "fills_lines", lambda: wide)
    memory = CpuBackend().allocate(components, shape, halo, np.dtype(dtype))
    assert memory.shape == components + shape
    assert memory.dtype == dtype
    assert not memory.any()
    assert memory.strides[-1] == memory.itemsize
    if memory.size:
        rows = memory.reshape(-1, shape[-1]) if memory.ndim == 1 else memory[..., 0].ravel()
        assert rows.size
        begin = halo[-1] * memory.itemsize  # of the owned part
        assert (memory.ctypes.data + begin) % 64 == 0
        assert not wide or all(stride % 64 == 0 for stride in memory.strides[:-1])


def test_elements_of_an_allocation_are_distinct():
    memory = CpuBackend().allocate((2,), (5, 130, 3), (1, 1, 1), np.dtype("f8"))
    values = np.arange(memory.size).reshape(memory.shape)
    memory[...] = values
    np.testing.assert_array_equal(memory, values)


@pytest.mark.parametrize("wide", [False, True])
def test_planes_of_powers_of_two_do_not_start_at_one_place_of_a_page(wide, monkeypatch):
    monkeypatch.setattr(processor, "fills_lines", lambda: wide)
    strides = padded_strides((4,), (256, 256, 256), 8)
    assert all(1024 <= stride % 4096 <= 3072 for stride in strides[:2])
    assert strides[2] // 64 % 2 == 1
    assert math.prod((4, 256, 256, 256)) * 8 * 1.1 > strides[0] * 4


def test_rows_of_short_vectors_follow_each_other(monkeypatch):
    monkeypatch.setattr(processor, "fills_lines", lambda: False)
    assert padded_strides((), (66, 66, 66), 8)[1] == 66 * 8
    monkeypatch.setattr(processor, "fills_lines", lambda: True)
    assert padded_strides((), (66, 66, 66), 8)[1] == 9 * 64


@pytest.mark.parametrize("shape", [(98, 98, 98), (66, 66, 66), (130, 130, 130), (258, 258)])
def test_many_components_start_all_over_a_page(shape):
    stride = padded_strides((19,), shape, 8)[0]
    lines = sorted(number * stride % 4096 // 64 for number in range(19))
    apart = np.diff([*lines, lines[0] + 64])
    assert apart.min() >= 2  # of 64 / 19 = 3.4 on the average


def test_buffer_is_writable_and_aligned():
    buffer = CpuBackend().buffer(100)
    assert buffer.nbytes == 100
    assert buffer.ctypes.data % 64 == 0
    buffer.view("u1")[:] = 1


def _copies(rng):
    """Pairs of views of many shapes and strides."""
    block = rng.random((3, 8, 9, 10))
    flat = np.zeros(4000)
    yield block[0, 1:3, :, :], flat[: 2 * 9 * 10].reshape(2, 9, 10)
    yield block[1, :, :, 9:], flat[200:272].reshape(8, 9, 1)
    yield block[2, :, ::2, 1:3], flat[300:380].reshape(8, 5, 2)
    yield block[:, ::-1, 3:4, :], np.zeros((3, 8, 1, 10))
    yield rng.random((2, 2, 3, 3, 2, 2))[..., ::-1], np.zeros((2, 2, 3, 3, 2, 4))[..., ::2]
    for kind in ("i1", "i2", "f4", "c16", "c8"):
        yield rng.integers(0, 99, (6, 7)).astype(kind)[1:4, 2:5], np.zeros((3, 3), kind)
    yield np.array(3.5), np.zeros(())
    yield np.zeros((0, 4)), np.zeros((0, 4))


@pytest.mark.parametrize("executor", ["", "numpy"])
def test_prepared_copies_copy_and_can_be_repeated(executor, monkeypatch):
    monkeypatch.setenv("DISTARRAY_EXECUTOR", executor)
    pairs = list(_copies(np.random.default_rng(1)))
    call = CpuBackend().prepare_copies([BoxCopy(source, target) for source, target in pairs])
    for _ in range(2):
        for _, target in pairs:
            target[...] = 0
        call()
        for source, target in pairs:
            np.testing.assert_array_equal(target, source)


def test_copies_are_carried_out_in_order():
    a, b, c = np.ones(4), np.zeros(4), np.zeros(4)
    CpuBackend().prepare_copies([BoxCopy(a, b), BoxCopy(b, c)])()
    assert c.tolist() == [1, 1, 1, 1]


def _faces(u, order):
    """The copies that fill the outermost layers of a periodic array, in some order."""
    copies = []
    for axis in range(u.ndim):
        for source, target in ((1, -1), (-2, 0)):
            inner = [slice(1, -1)] * u.ndim
            places = [
                [*inner[:axis], slice(n, n + 1 or None), *inner[axis + 1 :]]
                for n in (source, target)
            ]
            copies.append(BoxCopy(*(u[tuple(place)] for place in places)))
    return [copies[n] for n in order]


@pytest.mark.parametrize("order", [range(6), (5, 3, 1, 0, 2, 4), (4, 0, 5, 1, 2, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_opposite_faces_are_copied_together(order, dtype):
    u = CpuBackend().allocate((), (6, 7, 8), (1, 1, 1), np.dtype(dtype))
    inner = np.random.default_rng(2).random((4, 5, 6)).astype(dtype)
    u[1:-1, 1:-1, 1:-1] = inner
    copies = _faces(u, order)
    CpuBackend().prepare_copies(copies)()
    i = slice(1, -1)
    for axis in range(3):
        places = [i] * 3
        for layer, source in ((0, -1), (-1, 0)):
            places[axis] = layer
            np.testing.assert_array_equal(u[tuple(places)], inner.take(source, axis))
    assert sum(second is not None for _, second in _pairs(copies)) >= 1


def test_copies_that_depend_on_one_another_are_not_joined():
    a = np.arange(12.0).reshape(6, 2)[:, :1]
    copies = [BoxCopy(a[0:2], a[2:4]), BoxCopy(a[2:4], a[4:6])]
    assert [second for _, second in _pairs(copies)] == [None, None]
    CpuBackend().prepare_copies(copies)()
    assert a.ravel().tolist() == [0, 2, 0, 2, 0, 2]


def test_no_copies_is_a_call_too():
    CpuBackend().prepare_copies([])()


def test_copy_between_different_shapes_is_refused():
    with pytest.raises(
        BackendError, match=r"shape \(3,\), float64 to \(4,\), float64; both sides must agree"
    ):
        CpuBackend().prepare_copies([BoxCopy(np.zeros(3), np.zeros(4))])


def test_values_pass_between_host_and_cpu_unchanged():
    values = np.arange(3)
    assert CpuBackend().to_host(values) is values
    assert CpuBackend().asarray(values) is values


def _twice(load=native.load):
    values = np.arange(3.0)
    load(DOUBLE, "twice")(ctypes.c_void_p(values.ctypes.data), ctypes.c_int64(3))
    return values.tolist()


def test_compiled_function_runs_and_is_kept(folder):
    assert _twice() == [0, 2, 4]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    entries = sorted(folder.glob("*.so"))
    assert len(entries) == 1
    before = entries[0].stat().st_ino
    _forget()
    assert _twice() == [0, 2, 4]
    assert entries[0].stat().st_ino == before


@pytest.mark.parametrize("damage", [b"", b"\x7fELF garbage", None])
def test_damaged_entry_is_compiled_anew(folder, damage):
    _twice()
    (entry,) = folder.glob("*.so")
    content = entry.read_bytes()
    # A new file, as a crash would leave: the loaded library must not change under this process.
    entry.unlink()
    entry.write_bytes(
        content[: len(content) // 2] + content[len(content) // 2 + 1 :]
        if damage is None
        else damage
    )
    _forget()
    assert _twice() == [0, 2, 4]
    assert entry.stat().st_size == len(content)


def test_damaged_memory_of_the_compiler_is_renewed(folder):
    _twice()
    (known,) = folder.glob("compiler-*.json")
    known.write_text("{", encoding="utf-8")
    _forget()
    assert _twice() == [0, 2, 4]
    assert known.read_text(encoding="utf-8").startswith('{"command"')


def test_cache_writable_by_others_is_refused(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(
        BackendError,
        match=r"owned or writable by others .*mode 0777\); make it yours alone with chmod 700",
    ):
        native.load(DOUBLE, "twice")


def test_cache_owned_by_another_is_refused(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(native.os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(BackendError, match="owned or writable by others"):
        native.load(DOUBLE, "twice")


def test_text_that_does_not_compile_is_an_error_with_the_compilers_words(folder):
    with pytest.raises(BackendError, match=r"rejected generated C text: .*kernel\.c.*error"):
        native.load("int broken( {", "broken")
    assert not list(folder.glob(".build-*"))


def test_source_and_flags_are_part_of_the_key(folder):
    native.load(DOUBLE, "twice")
    native.load(DOUBLE, "twice", fast=True)
    native.load(DOUBLE + "\n", "twice")
    assert len(list(folder.glob("*.so"))) == 3


def test_no_flag_changes_the_floating_point_mode():
    for flag in (*native.FLAGS, *native.FAST_FLAGS, *native.NATIVE_FLAGS, *native.SIMD_FLAGS):
        assert flag not in ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")


def test_executor_numpy_loads_nothing(folder, monkeypatch):
    monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    assert native.load(DOUBLE, "twice") is None
    assert not folder.exists()


def test_no_compiler_is_one_warning_and_no_function(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(RuntimeWarning, match="no C compiler"):
        assert native.load(DOUBLE, "twice") is None
    assert native.load(DOUBLE + "\n", "twice") is None  # a second warning would be an error


def test_broken_compiler_is_passed_over(folder, tmp_path, monkeypatch):
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert _twice() == [0, 2, 4]
    assert str(broken) not in native.toolchain().command


def test_compiler_sees_the_users_variables_but_not_the_launchers(folder, tmp_path, monkeypatch):
    log, wrapper = tmp_path / "log", tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\nenv > {log}\nexec cc "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    for name in ("PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "PALS_RANKID"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("OMPI_CC", "gcc")  # what the mpicc of Open MPI calls
    monkeypatch.setenv("CC", str(wrapper))
    assert _twice() == [0, 2, 4]
    names = {line.split("=")[0] for line in log.read_text(encoding="utf-8").splitlines()}
    assert "OMPI_CC" in names
    assert not names & {"PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "PALS_RANKID"}


def test_processes_that_start_together_compile_once(folder, tmp_path):
    """A compiler that notes each use of a kernel's text is called once by four processes."""
    log, wrapper = tmp_path / "log", tmp_path / "cc"
    real = native.shutil.which("cc")
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *build*) echo "$*" >> {log};; esac\nexec {real} "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    code = (
        "from distarray.backends import native\n"
        f"assert native.load({DOUBLE + '// together'!r}, 'twice') is not None\n"
    )
    environment = {**os.environ, "CC": str(wrapper), "DISTARRAY_CACHE": str(folder)}
    root = Path(__file__).parent.parent
    children = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=root) for _ in range(4)
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]
    kernels = [
        line for line in log.read_text(encoding="utf-8").splitlines() if f"{folder}/.build-" in line
    ]
    assert len(kernels) == 1


def test_compiler_without_openmp_gives_one_note(folder, tmp_path, monkeypatch, capsys):
    wrapper = tmp_path / "cc"
    real = native.shutil.which("cc")
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *"-fopenmp "*) exit 1;; esac\nexec {real} "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert _twice() == [0, 2, 4]
    native.load(DOUBLE + "\n", "twice")
    assert capsys.readouterr().err.count("no OpenMP") == 1


def _script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_compiler_that_never_ends_is_passed_over_for_a_while(folder, tmp_path, monkeypatch, capsys):
    log = tmp_path / "log"
    monkeypatch.setenv("CC", _script(tmp_path / "cc", f"echo called >> {log}\nsleep 90"))
    monkeypatch.setattr(native, "TRIAL_SECONDS", 1.0)
    for _ in range(2):
        assert _twice() == [0, 2, 4]
        _forget()
    assert log.read_text(encoding="utf-8") == "called\n"
    assert capsys.readouterr().err.count("does not end and is passed over") == 1


def test_compiler_that_never_ends_with_a_kernel_is_an_error(folder, tmp_path, monkeypatch):
    text = 'case "$*" in *.trial-*) exec cc "$@";; esac\nsleep 90'
    monkeypatch.setenv("CC", _script(tmp_path / "cc", text))
    monkeypatch.setattr(native, "COMPILE_SECONDS", 1.0)
    with pytest.raises(BackendError, match=r"cc did not end within 1 s; set CC to another"):
        native.load(DOUBLE, "twice")


def test_cc_that_is_no_command_is_passed_over(folder, monkeypatch, capsys):
    monkeypatch.setenv("CC", "'gcc")
    assert _twice() == [0, 2, 4]
    assert "CC='gcc is no command (No closing quotation) and is passed over" in (
        capsys.readouterr().err
    )


def test_an_empty_choice_of_the_cache_is_none_and_a_relative_one_is_made_absolute(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DISTARRAY_CACHE", "")
    assert native.cache_folder() == tmp_path / "home" / "distarray"
    monkeypatch.setenv("DISTARRAY_CACHE", "kernels")
    assert native.cache_folder() == tmp_path / "kernels"
    _forget()
    assert _twice() == [0, 2, 4]
    _forget()


def test_memory_of_a_compiler_that_is_gone_is_renewed(folder):
    _twice()
    (known,) = folder.glob("compiler-*.json")
    whole = known.read_text(encoding="utf-8")
    known.write_text('{"command": ["/gone/cc"], "flags": [], "openmp": false}', encoding="utf-8")
    _forget()
    assert _twice() == [0, 2, 4]
    assert known.read_text(encoding="utf-8") == whole


def test_a_folder_in_an_entrys_place_is_a_miss(folder):
    _twice()
    (entry,) = folder.glob("*.so")
    entry.unlink()
    (entry / "inside").mkdir(parents=True)
    _forget()
    with pytest.warns(RuntimeWarning, match="are kept in a temporary folder"):
        assert _twice() == [0, 2, 4]


def test_a_temporary_folder_goes_with_the_process(tmp_path):
    """Whose cache cannot be used; a fork of the process leaves the folder alone."""
    program = (
        "import os\n"
        "from distarray.backends import native\n"
        "folder = native._temporary()\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "    assert folder.is_dir()\n"
    )
    chosen = os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=chosen, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("warm", [True, False])
def test_a_full_disk_is_one_warning_and_a_temporary_folder(folder, monkeypatch, warm):
    if warm:
        native.load(DOUBLE + "\n", "twice")
        _forget()
    whole = Path.write_text

    def write(path, text, **options):
        if folder in path.parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert _twice() == [0, 2, 4]
    native.load(DOUBLE + "// more", "twice")  # a second warning would be an error
