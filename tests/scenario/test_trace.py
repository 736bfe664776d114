# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces over a lab that is really broken: each cause has its name, its fix works, and nothing is left on a node.

MCN_TRACE=all breaks it in every way (tests/run trace); without it a part of the ways is taken, which runs with make test. MCN_TRACE_KILLS sets how
many runs are killed, MCN_SEED repeats them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
import trace_breaks as lab
from harness import REPO
from service_lab import until
from trace_attacks import ATTACKS, unowned_rule
from trace_lab import ENDS, assert_arrives, nodes_now, populate, reported, served, trace

PROXIES = True
WHOLE = os.environ.get("MCN_TRACE") == "all"
KILLS, SEED = int(os.environ.get("MCN_TRACE_KILLS", "20" if WHOLE else "1")), int(os.environ.get("MCN_SEED", "20"))
ON = {
    "multicluster_capabilities": ["service_mirror"],
    "service_mirror_create_namespace": True,
    "service_mirror_as": "endpoints",
}
CHOSEN = [one for one in lab.BREAKS if WHOLE or one.quick]


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    populate(fabric)
    fabric.play("site", variables=ON).ok()
    fabric.all_reach()
    with contextlib.ExitStack() as stack:
        for pod in ENDS.values():
            stack.enter_context(served(fabric, pod))
        yield


#: Name of a break -> its example in the guide.
EXAMPLES = ("wrong_key_there", "allowed_ips_lack_source", "route_shadowed", "answer_another_way", "target_silent")
GUIDE = REPO / "docs" / "docsite" / "rst" / "guide_trace.rst"
WAYS = {"ping": lab.PING, "service": lab.MIRRORED, **({"backwards": lab.BACKWARDS, "port": lab.TCP} if WHOLE else {})}


def plain(text):
    """Words alone, keys left out."""
    return re.sub(r"[A-Za-z0-9+/]{43}=", "KEY", " ".join(text.split()))


@pytest.mark.parametrize("question", WAYS.values(), ids=WAYS)
def test_what_arrives_is_shown_hop_by_hop_and_leaves_nothing(fabric, question):
    before = nodes_now(fabric)
    page = fabric.state / "trace.html"
    run, document = assert_arrives(fabric, **question, trace_page=str(page))
    assert {hop["verdict"] for hop in document["hops"]} == {"ok"}, reported(document)
    assert {hop["direction"] for hop in document["hops"]} == {"forward", "back"}
    assert {hop["where"] for hop in document["hops"]} >= {lab.A, lab.B}
    assert not run.changed and set(run.recap) - set(fabric.clusters) >= {lab.A, lab.B}
    text = page.read_text("utf-8")
    assert "arrives" in text and all(hop["where"] in text for hop in document["hops"])
    assert nodes_now(fabric) == before


def test_only_the_nodes_of_the_way_are_visited(fabric):
    run, dummy = trace(fabric, **lab.PING)
    part = run.out.split("PLAY [Trace the packets]")[1].split("PLAY [")[0]
    assert f"[{lab.A}]" in part and f"[{lab.B}]" in part and f"[{lab.A2}]" not in part and f"[{lab.B2}]" not in part


@pytest.mark.parametrize("case", CHOSEN, ids=lambda one: one.name)
def test_a_cause_has_its_name_and_its_fix(fabric, case):
    lab.HEALS.clear()
    before = nodes_now(fabric)
    try:
        with case.broken(fabric):
            broken = nodes_now(fabric)
            dummy, document = trace(fabric, **case.asks)
            assert nodes_now(fabric) == broken, "the trace left something"
            assert document["verdict"] != "arrives", reported(document)
            assert document["findings"][0]["cause"] == case.cause, reported(document)
            assert document["findings"][0]["fix"]
            if case.name in EXAMPLES:
                line = next(line for line in document["table"] if line.startswith(case.cause + " on "))
                assert plain(line) in plain(GUIDE.read_text("utf-8")), line
            if case.fix:
                assert case.fix.replace("_", " ") in document["findings"][0]["fix"].replace("_", " ")
                fabric.play(case.fix, variables=ON).ok()
        assert_arrives(fabric, **(lab.HEALS[0] if lab.HEALS else case.asks))
        if not case.fix:
            assert nodes_now(fabric)[lab.A]["routes"] == before[lab.A]["routes"]
    except BaseException:
        fabric.play("site", variables=ON)
        raise


def test_what_others_wrote_is_only_shown(fabric):
    """The comment of an unowned rule, through a node's answer, the report, the console and the page."""
    comment = "{{ lookup('pipe', 'id') }}<script>alert(1)</script>$(id)"
    page = fabric.state / "trace.html"
    with unowned_rule(fabric, lab.B, f'ip saddr {lab.PODS[lab.A]} drop comment "{comment}"'):
        run, document = trace(fabric, **lab.PING, trace_page=str(page))
    found = document["findings"][0]
    assert found["cause"] == "forward_dropped" and comment in found["message"], reported(document)
    assert comment in run.out and "uid=" not in run.out + json.dumps(document)
    text = page.read_text("utf-8")
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text and "{{ lookup" in text
    assert_arrives(fabric, **lab.PING)


