# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source: what changes in the clusters of a fabric."""

from __future__ import annotations

import asyncio
import importlib
import logging
import pathlib
import sys
import threading
import time
import types
import typing as t

import yaml

DOCUMENTATION = r"""
name: clusters
short_description: News of the clusters of a fabric
description:
  - Lists, then watches objects in every cluster. Heartbeats, status that no plan reads, Leases, and what this collection wrote are no
    news. After an outage, or when an API server forgot its history, everything is listed again and only real differences are reported.
  - Changes are collected and merged over clusters and kinds. One event asks for one playbook and has names, never objects. While a run
    that holds the lock of the collection's playbooks is at work on this machine, nothing more is asked for.
options:
  clusters:
    description: The clusters, each with C(name) and its access as in the option C(clusters) of the collection's modules.
    type: list
    elements: dict
    required: true
  watch:
    description:
      - What is followed, each with C(resource), V(nodes), V(services), V(endpointslices), V(serviceexports), V(clustermeshes), V(blockaffinities),
        V(ipamblocks), V(ciliumnodes) or V(pods), and a
        C(selector) of labels.
      - C(playbooks) are the runs that a change asks for, as C(run) of the event. Without it in any row, an event is about one kind
        in one cluster.
      - A row with a C(capability) is followed where O(capabilities) has it.
      - The default is what the mesh, mirrored Services and policies depend on.
    type: list
    elements: dict
  capabilities:
    description: Capabilities of the fabric with rows that are followed in addition to those that name none.
    type: list
    elements: str
    default: []
  window:
    description: Seconds of quiet after which collected changes become an event.
    type: float
    default: 1
  longest:
    description: Seconds after which they do in any case.
    type: float
    default: 5
  watch_seconds:
    description: How long one WATCH lasts. It decides what a quiet hour costs, 3600 / O(watch_seconds) requests for each resource and cluster.
    type: float
    default: 540
  settle:
    description: Seconds to wait for a run that was asked for, where none is seen to start. Others may run it on another machine.
    type: float
    default: 30
  started:
    description: Whether the first event reports that the source began, for what changed while it did not run.
    type: bool
    default: true
"""

EXAMPLES = r"""
- multicluster.network.clusters:
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    watch:
      - {resource: nodes, playbooks: [mesh]}
      - {resource: services, selector: mirror.semaphore.uw.io/mirror-service=true, playbooks: [service_mirror]}
"""

#: As the collection's roles have it by default.
WATCH = (
    {"resource": "nodes", "playbooks": ["mesh"]},
    {"resource": "services", "selector": "mirror.semaphore.uw.io/mirror-service=true", "playbooks": ["service_mirror"]},
    {
        "resource": "endpointslices",
        "selector": "mirror.semaphore.uw.io/mirror-service=true",
        "playbooks": ["service_mirror"],
    },
    {"resource": "pods", "selector": "policy.semaphore.uw.io/name", "playbooks": ["network_sets"]},
)
#: The collection as it is installed.
ROOT = pathlib.Path(__file__).resolve().parents[4]
#: A cluster that does not answer for so long is no reason to keep the others waiting.
START_SECONDS = 15.0
_PACKAGE = "multicluster_network_event_source"
LOG = logging.getLogger("multicluster.network.clusters")


def _flow(name: str) -> types.ModuleType:
    """A module of the collection. ansible-rulebook does not put collections on Python's path, so its folder becomes a package."""
    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(ROOT / "plugins" / "module_utils")]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


if t.TYPE_CHECKING:
    from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import watch as fabric_watch
    from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
    from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import watch
    from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import names
    from ansible_collections.multicluster.network.plugins.module_utils._plan import runs
else:
    run_lock, fabric_watch, watch = (
        _flow("_flows.runs.run_lock"),
        _flow("_flows.mesh.watch"),
        _flow("_kubernetes.watch"),
    )
    names, runs = _flow("_mesh.fabric.names"), _flow("_plan.runs")


def watched(args: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The rows to follow. Raises ValueError where ``capabilities`` is no list, as text it would match by letters, or for a name of former times."""
    capabilities = args.get("capabilities") or []
    if not isinstance(capabilities, (list, tuple)):
        raise ValueError("capabilities is a list, such as [load_balancers]")
    with (ROOT / "playbooks" / "vars" / "run_variables.yml").open("rb") as stream:
        table = yaml.safe_load(stream)["former"]
    former = {**table["capabilities"], **table["playbooks"]}
    renamed = names.renamed_words([capabilities, args.get("watch") or []], former)
    if renamed:
        raise ValueError("capabilities or watch: " + ", ".join(renamed))
    return [
        dict(row)
        for row in args.get("watch") or WATCH
        if not row.get("capability") or row["capability"] in capabilities
    ]


async def main(queue: t.Any, args: dict[str, t.Any]) -> None:
    """Put events {mesh: {...}} into the queue until cancelled. Raises ValueError for wrong arguments."""
    stop, loop = threading.Event(), asyncio.get_running_loop()
    clusters = [dict(entry) for entry in args.get("clusters") or ()]
    rows = watched(args)
    request = {
        "clusters": clusters,
        "watch": rows,
        "window": float(args.get("window", 1)),
        "longest": float(args.get("longest", 5)),
        "settings": watch.Settings(seconds=float(args.get("watch_seconds", 540))),
    }
    news = fabric_watch.Watch(request, stop, LOG.warning)
    merged = any(row.get("playbooks") for row in rows)
    kinds = {name: [kind for kind, unused in places] for name, places in watch.RESOURCES.items()}
    pending = runs.Runs(rows, kinds, float(args.get("settle", 30)))

    def due(seconds: float) -> list[dict[str, t.Any]]:
        """Events that may be reported now; waits for news at most so long."""
        events = news.next(seconds)
        if not merged:
            return events
        pending.add(events)
        pending.see(run_lock.at_work(), time.monotonic())
        return pending.take(time.monotonic())

    news.start()
    try:
        if args.get("started", True):
            end = loop.time() + START_SECONDS
            while not news.complete and loop.time() < end:  # once everything was listed, nothing is missed
                for event in await loop.run_in_executor(None, due, 0.5):
                    await queue.put({"mesh": dict(event, type="changed")})
            pending.asked(1, time.monotonic())
            await queue.put(
                {"mesh": {"type": "started", "clusters": sorted(str(entry.get("name")) for entry in clusters)}}
            )
        while True:
            # the engine's loop never waits: a thread does
            for event in await loop.run_in_executor(None, due, 1.0):
                await queue.put({"mesh": dict(event, type="changed")})
    finally:
        stop.set()


if __name__ == "__main__":

    class _Printer:
        async def put(self, event: t.Any) -> None:
            """Show it."""
            sys.stdout.write(f"{event}\n")
            sys.stdout.flush()

    logging.basicConfig()
    asyncio.run(main(_Printer(), {"clusters": [{"name": "cluster", "kubeconfig": sys.argv[1]}]}))
