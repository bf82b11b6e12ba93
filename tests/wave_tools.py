"""What the tests of waves share."""

from solvers.wave import WaveConfig, WaveSolver


def sides(kind, ndim):
    """All sides of a box of this kind."""
    return {f"{axis}{end}": kind for axis in "xyz"[:ndim] for end in "-+"}


def rigid(ndim):
    return sides("rigid", ndim)


def solver(**options):
    return WaveSolver(WaveConfig(**options))
