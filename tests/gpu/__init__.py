"""Tests that need an NVIDIA GPU; skipped with the reason where there is none. See one_gpu.sh.

Nothing here has run on a GPU yet.
"""
