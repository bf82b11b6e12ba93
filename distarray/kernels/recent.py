"""A dictionary that forgets what has not been used for long."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Recent(OrderedDict[Key, Kept]):
    """The `most` entries used last, by `find` or `keep`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def find(self, key: Key) -> Kept | None:
        """The entry, which counts as used; None if there is none."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found

    def keep(self, key: Key, value: Kept) -> Kept:
        """Take in an entry, and forget the one least recently used where it becomes too many."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
        return value
