"""The transforms of the pressure solver: their defining sums, and the bits of single lines."""

import numpy as np
import pytest

from solvers.incompressible.transforms import Cosine, Hartley, along

LENGTHS = (1, 2, 3, 4, 5, 8, 37, 64, 127)


def matrix(kind, n):
    k, i = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    if kind is Cosine:
        return np.cos(np.pi * k * (i + 0.5) / n)
    return np.cos(2 * np.pi * k * i / n) + np.sin(2 * np.pi * k * i / n)


def second_difference(kind, n, h):
    """The dense operator with mirrored ends (walls) or wrapped ends (periodic)."""
    operator = -2.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    if kind is Cosine:
        operator[0, 0] += 1.0
        operator[-1, -1] += 1.0
    else:
        operator[0, -1] += 1.0
        operator[-1, 0] += 1.0
    return operator / h**2


@pytest.mark.parametrize("kind", [Cosine, Hartley])
@pytest.mark.parametrize("n", LENGTHS)
def test_forward_is_the_defining_sum(kind, n):
    lines = np.random.default_rng(1).standard_normal((5, n))
    np.testing.assert_allclose(
        kind(n).forward(lines), lines @ matrix(kind, n).T, rtol=0, atol=1e-12 * n
    )


@pytest.mark.parametrize("kind", [Cosine, Hartley])
@pytest.mark.parametrize("n", LENGTHS)
def test_backward_inverts_forward(kind, n):
    lines = np.random.default_rng(2).standard_normal((5, n))
    transform = kind(n)
    np.testing.assert_allclose(
        transform.backward(transform.forward(lines)), lines, rtol=0, atol=1e-13 * n
    )


@pytest.mark.parametrize("kind", [Cosine, Hartley])
@pytest.mark.parametrize("n", [4, 5, 37])
def test_modes_are_eigenvectors_of_the_second_difference(kind, n):
    h = 0.3
    modes = np.diag(np.ones(n))  # row k: mode k alone
    transform = kind(n)
    vectors = transform.backward(modes)
    eigenvalues = transform.eigenvalues(np.arange(float(n)), h)
    np.testing.assert_allclose(
        vectors @ second_difference(kind, n, h), eigenvalues[:, None] * vectors, atol=1e-11
    )


@pytest.mark.parametrize("kind", [Cosine, Hartley])
@pytest.mark.parametrize("n", [8, 37])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_bits_of_a_line_do_not_depend_on_its_block(kind, n, way):
    block = np.random.default_rng(3).standard_normal((6, n, 7))
    whole = along(1, getattr(kind(n), way))(block)
    for i in range(6):
        alone = along(1, getattr(kind(n), way))(np.asfortranarray(block[i : i + 1, :, 2:3]))
        assert alone.tobytes() == np.ascontiguousarray(whole[i : i + 1, :, 2:3]).tobytes()


def test_a_block_without_lines_stays_empty():
    assert along(0, Cosine(4).forward)(np.zeros((4, 0))).shape == (4, 0)
