"""What CUDA text says: what it loads, how it addresses memory, and how points are dealt out."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import distarray as da
from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil import cuda, language, tracing
from distarray.stencil.cuda import packing, tiles
from tests.kernel_cases import Case, diffuse, parameter, profile, several


def traced(function, parameters, kinds=None, *, ndim=3, **options):
    return tracing.trace(function, parameters, kinds or {}, {}, ndim=ndim, **options)


def diffusion(dtype="f8", **options):
    arrays = [parameter("u", dtype, ndim=3), parameter("new", dtype, ndim=3)]
    return cuda.generate(traced(diffuse, arrays, {"r": float}), **options)


def body_of(code):
    """The kernel's function without what stands above it."""
    return code.kernel.text[code.kernel.text.index('extern "C"') :]


def step_of(code):
    """What a thread does for each point as it goes along axis 0."""
    return body_of(code).partition("for (index_t i = first")[2]


# ---- what is loaded


def test_seven_points_move_each_array_once():
    """A point costs one load that no thread made before, along axis 0; the four neighbours in the
    plane were loaded by the threads around as they came to this plane, one step ago, and are in the
    cache; the point itself and the one before are in variables. One store follows.
    """
    code = diffusion()
    loads = re.findall(r"[^_]u\[([^]]*)\]", step_of(code))
    assert loads == ["u_s0", "u_s1", "-u_s1", "1", "-1"]
    assert re.findall(r"(\w+)\[\w*\] = ", step_of(code)) == ["new_2"]
    before = body_of(code).partition("for (index_t i = first")[0]
    assert re.findall(r"[^_]u\[([^]]*)\]", before) == ["-u_s0", "0"]


def test_values_are_handed_on_from_step_to_step():
    lines = [line.strip() for line in step_of(diffusion()).splitlines()]
    assert lines.index("u_m1 = u_0;") + 1 == lines.index("u_0 = u_p1;")


def loads_of_columns(offsets, **options):
    """Loads of each step of a kernel that adds an array's values at these offsets of axis 0."""

    def kernel(u, new):
        new[0, 0, 0] = sum(u[offset, 0, 0] for offset in offsets)

    arrays = [parameter("u", ndim=3), parameter("new", ndim=3)]
    code = cuda.generate(traced(kernel, arrays, **options))
    return len(re.findall(r"[^_]u\[", step_of(code)))


@pytest.mark.parametrize(
    ("offsets", "loads"),
    [((-1, 0, 1), 1), ((-1, 1), 1), ((-4, 4), 2), ((0,), 1), (tuple(range(-4, 5)), 1)],
)
def test_columns_are_kept_where_most_of_their_values_are_used(offsets, loads):
    assert loads_of_columns(offsets) == loads


def test_two_colours_keep_no_columns():
    def kernel(u):
        u[0, 0, 0] = u[1, 0, 0] + u[-1, 0, 0]

    code = cuda.generate(traced(kernel, [parameter("u", ndim=3)], colours=2))
    assert len(re.findall(r"= u\[|\+ u\[", step_of(code))) == 2


def test_columns_take_a_bounded_part_of_the_registers():
    def kernel(U, new):
        new[0, 0, 0] = sum(U[c][offset, 0, 0] for c in range(20) for offset in (-2, -1, 0, 1, 2))

    arrays = [parameter("U", components=(20,), ndim=3), parameter("new", ndim=3)]
    body = body_of(cuda.generate(traced(kernel, arrays)))
    declared = re.findall(r"^ +double (U\w+(?:, U\w+)*);", body, re.MULTILINE)
    assert len(declared) == 24 // 5  # columns of five values among 24 variables


def test_what_is_read_twice_is_loaded_once():
    def kernel(u, new):
        new[0, 0] = u[0, 1] * np.sqrt(u[0, 1])

    code = cuda.generate(traced(kernel, [parameter("u"), parameter("new")], ndim=2))
    assert body_of(code).count("u[1]") == 1


# ---- how memory is addressed


def test_neighbouring_threads_are_neighbours_along_the_last_axis():
    """Only the index along the last axis, whose stride is 1, depends on the thread's lane."""
    body = body_of(diffusion())
    (last,) = re.findall(r"const index_t k = (.*);", body)
    assert last.endswith("(index_t)(threadIdx.x & ((1 << shift) - 1))")
    assert body.count("threadIdx.x & ") == 1
    assert "u_origin + (i * u_s0 + j * u_s1 + k)" in body


def test_pointers_promise_that_nothing_else_writes():
    body = body_of(diffusion())
    assert "const double *__restrict__ u_origin" in body
    assert "double *__restrict__ new_2_origin" in body
    assert "const union scalar *__restrict__ scalars" in body
    aliased = diffusion(aliased=True).kernel.text
    assert "const double *u_origin" in aliased
    assert "*__restrict__ new_2_origin" not in aliased


