"""Checks of timelines against the Trace Event Format, as far as they use it, in JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number", "minimum": 0}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """An object of these properties and no others, all of which are there but for some."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _metadata(name: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The event that names a process or a thread, or says where it stands."""
    argument = "sort_index" if name.endswith("index") else "name"
    known = {"ph": {"const": "M"}, "name": {"const": name}, "pid": _COUNT}
    return _object({**known, **more, "args": _object({argument: value})})


_TEXT = {"type": "string", "minLength": 1}
#: https://json-schema.org/draft/2020-12 for what Perfetto reads of a timeline: metadata (ph "M")
#: and complete events (ph "X"), whose times are in microseconds.
SCHEMA: dict[str, Any] = _object({
    "displayTimeUnit": {"enum": ["ms", "ns"]},
    "traceEvents": {"type": "array", "items": {"oneOf": [
        _metadata("process_name", _TEXT),
        _metadata("process_sort_index", _COUNT),
        _metadata("thread_name", _TEXT, tid=_COUNT),
        _object({
            "ph": {"const": "X"}, "name": _TEXT, "cat": _TEXT, "pid": _COUNT, "tid": _COUNT,
            "ts": _NUMBER, "dur": _NUMBER,
            "args": _object(
                {"cells": _COUNT, "bytes": _COUNT, "messages": _COUNT},
                "cells", "bytes", "messages",
            ),
        }),
    ]}},
})  # fmt: skip

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
}


def problems(value: Any, schema: dict[str, Any], place: str = "") -> list[str]:
    """Where a value breaks a schema, of whose keywords it may have those used above."""
    known = {"type", "properties", "required", "additionalProperties", "items", "oneOf", "enum"}
    assert not set(schema) - known - {"const", "minimum", "minLength"}
    if "type" in schema and type(value) not in _TYPES[schema["type"]]:
        return [f"{place}: {value!r} is no {schema['type']}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{place}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place}: {value!r} is none of {schema['enum']}")
    if "minimum" in schema and not value >= schema["minimum"]:
        found.append(f"{place}: {value!r} is below {schema['minimum']}")
    if "minLength" in schema and len(value) < schema["minLength"]:
        found.append(f"{place}: {value!r} is too short")
    if "oneOf" in schema:
        tried = [problems(value, one, place) for one in schema["oneOf"]]
        if sum(not one for one in tried) != 1:
            found.append(f"{place}: {value!r} is not of one kind")
            found += [text for one in tried for text in one]
    for number, item in enumerate(value if "items" in schema else ()):
        found += problems(item, schema["items"], f"{place}/{number}")
    for name in schema.get("required", ()):
        if name not in value:
            found.append(f"{place}: {name} is missing")
    for name, part in schema.get("properties", {}).items():
        if name in value:
            found += problems(value[name], part, f"{place}/{name}")
    if "additionalProperties" in schema:
        found += [f"{place}: {name} is unknown" for name in set(value) - set(schema["properties"])]
    return found


def checked(path: Path) -> list[dict[str, Any]]:
    """The complete events of a timeline that keeps to the schema, and names what it refers to."""
    found = json.loads(path.read_text("utf-8"), parse_constant=_refuse)
    assert problems(found, SCHEMA) == []
    events = found["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    assert {(event["pid"], event["tid"]) for event in complete} <= named
    assert {event["pid"] for event in events} == processes
    return complete


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def cores_under_way(events: list[dict[str, Any]], rank: int, steps: int) -> list[bool]:
    """For each step of a rank, whether its core began and ended while messages were under way.

    There must be one core and one exchange of messages for each step.
    """
    mine = [event for event in events if event["pid"] == rank]
    cores, exchanges = (
        sorted((e for e in mine if e["cat"] == name), key=lambda event: event["ts"])
        for name in ("core", "exchange")
    )
    assert len(cores) == len(exchanges) == steps, (len(cores), len(exchanges))
    return [
        sent["ts"] <= core["ts"] and core["ts"] + core["dur"] <= sent["ts"] + sent["dur"]
        for core, sent in zip(cores, exchanges, strict=True)
    ]
