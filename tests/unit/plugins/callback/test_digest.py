# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback that shows a line for each step: nothing that is wrong is hidden, and what is well takes no room."""

from __future__ import annotations

import json
import os

import pytest
from digest_screen import Run
from hypothesis import given, strategies as st


def changes(**kinds):
    rows = [
        {"action": "create", "kind": kind, "id": str(number)}
        for kind, count in kinds.items()
        for number in range(count)
    ]
    return {
        "changed": bool(rows),
        "plan": {"create": len(rows), "update": 0, "delete": 0, "unchanged": 0, "changes": rows},
    }


def test_a_step_is_one_line_with_what_it_changed():
    run = Run().play("Converge the nodes").task("Converge")
    for number in range(7):
        run.result(f"n{number}", **changes(link=2, peer=4))
    lines = run.task("Keep", "multicluster.network.node_dataplane").result("n1", changed=True).end()
    assert len(lines) == 2
    assert lines[0].startswith("Converge the nodes: 7 hosts, 7 changed; created 28 peers, 14 links (")
    assert lines[1].startswith("done after ") and lines[1].endswith(": 7 hosts, 7 changed; nothing failed")


def test_what_check_mode_only_plans_is_not_reported_as_done():
    run = (
        Run().play("Look").task("Plan", check_mode=True).result("n1", **changes(link=2)).result("n2", **changes(link=2))
    )
    run.play("One").task("Plan", check_mode=True).result("n1", **changes(link=1))
    lines = run.end()
    assert lines[0].startswith("Look: 2 hosts, 2 would change; would create 4 links (")
    assert lines[1].startswith("One: would change; would create 1 link (")
    assert lines[2].endswith(": 2 hosts, 0 changed, 2 would change; nothing failed")


def test_a_host_that_was_changed_counts_as_such_alongside_plans():
    run = (
        Run()
        .play("Both")
        .task("Plan", check_mode=True)
        .result("n1", **changes(link=1))
        .task("Do")
        .result("n1", **changes(link=1))
    )
    lines = run.end()
    assert lines[0].startswith("Both: changed; created 2 links (")
    assert lines[1].endswith(": 1 hosts, 1 changed; nothing failed")


def test_what_is_off_or_skipped_is_not_shown():
    run = (
        Run()
        .play("Off")
        .play("Skipped")
        .task("x")
        .result("n1", "skipped")
        .play("Talk")
        .task("i", "ansible.builtin.include_role")
        .result("n1")
    )
    assert len(run.end()) == 1


def test_a_full_disk_under_the_details_hides_no_error():
    run = (
        Run(details_file="/dev/full")
        .play("Mirror")
        .task("Mirror")
        .result("aws", "failed", msg=["one", "two"])
        .result("gcp", "unreachable", msg="no route")
    )
    lines = run.end()
    assert [line for line in lines if line.startswith(("FAILED", "UNREACHABLE"))] == [
        "FAILED aws: Mirror: one",
        "FAILED aws: Mirror: two",
        "UNREACHABLE gcp: Mirror: no route",
    ]
    assert [line for line in lines if "WARNING" in line] == [
        "[WARNING]: no further details are kept: /dev/full: No space left on device"
    ]
    assert "1 failed: aws" in lines[-1]


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "details")
    lines = (
        Run(details_file=str(tmp_path / "details"))
        .play("Mirror")
        .task("Mirror")
        .result("aws", "failed", msg="one")
        .end()
    )
    assert "FAILED aws: Mirror: one" in lines


def test_the_plan_is_reported_in_numbers_before_anything_is_done():
    peers = {"peers": [1, 2]}
    nodes = {"a1": {"cluster": "a"}, "b1": {"cluster": "b"}}
    clusters = {"a": {"remotes": {"b": peers}}, "b": {"remotes": {"a": peers}}}
    mesh = {"nodes": nodes, "clusters": clusters}
    run = Run().play("Plan the mesh").task("plan").result("a1", mesh=mesh, refused=[{"object": "x"}] * 3)
    assert run.end()[0].startswith("Plan the mesh: ok; 2 nodes in 2 clusters: 2 devices, 4 peers; 3 refused")