if WHOLE:

    @pytest.mark.parametrize("case", [*lab.OTHERS, *ATTACKS], ids=lambda one: one.name)
    def test_what_is_in_no_list_is_not_called_by_a_wrong_name(fabric, case):
        words = case.cause.split()
        try:
            with case.broken(fabric):
                dummy, document = trace(fabric, **case.asks)
                assert (document["findings"][0]["cause"] if document["findings"] else document["verdict"]) in words, (
                    reported(document)
                )
            assert_arrives(fabric, **lab.PING)
        except BaseException:
            fabric.play("site", variables=ON)
            raise

    def test_of_two_faults_the_first_on_the_way_is_named_and_then_the_second(fabric):
        by_name = {one.name: one for one in lab.BREAKS}
        with by_name["forward_dropped_by_policy"].broken(fabric):
            with by_name["route_shadowed"].broken(fabric):
                assert trace(fabric, **lab.PING)[1]["findings"][0]["cause"] == "route_shadowed"
            assert trace(fabric, **lab.PING)[1]["findings"][0]["cause"] == "forward_dropped"
        assert_arrives(fabric, **lab.PING)

    def test_verify_and_status_follow_what_does_not_arrive(fabric):
        """At most so many pairs of nodes. What was found is where the pair is named, and the page has a picture of its way."""
        folder = fabric.state / "followed"
        with next(one for one in lab.BREAKS if one.name == "forward_dropped_by_policy").broken(fabric):
            broken = nodes_now(fabric)
            for most in (1, 0):
                run = fabric.play("verify", variables=dict(ON, verify_traces=most))
                lines = json.loads(re.search(r'FAILED! => (\{.*"msg": \[.*does not reach.*\]\})', run.out).group(1))[
                    "msg"
                ]
                explained = [
                    line
                    for line in lines
                    if "[forward_dropped, proven]; fix: " in line and "of table ip docker, chain FORWARD" in line
                ]
                assert run.rc != 0 and len(lines) == 4 and len(explained) == most, lines
            run = fabric.play("status", variables=dict(ON, status_folder=str(folder)))
            document, page = (
                json.loads((folder / "fabric-status.json").read_text()),
                (folder / "fabric-status.html").read_text(),
            )
            assert document["verdict"]["value"] == "broken"
            assert [row["cause"] for row in document["traces"]["findings"]] == ["forward_dropped"] * 2, (
                "of each pair of nodes one"
            )
            assert (
                page.count('<div class="map way">') == 2
                and "Packets that were followed" in page
                and "chain FORWARD" in page
            )
            assert nodes_now(fabric) == broken
        run = fabric.play("status", variables=dict(ON, status_folder=str(folder))).ok()
        document, page = (
            json.loads((folder / "fabric-status.json").read_text()),
            (folder / "fabric-status.html").read_text(),
        )
        assert document["verdict"]["value"] == "proven" and document["traces"] == {
            "flows": [],
            "findings": [],
            "hops": [],
        }
        assert '<div class="map way">' not in page and "Packets that were followed" not in page


def test_check_mode_reads_only(fabric):
    before = nodes_now(fabric)
    with fabric.witness() as writes:
        run = fabric.play("trace", "--check", variables=lab.PING).ok()
    assert writes == [] and nodes_now(fabric) == before
    assert "no packet was sent" in run.out


def test_a_node_that_does_not_answer_is_not_read_and_the_rest_is(fabric):
    tree = fabric.tree
    tree["gcp_nodes"]["hosts"][lab.B] = dict(tree["gcp_nodes"]["hosts"][lab.B] or {}, ansible_netns_leader="/nowhere")
    inventory = fabric.state / "inventory" / "lost.yml"
    inventory.write_text(json.dumps({"all": {"children": tree}}), "utf-8")
    try:
        path = fabric.state / "trace.json"
        run = fabric.play("trace", inventory=inventory, variables=dict(lab.PING, trace_document=str(path)))
        document = json.loads(path.read_text("utf-8"))
    finally:
        inventory.unlink()
    assert lab.B in run.out and "unknown" in {hop["verdict"] for hop in document["hops"] if hop["where"] == lab.B}, (
        reported(document)
    )


def test_a_limit_reports_what_it_leaves_out(fabric):
    run, document = trace(fabric, "--limit", "aws_nodes", **lab.PING)
    assert "outside of --limit: " + lab.B in run.out
    assert "unknown" in {hop["verdict"] for hop in document["hops"] if hop["where"] == lab.B}, reported(document)


def test_killed_runs_leave_nothing(fabric):
    before, generator = nodes_now(fabric), random.Random(SEED)
    for number in range(KILLS):
        process = subprocess.Popen(
            [
                "ansible-playbook",
                "-i",
                str(fabric.inventory),
                "multicluster.network.trace",
                "-e",
                json.dumps(dict(lab.PING, trace_lifetime=5)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        delay = generator.uniform(1.0, 9.0)
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        fabric.ran(f"killed {number + 1} after {delay:.1f} s")
    until(lambda: nodes_now(fabric) == before, 30)
    assert_arrives(fabric, **lab.PING)
