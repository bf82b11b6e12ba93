"""Identifiers and indented lines of generated C. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from distarray.stencil.printing import RESERVED


def identifier(wish: str) -> str:
    """The nearest C identifier to a word of the kernel."""
    base = re.sub(r"[^0-9A-Za-z_]", "_", wish)
    return base if base[0].isalpha() else f"a{base}"


def words(lines: Iterable[str]) -> frozenset[str]:
    """The identifiers that occur in lines of C."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))


class Names:
    """Hands out distinct identifiers."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._taken = set(RESERVED | reserved)

    def take(self, wish: str) -> str:
        """The wish itself if it is free, else the wish with a number."""
        base = name = identifier(wish)
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


@dataclass
class Lines:
    """Lines of C with their indentation."""

    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        indent = "  " * self.depth
        self.lines += [line if line.startswith("#") else indent + line for line in lines]

    def open(self, line: str) -> None:
        """Begin a block."""
        self.add(f"{line} {{" if line else "{")
        self.depth += 1

    def close(self, blocks: int = 1) -> None:
        """End the innermost blocks."""
        for _ in range(blocks):
            self.depth -= 1
            self.add("}")