def test_parameters_are_named_by_their_types():
    def kernel(z, p, flag, *, r):
        flag[0, 0] = z[0, 0].real > p[0] * language.coordinate(0) + language.index(1) + r
        return language.reduce.sum(p[0])

    arrays = [parameter("z", "c8"), profile("p", 1), parameter("flag", "?")]
    code = cuda.generate(traced(kernel, arrays, {"r": float}, ndim=2))
    assert code.kernel.parameters == (
        *("const complex64 *", "const double *", "uint8_t *"),
        *("const double *", "const int64_t *"),
        *("const union scalar *", "struct layout", "struct launch", "union number *"),
    )
    assert code.tables == (("coordinate", 0, False), ("index", 1, False))
    assert code.masked.parameters == code.kernel.parameters
    assert code.combine.parameters == ("union number *", "union number *", "struct combine")


def test_indices_have_32_bits_where_they_suffice():
    assert "typedef int index_t;" in diffusion().kernel.text
    assert "typedef int64_t index_t;" in diffusion(wide=True).kernel.text


@pytest.mark.parametrize(
    ("shape", "strides", "needed"),
    [
        ((1280, 1280, 1280), (1280**2, 1280, 1), False),
        ((1291, 1291, 1291), (1291**2, 1291, 1), True),
        ((2, 3), (-(2**31), 1), True),
        ((2**40, 3), (0, 1), False),
        ((), (), False),
    ],
)
def test_wide_arrays_are_those_of_about_two_to_the_31_elements(shape, strides, needed):
    assert packing.wide([((4,), (1,)), (shape, strides)]) == needed


def test_the_last_axis_has_a_stride_only_if_it_needs_one():
    assert "u_s2" not in diffusion().kernel.text
    assert "u[u_s2]" in body_of(diffusion(strided=True))


def test_words_of_cpp_are_no_names():
    def kernel(new, this, *, template, blockIdx):
        new[0] = this[0] * template + blockIdx

    arrays = [parameter("new", ndim=1), parameter("this", ndim=1)]
    case = Case(kernel, arrays, (30,), scalars={"template": 2.0, "blockIdx": 3.0}, special=False)
    case.way = "cuda"
    case.agree()


def test_signed_integers_are_added_where_overflow_is_defined():
    def kernel(a, new):
        new[0] = -(a[0] + a[1]) * a[0] - a[1]

    for dtype, helpers in (("i4", 4), ("i8", 4), ("u4", 0), ("i2", 0), ("f8", 0)):
        arrays = [parameter("a", dtype, ndim=1), parameter("new", dtype, ndim=1)]
        body = body_of(cuda.generate(traced(kernel, arrays, ndim=1)))
        assert len(re.findall(r"wrapped_\w+\(", body)) == helpers


def test_nothing_needs_threads_to_meet():
    def kernel(u):
        return language.reduce.sum(u[0]), language.reduce.sum(u[0], reproducible=True)

    code = cuda.generate(traced(kernel, [parameter("u", ndim=1)], ndim=1))
    for text in (code.kernel.text, code.masked.text, code.combine.text):
        assert not re.search(r"__shared__|__sync|atomic|__shfl|#include", text)


def test_equal_programs_share_their_text():
    assert diffusion() is diffusion()
    assert diffusion(wide=True) is not diffusion()


def test_kernels_show_their_cuda_text():
    kernel = da.stencil(diffuse)
    grid = da.Grid((4, 5, 6), device="cpu")
    text = kernel.source("cuda", grid.zeros(np.float32), grid.zeros(np.float32))
    assert 'extern "C" __global__ void kernel_diffuse(' in text
    assert "const float *__restrict__ u_origin" in text


# ---- how points are dealt out


def counting(ndim, colours=1):
    """A kernel that adds 1 at each point."""

    def kernel(count):
        count[(0,) * ndim] = count[(0,) * ndim] + 1

    return kernel, [parameter("count", "i4", ndim=ndim)], {"colours": colours}


SHAPES = [
    *((1,), (255,), (257,), (5000,), (1, 1), (3, 400), (400, 3), (65, 129)),
    *((4, 5, 6), (9, 33, 70), (20, 1, 300), (2, 300, 1), (3, 2, 4, 37), (2, 2, 2, 2, 2)),
]


