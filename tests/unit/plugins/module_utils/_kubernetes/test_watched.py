# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A list that a watch keeps: answers to our writes and rows of the watch come in any order, and the last state of the server counts."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Listing
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.pod_ranges import read_pods
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watched import WatchedClient
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watched_collection import Collection
from hypothesis import given, strategies as st

PATH = "/api/v1/endpoints"
PLACE = ("shop", "web")


def obj(version, uid="u1", **more):
    return dict(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": uid, "resourceVersion": str(version), "labels": {}},
            "v": version,
        },
        **more,
    )


def collection(*items, labels=None, check=lambda obj, what: None):
    heard = []
    one = Collection(PATH, labels, None, heard.append, check)
    one.listed("Endpoints", Listing(list(items), "10"))
    one.state(None)
    heard.clear()
    return one, heard


def now(one):
    return [item["v"] for item in one.listing("aws", None, (), 0.1).items]


def test_the_answer_to_a_write_comes_after_the_news_that_the_object_is_gone():
    one, unused = collection()
    one.heard("Endpoints", "ADDED", obj(20))
    one.heard("Endpoints", "DELETED", obj(25))
    one.wrote(PLACE, obj(20))
    assert now(one) == []
    one.wrote(PLACE, obj(30, uid="u2"))
    assert now(one) == [30]


def test_the_news_of_an_object_come_after_we_deleted_it():
    one, unused = collection(obj(5))
    one.deleted(PLACE)
    one.heard("Endpoints", "MODIFIED", obj(12))
    assert now(one) == []
    one.heard("Endpoints", "DELETED", obj(13))
    one.heard("Endpoints", "ADDED", obj(14, uid="u2"))
    assert now(one) == [14]


def test_our_own_writes_are_no_news_and_those_of_others_are():
    one, heard = collection(obj(5))
    one.wrote(PLACE, obj(20))
    one.heard("Endpoints", "MODIFIED", obj(12))
    assert now(one) == [20]
    one.heard("Endpoints", "MODIFIED", obj(20))
    one.heard("Endpoints", "MODIFIED", obj(21, v=20))
    assert not any(row.news for row in heard), "the last one differs in its version alone"
    one.heard("Endpoints", "MODIFIED", obj(22))
    assert heard[-1].news and heard[-1].plural == "endpoints"


@pytest.mark.parametrize(
    ("rows", "answer", "gone", "news"),
    [
        ([("MODIFIED", obj(20))], obj(20), False, []),  # our row comes before our answer
        ([], obj(20), False, []),
        ([("MODIFIED", obj(15)), ("MODIFIED", obj(20))], obj(20), False, [20]),  # another owner's before it
        ([("MODIFIED", obj(20)), ("MODIFIED", obj(21))], obj(20), False, [21]),  # and after it
        ([("MODIFIED", obj(20))], None, False, [20]),  # no answer: nobody knows the owner
        ([("DELETED", obj(20))], None, True, []),
        ([("DELETED", obj(20))], None, False, [None]),
        ([("DELETED", obj(20))], obj(19), False, [None]),  # somebody deleted what we wrote
        ([("DELETED", obj(20)), ("ADDED", obj(21, uid="u2"))], None, True, [21]),
    ],
)
def test_rows_that_come_before_the_answer_to_a_write(rows, answer, gone, news):
    one, heard = collection(obj(5))
    one.begin(PLACE)
    for event, row in rows:
        one.heard("Endpoints", event, row)
    assert not any(row.news for row in heard)
    if answer is not None:
        one.wrote(PLACE, answer)
    elif gone and len(rows) == 1:
        one.deleted(PLACE)
    one.end(PLACE, answer, gone)
    assert [row.after and row.after["v"] for row in heard if row.news] == news
    one.heard("Endpoints", "MODIFIED", obj(30))
    assert heard[-1].news, "the write is over"


