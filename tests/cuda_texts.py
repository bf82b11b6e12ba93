"""What generated CUDA text holds at a time, and what its machine code puts into local memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_KERNEL = re.compile(r'extern "C" __global__ void\s+(\w+)\s*\(')
_KINDS = (
    r"(?:const |unsigned |signed |struct |union )*"
    r"(?:double|float|int|bool|char|short|long long|unsigned|index_t|u?int\d+_t|complex\d+"
    r"|number|T)"
)
_DECLARATION = re.compile(rf"^(?:for \()?(?:{_KINDS}) (?!\()(.*)$")
_DECLARATOR = re.compile(r"^\s*\*?\s*(?:__restrict__ )?(\w+)(?:\[(\d+)\])?\s*(?:=|$)")
_FUNCTION = re.compile(r"Compiling entry function '(\w+)' for")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


class Usage(NamedTuple):
    """What a kernel's machine code takes: registers, bytes of local memory, and of spills there."""

    symbol: str
    registers: int
    frame: int
    spills: int


def usages(log: str) -> Iterator[Usage]:
    """What the compiler's remarks say of each kernel of a text."""
    for part in log.split("Compiling entry function ")[1:]:
        name = _FUNCTION.match("Compiling entry function " + part)
        spills, registers = _SPILLS.search(part), _REGISTERS.search(part)
        assert name, part
        assert spills, part
        assert registers, part
        frame, stores, loads = map(int, spills.groups())
        yield Usage(name[1], int(registers[1]), frame, stores + loads)


def header(path: Path) -> tuple[str, bool]:
    """The kernel that a recorded file is for, and whether it is fast."""
    with path.open(encoding="utf-8") as file:
        found = re.fullmatch(r"// (\w+) fast=([01])\n", file.readline())
    assert found, f"{path} does not begin with the name of its kernel"
    return found[1], found[2] == "1"


def live_values(text: str, symbol: str) -> int:
    """The largest number of variables of a kernel that hold a value still needed, at one line.

    A variable that is made outside a loop and used within is needed until the loop ends.
    """
    lines = _body(text, symbol)
    loops, spans = list(_loops(lines)), []
    for number, line in enumerate(lines):
        for name, count in _declared(line):
            uses = [n for n in range(number, len(lines)) if re.search(rf"\b{name}\b", lines[n])]
            last = max(uses)
            for first, end in loops:
                if number < first <= last <= end:
                    last = end
            spans.append((number, last, count))
    return max(
        (sum(count for a, b, count in spans if a < n <= b) for n in range(len(lines))), default=0
    )


def _loops(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each loop with braces, inner ones first."""
    depth, open_loops = 0, []
    for number, line in enumerate(lines):
        if re.match(r"\s*(for|while|do)\b.*\{\s*$", line):
            open_loops.append((number, depth))
        depth += line.count("{") - line.count("}")
        while open_loops and depth <= open_loops[-1][1]:
            yield open_loops.pop()[0], number


def _body(text: str, symbol: str) -> list[str]:
    start = next(match for match in _KERNEL.finditer(text) if match[1] == symbol).end()
    opening = text.index("{", start)
    depth, place = 0, opening
    while True:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[opening + 1 : place].splitlines()
        place += 1


def _declared(line: str) -> Iterator[tuple[str, int]]:
    """Names of the variables that a line makes, and how many values each holds."""
    match = _DECLARATION.match(line.strip())
    if not match:
        return
    for part in _split(match[1].split(";")[0]):
        name = _DECLARATOR.match(part)
        if name:
            parts = 2 if "complex" in line.split(name[1], maxsplit=1)[0] else 1
            yield name[1], int(name[2] or 1) * parts


def _split(text: str) -> Iterator[str]:
    """Parts between commas outside parentheses and braces."""
    depth, part = 0, ""
    for letter in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part
