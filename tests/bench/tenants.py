#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks of tenants: apinet_sync of 1,000 networks with 5,000 interfaces compared with a bare client that sends the same writes.

Run by `tests/run bench tenants`. One real API server is both sides. In a round the flow and the bare client each map a
tenant of their own and take turns at being first; both tenants must look the same before the round counts.
"""

from __future__ import annotations

import argparse

from _clusters import api_server, bare, head, median, python, row, run_flow, together
from tenant_servers import Lab, install, interface, make_namespace, source

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
SOURCE, APINET = "source", "apinet"
MANAGER = "multicluster.network%2Fbench"

#: What the pure part costs: both sides' lists in memory, a pass over them with the check of claims.
PLAN = """
import json, sys, time
from ansible_collections.multicluster.network.plugins.module_utils._flows import tenants, tenants_store
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import Clusters
from ansible_collections.multicluster.network.plugins.module_utils._tenants.claims import apply_claims
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import plan_pass
request = json.load(sys.stdin)
options, clusters = tenants.read_options(request), Clusters(request["clusters"], 300.0)
stores = tenants.open_stores(clusters, tenants.sides(request, ("source", "apinet")), options)
started = time.perf_counter()
view = tenants_store.gather(clusters, stores, options)
read = time.perf_counter() - started
assert not view.unread, clusters.failures
started = time.perf_counter()
refused = apply_claims(view)
works = plan_pass(view, tenants.now())
print(json.dumps({"read": read, "seconds": time.perf_counter() - started, "writes": sum(len(work.steps) for work in works)}))
"""


class Tenant:
    """One tenant and its namespace of twins. The interfaces are attached, and nothing is mapped yet."""

    def __init__(self, server, lab, name, networks, interfaces):
        self.server, self.lab, self.name, self.twins = server, lab, name, name + "-twins"
        self.networks, self.interfaces = networks, interfaces
        make_namespace(server, self.name)
        make_namespace(server, self.twins)
        together(
            [
                lambda number=number: lab.create(SOURCE, source("Network", f"net-{number}", {}, self.name))
                for number in range(networks)
            ]
        )
        self.uids = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in self.list(SOURCE, "Network")}
        together([lambda number=number: self.attach(number) for number in range(interfaces)])

    def attach(self, number):
        network, address = f"net-{number % self.networks}", f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"
        spec = {"nodeRef": {"name": "node-a"}, "networkRef": {"name": self.uids[network]}, "ips": [address]}
        meta = {"namespace": self.twins, "name": f"twin-{number}"}
        twin = {
            "apiVersion": self.lab.profile.apinet,
            "kind": "NetworkInterface",
            "metadata": meta,
            "spec": spec,
            "status": {"state": "Ready"},
        }
        made = self.lab.create(APINET, twin)
        nic = interface(f"nic-{number}", address, namespace=self.name, network=network)
        nic["spec"]["providerID"] = f"onmetal-api-net://{self.twins}/{meta['name']}/node-a/{made['metadata']['uid']}"
        self.lab.create(SOURCE, nic)

    def list(self, side, kind):
        return self.server.client().list(self.lab.path(side, kind, self.name if side == SOURCE else self.twins)).items

    def request(self):
        clusters = [dict(self.server.access("both"))]
        return {
            "fabric": "bench",
            "clusters": clusters,
            "source": "both",
            "apinet": "both",
            "apinet_namespace": self.twins,
            "watch_namespace": self.name,
            "lock_wait": 10,
            "timeout": 300,
        }

    def batches(self):
        """The writes of a first run as the bare client takes them: finalizers, twins, claims, states."""
        prefix, found = (
            "apinetlet.api.onmetal.de/",
            {kind: self.list(SOURCE, kind) for kind in ("Network", "NetworkInterface")},
        )
        twins = {obj["metadata"]["uid"]: obj["metadata"]["name"] for obj in self.list(APINET, "NetworkInterface")}
        finalizers, applied, claims, states = [], [], [], []
        for kind, objects in found.items():
            for obj in objects:
                meta, noun = obj["metadata"], kind.lower()
                path = self.lab.path(SOURCE, kind, self.name, meta["name"]) + "{0}?fieldManager=" + MANAGER
                guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
                finalizers.append(
                    (
                        "PATCH",
                        path.format(""),
                        {"metadata": dict(guard, finalizers=["apinet.api.onmetal.de/" + noun])},
                        MERGE,
                    )
                )
                labels = {
                    prefix + noun + "-name": meta["name"],
                    prefix + noun + "-namespace": self.name,
                    prefix + noun + "-uid": meta["uid"],
                }
                status = {"state": "Pending"}
                if kind == "Network":
                    body = {"apiVersion": self.lab.profile.apinet, "kind": kind}
                    body["metadata"] = {"namespace": self.twins, "name": meta["uid"], "labels": labels}
                    applied.append(
                        (
                            "PATCH",
                            self.lab.path(APINET, kind, self.twins, meta["uid"])
                            + "?force=true&fieldManager="
                            + MANAGER,
                            body,
                            APPLY,
                        )
                    )
                else:
                    twin = obj["spec"]["providerID"].rpartition("/")[2]
                    path_of_twin = self.lab.path(APINET, kind, self.twins, twins[twin]) + "?fieldManager=" + MANAGER
                    claims.append(("PATCH", path_of_twin, {"metadata": {"labels": labels, "uid": twin}}, MERGE))
                    status = {
                        "state": "Available",
                        "ips": [obj["spec"]["ips"][0]["value"]],
                        "lastStateTransitionTime": "2026-01-01T00:00:00Z",
                    }
                states.append(
                    ("PATCH", path.format("/status"), {"metadata": {"uid": meta["uid"]}, "status": status}, MERGE)
                )
        return [batch for batch in (finalizers, applied, claims, states) if batch]

    def state(self):
        """What is on both sides, without what differs between two tenants."""
        found = {}
        for side, kinds in ((SOURCE, ("Network", "NetworkInterface")), (APINET, ("Network", "NetworkInterface"))):
            for kind in kinds:
                for obj in self.list(side, kind):
                    status = {
                        key: value
                        for key, value in (obj.get("status") or {}).items()
                        if key != "lastStateTransitionTime"
                    }
                    labels = obj["metadata"].get("labels") or {}
                    called = next(
                        (value for key, value in labels.items() if key.endswith("-name")), obj["metadata"]["name"]
                    )
                    found[side, kind, called] = (obj["metadata"].get("finalizers"), sorted(labels), status)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--interfaces", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    times = {"flow": [], "bare": [], "again": [], "plan": [], "read": []}
    for number in range(given.rounds):
        with api_server() as server:
            install(server, SOURCE)
            install(server, APINET)
            lab = Lab(server, server)
            # the first write of each kind on a fresh server is slow, whoever sends it
            run_flow("tenants.converge", Tenant(server, lab, "warm", 1, 2).request())
            owned, theirs = (
                Tenant(server, lab, f"{name}-{number}", given.networks, given.interfaces) for name in ("own", "theirs")
            )
            planned = python(PLAN, owned.request())
            batches = theirs.batches()
            turns = [
                lambda tenant=owned: run_flow("tenants.converge", tenant.request()),
                lambda sent=batches: bare(server, sent),
            ]
            answers = [turns[index]() for index in ((0, 1) if number % 2 == 0 else (1, 0))]
            flow, rival = answers if number % 2 == 0 else reversed(answers)
            if owned.state() != theirs.state():
                raise SystemExit("the flow and the bare client did not do the same")
            again = run_flow("tenants.converge", owned.request())
            if again["result"]["changed"]:
                raise SystemExit("the second run changed something")
            requests = flow["result"]["stats"]["requests"]["both"]
            for key, value in (
                ("flow", flow["seconds"]),
                ("bare", rival["seconds"]),
                ("again", again["seconds"]),
                ("plan", planned["seconds"]),
                ("read", planned["read"]),
            ):
                times[key].append(value)
    writes = sum(len(batch) for batch in batches)
    head(f"{given.networks} networks, {given.interfaces} interfaces", "seconds", "ratio")
    row(f"bare client, {writes} writes", f"{median(times['bare']):.2f}", "1.00")
    ratio = median([one / other for one, other in zip(times["flow"], times["bare"])])
    row(
        f"apinet_sync, the whole first run ({', '.join('{1} {0}'.format(*one) for one in sorted(requests.items()))})",
        f"{median(times['flow']):.2f}",
        f"{ratio:.2f}",
    )
    row("of which reading both sides", f"{median(times['read']):.2f}", "")
    row(f"of which the first plan, {planned['writes']} writes", f"{median(times['plan']):.2f}", "")
    row("apinet_sync, unchanged", f"{median(times['again']):.2f}", "")


if __name__ == "__main__":
    main()
