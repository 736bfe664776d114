#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How soon a change of one cluster is in the other, where the reconciler keeps both.

Run by `tests/run bench reaction`. Two real API servers and the reconciler's own process, as its unit starts it. The clock runs from before the
request that changes the source until a watch of the destination reports the object that was written for it. At the end both clusters must
hold what a run from scratch would write.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from _clusters import api_server, head, median, row, together
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watch import rows
from mirror_clusters import DEFINITION
from reconciler_process import Service
from services import DISCOVERY, ENDPOINTS, LABELS, Form

#: What upstream's client may send: so many requests a second after a burst. A model, since its reaction alone cannot be measured here.
ORIGINAL_RATE, ORIGINAL_BURST = 5.0, 10
TICKS = os.sysconf("SC_CLK_TCK")


class Arrivals:
    """When which address was first seen in the destination."""

    def __init__(self, server, form):
        self._client, self._form = server.client(), form
        self._seen, self._changed = {}, threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        with contextlib.suppress(
            KubeError
        ):  # the server ends first; before that, whoever waits reports what did not arrive
            self._listen()

    def _listen(self):
        path = f"{self._form.base}/namespaces/sys-semaphore/{self._form.plural}"
        while True:
            version = self._client.list(path).resource_version
            for event in rows(self._client, path, "", version, 3600):
                now = time.perf_counter()
                if event.get("type") not in ("ADDED", "MODIFIED"):
                    continue
                parts = event["object"].get("endpoints") or event["object"].get("subsets") or ()
                texts = [text for part in parts for text in part.get("addresses") or ()]
                with self._changed:
                    for text in texts:
                        self._seen.setdefault(text["ip"] if isinstance(text, dict) else text, now)
                    self._changed.notify_all()

    def wait(self, address, seconds=60.0):
        with self._changed:
            if not self._changed.wait_for(lambda: address in self._seen, seconds):
                raise SystemExit(f"{address} did not arrive within {seconds} s")
            return self._seen[address]


class Bench:
    def __init__(self, aws, gcp, count, folder):
        self.aws, self.gcp, self.count, self.folder = aws, gcp, count, folder
        self.client = aws.client()
        self.form = Form(self.client.serves(DISCOVERY, "EndpointSlice"))
        self.changed = 0

    def fill(self):
        self.client.apply(
            "/api/v1/namespaces/shop", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "bench"
        )
        todo = [obj for number in range(self.count) for obj in self.form.source(number)]
        together([lambda obj=obj: self.client.apply(self.form.path(obj), obj, "bench") for obj in todo])

    def change(self, number):
        """Another pod behind a Service; returns (its address, when)."""
        self.changed += 1
        address = f"10.2.{250 + self.changed // 250}.{1 + self.changed % 250}"
        obj = self.form.source(number % self.count)[1]
        if self.form.slices:
            obj["endpoints"] = obj["endpoints"][:-1] + [{"addresses": [address], "conditions": {"ready": True}}]
        else:
            obj["subsets"][0]["addresses"] = obj["subsets"][0]["addresses"][:-1] + [{"ip": address}]
        begun = time.perf_counter()
        self.client.apply(self.form.path(obj), obj, "bench", force=True)
        return address, begun

    def reactions(self, arrivals, times, pause=0.05):
        found = []
        for number in range(times):
            address, begun = self.change(number * 7)
            found.append(arrivals.wait(address) - begun)
            time.sleep(pause)
        return found

    def burst(self, arrivals, times):
        """Changes of so many Services at once; seconds until the last one arrived."""
        begun = time.perf_counter()
        changes = [None] * times
        together([lambda number=number: changes.__setitem__(number, self.change(number)) for number in range(times)])
        sent = time.perf_counter() - begun
        return sent, max(arrivals.wait(address) for address, unused in changes) - begun

    def compare(self):
        """What a run from scratch would still write: nothing."""
        request = {
            "fabric": "t",
            "clusters": [self.aws.access("aws"), self.gcp.access("gcp")],
            "definition": DEFINITION,
            "mirror_namespace": "sys-semaphore",
            "mirror_selector": next("{0}={1}".format(*one) for one in LABELS.items()),
        }
        result = mirror.run(request, check=True)
        if result["failures"] or result["plan"]["changes"]:
            raise SystemExit(f"a run from scratch would write: {(result['failures'] or result['plan']['changes'])[:3]}")
        return len(self.gcp.client().list("/api/v1/namespaces/sys-semaphore/services").items)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def used(pid):
    """Processor seconds and MiB of a process."""
    with pathlib.Path(f"/proc/{pid}/stat").open(encoding="ascii") as source:
        fields = source.read().rpartition(")")[2].split()
    with pathlib.Path(f"/proc/{pid}/status").open(encoding="ascii") as source:
        memory = next(int(line.split()[1]) for line in source if line.startswith("VmRSS"))
    return (int(fields[11]) + int(fields[12])) / TICKS, memory / 1024


