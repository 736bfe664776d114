# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small parts of the reconciler: its log, metrics and pages, which cluster's turn it is, and who is dead."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler import other_runs, worker
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.capabilities import LoadBalancers
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.metrics import Metrics
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.node_calls import NodeCalls
from ansible_collections.multicluster.network.plugins.module_utils._io import http_pages, systemd_notify
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watched_collection import Heard
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes
from hypothesis import given, strategies as st


@pytest.mark.parametrize(
    "holder, desired",
    [
        ("ops@host site.yml x/1/2", True),
        ("ops@host multicluster.network.service_mirror x", True),
        ("ops@host mesh.yml x", False),
        ("ops@host multicluster.network.mesh x", False),
        ("ops@host awx/mesh.yml job 118 x", False),
        ("ops@host awx/site.yml job 118 x", True),
        ("ops@host multicluster.network.kilo.teardown x", False),
        ("ops@host multicluster.network.ccm.nodes x", False),
        ("ops@host teardown.yml x", True),
        ("ops@host mesh.yml site.yml x", True),
        ("", True),
        ("anything at all", True),
        ("ops@host mesh.yaml", False),
    ],
)
def test_runs_that_are_waited_for(holder, desired):
    assert other_runs.concerns(holder) is desired


def test_a_run_of_the_mesh_is_waited_for_where_peers_change():
    for book in ("mesh.yml", "multicluster.network.mesh", "awx/mesh.yml"):
        assert other_runs.concerns(f"ops@host {book} x", other_runs.NODES_ELSEWHERE)
    assert other_runs.concerns("ops@host site.yml x", other_runs.NODES_ELSEWHERE)
    assert not other_runs.concerns("ops@host verify.yml x", other_runs.NODES_ELSEWHERE)


@given(st.text(max_size=60))
def test_any_holder_is_judged(text):
    assert other_runs.concerns(text) in (True, False) and processes.has_ended(text) in (True, False)


def test_who_is_dead():
    assert not processes.has_ended(processes.identity())
    words = processes.identity().split(" ")
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    born = processes.birth(child.pid)
    child.wait()
    assert processes.has_ended(" ".join([words[0], words[1], str(child.pid), born or "1"]))
    assert not processes.has_ended(" ".join([words[0], "elsewhere", str(child.pid), born or "1"])), (
        "of another machine nothing is known"
    )
    assert processes.has_ended(" ".join([words[0], words[1], words[2], "1"])), "the number came to another process"


@given(st.text(max_size=50), st.text(max_size=50))
def test_a_line_of_the_log_is_one_line_of_keys_and_values(name, text):
    lines = []
    Log(lines.append).say("part", "wrote", object=name, message=text, several=[name, text])
    (line,) = lines
    assert line.endswith("\n") and line[:-1].isprintable() and line.count("\n") == 1
    assert re.match(r'part=part event=wrote object=(\S*|".*") message=(\S*|".*") several=', line)


def test_what_is_said_once():
    lines = []
    log = Log(lines.append)
    for unused in range(3):
        log.once("a", "refused", object="x")
    assert len(lines) == 1


def test_metrics_in_the_form_that_prometheus_reads():
    metrics = Metrics()
    metrics.count("errors_total", capability='we"ird\\\n')
    metrics.turn("service_mirror", 0.25, 0.3, 2, False)
    metrics.turn("service_mirror", 0.25, 0.3, 0, True)
    text = metrics.text([("leader", {"cluster": "aws"}, 1.0), ("queue_length", {}, 3)])
    assert 'multicluster_reconciler_errors_total{capability="we\\"ird\\\\\\n"} 1\n' in text
    assert (
        'reaction_seconds_bucket{capability="service_mirror",le="0.2"} 0\n' in text
        and 'le="0.5"} 1\n' in text
        and 'le="+Inf"} 1\n' in text
    )
    assert (
        'reaction_seconds_sum{capability="service_mirror"} 0.3\n' in text
        and "multicluster_reconciler_queue_length 3\n" in text
    )
    for line in text.splitlines():
        assert line.startswith("# ") or re.match(
            r'multicluster_reconciler_[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? [0-9.e+-]+\Z', line
        ), line


