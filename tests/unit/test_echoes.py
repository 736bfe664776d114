# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the scenarios count echoes: by their numbers, so that a single one that is lost in the middle is seen."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "scenario"))

from harness import Echoes


def output(sent, answered, more=()):
    rows = [f"64 bytes from 10.2.1.10: icmp_seq={number} ttl=62 time=0.5 ms" for number in answered]
    end = f"{sent} packets transmitted, {len(answered)} received, 0% packet loss, time 408ms"
    return "\n".join(["PING 10.2.1.10 (10.2.1.10) 56(84) bytes of data.", *rows, *more, "", "--- statistics ---", end])


@pytest.mark.parametrize(
    "sent, answered, lost",
    [
        (5, [1, 2, 3, 4, 5], 0),
        (5, [1, 2, 3, 4], 0),  # the last one may be under way
        (5, [1, 2, 4, 5], 1),
        (6, [1, 2, 4, 5], 1),
        (6, [1, 2, 3, 4], 1),
        (5, [2, 1, 4, 3, 5], 0),
        (5, [1, 2, 2, 4, 5], 1),
        (5, [], 4),
    ],
)
def test_each_missing_number_is_lost(sent, answered, lost):
    echoes = Echoes()
    echoes.count(output(sent, answered))
    assert (echoes.sent, echoes.lost) == (sent, lost)


def test_an_error_of_a_router_is_no_answer():
    echoes = Echoes()
    echoes.count(output(3, [1, 3], ["From 10.66.23.1 icmp_seq=2 Destination Host Unreachable"]))
    assert echoes.lost == 1


def test_an_output_without_a_count_is_an_error():
    with pytest.raises(AssertionError, match="unknown host"):
        Echoes().count("ping: unknown host")