class Plays:
    """ansible-playbook, one run after the other, as alongside a mesh run."""

    def __init__(self, folder):
        self._stop, self._book = threading.Event(), folder / "alongside.yml"
        self._book.write_text(
            "[{hosts: localhost, gather_facts: true, tasks: [{ping: }, {ping: }, {ping: }, {ping: }]}]"
        )
        self._thread = threading.Thread(target=self._work)

    def _work(self):
        while not self._stop.is_set():
            subprocess.run(
                [
                    "ansible-playbook",
                    "-i",
                    "localhost,",
                    "-c",
                    "local",
                    "-e",
                    "ansible_python_interpreter=" + sys.executable,
                    str(self._book),
                ],
                capture_output=True,
                check=True,
            )

    def __enter__(self):
        self._thread.start()
        time.sleep(2)

    def __exit__(self, *unused):
        self._stop.set()
        self._thread.join()


def settled(service):
    """Wait for the plan of everything."""
    while "whole_plan_age_seconds" not in service.page("/metrics")[1]:
        time.sleep(0.02)


def owned(server, mark):
    """Requests of one server besides watches and Leases."""
    return [entry for entry in server.audit(mark) if entry[0] != "watch" and "/leases" not in entry[1]]


def start(service):
    service.start()
    service.reported("READY=1")
    begun = time.perf_counter()
    settled(service)
    return time.perf_counter() - begun


def measure(bench, folder, times):
    service = Service({"aws": bench.aws, "gcp": bench.gcp}, folder)
    service.write(service_mirror_as="auto")
    bench.fill()
    first = start(service)
    arrivals = Arrivals(bench.gcp, bench.form)
    time.sleep(1)
    head(f"{bench.count} Services with {ENDPOINTS} endpoints", "median", "99 of 100", "longest")
    quiet = bench.reactions(arrivals, times)
    row(
        "one change after the other",
        *(f"{1000 * value:.0f} ms" for value in (median(quiet), percentile(quiet, 0.99), max(quiet))),
    )
    with Plays(folder):
        busy = bench.reactions(arrivals, times)
    row("while plays run", *(f"{1000 * value:.0f} ms" for value in (median(busy), percentile(busy, 0.99), max(busy))))
    sent, all_of_them = bench.burst(arrivals, 100)
    print()
    head("100 changes at once", "until the last arrived")
    row(f"the reconciler (they took {sent:.1f} s to make)", f"{all_of_them:.1f} s")
    row(
        f"model: upstream's client, {ORIGINAL_RATE:.0f} requests a second after {ORIGINAL_BURST}",
        f"{(100 - ORIGINAL_BURST) / ORIGINAL_RATE:.1f} s",
    )
    time.sleep(2)
    mark = {name: server.mark() for name, server in service.servers.items()}
    before, unused = used(service.process.pid)
    begun = time.perf_counter()
    time.sleep(30)
    after, memory = used(service.process.pid)
    idle = (after - before) / (time.perf_counter() - begun)
    asked = sum(len(owned(server, mark[name])) for name, server in service.servers.items())
    mark = {name: server.mark() for name, server in service.servers.items()}
    address, unused = bench.change(3)
    arrivals.wait(address)
    time.sleep(1)
    written = [entry[0] for entry in owned(bench.gcp, mark["gcp"])]
    service.end()
    there = bench.compare()
    mark = {name: server.mark() for name, server in service.servers.items()}
    again = start(service)
    lists = {name: owned(server, mark[name]) for name, server in service.servers.items()}
    service.end()
    print()
    head("what it costs", "")
    row(f"first plan of everything, from ready on ({there} mirrors written)", f"{first:.1f} s")
    row(
        "the same after a restart, nothing changed",
        "{0:.1f} s, {1} writes".format(
            again, sum(entry[0] not in ("get", "list") for entries in lists.values() for entry in entries)
        ),
    )
    row("one change: requests of the destination", ", ".join(written))
    row(
        "30 idle seconds: processor, memory, requests besides watches and Leases",
        f"{100 * idle:.1f} %, {memory:.0f} MiB, {asked}",
    )
    print("\nBoth clusters hold what a run from scratch writes.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100)
    given = parser.parse_args()
    with api_server() as aws, api_server() as gcp, tempfile.TemporaryDirectory() as folder:
        measure(Bench(aws, gcp, given.services, pathlib.Path(folder)), pathlib.Path(folder), given.changes)


if __name__ == "__main__":
    main()