def test_pages():
    server = http_pages.serve("127.0.0.1", 0, {"/metrics": lambda: (200, "text/plain", "ok\n")})
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        assert urllib.request.urlopen(url + "/metrics?x=1", timeout=5).read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "/etc/passwd", timeout=5)
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(urllib.request.Request(url + "/metrics", data=b"x"), timeout=5)
    finally:
        server.shutdown()


def test_systemd_is_reported_and_may_be_deaf(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        systemd_notify.notify("READY=1", {"NOTIFY_SOCKET": path})
        assert listener.recv(100) == b"READY=1"
    systemd_notify.notify("READY=1", {"NOTIFY_SOCKET": path})
    systemd_notify.notify("READY=1", {})
    assert systemd_notify.watchdog_seconds({"WATCHDOG_USEC": "60000000"}) == 30
    assert systemd_notify.watchdog_seconds({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid() + 1)}) is None
    assert (
        systemd_notify.watchdog_seconds({}) is None and systemd_notify.watchdog_seconds({"WATCHDOG_USEC": "x"}) is None
    )


def test_a_cluster_that_does_not_answer_keeps_no_other_waiting():
    turns, lines = [], []

    class Slow:
        """A capability to which gcp answers after its event is set."""

        answers, window = False, (0.02, 0.2)

        def keys(self, cluster, heard):
            return ("a",)

        def playbooks(self, result):
            return ()

        orders = playbooks

        def run(self, keys, clients, led):
            turns.append((frozenset(keys), led))
            failed = (
                [{"cluster": "gcp", "operation": "x", "message": "y", "reason": "timed_out"}]
                if "gcp" in led and not self.answers
                else []
            )
            return {"plan": {"changes": []}, "refused": [], "failures": failed}

    def until(what):
        end = time.monotonic() + 30
        while not what():
            assert time.monotonic() < end, (turns, lines)
            time.sleep(0.01)

    one, both = Slow(), frozenset(("aws", "gcp"))
    kept = worker.Worker("slow", one, {}, Log(lines.append), Metrics(), 300.0, lambda: both, lambda name: None)
    kept.start()
    try:
        until(lambda: any("event=rests cluster=gcp" in line for line in lines))
        kept.heard("aws", event("a"))
        until(lambda: (frozenset("a"), frozenset(("aws",))) in turns)
        one.answers = True
        until(lambda: turns[-1] == (frozenset(("",)), both) and len(turns) > 2)
    finally:
        kept.stop()


def test_deletions_are_counted_together():
    """What a plan of a part may not decide waits for quiet, and then everything is planned once; a change after it is quick again."""
    turns = []

    class Careful:
        window = (0.0, 0.0)

        def keys(self, cluster, heard):
            return (heard.name,)

        def playbooks(self, result):
            return ()

        orders = playbooks

        def run(self, keys, clients, led):
            turns.append((time.monotonic(), frozenset(keys)))
            return (
                None
                if any(key.startswith("gone") for key in keys)
                else {"plan": {"changes": []}, "refused": [], "failures": []}
            )

    kept = worker.Worker(
        "careful",
        Careful(),
        {},
        Log(lambda line: None),
        Metrics(),
        300.0,
        lambda: frozenset(("aws",)),
        lambda name: None,
    )
    kept.start()
    try:
        for number in range(10):
            kept.heard("aws", event(f"gone{number}"))
            time.sleep(0.03)
        end = time.monotonic() + 30
        while kept.look()["length"] or turns[-1][1] != frozenset(("",)):
            assert time.monotonic() < end, turns
            time.sleep(0.01)
    finally:
        kept.stop()
    assert [keys for unused, keys in turns].count(frozenset(("",))) <= 2, "at the start, and once for all deletions"
    assert {key for unused, keys in turns for key in keys} == {"", *(f"gone{number}" for number in range(10))}