def test_each_error_is_a_line_at_once():
    failures = [
        {"cluster": name, "operation": "list", "message": "no route", "reason": "unreachable"}
        for name in ("aws", "gcp")
    ]
    message = "cluster aws: cannot list: no route [unreachable] (and 1 more, see failures)"
    run = Run().play("Mirror").task("Mirror").result("aws", "failed", msg=message, failures=failures)
    assert run.screen.lines == [
        "FAILED aws: Mirror: cluster aws: cannot list: no route [unreachable]",
        "FAILED aws: Mirror: cluster gcp: cannot list: no route [unreachable]",
    ]
    run.task("Judge").result("aws", "failed", ignored=True, msg=["one\nline", "two"])
    assert run.screen.lines[2:] == ["failed, goes on: aws: Judge: one line", "failed, goes on: aws: Judge: two"]
    run.task("Reach").result("n1", "unreachable", msg="timed out")
    assert run.screen.lines[4:] == ["UNREACHABLE n1: Reach: timed out"]
    lines = run.end()
    assert "1 failed, 1 unreachable" in lines[-2] and lines[-1].endswith("1 failed: aws; 1 not reached: n1")


def test_an_error_that_a_report_has_shown_is_not_repeated_while_the_run_goes_on():
    run = (
        Run()
        .play("Judge")
        .task("Show", "ansible.builtin.debug")
        .result("n1", msg=["broken: 1 problem", "  n1: no handshake"])
    )
    run.task("Fail").result("n1", "failed", ignored=True, msg=["n1: no handshake", "another"])
    assert run.screen.lines[2:] == ["failed, goes on: n1: Fail: another"]
    assert run.result("n1", "failed", msg=["n1: no handshake"]).screen.lines[-1] == "FAILED n1: Fail: no handshake"


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_was_done_for_the_others_is_reported_alongside_a_failure(check_mode):
    """One task serves all clusters: one that cannot be served hides nothing of what the others got, or would get."""
    run = Run().play("Assign addresses to Services").task("Give", check_mode=check_mode, run_once=True)
    run.now.diff = True
    diff = {"before": "", "after": "Service berlin/web/nginx\n"}
    run.result("berlin", "failed", msg="cluster oslo: no route", diff=diff, **changes(Service=2))
    lines = run.end()
    assert lines[:3] == ["FAILED oslo: Give: cluster oslo: no route", "Give:", "  +Service berlin/web/nginx"]
    assert lines[3].startswith(
        f"Assign addresses to Services: 1 failed; {'would create' if check_mode else 'created'} 2 Services ("
    )
    assert lines[4].endswith(
        ": 1 hosts, 0 changed, 1 would change; clusters at fault: oslo"
        if check_mode
        else ": 1 hosts, 1 changed; clusters at fault: oslo"
    )


def test_an_item_that_failed_is_reported_once():
    run = Run().play("p").task("t").result("n1", "item_failed", msg="no", item="x", _ansible_item_label="x")
    run.result("n1", "failed", msg="One or more items failed", results=[{"failed": True}])
    assert run.screen.lines == ["FAILED n1: t: item x: no"]


def test_an_item_that_failed_is_in_the_details(tmp_path):
    path = tmp_path / "details"
    Run(details_file=str(path)).play("p").task("t").result(
        "n1", "item_failed", msg="no", item="x", _ansible_item_label="x"
    ).end()
    assert "FAILED n1: t: item x: no\n" in path.read_text()


FAILURES = [
    {"cluster": name, "operation": "list", "message": "no route", "reason": "unreachable"}
    for name in ("oslo", "rome", "oslo")
]


@pytest.mark.parametrize(
    "data, who",
    [
        (
            {
                "msg": "cluster oslo: cannot list: no route [unreachable] (and 2 more, see failures)",
                "failures": FAILURES,
            },
            "oslo, rome",
        ),
        ({"msg": ["cluster rome: no route [unreachable]", "cluster oslo: no route [unreachable]"]}, "oslo, rome"),
        ({"msg": "1 failed, first: service_mirror, cluster rome: cannot list: no route [unreachable]"}, "rome"),
        ({"msg": "2 failed in oslo, rome, first: mesh, node n1 of cluster oslo: timed out"}, "oslo, rome"),
        ({"msg": "mesh_id is empty: no cluster has one"}, "run"),
        ({"msg": "no", "failures": [{"cluster": "a\nb"}, 7]}, "run"),
    ],
)
def test_who_acts_for_all_is_not_at_fault(data, who, tmp_path):
    path = tmp_path / "details"
    run = Run(details_file=str(path)).play("p").task("t", run_once=True).result("berlin", "failed", **data)
    reported = [line for line in run.screen.lines if line.startswith("FAILED")]
    assert reported and all(line.startswith(f"FAILED {who}: t: ") for line in reported)
    last = run.task("u").result("paris").end()[-1]
    assert last.endswith("; the run failed" if who == "run" else "; clusters at fault: " + who) and "berlin" not in last
    assert reported[0] in path.read_text().splitlines()