@pytest.mark.parametrize("enough", [1, 10**6])
@pytest.mark.parametrize("colours", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_point_is_computed_once(shape, colours, enough, monkeypatch):
    """With as many steps a thread as there may be, and with one."""
    monkeypatch.setattr(packing, "ENOUGH_TILES", enough)
    function, parameters, options = counting(len(shape), colours)
    case = Case(function, parameters, shape, **options)
    case.views[0].memory[...] = 0
    launch = case.bound("cuda", case.views)
    box = Box((-1,) * len(shape), tuple(n + 1 for n in shape))
    for colour in range(colours):
        launch.run(box, colour=colour)
    count = case.views[0].memory
    inner = (slice(1, -1),) * len(shape)
    assert (count[inner] == 1).all()
    assert count.sum() == count[inner].size


def test_all_boxes_of_a_remainder_are_one_launch():
    shape = (20, 21, 22)
    slabs = Box.of_shape(shape).difference(Box((1, 1, 1), (19, 20, 21)))
    launches = packing.launches(diffusion(), [(slab, -1) for slab in slabs], (0, 0, 0))
    assert len(slabs) == 6
    assert len(launches) == 1


def test_boxes_without_work_are_left_out():
    code = cuda.generate(traced(several, [parameter(n) for n in "uvwp"], ndim=2))
    empty, box = Box((0, 0), (0, 4)), Box((0, 0), (3, 4))
    assert packing.launches(code, [(empty, -1), (box, 0)], (0, 0)) == []
    (launch,) = packing.launches(code, [(empty, -1), (box, -1)], (0, 0))
    assert launch.kernel is code.kernel
    (launch,) = packing.launches(code, [(box, -1), (box, 0b101)], (0, 0))
    assert launch.kernel is code.masked


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_what_is_handed_by_value_fits_every_driver(ndim):
    """4096 bytes are the limit of all parameters together."""
    assert tiles.launch_dtype(ndim, True).itemsize < 4096 - 512


def test_rows_are_dealt_out_by_whole_lines():
    """Tiles begin where a line of memory does if the box does not."""
    code = diffusion()
    values = packing.launches(code, [(Box((1, 1, 1), (63, 63, 63)), -1)], (0, 0, 0))[0].values
    launch = values.view(tiles.launch_dtype(3, False))[0]
    assert launch["boxes"][0]["first"] == 0
    assert launch["boxes"][0]["begin"].tolist() == [1, 1, 1]


def test_blocks_are_as_many_as_tiles_need():
    """At 512^3 each thread goes 16 steps, so that axis 0 costs 2 loads in 16 more."""
    (launch,) = packing.launches(diffusion(), [(Box.of_shape((512,) * 3), -1)], (0, 0, 0))
    assert launch.grid == (512 // 16 * (512 // 8) * (512 // 32), 1, 1)
    assert launch.block == (256, 1, 1)


def test_states_of_reductions_stay_few():
    """However large the array, threads that leave a state are bounded, and so is their memory."""

    def kernel(u):
        return language.reduce.sum(u[0, 0, 0]), language.reduce.sum(u[0, 0, 0], reproducible=True)

    code = cuda.generate(traced(kernel, [parameter("u", ndim=3)]))
    launches = packing.launches(code, [(Box.of_shape((2048,) * 3), -1)], (0, 0, 0))
    assert max(launch.scratch for launch in launches) * 8 < 64 << 20
    assert len(launches) == 4
    assert all(launch.kernel is code.combine for launch in launches[1:])
    sources = [launch.values.view(np.int64)[1] for launch in launches[1:]]
    assert all(a <= 64 * b for a, b in itertools.pairwise([*sources, 1]))


def many(count, ndim=3):
    """A kernel of so many arrays."""
    names = [f"a{n}" for n in range(count)]
    text = f"def total({', '.join(names)}):\n    a0[{', '.join('0' * ndim)}] = "
    text += " + ".join(f"{name}[{', '.join('0' * ndim)}]" for name in names[1:])
    found = {}
    exec(text, found)
    return traced(found["total"], [parameter(name, "f8", ndim=ndim) for name in names], ndim=ndim)


@pytest.mark.parametrize("options", [{}, {"wide": True}, {"strided": True}])
def test_parameters_beyond_what_cuda_takes_are_refused(options):
    """As C lays them out: 8 bytes for a pointer or a stride, and `struct launch`."""
    launch = 24 + 4 * 4 + 32 * (8 + 2 * 3 * 4 + 3 * 4 + 4)  # each box ends with padding
    if options.get("wide"):
        launch = 24 + 8 + 3 * 4 + 4 + 32 * (8 + 2 * 3 * 8 + 8 + 2 * 4)
    each = 8 * (1 + (3 if options.get("strided") else 2))
    most = (4096 - launch - 8) // each
    assert len(cuda.generate(many(most), **options).kernel.parameters) == most + 3
    with pytest.raises(StencilError) as error:
        cuda.generate(many(most + 1), **options)
    assert str(error.value) == (
        f"Kernel total with {most + 1} arrays takes {launch + 8 + each * (most + 1)} bytes of "
        "parameters on a GPU, which takes 4096; use fewer arrays, as by components of one, or "
        "several kernels."
    )