def test_a_reaction_is_counted_of_each_event_whichever_plan_takes_it():
    """Also of a plan of everything, and from the event on where the first try failed; a plan that no event asked for has none."""
    turns, lines, fails = [], [], []

    class Writing:
        window = (0.0, 0.0)

        def keys(self, cluster, heard):
            return ("",) if heard.name == "everything" else (heard.name,)

        def playbooks(self, result):
            return ()

        orders = playbooks

        def run(self, keys, clients, led):
            turns.append(frozenset(keys))
            failed = [fails.pop()] if fails else []
            return {"plan": {"changes": [], "update": not failed}, "refused": [], "failures": failed}

    metrics = Metrics()

    def counted(name):
        found = re.search(rf'reaction_seconds_{name}{{capability="writing"}} (.*)', metrics.text())
        return float(found.group(1)) if found else 0

    def until(what):
        end = time.monotonic() + 30
        while not what() or kept.look()["length"]:
            assert time.monotonic() < end, (turns, metrics.text())
            time.sleep(0.01)

    led = {"aws"}
    kept = worker.Worker(
        "writing", Writing(), {}, Log(lines.append), metrics, 300.0, lambda: frozenset(led), lambda name: None
    )
    kept.start()
    try:
        until(lambda: turns == [frozenset(("",))])
        assert counted("count") == 0, "nothing happened"
        kept.heard("aws", event("everything", news=False))
        until(lambda: len(turns) == 2)
        assert counted("count") == 0, "a collection that is in doubt is no event"
        kept.heard("aws", event("everything"))
        until(lambda: counted("count") == 1)
        kept.heard("aws", event("a"))
        until(lambda: counted("count") == 2)
        before = counted("sum")
        fails.append({"cluster": "aws", "operation": "x", "message": "y", "reason": "conflict"})
        kept.heard("aws", event("a"))
        until(lambda: len(turns) == 6)
        assert counted("count") == 3 and counted("sum") - before >= 0.5, "from the event on, not from the second try"
        fails.append({"cluster": "gcp", "operation": "x", "message": "y", "reason": "unreachable"})
        kept.heard("aws", event("b"))
        until(lambda: len(turns) == 8)
        assert counted("count") == 3, "it waits for a cluster that is away"
        led.clear()
        kept.heard("aws", event("a"))
        time.sleep(0.5)  # two looks at who leads
        led.add("aws")
        until(lambda: len(turns) == 9)
        assert counted("count") == 3, "the other one that led had it to do"
    finally:
        kept.stop()


def event(name, news=True):
    return Heard("/api/v1/services", "", name, {}, news)


def reported(routes, **more):
    return dict({"routes": [{"network": network} for network in routes], "left_out": {}, "segments": {}}, **more)


def test_what_is_announced_is_reported_by_a_node_call_and_at_first_by_the_playbook():
    """At first, since who led before may have ended between its write and its node call, and the inventory may have news of nodes."""
    capability = LoadBalancers({"clusters": []})

    def asked(**rows):
        result = {"load_balancers": rows}
        return capability.orders(result), list(capability.playbooks(result))

    nothing, one, two = reported([]), reported(["203.0.113.0/32"]), reported(["203.0.113.0/32", "203.0.113.1/32"])
    assert asked() == ({}, []) and asked(aws=one) == ({}, ["load_balancers"]) and asked(aws=one) == ({}, [])
    assert asked() == ({}, []) and asked(aws=one, gcp=nothing) == ({}, []), "somebody else led in between"
    assert asked(aws=two) == ({"aws": two}, []) and asked(aws=two) == ({}, [])
    assert asked(gcp=one) == ({"gcp": one}, []), (
        "its speakers may be there already, and where they are not the playbook comes"
    )
    out = dict(two, left_out={"aws-node-1": "excluded"})
    assert asked(aws=out) == ({"aws": out}, [])
    assert asked(aws=dict(out, releases=["x"])) == ({}, ["load_balancers"])
    assert asked(aws=nothing) == ({"aws": nothing}, []) and asked(aws={}) == ({}, [])


