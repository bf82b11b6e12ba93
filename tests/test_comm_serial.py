"""The communicator of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distarray.comm.serial import SerialCommunicator
from distarray.errors import CommunicationError
from tests.communicator_contract import CommunicatorContract


class TestSerial(CommunicatorContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path

    def communicator(self) -> SerialCommunicator:
        return SerialCommunicator()


def test_all_instances_are_equal():
    assert SerialCommunicator() == SerialCommunicator()


def test_a_message_to_another_rank_is_refused():
    with pytest.raises(
        CommunicationError,
        match=r"^There is 1 rank, but a message names rank 1; only rank 0 exists\.$",
    ):
        SerialCommunicator().exchange([(1, np.zeros(1))], [])


def test_unequal_messages_to_itself_are_refused():
    with pytest.raises(
        CommunicationError,
        match=r"^One rank sends itself messages of \[8\] bytes and receives \[\]; "
        r"both must be equal\.$",
    ):
        SerialCommunicator().exchange([(0, np.zeros(1))], [])
