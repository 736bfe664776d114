# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Following real API servers: through noise, kills, a forgotten history, and at a bounded price."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pathlib
import signal
import threading
import time

import pytest
import urllib3
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh.watch import Watch
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watch import Settings, rows
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from api_server import TOKEN, ApiServer
from faulty_server import compact

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"
PLUGIN = pathlib.Path(__file__).resolve().parents[2] / "extensions" / "eda" / "plugins" / "event_source" / "clusters.py"

#: Half a minute together; `tests/run continuous` has them.
FULL = pytest.mark.skipif(
    not os.environ.get("MCN_FULL"), reason="NOT RUN here: it takes minutes; `tests/run continuous` runs it"
)


class OwnServer(ApiServer):
    """An API server that may be killed, and another one over the same etcd."""

    def kill(self):
        self.processes[1].send_signal(signal.SIGKILL)
        self.processes[1].wait(15)

    def again(self):
        """The same API server again; returns when it is ready."""
        self.run(self.processes[1].args, "apiserver-again")
        self.processes[1] = self.processes.pop()
        self.wait()

    def second(self):
        """Another API server over the same etcd, on its own port, that this one's clients do not know."""
        other = ApiServer(self.folder / "second")
        other.folder.mkdir()
        words = list(self.processes[1].args)
        for option, value in (
            ("--secure-port", str(other.port)),
            ("--audit-log-path", str(other.folder / "audit.log")),
            ("--cert-dir", str(other.folder / "certs")),
        ):
            words[words.index(option) + 1] = value
        other.run(words, "apiserver")
        self.wait(other.url)
        return other

    def wait(self, url=""):
        pool = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=2)
        deadline = time.monotonic() + 180
        while True:
            try:
                if (
                    pool.request(
                        "GET", (url or self.url) + "/readyz", headers={"Authorization": "Bearer " + TOKEN}
                    ).status
                    == 200
                ):
                    return
            except urllib3.exceptions.HTTPError:
                pass
            assert time.monotonic() < deadline, "the API server did not get ready"
            time.sleep(0.1)

    def requests(self, mark, path):
        """verb -> how many requests began under a path since the mark."""
        counts = {}
        with self.audit_file.open("rb") as log:
            log.seek(mark)
            for entry in map(json.loads, log):
                first = entry["stage"] == ("ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete")
                if first and entry["requestURI"].split("?")[0].startswith(path):
                    counts[entry["verb"]] = counts.get(entry["verb"], 0) + 1
        return counts


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    made = OwnServer(tmp_path_factory.mktemp("own-apiserver"))
    try:
        made.start()
        deadline = time.monotonic() + 120
        # the server makes its own Service a while after it reports that it is ready
        while not made.client().list(SERVICES, field_selector="metadata.name=kubernetes").items:
            assert time.monotonic() < deadline, "the API server did not make the Service default/kubernetes"
            time.sleep(0.1)
        yield made
    finally:
        made.stop()


class Listener:
    """A Watch in use."""

    def __init__(self, server, *watch, **more):
        self.stop, self.log, self.events = threading.Event(), [], []
        request = dict(
            {
                "clusters": [server.access()],
                "watch": [{"resource": name} for name in watch],
                "window": 0.2,
                "longest": 1.0,
            },
            **more,
        )
        self.watch = Watch(request, self.stop, self.log.append)
        self.watch.start()

    def until(self, condition, seconds=90.0):
        deadline = time.monotonic() + seconds
        while not condition(self.events):
            assert time.monotonic() < deadline, (self.events, self.log)
            self.events += self.watch.next(0.5)

    def ready(self):
        deadline = time.monotonic() + 90
        while not self.watch.complete:
            assert time.monotonic() < deadline, self.log
            self.events += self.watch.next(0.1)
        time.sleep(0.5)  # from the list to the watch
        assert self.events == []
        return self

    def names(self):
        return {name for event in self.events for name in event["names"]}


def make_node(server, name, **labels):
    server.client().create(
        NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}, "tests"
    )


