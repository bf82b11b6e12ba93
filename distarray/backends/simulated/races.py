"""Reports of pieces of work that touch the same memory without an order."""

from __future__ import annotations

from distarray.errors import RaceError

_seen: list[str] = []

#: What a race calls a stream that is none: the host, and MPI on its behalf.
HOST = "host"


def races_seen() -> list[str]:
    """Messages of the races, and of writes around device memory, that were found since `finish` was
    last called. Local.
    """
    return list(_seen)


def forget() -> list[str]:
    """The same, and start anew. Local."""
    found = races_seen()
    _seen.clear()
    return found


def overrun(nbytes: int) -> None:
    """Keep for `races_seen` that work wrote around device memory, when no longer known. Local."""
    _seen.append(
        f"Work wrote before or behind the {nbytes} bytes of an allocation of device memory; it may "
        "touch only what is allocated."
    )


def race(
    *, later: str, later_stream: str, later_writes: bool, earlier: str, earlier_stream: str,
    earlier_writes: bool, place: str,
) -> RaceError:  # fmt: skip
    """The error for two pieces of work, or one and the host; also kept for `races_seen`. Local."""
    verb = "writes" if later_writes else "reads"
    other = "write" if earlier_writes else "read"
    where = "on the host" if later_stream == HOST else f"on stream {later_stream}"
    who = "the host" if later_stream == HOST else later_stream
    message = (
        f"'{later}' {where} {verb} {place} while '{earlier}' on stream {earlier_stream} may still "
        f"{other} it: {who} must wait for an event recorded on {earlier_stream} after '{earlier}'."
    )
    _seen.append(message)
    return RaceError(message)