def test_nodes_that_replace_each_other_are_reported_by_node_calls_too():
    capability = LoadBalancers({"clusters": []})
    segments = {"rack": [{"name": "aws-node-1", "addresses": ["10.66.23.31"]}]}
    none, one = reported([], segments=segments), reported(["203.0.113.0/32"], segments=segments)
    for row, orders in ((none, {}), (one, {"aws": one}), (one, {}), (none, {"aws": none})):
        result = {"load_balancers": {"aws": row}}
        assert (capability.orders(result), list(capability.playbooks(result))) == (orders, [])


def test_after_a_play_of_somebody_else_nodes_are_notified_again():
    capability = LoadBalancers({"clusters": []})
    one, nothing = reported(["203.0.113.0/32"]), reported([])
    capability.playbooks({"load_balancers": {"aws": one, "gcp": nothing}})
    capability.forget()
    assert capability.orders({"load_balancers": {"gcp": nothing}}) == {}, "nothing to repeat"
    assert (
        capability.orders({"load_balancers": {"aws": one}}) == {"aws": one}
        and capability.orders({"load_balancers": {"aws": one}}) == {}
    )


@contextlib.contextmanager
def visited(speak, free=lambda cluster: True, *more):
    lines, broken = [], []
    calls = NodeCalls(speak, free, lambda: broken.append("load_balancers"), Log(lines.append), Metrics(), *more)
    calls.lines, calls.broken = lines, broken
    calls.start()
    try:
        yield calls
    finally:
        calls.stop()


def wait_for(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_changes_during_a_node_call_is_one_further_call():
    seen, going, go = [], threading.Event(), threading.Event()

    def speak(orders):
        seen.append(orders)
        going.set()
        return go.wait(30)

    with visited(speak) as calls:
        calls.ask({"aws": reported(["a"])}, time.monotonic())
        assert going.wait(30)
        for number in range(20):
            calls.ask({"aws": reported(["a", str(number)]), "gcp": reported(["b"])}, time.monotonic())
        go.set()
        wait_for(lambda: len(seen) == 2 and not len(calls))
    assert seen == [{"aws": reported(["a"])}, {"aws": reported(["a", "19"]), "gcp": reported(["b"])}], (
        "the newest orders, once"
    )
    assert not calls.broken and len([line for line in calls.lines if "event=notified" in line]) == 2


def test_orders_that_are_not_all_of_it_are_joined_while_they_wait():
    seen, free = [], set()
    more = "pod_ranges", ("set", "not set"), lambda before, after: {**before, **after}
    with visited(lambda orders: seen.append(orders) is None, lambda cluster: cluster in free, *more) as calls:
        calls.ask({"aws": {"a": 1, "b": 1}}, time.monotonic())
        calls.ask({"aws": {"b": 2, "c": 2}}, time.monotonic())
        free.add("aws")
        wait_for(lambda: seen and calls.lines)
    assert seen == [{"aws": {"a": 1, "b": 2, "c": 2}}]
    assert ["part=pod_ranges event=set clusters=aws" in line for line in calls.lines] == [True], calls.lines


def test_nodes_of_a_cluster_that_is_not_free_now_wait_and_keep_no_other_waiting():
    seen, free = [], {"aws"}
    with visited(lambda orders: seen.append(orders) is None, lambda cluster: cluster in free) as calls:
        calls.ask({"aws": reported(["a"]), "gcp": reported(["b"])}, time.monotonic())
        wait_for(lambda: seen)
        calls.ask({"gcp": reported(["c"])}, time.monotonic())
        assert seen == [{"aws": reported(["a"])}] and len(calls) == 1
        free.add("gcp")
        wait_for(lambda: len(seen) == 2)
    assert seen[1] == {"gcp": reported(["c"])}


def test_a_node_call_that_fails_asks_for_the_playbook_and_the_next_goes_on():
    def speak(orders):
        if "aws" in orders:
            raise OSError("no space left on device")
        return "gcp" in orders

    with visited(speak) as calls:
        for cluster in ("aws", "other", "gcp"):
            calls.ask({cluster: reported(["a"])}, time.monotonic())
            wait_for(lambda: not len(calls))
            wait_for(lambda cluster=cluster: any("clusters=" + cluster in line for line in calls.lines))
    assert calls.broken == ["load_balancers"] * 2 and not calls.is_alive
    assert any("no space left" in line for line in calls.lines)