def test_exports_are_followed_in_whichever_version_there_is(own):
    """A kind that need not be there is asked for in all of its versions before it counts as missing."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "serviceexports", "singular": "serviceexport", "kind": "ServiceExport"}
    spec = {
        "group": "multicluster.x-k8s.io",
        "scope": "Namespaced",
        "names": names,
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1748"}
    meta = {"name": "serviceexports.multicluster.x-k8s.io", "annotations": approved}
    path, api = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", own.client()
    api.create(
        path,
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec},
        "tests",
    )
    while not own.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceExport"):
        time.sleep(0.1)
    listener = Listener(own, "serviceexports").ready()
    place = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceexports"
    api.create(
        place,
        {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "web"}},
        "tests",
    )
    listener.until(
        lambda events: any(event["kind"] == "ServiceExport" and event["names"] == ["default/web"] for event in events)
    )
    listener.stop.set()
    api.delete(path + "/" + meta["name"])


def test_changes_arrive_and_noise_does_not(own):
    make_node(own, "w0", a="b")  # the server keeps no record of who writes a Node that was made without any field
    make_node(own, "w1")
    listener = Listener(own, "nodes", "services", "endpointslices").ready()
    api = own.client()
    api.strategic_patch(
        NODES + "/w1/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": None}]}},
        "kubelet",
    )
    api.merge_patch(NODES + "/w1", {"metadata": {"annotations": {"kilo.squat.ai/last-seen": "5"}}}, "kilo")
    owned = {"name": "mirror", "labels": {"app.kubernetes.io/managed-by": "multicluster.network"}}
    api.create(
        SERVICES,
        {"apiVersion": "v1", "kind": "Service", "metadata": owned, "spec": {"ports": [{"port": 80}]}},
        "multicluster.network/x",
    )
    api.create(
        SERVICES,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}},
        "tests",
    )
    api.merge_patch(
        NODES + "/w1", {"metadata": {"annotations": {"wireguard.semaphore.uw.io/public-key": "x"}}}, "tests"
    )
    # what the run of a mesh publishes
    annotations = {"aws": {"w0": {"gcp.wireguard.semaphore.uw.io/pubKey": "x"}}}
    node_annotations.run(
        {"fabric": "t", "clusters": [own.access()], "annotations": annotations, "prefixes": [], "timeout": 30}
    )
    assert api.get(NODES + "/w0")["metadata"]["annotations"]
    listener.until(
        lambda events: (
            {("Service", "default/web"), ("Node", "w1")} <= {(e["kind"], n) for e in events for n in e["names"]}
        )
    )
    listener.until(lambda events: listener.watch.next(1.5) == [])
    assert listener.names() == {"default/web", "w1"}
    listener.stop.set()


def test_a_killed_server_costs_only_delay(own):
    listener = Listener(own, "nodes", settings=Settings(first_pause=0.1, longest_pause=1.0)).ready()
    own.kill()
    listener.until(lambda events: any("unreachable" in line for line in listener.log) or listener.watch.next(0.1))
    own.again()
    make_node(own, "after-kill")
    listener.until(lambda events: "after-kill" in listener.names())
    assert listener.names() == {"after-kill"} and any("again" in line for line in listener.log)
    listener.stop.set()


@FULL
def test_a_forgotten_history_gives_the_real_differences(own):
    """What happens while we are away, and is compacted before we are back: the server answers 410."""
    for name in ("kept", "leaves"):
        make_node(own, name)
    listener = Listener(own, "nodes", settings=Settings(first_pause=0.1, longest_pause=1.0)).ready()
    old = own.client().list(NODES).resource_version
    own.kill()
    other = own.second()
    try:
        api = other.client()
        make_node(other, "comes")
        api.delete(NODES + "/leaves")
        for number in range(5):
            api.merge_patch(
                NODES + "/kept", {"metadata": {"annotations": {"kilo.squat.ai/last-seen": str(number)}}}, "kilo"
            )
        compact(own, int(api.list(NODES).resource_version))
    finally:
        other.stop()
    mark = own.mark()
    own.again()
    listener.until(lambda events: {"comes", "leaves"} <= listener.names())
    assert listener.names() == {"comes", "leaves"}
    assert {t for event in listener.events for t in event["types"]} == {"added", "removed"}
    assert own.requests(mark, NODES).get("list") == 1  # because of the 410, which is really one:
    with pytest.raises(errors.Expired):
        list(rows(own.client(), NODES, "", old, 5))
    listener.stop.set()


@FULL
def test_a_quiet_time_costs_what_the_guide_has(own):
    """A scaled-down hour: watches of 2 s for 16 s, with heartbeats all the time. Per resource: a LIST, and a WATCH every 2 s."""
    make_node(own, "beats")
    mark = own.mark()
    listener = Listener(own, "nodes", "services", settings=Settings(seconds=2)).ready()
    begun = time.monotonic()
    api = own.client()
    while time.monotonic() - begun < 16:
        api.merge_patch(
            NODES + "/beats/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": str(time.time())}]}},
            "kubelet",
        )
        listener.events += listener.watch.next(0.3)
    listener.stop.set()
    took = time.monotonic() - begun
    assert listener.events == []
    for path in (NODES, "/api/v1/services"):
        counts = {verb: count for verb, count in own.requests(mark, path).items() if verb in ("list", "watch")}
        assert counts["list"] == 1 and took / 2 / 3 <= counts["watch"] <= took / 2 + 2, (path, counts, took)


def test_a_source_that_may_not_be_read_is_reported(own):
    listener = Listener(own, "nodes", clusters=[own.access(token="nobody"), dict(own.access("gcp"), kubeconfig=None)])
    make_node(own, "seen-elsewhere")
    listener.until(lambda events: any("unauthorized" in line for line in listener.log))
    listener.stop.set()


def test_the_account_for_following_can_do_that_and_no_more(own, tmp_path):
    objects = {"fabric": "t", "clusters": [own.access()], "objects": access_manifests(["follow"])}
    assert not cluster_objects.run(objects)["failures"]
    request = {
        "fabric": "t",
        "clusters": [own.access()],
        "service_account": "multicluster-follow",
        "namespace": "kube-system",
        "path": str(tmp_path / "config"),
        "expires": 3600,
        "renew_before": 60,
        "state": "present",
    }
    assert not cluster_token.run(request)["failures"]
    entry = {"name": "aws", "kubeconfig": str(tmp_path / "config")}
    listener = Listener(own, "nodes", "pods", "services", "endpointslices", clusters=[entry]).ready()
    make_node(own, "for-the-account")
    listener.until(lambda events: "for-the-account" in listener.names())
    listener.stop.set()
    with pytest.raises(errors.ListIncomplete, match="forbidden"):
        Client(parse_access(entry)).list("/api/v1/secrets")
    with pytest.raises(errors.Forbidden):
        Client(parse_access(entry)).get(NODES + "/for-the-account")


# --- the event source of Event-Driven Ansible ---------------------------------------------------------------------


def load_plugin():
    """As ansible-rulebook does: by its path, with nothing of the collection on Python's path."""
    spec = importlib.util.spec_from_file_location("event_source_clusters", PLUGIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_event_source(own):
    plugin = load_plugin()

    async def scene():
        queue = asyncio.Queue()
        args = {"clusters": [own.access()], "watch": [{"resource": "nodes"}], "window": 0.2, "longest": 1}
        task = asyncio.create_task(plugin.main(queue, args))
        first = await asyncio.wait_for(queue.get(), 60)
        make_node(own, "for-eda")
        second = await asyncio.wait_for(queue.get(), 60)
        task.cancel()
        return first, second

    first, second = asyncio.run(scene())
    assert first == {"mesh": {"type": "started", "clusters": ["aws"]}}
    assert second == {
        "mesh": {
            "type": "changed",
            "cluster": "aws",
            "kind": "Node",
            "names": ["for-eda"],
            "count": 1,
            "types": ["added"],
        }
    }


def test_the_event_source_merges_clusters_and_asks_once_while_a_run_works(own, monkeypatch):
    """Two clusters (of one server) have the same news; a run that is at work holds further ones back."""
    plugin = load_plugin()
    at_work = set()
    monkeypatch.setattr(plugin._flow("_flows.runs.run_lock"), "at_work", lambda: set(at_work))

    async def scene():
        queue = asyncio.Queue()
        rows = [{"resource": "nodes", "playbooks": ["mesh"]}]
        args = {"clusters": [own.access(), own.access("gcp")], "watch": rows, "window": 0.2, "longest": 1, "settle": 1}
        task = asyncio.create_task(plugin.main(queue, args))
        await asyncio.wait_for(queue.get(), 60)
        make_node(own, "merged-1")
        first = await asyncio.wait_for(queue.get(), 60)
        at_work.add((1, 1))
        await asyncio.sleep(2)
        for number in range(5):
            make_node(own, f"held-{number}")
            await asyncio.sleep(0.5)
        held = queue.empty()
        at_work.clear()
        second = await asyncio.wait_for(queue.get(), 60)
        await asyncio.sleep(3)
        task.cancel()
        return first["mesh"], held, second["mesh"], queue.empty()

    first, held, second, nothing_more = asyncio.run(scene())
    assert (
        first["run"] == "mesh"
        and first["clusters"] == ["aws", "gcp"]
        and first["names"] == ["aws/merged-1", "gcp/merged-1"]
    )
    assert held and nothing_more and second["count"] == 10 and second["clusters"] == ["aws", "gcp"]


@pytest.mark.parametrize(
    "args, reason", [({}, "clusters"), ({"clusters": [{"name": "a"}], "watch": [{"resource": "secrets"}]}, "secrets")]
)
def test_wrong_arguments_are_refused(args, reason):
    with pytest.raises(ValueError, match=reason):
        asyncio.run(load_plugin().main(asyncio.Queue(), args))
