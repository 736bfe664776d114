# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the witness of packets counts: those of its own run, and no late one of an earlier run, which had other flows."""

from __future__ import annotations

import pathlib
import socket
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "scenario"))

import sequence_witness


def test_packets_of_an_earlier_witness_are_not_counted():
    arrived = []
    flow = types.SimpleNamespace(arrived=arrived.append)
    witness = sequence_witness.Witness.__new__(sequence_witness.Witness)
    witness.flows = [flow]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        own, pack = sequence_witness._OWN, sequence_witness._PACKET.pack
        for packet in (pack(1, 0, own), pack(2, 7, own ^ 1), pack(3, 0, own ^ 1), pack(4, 0, own)):
            sender.sendto(packet, receiver.getsockname())
        assert witness._reader(receiver)()
    assert arrived == [1, 4]


def test_a_flow_without_a_route_keeps_pace_with_the_others():
    """The slowest flow sets the pace of all, so one to a node without power must not be the slowest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.setblocking(False)
        flow = sequence_witness.Flow(0, ("a", "b"), sender, "192.0.2.1")  # of a loopback address no packet leaves
        flow.send(10)
        assert flow.sent == 10
        flow.send(10 + sequence_witness.MOST)
        assert flow.sent == 10 + sequence_witness.MOST
    assert flow.result([(30, 0.1)])["received"] == 0
