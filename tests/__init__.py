"""Tests of distarray and solvers: unit tests here, tests on several ranks in `tests/ranks`."""
