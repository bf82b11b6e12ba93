"""Transforms of distributed arrays: what scipy makes of the gathered values, and the same bits on
any process grid.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.fft
from mpi4py import MPI

import distarray as da
from tests.ranks.common import SIZE, process_grids, refused

RANKS = (1, 2, 3, 8)
SELDOM = (2, 8)
TIMEOUT = 120

#: Odd numbers of lines, and axes shorter than the number of ranks.
SHAPES = ((13,), (9, 10), (2, 35), (7, 6, 11), (3, 2, 5))
TRIGONOMETRIC = [
    (name, {"type": kind}) for name in ("dctn", "idctn", "dstn", "idstn") for kind in (1, 2, 3, 4)
]

#: Few cases and process grids where ranks are many: they share a few cores.
MANY = SIZE >= 8
if MANY:
    SHAPES, TRIGONOMETRIC = ((9, 10), (7, 6, 11)), TRIGONOMETRIC[::5]


def values(shape, dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.standard_normal(shape)
    return found.astype(dtype)


def spread(host, components=0):
    """The array over every process grid that fits, and on one rank."""
    grids = list(process_grids(host.ndim - components, host.shape[components:]))
    grids = grids[: 2 if MANY else None]
    for ranks in grids if components else [*grids, (1,) * host.ndim]:
        if components:
            grid = da.Grid(host.shape[components:], ranks=ranks)
            u = grid.empty(host.dtype, components=host.shape[:components])
            u[...] = host
        else:
            u = da.asarray(host, ranks=ranks)
        yield u


@functools.cache
def alone(name, shape, dtype, options):
    """What one rank makes of these values, and scipy."""
    host = values(shape, dtype)
    u = da.asarray(host, comm=MPI.COMM_SELF, device="cpu")
    expected = getattr(scipy.fft, name)(host, **dict(options))
    return getattr(da.fft, name)(u, **dict(options)).gather(), expected


def check(name, shape, dtype=np.float64, **options):
    found, expected = alone(name, shape, dtype, tuple(options.items()))
    assert found.dtype == expected.dtype
    largest = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=50 * np.finfo(found.dtype).eps * largest
    )
    for u in spread(values(shape, dtype)):
        result = getattr(da.fft, name)(u, **options)
        assert result.gather().tobytes() == found.tobytes(), (name, u, options)


def test_fourier_transforms():
    for shape in SHAPES:
        for name in ("fftn", "ifftn"):
            for dtype in (np.float64, np.complex128):
                check(name, shape, dtype)
        check("rfftn", shape)


def test_cosine_and_sine_transforms():
    for name, options in TRIGONOMETRIC:
        check(name, (7, 6, 11), **options)
        check(name, (2, 35), **options, norm="ortho")


def test_norms_axes_and_element_types():
    for norm in ("forward",) if MANY else ("backward", "ortho", "forward"):
        check("fftn", (9, 10), norm=norm)
        check("dctn", (9, 10), norm=norm)
    for axes in ((1,), (2, 0)) if MANY else ((0,), (1,), (2,), (2, 0), (-1, 1), (1, 0, 2)):
        for name in ("rfftn", "ifftn", "dstn"):
            check(name, (7, 6, 11), axes=axes)
    for dtype in (np.float32,) if MANY else (np.float32, np.complex64, np.int32):
        check("fftn", (9, 10), dtype)
    check("rfftn", (9, 10), np.float32)
    check("idctn", (9, 10), np.complex64, type=3)


def test_real_values_come_back():
    for dtype in (np.float32, np.float64):
        for shape in SHAPES:
            host = values(shape, dtype)
            found, eps = [], np.finfo(dtype).eps
            for u in spread(host):
                back = da.fft.irfftn(da.fft.rfftn(u), length=shape[-1])
                assert back.dtype == dtype
                found.append(back.gather())
            np.testing.assert_allclose(found[0], host, rtol=0, atol=50 * eps)
            assert len({f.tobytes() for f in found}) == 1


def test_components_are_transformed_each_for_itself():
    host = values((2, 3, 6, 7))
    expected = scipy.fft.rfftn(host, axes=(2, 3))
    for u in spread(host, components=2):
        np.testing.assert_allclose(da.fft.rfftn(u).gather(), expected, rtol=0, atol=1e-12)
        one = da.fft.rfftn(u[1, 2])
        assert one.gather().tobytes() == da.fft.rfftn(u).gather()[1, 2].tobytes()


def test_fields_on_faces_and_with_halos():
    for ranks in process_grids(2, (9, 10)):
        grid = da.Grid((9, 10), ranks=ranks, halo=1)
        for location, shape in (("x", (10, 10)), ("xy", (10, 11))):
            host = values(shape)
            u = grid.empty(location=location)
            u[...] = host
            found = da.fft.dctn(u, type=1)
            np.testing.assert_allclose(found.gather(), scipy.fft.dctn(host, 1), rtol=0, atol=1e-11)
            back = da.fft.idctn(found, type=1, like=u)
            assert (back.grid, back.location, back.ranks) == (grid, location, ranks)
            np.testing.assert_allclose(back.gather(), host, rtol=0, atol=1e-13)


def test_results_lie_on_no_grid_whatever_axes_are_whole():
    for ranks in process_grids(2, (9, 10)):
        for periodic in (False, True):
            grid = da.Grid((9, 10), ranks=ranks, halo=1, periodic=periodic)
            for location in (None, "x", "xy"):
                u = grid.zeros(location=location)
                for axis in (0, 1):
                    for found in (
                        da.fft.fftn(u, axes=axis),
                        da.map_lines(u, [(axis, lambda block, where: block)]),
                    ):
                        assert (found.grid, found.location, found.halo) == (None, None, (0, 0))
                        assert found.layout.staggered == (False, False)
                        assert found.decomposition.periodic == (False, False)


def test_the_result_lies_where_it_is_wanted():
    host = values((16, 12, 10))
    expected = alone("rfftn", host.shape, np.float64, ())[0]
    u = da.asarray(host, ranks=next(process_grids(3, host.shape)))
    for ranks in process_grids(3, expected.shape):
        found = da.fft.rfftn(u, ranks=ranks)
        assert found.ranks == ranks
        assert found.gather().tobytes() == expected.tobytes()
        out = da.zeros(expected.shape, complex, ranks=ranks)
        assert da.fft.rfftn(u, out=out) is out
        assert out.gather().tobytes() == expected.tobytes()
        back = da.fft.irfftn(out, like=u)
        assert back.ranks == u.ranks
        np.testing.assert_allclose(back.gather(), host, rtol=0, atol=1e-14)


def test_slabs_and_pencils_come_back_to_where_they_were():
    for ranks in process_grids(3, (16, 12, 10)):
        spectrum = da.fft.rfftn(da.asarray(values((16, 12, 10)), ranks=ranks))
        assert spectrum.ranks[0] == 1
        if ranks[2] == 1 < ranks[0]:
            assert da.fft.irfftn(spectrum).ranks == ranks


def test_an_array_may_take_its_own_transform():
    host = values((9, 10), np.complex128)
    expected = alone("fftn", host.shape, np.complex128, ())[0]
    for u in spread(host):
        da.fft.fftn(u, out=u)
        assert u.gather().tobytes() == expected.tobytes()


def test_a_placement_on_other_ranks_is_refused():
    u = da.asarray(values((9, 10)))
    lonely = da.zeros((9, 10), complex, comm=MPI.COMM_SELF)
    if SIZE > 1:
        refused(da.ArrayError, "another communicator", lambda: da.fft.fftn(u, like=lonely))
        refused(da.ArrayError, "on the same communicator", lambda: da.fft.fftn(u, out=lonely))


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    host = values((7, 6, 11))
    expected = alone("rfftn", host.shape, np.float64, ())[0]
    u = da.asarray(host, device="simulated")
    found = da.fft.rfftn(u)
    assert found.device == "simulated"
    assert found.gather().tobytes() == expected.tobytes()
    assert da.fft.irfftn(found, length=11, like=u).device == "simulated"
