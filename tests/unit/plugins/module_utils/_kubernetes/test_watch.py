# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hostile or broken API server may send in a watch: an error with a reason, never an exception of Python's, never a wrong change."""

from __future__ import annotations

import pathlib
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors, watch
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits

HOSTILE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "watch"


class Client:
    cluster, limits = "aws", Limits()


def lines(body):
    """Of a body that arrives in parts of seven bytes."""
    return list(watch._lines(Client(), [body[start : start + 7] for start in range(0, len(body), 7)], "watch x"))


@pytest.mark.parametrize(
    "name, reason",
    [
        ("row_is_no_object", "bad_answer"),
        ("row_is_no_json", "bad_answer"),
        ("row_nests_too_deep", "bad_answer"),
        ("gone", "expired"),
        ("error_without_status", "request_failed"),
        ("cut_in_the_middle", "unreachable"),
    ],
)
def test_hostile_rows_are_refused_by_name(name, reason):
    with pytest.raises(errors.KubeError) as caught:
        lines((HOSTILE / (name + ".txt")).read_bytes())
    assert caught.value.reason == reason and len(caught.value.message) < 300


def test_a_row_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(watch, "ROW_BYTES", 100)
    with pytest.raises(errors.TooLarge):
        lines(b'{"type":"ADDED"' + b" " * 200)


def test_rows_come_whole_whatever_the_parts():
    body = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n\n{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
    assert [row["type"] for row in lines(body)] == ["ADDED", "BOOKMARK"]


def follower(monkeypatch, outcomes, **more):
    """A Follower with a server of these outcomes, one a watch; returns what it reported and when it paused."""
    stop, reported, pauses, heard = threading.Event(), [], [], []

    class Stop:
        def is_set(self):
            return stop.is_set()

        def wait(self, seconds):
            pauses.append(seconds)
            return stop.is_set()

    def rows(*unused):
        outcome = outcomes.pop(0) if outcomes else stop.set()
        if isinstance(outcome, Exception):
            raise outcome
        yield {}
        for row in outcome or ():
            Lists.bytes_streamed += row.pop("bytes", 0)
            yield row

    class Listing:
        items, resource_version = [], "7"

    class Lists:
        cluster, bytes_streamed, limits = "aws", 0, Limits()

        def list(self, *unused):
            reported.append("LIST")
            return Listing

    monkeypatch.setattr(watch, "rows", rows)
    one = watch.Follower(
        {"name": "aws"},
        watch.RESOURCES["nodes"],
        "",
        lambda *unused: None,
        lambda *row: heard.append(row),
        reported.append,
        Stop(),
        watch.Settings(**more),
    )
    one._client = Lists()
    one.run()
    return reported, pauses, heard


def test_after_410_it_lists_again_at_once_but_not_for_ever(monkeypatch):
    gone = [errors.Expired("aws", "watch", "gone") for dummy in range(5)]
    reported, pauses, unused = follower(monkeypatch, gone)
    assert reported.count("LIST") == 6 and len(pauses) >= 4, "the first time at once, then with pauses"


def test_pauses_grow_to_the_longest_and_no_further(monkeypatch):
    away = [errors.Unreachable("aws", "watch", "refused") for dummy in range(12)]
    reported, pauses, unused = follower(monkeypatch, [*away, []], first_pause=0.5, longest_pause=30.0)
    assert reported.count("LIST") == 1, "the resource version is kept"
    assert 0.25 <= pauses[0] <= 0.5 and pauses[1] <= 1.0 and all(15 <= pause <= 30 for pause in pauses[7:12])
    assert len([text for text in reported if "refused" in text]) == 1 and reported[-1].startswith(
        "cluster aws: following nodes again"
    )


def test_a_hostile_object_is_no_change(monkeypatch):
    reported, unused, heard = follower(
        monkeypatch, [[{"type": "ADDED", "object": "text"}], [{"type": "ADDED", "object": {"metadata": {"name": "n"}}}]]
    )
    assert [row[2] for row in heard] == [{"metadata": {"name": "n"}}] and any("bad_answer" in text for text in reported)


def test_hostile_metadata_does_not_stop_it(monkeypatch):
    rows = [{"type": "ADDED", "object": {"metadata": shape}} for shape in (None, [], "x", {"resourceVersion": 5})]
    reported, unused, heard = follower(monkeypatch, [rows])
    assert len(heard) == 4 and reported == ["LIST"]


def test_what_rows_add_up_to_is_bounded(monkeypatch):
    """A cluster that reports new objects for ever is listed again, and a list has bounds."""
    rows = [
        {"type": "ADDED", "object": {"metadata": {"name": str(number)}}, "bytes": Limits().list_bytes // 4}
        for number in range(9)
    ]
    reported, unused, heard = follower(monkeypatch, [rows[:3], rows[3:]])
    assert reported.count("LIST") == 2 and len(heard) == 4 and any("answer_too_large" in text for text in reported)
