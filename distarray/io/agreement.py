"""Errors of files as one sentence, and the same one on all ranks."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from distarray.arguments import alike, require_alike
from distarray.comm.base import Communicator
from distarray.errors import DistArrayError, FileError, clause, system_text

#: Characters of an argument that an error shows.
_LONGEST = 200


@contextlib.contextmanager
def agreed(communicator: Communicator, subject: str) -> Iterator[None]:
    """Run the body and raise its error, if any rank has one, on all ranks. Collective.

    The body itself must not communicate: a rank that has failed in it would be waited for.
    """
    problem: DistArrayError | None = None
    try:
        with told(subject):
            yield
    except DistArrayError as error:
        problem = error
    communicator.agree(problem)


@contextlib.contextmanager
def told(subject: str) -> Iterator[None]:
    """Run the body and raise its error, of whatever class, as one of this library. Local."""
    try:
        yield
    except DistArrayError:
        raise
    except OSError as error:
        raise FileError(f"{subject}: {system_text(error)}") from error
    except Exception as error:  # whatever it is, other ranks wait for this one to say so
        raise FileError(f"{subject}: {type(error).__name__}, {clause(error)}.") from error


def require_same(communicator: Communicator, caller: str, **arguments: object) -> None:
    """Refuse arguments that ranks give differently. Collective; one small message.

    Parameters
    ----------
    arguments : of plain values, whose `repr` is the same where they are

    Raises
    ------
    CommunicationError
        The same on all ranks.
    """
    if alike(communicator, repr(arguments)):
        return
    for name, value in arguments.items():
        text = repr(value)
        if len(text) > _LONGEST:  # it must still tell ranks apart
            number = hashlib.blake2b(text.encode(), digest_size=7).hexdigest()
            text = f"{text[:_LONGEST]}... (of digest {number})"
        require_alike(communicator, f"{name} of {caller}", text)


class Noted:
    """Keeps the first error of a rank that goes on, since others wait for what it sends."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.first: DistArrayError | None = None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        try:
            with told(self._subject):
                yield
        except DistArrayError as error:
            self.first = self.first or error

    def tell(self, communicator: Communicator) -> None:
        """Raise it on all ranks. Collective."""
        communicator.agree(self.first)
