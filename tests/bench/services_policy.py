#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods of one cluster as one network set of another: network_sets compared with upstream's way, pod by pod.

Run by `tests/run bench services_policy`. Two real API servers. However many pods enter the set, it is one write, which the
audit log of the server has to confirm before a time counts. Upstream reads and writes the whole set once for each
pod; a bare client does the same here, one pod after the other as upstream's only worker does.
"""

from __future__ import annotations

import argparse
import os
import time

from _clusters import api_server, head, lists_alone, median, row, run_flow, together
from set_kinds import KINDS, LABEL, namespace, path_of, remove, serve

GRANTS = {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}}
SET, KIND = "gcp-web-forwarder", KINDS["calico"]
#: Pods up to which upstream's way is measured: its cost grows with the square.
MEASURED = 1000


def make_pods(client, first, last):
    """Labelled pods as a kubelet would report them."""
    base = "/api/v1/namespaces/web/pods"

    def one(number):
        name, address = f"p{number}", f"10.4.{number // 250}.{1 + number % 250}"
        meta = {"name": name, "labels": {LABEL: "forwarder"}}
        spec = {"containers": [{"name": "c", "image": "none"}], "nodeName": "node-1"}
        client.create(base, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "bench")
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        client.merge_patch(f"{base}/{name}/status", {"status": status}, "bench")

    together([lambda number=number: one(number) for number in range(first, last)])


class Bench:
    def __init__(self, aws, gcp, count):
        self.aws, self.gcp, self.count = aws, gcp, count
        self.request = {
            "fabric": "bench",
            "clusters": [aws.access("aws"), gcp.access("gcp")],
            "grants": GRANTS,
            "sources": ["gcp"],
            "targets": ["aws"],
        }

    def nets(self):
        return self.aws.client().get(path_of("calico", SET))["spec"][KIND["field"]]

    def drop(self):
        self.aws.client().delete(path_of("calico", SET))

    def owned(self, writes, size):
        """Seconds of one run, which made this many writes and left this many networks."""
        mark = self.aws.mark()
        answer = run_flow("services.network_sets", self.request)
        made = self.aws.writes(mark)
        if len(made) != writes or len(self.nets()) != size:
            raise SystemExit(f"{len(made)} writes, {len(self.nets())} networks: no time counts")
        return answer["seconds"]

    def lists(self):
        return lists_alone(
            self.request["clusters"], {"aws": [(path_of("calico"), None)], "gcp": [("/api/v1/pods", LABEL)]}
        )

    def pod_by_pod(self):
        """Upstream's way, from a set of one to a set of all: a GET and a PUT of the whole set for each pod."""
        client, path = self.aws.client(), path_of("calico", "by-pod")
        body = {"apiVersion": "{group}/{version}".format(**KIND), "kind": KIND["kind"], "metadata": {"name": "by-pod"}}
        nets = sorted(self.nets())
        client.create(path_of("calico"), dict(body, spec={KIND["field"]: nets[:1]}), "bench")
        started = time.perf_counter()
        for number in range(2, len(nets) + 1):
            current = client.get(path)
            current["spec"] = {KIND["field"]: nets[:number]}
            client._object("put", "PUT", path, None, current)
        seconds = time.perf_counter() - started
        assert len(client.get(path)["spec"][KIND["field"]]) == len(nets)
        client.delete(path)
        return seconds

    def rounds(self, number):
        cold, unchanged, changed, lists = [], [], [], []
        client = self.gcp.client()
        for index in range(number):
            if index:
                self.drop()
            cold.append(self.owned(1, self.count))
            pair = [lambda: unchanged.append(self.owned(0, self.count)), lambda: lists.append(self.lists())]
            for one in pair if index % 2 else pair[::-1]:
                one()
            remove(client, "web", "p0")
            changed.append(self.owned(1, self.count - 1))
            make_pods(client, 0, 1)
            self.owned(1, self.count)
        return tuple(median(column) for column in (cold, unchanged, changed, lists))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with api_server() as aws, api_server() as gcp:
        serve(aws.client(), "calico")
        namespace(gcp.client(), "web")
        version = aws.client().get("/version")["gitVersion"]
        print(f"Pods of one network set, API server {version}; Linux {os.uname().release}")
        print(f"seconds; medians of {asked.rounds} interleaved runs, but for pod by pod: one run\n")
        head("pods", "change", "writes", "instead", "s", "network_sets, s", "ratio")
        made = 0
        for count in sorted(asked.pods):
            make_pods(gcp.client(), made, count)
            made = count
            bench = Bench(aws, gcp, count)
            cold, unchanged, changed, lists = bench.rounds(asked.rounds)
            if count <= MEASURED:
                slow = bench.pod_by_pod()
                row(
                    count,
                    "all enter",
                    1,
                    "pod by pod, GET and PUT of the set",
                    f"{slow:.2f}",
                    f"{cold:.3f}",
                    f"{slow / cold:.0f} x faster",
                )
            for what, writes, seconds in (
                ("all enter", 1, cold),
                ("unchanged", 0, unchanged),
                ("one leaves", 1, changed),
            ):
                row(
                    count,
                    what,
                    writes,
                    "the same lists read and decoded",
                    f"{lists:.3f}",
                    f"{seconds:.3f}",
                    f"{seconds / lists:.2f} x its time",
                )
            bench.drop()


if __name__ == "__main__":
    main()
