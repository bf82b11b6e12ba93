"""Reads curves as TensorBoard does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboardX.proto.event_pb2 import Event


def events(path: Path) -> Iterator[Any]:
    """The events of one file: length, its checksum, content, its checksum."""
    content = path.read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert len(content) >= 16 + length
        yield Event.FromString(content[12 : 12 + length])
        content = content[16 + length :]


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a folder by name, in the order in which they were written. The start of a
    session voids what was read of its step and later ones.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in events(path):
            if event.HasField("session_log"):
                assert event.session_log.status == event.session_log.START
                for name, points in found.items():
                    found[name] = [point for point in points if point[0] < event.step]
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found
