"""Tests that run on several ranks; `tests/test_ranks.py` starts each file under mpirun."""
