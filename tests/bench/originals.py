#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors by the upstream program and by the collection: requests and seconds, cold and again.

Run by `tests/run bench originals` with ORIGINALS=DIR in its environment. Both read the same source and write to the same server, each into a
namespace of its own, one after the other; what they leave must have the same content. Upstream runs as it is, and as
``semaphore-service-mirror-lifted``, where DIR has one: the same program built without the limits of its client and queues, which no setting of it
lifts. What is missing is said.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

from _clusters import api_server, head, row, run_flow, together
from services import DEFINITION, LABELS, Form

NAME, USER = "semaphore-service-mirror", "original"
NAMES = {"default limits": NAME, "limits lifted": NAME + "-lifted"}
OWN = "owned"
SELECTOR = next("{0}={1}".format(*one) for one in LABELS.items())
FORM = Form(slices=False)


class Original:
    """One of the programs, with its copy in the cluster gcp."""

    def __init__(self, path, folder, aws, gcp, namespace):
        self.path, self.folder, self.servers = path, folder, {"aws": aws, "gcp": gcp}
        remote = {"name": "aws", "servicePrefix": "aws", "kubeConfigPath": self._kubeconfig("aws")}
        configured = {
            "global": {
                "mirrorSvcLabelSelector": SELECTOR,
                "globalSvcLabelSelector": "no=one",
                "globalSvcRoutingStrategyLabel": "no=one",
                "mirrorNamespace": namespace,
                "serviceSync": True,
                "endpointSliceSync": False,
            },
            "localCluster": {"name": "gcp"},
            "remoteClusters": [remote],
        }
        self.configured = folder / "config.json"
        self.configured.write_text(json.dumps(configured))

    def _kubeconfig(self, name):
        file = self.folder / (name + ".kubeconfig")
        file.write_text(json.dumps(self.servers[name].kubeconfig(USER)))
        return str(file)

    def run(self, done):
        """(seconds, requests of both servers) from its start until done() and its last request."""
        with (self.folder / "log").open("ab") as log:
            words = [str(self.path), "-config", str(self.configured), "-kube-config", self._kubeconfig("gcp")]
            marks, started = {name: server.mark() for name, server in self.servers.items()}, time.perf_counter()
            process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                while not done():
                    if process.poll() is not None:
                        raise SystemExit(
                            "the upstream program has ended:\n" + (self.folder / "log").read_text()[-2000:]
                        )
                    time.sleep(0.05)
                last = self._rest(marks)
                return last - started, self._asked(marks)
            finally:
                process.terminate()
                process.wait()

    def _asked(self, marks):
        return [entry for name, server in self.servers.items() for entry in server.audit(marks[name], USER)]

    def _rest(self, marks):
        """The time of the last request before two seconds without one."""
        before, since = len(self._asked(marks)), time.perf_counter()
        while time.perf_counter() - since < 2:
            time.sleep(0.1)
            now = len(self._asked(marks))
            if now != before:
                before, since = now, time.perf_counter()
        return since


def writes(asked):
    return sum(1 for verb, dummy, dummy in asked if verb in ("create", "update", "patch", "delete"))


def sources(aws, numbers):
    client = aws.client()
    client.apply(
        "/api/v1/namespaces/shop", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "bench"
    )
    together(
        [
            lambda obj=obj: client.apply(FORM.path(obj), obj, "bench", force=True)
            for number in numbers
            for obj in FORM.source(number)
        ]
    )


def mirrors(gcp, namespace):
    """{(kind, name): its content}"""
    return FORM.state(gcp, namespace)


def complete(gcp, namespace, count):
    client = gcp.client()
    names = [len(client.list(f"/api/v1/namespaces/{namespace}/{plural}").items) for plural in ("services", "endpoints")]
    return names == [count, count]


def owned(aws, gcp, namespace):
    """(seconds of the flow, of its whole process, requests)"""
    marks = aws.mark(), gcp.mark()
    request = {
        "fabric": "bench",
        "clusters": [aws.access("aws"), gcp.access("gcp")],
        "definition": DEFINITION,
        "sources": ["aws"],
        "destinations": ["gcp"],
        "mirror_namespace": namespace,
        "mirror_selector": SELECTOR,
        "mirror_as": "endpoints",
        "endpoint_fields": "all",
    }
    answer = run_flow("services.mirror", request, diff=False)
    return answer["seconds"], aws.audit(marks[0]) + gcp.audit(marks[1])


def measure(count, programs, more_than_once):
    with api_server(users=[USER]) as aws, api_server(users=[USER]) as gcp, tempfile.TemporaryDirectory() as folder:
        client = gcp.client()
        sources(aws, range(count))
        found = {}
        for side, path in programs.items():
            namespace = "theirs-" + side.split()[-1]
            place = pathlib.Path(folder) / namespace
            place.mkdir()
            client.apply(
                "/api/v1/namespaces/" + namespace,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
                "bench",
            )
            original = Original(path, place, aws, gcp, namespace)
            found[side, "cold"] = original.run(lambda namespace=namespace: complete(gcp, namespace, count))
            if more_than_once:
                mark = gcp.mark()  # it writes every mirror again at each of its starts, and has not begun before that
                found[side, "again"] = original.run(lambda mark=mark: writes(gcp.audit(mark, USER)) >= 2 * count)
        client.apply(
            "/api/v1/namespaces/" + OWN, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}, "bench"
        )
        found[OWN, "cold"] = owned(aws, gcp, OWN)
        found[OWN, "again"] = owned(aws, gcp, OWN)
        states = [mirrors(gcp, "theirs-" + side.split()[-1]) for side in programs] + [mirrors(gcp, OWN)]
        if any(state != states[0] for state in states) or len(states[0]) != 2 * count:
            raise SystemExit(f"they do not leave the same {count} mirrors: no time counts")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[100, 1000])
    parser.add_argument(
        "--once",
        action="store_true",
        help="leave out what upstream does at its next start, which takes as long as the first",
    )
    options = parser.parse_args()
    folder = os.environ.get("ORIGINALS", "")
    programs = {side: pathlib.Path(folder) / name for side, name in NAMES.items()}
    for side, path in list(programs.items()):
        if not folder or not os.access(path, os.X_OK):
            print(
                f"!!! NOT MEASURED: {side}; there is no {path.name} in ORIGINALS={folder or '(not given)'}", flush=True
            )
            del programs[side]
    if not programs:
        raise SystemExit(
            "originals needs the folder of the programs, built elsewhere: ORIGINALS=DIR tests/run bench originals"
        )
    head("Services", "run", "who", "seconds", "requests", "writes", "seconds / owned", "requests / owned")
    for count in options.counts:
        found = measure(count, programs, not options.once)
        for (side, run), (seconds, asked) in sorted(found.items(), key=lambda item: (item[0][1] != "cold", item[0][0])):
            base, least = found[OWN, run]
            ratios = (f"{seconds / base:.1f}", f"{len(asked) / len(least):.1f}")
            row(count, run, side, f"{seconds:.2f}", len(asked), writes(asked), *ratios)


if __name__ == "__main__":
    main()