def test_two_writes_of_one_object_under_way():
    one, heard = collection(obj(5))
    one.begin(PLACE)
    one.begin(PLACE)
    one.heard("Endpoints", "MODIFIED", obj(20))
    one.wrote(PLACE, obj(20))
    one.end(PLACE, obj(20))
    one.heard("Endpoints", "MODIFIED", obj(21))
    one.wrote(PLACE, obj(21))
    one.end(PLACE, obj(21))
    assert not any(row.news for row in heard)


def test_what_a_write_did_not_find_is_asked_for():
    one, heard = collection(obj(5))
    one.looked(PLACE, None)
    assert now(one) == [] and heard[-1].news
    one.looked(PLACE, obj(30))
    one.looked(PLACE, obj(29))
    assert now(one) == [30]


def test_nothing_is_said_while_it_is_not_whole():
    one, heard = collection(obj(5))
    one.state(errors.Unreachable("aws", "watch", "refused"))
    with pytest.raises(errors.ListIncomplete):
        now(one)
    assert not one.current and heard[-1].name == "" and heard[-1].news
    one.listed("Endpoints", Listing([obj(40)], "41"))
    one.state(None)
    assert now(one) == [40] and one.current
    one.state(errors.NotFound("aws", "list", "none", status=404))
    assert one.current, "the server has no such kind, which is known"
    with pytest.raises(errors.ListIncomplete) as caught:
        now(one)
    assert caught.value.status == 404


def test_a_hostile_row_ends_what_is_known():
    def check(row, what):
        raise errors.BadAnswer("aws", what, "no object")

    one, unused = collection(check=check)
    with pytest.raises(errors.BadAnswer):
        one.heard("Endpoints", "ADDED", {"metadata": None})


@given(st.data())
def test_answers_and_rows_in_any_order_end_at_what_the_server_has(data):
    """One object's life: each version is written by us or by others; our answers come at any later time, the rows in their order."""
    lives = data.draw(st.lists(st.tuples(st.sampled_from(["write", "delete"]), st.booleans()), max_size=12))
    events, rows, uid, there = [], [], 0, None
    for version, (what, owned) in enumerate(lives, start=11):
        if what == "write":
            uid += there is None
            there = obj(version, uid=f"u{uid}")
            rows.append(("ADDED", there))
            events += [(there, version)] if owned else []
        elif there is not None:
            rows.append(("DELETED", dict(there, metadata=dict(there["metadata"], resourceVersion=str(version)))))
            there = None
    one, unused = collection()
    while rows or events:
        if rows and (not events or data.draw(st.booleans())):
            one.heard("Endpoints", *rows.pop(0))
        else:
            one.wrote(PLACE, events.pop(data.draw(st.integers(0, len(events) - 1)))[0])
    assert now(one) == ([there["v"]] if there is not None else [])


def test_pods_that_all_are_followed_are_given_without_those_that_have_finished():
    """As a server answers the selector: another capability may follow the Pods of a cluster where they are the source of ranges (pod_ranges 3)."""
    access = {"name": "aws", "host": "https://127.0.0.1:1", "api_key": "t"}
    client = WatchedClient(access, Limits(), lambda heard: None, lambda text: None, threading.Event())
    one = client._collections["/api/v1/pods", "", ""] = Collection(
        "/api/v1/pods", None, None, lambda heard: None, lambda obj, what: None
    )
    phases = {"a": "Running", "b": "Succeeded", "c": "Failed", "d": "Pending", "e": None}
    pods = [{"metadata": {"name": name}, "status": {"phase": phase}} for name, phase in phases.items()]
    one.listed("Pod", Listing([*pods, {"metadata": {"name": "f"}}, {"metadata": {"name": "g"}, "status": "x"}], "10"))
    one.state(None)
    assert [pod["metadata"]["name"] for pod in read_pods(client)["pods"]] == ["a", "d", "e", "f", "g"]
    assert [pod["metadata"]["name"] for pod in client.list("/api/v1/pods", None, "metadata.name=b").items] == ["b"]