def test_who_acts_for_all_and_fails_too_is_named():
    run = Run().play("p").task("t", run_once=True).result("berlin", "failed", msg="cluster oslo: no route")
    assert (
        run.task("u")
        .result("berlin", "failed", msg="no")
        .end()[-1]
        .endswith("; 1 failed: berlin; clusters at fault: oslo")
    )


def test_what_one_host_said_for_all_and_was_ignored_is_no_failure():
    run = (
        Run().play("p").task("t", run_once=True).result("berlin", "failed", ignored=True, msg="cluster oslo: no route")
    )
    assert run.screen.lines == ["failed, goes on: oslo: t: cluster oslo: no route"] and run.end()[-1].endswith(
        "nothing failed"
    )


def test_items_of_a_task_for_all_are_reported_alike():
    run = (
        Run()
        .play("p")
        .task("t", run_once=True)
        .result("berlin", "item_failed", msg="cluster oslo: no", item="x", _ansible_item_label="x")
    )
    assert run.screen.lines == ["FAILED oslo: t: item x: cluster oslo: no"]


@pytest.mark.parametrize("how", ["ok", "failed", "skipped", "unreachable", "item_ok", "item_skipped", "item_failed"])
def test_warnings_are_shown_whatever_became_of_the_task(how):
    run = Run().play("p").task("t").result("n1", how, warnings=["refused gcp/n9: bad [bad_key]", "w"], msg="m")
    assert "[WARNING]: w" in run.screen.lines
    assert "[WARNING]: refused gcp/n9: bad [bad_key]" in run.end()  # no table named it


TABLE = ["CLUSTER  NODE  PEER"] + [f"aws      n{number}    gcp/x  ok" for number in range(20)]


@pytest.mark.parametrize(
    "row, shown", [("", False), ("aws  n9  FAIL", True), ("aws  n9  not proven", True), ("aws n9 never", True)]
)
def test_a_table_is_left_out_only_where_nothing_in_it_is_wrong(row, shown):
    lines = TABLE + ([row] if row else []) + ["", "all green"]
    run = Run().play("Judge").task("Show", "ansible.builtin.debug").result("n1", msg=lines)
    assert ("  " + TABLE[3] in run.screen.lines) is shown and "  all green" in run.screen.lines
    assert any("-v shows them" in line for line in run.screen.lines) is not shown
    assert (
        "  " + TABLE[3]
        in Run(verbosity=1).play("J").task("S", "ansible.builtin.debug").result("n1", msg=lines).screen.lines
    )


def test_details_are_on_request_and_in_a_file(tmp_path):
    data = changes(link=1)
    assert "  n1: create link 0" in Run(verbosity=1).play("p").task("t").result("n1", **data).screen.lines
    path = tmp_path / "details"
    run = Run(details_file=str(path)).play("p").task("t").result("n1", **data)
    assert "  n1: create link 0" not in run.end()
    assert "  n1: create link 0\n" in path.read_text() and path.stat().st_mode & 0o777 == 0o600


def test_five_hundred_nodes_fit():
    """Every step of site, all changed, with the verdict's tables of 500 rows."""
    run = Run()
    hosts = [f"node-{number:03}" for number in range(500)]
    for play in range(12):
        run.play(f"Step {play}")
        for task in ("a", "b", "c"):
            run.task(task)
            for host in hosts:
                run.result(host, **changes(link=2, peer=40, route=20, file=5))
    run.play("Judge").task("Show", "ansible.builtin.debug").result(
        "n1", msg=TABLE[:1] + TABLE[1:] * 25 + ["", "all green"]
    )
    assert len(run.end()) < 40


def test_a_long_step_shows_how_far_it_is(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    run = Run().play("Converge").task("Converge")
    for number in range(600):
        clock[0] = float(number)
        run.result(f"n{number}")
    reported = [line for line in run.screen.lines if line.startswith("  ... Converge: Converge, ")]
    assert 3 <= len(reported) <= 6 and "16 answers after 15 s" in reported[0]


KEYS = st.sampled_from(["changes", "create", "nodes", "clusters", "remotes", "peers", "cluster", "kind", "x"])


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "msg",
                "failures",
                "results",
                "plan",
                "refused",
                "mesh",
                "diff",
                "findings",
                "stderr",
                "exception",
                "changed",
            ]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_no_result_breaks_it_and_no_error_is_hidden(data):
    run = Run().play("p").task("t")
    run.result("n1", "failed", **json.loads(json.dumps(data)))
    assert any(line.startswith("FAILED n1: t: ") for line in run.screen.lines)
    run.task("u", "ansible.builtin.debug").result("n2", **json.loads(json.dumps(data)))
    assert all(line.isprintable() for line in run.end())
