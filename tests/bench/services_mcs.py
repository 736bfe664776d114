#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services that three clusters export, imported by all three: service_imports compared with its own lists.

Run by `tests/run bench services_mcs`, and by `tests/run bench services` after the mirrors. Three real API servers, each of which exports every
Service with ten endpoints; so each gets as many imports, and three times as many slices.
"""

from __future__ import annotations

import argparse
import contextlib
import os

from _clusters import api_server, head, lists_alone, median, row, run_flow, together

NAMES = ("aws", "gcp", "merit")
ENDPOINTS, NAMESPACE, DISCOVERY, API = 10, "shop", "discovery.k8s.io/v1", "multicluster.x-k8s.io/v1beta1"
PORT = {"name": "http", "protocol": "TCP", "port": 80}
DEFINITION = {
    "clusters": {
        name: {"pod_cidrs": [f"10.{20 + index}.0.0/16"], "service_cidrs": [f"10.{30 + index}.0.0/16"]}
        for index, name in enumerate(NAMES)
    }
}


def source(cluster, number):
    """(path, object) of a Service, its endpoints and its export."""
    name = f"s{number}"
    meta = {"name": name, "namespace": NAMESPACE}
    place = "/{0}/namespaces/" + NAMESPACE + "/{1}/" + name
    yield (
        place.format("api/v1", "services"),
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [PORT]}},
    )
    ips = [f"10.{20 + NAMES.index(cluster)}.{number % 250}.{1 + index}" for index in range(ENDPOINTS)]
    ends = [
        {
            "addresses": [ip],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "zone": "eu-1",
            "targetRef": {"kind": "Pod", "name": "p-" + ip, "namespace": NAMESPACE},
        }
        for ip in ips
    ]
    made = {
        "apiVersion": DISCOVERY,
        "kind": "EndpointSlice",
        "metadata": dict(meta, labels={"kubernetes.io/service-name": name}),
        "addressType": "IPv4",
        "ports": [dict(PORT, port=8080)],
        "endpoints": ends,
    }
    yield place.format("apis/" + DISCOVERY, "endpointslices"), made
    yield place.format("apis/" + API, "serviceexports"), {"apiVersion": API, "kind": "ServiceExport", "metadata": meta}


def request(servers):
    return {
        "fabric": "bench",
        "clusters": [server.access(name) for name, server in servers.items()],
        "definition": DEFINITION,
        "install_crds": True,
    }


def lists():
    """What an unchanged run lists of each cluster."""
    paths = ["/api/v1/services", "/api/v1/namespaces", f"/apis/{DISCOVERY}/endpointslices"]
    paths += [f"/apis/{API}/{plural}" for plural in ("serviceexports", "serviceimports")]
    return {name: [(path, None) for path in paths] for name in NAMES}


def rows(count, rounds):
    """Print the rows."""
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(api_server()) for name in NAMES}
        run_flow("services.service_imports", request(servers), diff=False)
        for name, server in servers.items():
            client = server.client()
            client.apply(
                "/api/v1/namespaces/" + NAMESPACE,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                "bench",
            )
            todo = [one for number in range(count) for one in source(name, number)]
            together([lambda path=path, obj=obj, client=client: client.apply(path, obj, "bench") for path, obj in todo])
        cold = run_flow("services.service_imports", request(servers), diff=False)
        # for each cluster the Services, imports and slices of every source, and the status of imports and exports
        if cold["plan"]["create"] != 3 * count * 5 or cold["plan"]["update"] != 3 * count * 2:
            raise SystemExit(f"not what was to be written: {cold['plan']}")
        row(count, "cold", f"{3 * count * 7} writes", "", f"flow {cold['seconds']:.1f}", "")
        times = []
        access = request(servers)["clusters"]
        for number in range(rounds):
            sides = [
                lambda: run_flow("services.service_imports", request(servers), diff=False),
                lambda: lists_alone(access, lists()),
            ]
            answers = {}
            for index in (0, 1) if number % 2 else (1, 0):
                answers[index] = sides[index]()
            if answers[0]["result"]["changed"]:
                raise SystemExit("an unchanged run changed something")
            times.append((answers[0]["seconds"], answers[1]))
        owned, alone = (median(column) for column in zip(*times))
        row(
            count,
            "unchanged",
            "the same lists read and decoded",
            f"{alone:.3f}",
            f"flow {owned:.3f}",
            f"{owned / alone:.2f} x its time",
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    measure(asked.services, asked.rounds)


def measure(count, rounds):
    """Print the table."""
    print(
        f"Imports of Services that {len(NAMES)} clusters export with {ENDPOINTS} endpoints each; Linux {os.uname().release}"
    )
    head("Services", "change", "instead", "s", "service_imports, s", "ratio")
    rows(count, rounds)


if __name__ == "__main__":
    main()
