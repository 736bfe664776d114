#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of one cluster mirrored into another: service_mirror compared with what users would do instead.

Run by `tests/run bench services`. Two real API servers, the second one fresh in every round. In a round the flow, the
bare client and the task of a playbook write the same objects, each into a namespace of its own, and take turns at being
first; all namespaces must hold the same before a round counts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import tempfile

import services_mcs
from _clusters import api_server, bare, head, lists_alone, median, play, row, run_flow, together

LABELS = {"mirror.semaphore.uw.io/mirror-service": "true"}
MIRROR_LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
PORTS = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]
FLOW, BARE, TASK, LOOP, LIST = "flow", "bare", "task", "loop", "list"
PLAY, EMPTY = "play", "empty play"
APPLY = "application/apply-patch+yaml"
DISCOVERY = "discovery.k8s.io/v1"
ENDPOINTS = 10
#: Objects of the slow loop; Services up to which the one task with a list is measured, and up to which in every round.
LOOPS, MEASURED, EVERY_ROUND = (50, 100), 1000, 100
#: So many times the rounds for what takes a quarter of a second, in which a median of a few is mostly the machine.
MORE = 5
DEFINITION = {
    "clusters": {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
    }
}


def addresses(number, first=0):
    """The pods of a Service; some have the same, which nothing minds."""
    return [f"10.2.{number % 250}.{1 + (first + index) % 250}" for index in range(ENDPOINTS)]


def target(ip):
    return {"kind": "Pod", "name": "pod-" + ip.replace(".", "-")}


class Form:
    """How endpoints are written on these API servers: as slices where there is discovery.k8s.io/v1."""

    def __init__(self, slices):
        self.slices = slices
        self.base, self.plural = ("/apis/" + DISCOVERY, "endpointslices") if slices else ("/api/v1", "endpoints")

    def source(self, number):
        """(Service, its endpoints) of the source cluster, without the fields that a mirror does not have."""
        name = f"s{number}"
        meta = {"name": name, "namespace": "shop", "labels": LABELS}
        return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": PORTS}}, self.endpoints(
            name, "shop", LABELS, number
        )

    def endpoints(self, name, namespace, labels, number, first=0, suffix="", more=None):
        ips = addresses(number, first)
        port = {key: PORTS[0][key] for key in ("name", "protocol")}
        if not self.slices:
            meta = {"name": name, "namespace": namespace, "labels": labels}
            subset = {
                "addresses": [{"ip": ip, "targetRef": target(ip)} for ip in sorted(ips)],
                "ports": [dict(port, port=8080)],
            }
            return {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [subset]}
        labels = dict(labels, **{"kubernetes.io/service-name": name}, **(more or {}))
        meta = {"name": name + suffix, "namespace": namespace, "labels": labels}
        return {
            "apiVersion": DISCOVERY,
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": "IPv4",
            "ports": [dict(port, port=8080)],
            "endpoints": [
                {"addresses": [ip], "conditions": {"ready": True}, "targetRef": target(ip)} for ip in sorted(ips)
            ],
        }

    def mirrors(self, count, namespace):
        """(Services, endpoints) as they must be in the other cluster, written down apart from the code under test."""
        services, ends = [], []
        for number in range(count):
            name = f"aws-shop-73736d-s{number}"
            meta = {"name": name, "namespace": namespace, "labels": MIRROR_LABELS}
            services.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": PORTS}})
            owned = {"endpointslice.kubernetes.io/managed-by": "multicluster.network"}
            ends.append(self.endpoints(name, namespace, MIRROR_LABELS, number, suffix="-4-0", more=owned))
        return services, ends

    def path(self, obj):
        plural, base = ("services", "/api/v1") if obj["kind"] == "Service" else (self.plural, self.base)
        return f"{base}/namespaces/{obj['metadata']['namespace']}/{plural}/{obj['metadata']['name']}"

    def batches(self, count, namespace):
        """The writes of a cold run, as the bare client takes them."""
        return [
            [
                (
                    "PATCH",
                    self.path(obj) + "?fieldManager=multicluster.network%2Fbench&force=false&fieldValidation=Ignore",
                    obj,
                    APPLY,
                )
                for obj in objects
            ]
            for objects in self.mirrors(count, namespace)
        ]

    def state(self, server, namespace):
        """What is in a namespace, without what the server fills in."""
        client, found = server.client(), {}
        for base, plural in (("/api/v1", "services"), (self.base, self.plural)):
            for obj in client.list(f"{base}/namespaces/{namespace}/{plural}").items:
                meta = obj["metadata"]
                body = {
                    key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")
                }
                if plural == "services":
                    body["spec"] = {
                        key: value for key, value in obj["spec"].items() if key not in ("clusterIP", "clusterIPs")
                    }
                found[plural, meta["name"]] = (meta.get("labels"), body)
        return found


class Bench:
    def __init__(self, aws, form, count, folder, core=None):
        self.aws, self.form, self.count, self.folder = aws, form, count, folder
        self.core = core  # who takes its turn in every round too, if anybody
        self.times = {side: [] for side in (FLOW, BARE, PLAY, EMPTY, LIST, "process")}

    def sources(self):
        """Fill the source cluster up to ``count`` Services."""
        client = self.aws.client()
        client.apply(
            "/api/v1/namespaces/shop", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "bench"
        )
        there = {obj["metadata"]["name"] for obj in client.list("/api/v1/namespaces/shop/services").items}
        todo = [obj for number in range(self.count) if f"s{number}" not in there for obj in self.form.source(number)]
        together([lambda obj=obj: client.apply(self.form.path(obj), obj, "bench") for obj in todo])

    def request(self, gcp, namespace):
        return {
            "fabric": "bench",
            "clusters": [self.aws.access("aws"), gcp.access("gcp")],
            "definition": DEFINITION,
            "sources": ["aws"],
            "destinations": ["gcp"],
            "mirror_namespace": namespace,
            "mirror_selector": next("{0}={1}".format(*one) for one in LABELS.items()),
        }

    def owned(self, gcp, namespace):
        return run_flow("services.mirror", self.request(gcp, namespace), diff=False)  # as without --diff

    def task(self, gcp, namespace):
        return play([{"multicluster.network.service_mirror": self.request(gcp, namespace)}], self.folder)

    def cold(self, gcp, number):
        """One round; its times once all sides have left the same."""
        client = gcp.client()
        for side in (FLOW, BARE, TASK):
            client.apply(
                "/api/v1/namespaces/" + side,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side}},
                "bench",
            )
        batches, answers = self.form.batches(self.count, BARE), {}
        sides = {
            FLOW: lambda: self.owned(gcp, FLOW),
            BARE: lambda: bare(gcp, batches),
            PLAY: lambda: {"seconds": self.task(gcp, TASK)},
            EMPTY: lambda: {"seconds": empty_play(self.folder)},
        }
        if self.core:
            sides[LIST] = lambda: {"seconds": self.core.play(gcp, LIST, self.count, False)}
        order = list(sides)
        for side in order[number % len(order) :] + order[: number % len(order)]:
            answers[side] = sides[side]()
        states = {side: self.form.state(gcp, side) for side in (FLOW, BARE, TASK)}
        if not all(state == states[BARE] and len(state) == 2 * self.count for state in states.values()):
            raise SystemExit(f"the namespaces do not hold the same {self.count} mirrors: no time counts")
        for side in order:
            self.times[side].append(answers[side]["seconds"])
        self.times["process"].append(answers[FLOW]["process"] - answers[FLOW]["seconds"])

    def medians(self):
        """{side: seconds} of the rounds so far; of tasks without the play around them."""
        times = {side: median(values) for side, values in self.times.items() if values}
        times[TASK] = times[PLAY] - times[EMPTY]
        if LIST in times:
            times[LIST] -= times[EMPTY]
        return times

    # -- what is there already -----------------------------------------------------------------------------------

    def lists(self, gcp):
        """The lists of an unchanged run."""
        plurals = [("/api/v1", "services"), (self.form.base, self.form.plural)]
        aws = [(f"{base}/{plural}", None) for base, plural in plurals]
        there = [(f"{base}/namespaces/{FLOW}/{plural}", None) for base, plural in plurals]
        if self.form.slices:
            there.append((f"/api/v1/namespaces/{FLOW}/endpoints", "mirrored-svc=true"))
        else:
            # of what an older server has besides, only the owned are of interest
            there.append((f"/apis/{DISCOVERY}beta1/namespaces/{FLOW}/endpointslices", None))
        return {"aws": aws, "gcp": there}

    def reads(self, gcp, function):
        """(the answer, which lists the servers saw)"""
        marks = {server: server.mark() for server in (self.aws, gcp)}
        answer = function()
        asked = {
            server.port: sorted(entry[:2] for entry in server.audit(mark) if entry[2] < 300)
            for server, mark in marks.items()
        }
        return answer, asked

    def unchanged(self, gcp, rounds):
        """(seconds of the collection, of its lists alone), the servers having seen the same requests from both."""
        access, lists, times = self.request(gcp, FLOW)["clusters"], self.lists(gcp), []
        sides = [lambda: self.owned(gcp, FLOW)["seconds"], lambda: lists_alone(access, lists)]
        for number in range(rounds):
            answers = {}
            for index in (0, 1) if number % 2 else (1, 0):
                answers[index] = self.reads(gcp, sides[index])
            if answers[0][1] != answers[1][1]:
                raise SystemExit(f"not the same requests: {answers}")
            times.append((answers[0][0], answers[1][0]))
        return tuple(median(column) for column in zip(*times))

    def changed(self, gcp, rounds):
        """Seconds of the collection after one endpoint of one Service has moved: one write."""
        times, client = [], self.aws.client()
        for number in range(rounds):
            obj = self.form.endpoints("s0", "shop", LABELS, 0, first=number + 1)
            client.apply(self.form.path(obj), obj, "bench", force=True)
            mark = gcp.mark()
            times.append(self.owned(gcp, FLOW)["seconds"])
            assert len(gcp.writes(mark)) == 1, gcp.writes(mark)
        obj = self.form.source(0)[1]
        client.apply(self.form.path(obj), obj, "bench", force=True)
        return median(times)


def empty_play(folder):
    """Wall clock of ansible-playbook that does nothing."""
    return play([{"meta": "noop"}], folder)


class Core:
    """kubernetes.core, which most people have: the same objects by its module k8s."""

    def __init__(self, form, folder):
        self.form, self.folder = form, folder

    def run(self, gcp, namespace, count, loop):
        """Wall clock of the task, without that of an empty play."""
        return self.play(gcp, namespace, count, loop) - empty_play(self.folder)

    def play(self, gcp, namespace, count, loop):
        """Wall clock of a play with the task."""
        gcp.client().apply(
            "/api/v1/namespaces/" + namespace,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            "bench",
        )
        objects = [obj for pair in zip(*self.form.mirrors(count, namespace)) for obj in pair]
        ca = self.folder / "ca.pem"
        ca.write_text(gcp.ca)
        access = gcp.access()
        module = {
            "host": gcp.url,
            "api_key": access["token"],
            "ca_cert": str(ca),
            "definition": "{{ item }}" if loop else "{{ objects }}",
        }
        task = {"kubernetes.core.k8s": module}
        if loop:
            task.update(loop="{{ objects }}", loop_control={"label": "{{ item.metadata.name }}"})
        seconds = play([task], self.folder, {"objects": objects})
        if len(self.form.state(gcp, namespace)) != len(objects):
            raise SystemExit("kubernetes.core left something else")
        return seconds


def measured_loop(core):
    """Seconds an object of the slow loop takes, the better of two measurements."""
    with api_server() as gcp:
        loops = [core.run(gcp, f"loop-{objects}", objects // 2, True) for objects in LOOPS]
    per_object = min(seconds / objects for seconds, objects in zip(loops, LOOPS))
    print(
        "loop of kubernetes.core.k8s: {0} objects {2:.1f} s, {1} objects {3:.1f} s, so {4:.2f} s an object\n".format(
            *LOOPS, *loops, per_object
        )
    )
    return per_object


def rows(asked, folder, form, aws, loop):
    """Print the rows, one number of Services after the other; ``loop``: seconds an object, None: without kubernetes.core."""
    for count in asked.services:
        core = Core(form, folder) if loop else None
        bench = Bench(aws, form, count, folder, core if count <= EVERY_ROUND else None)
        bench.sources()
        with contextlib.ExitStack() as last:
            for number in range(asked.rounds):
                last.close()
                gcp = last.enter_context(api_server())
                bench.cold(gcp, number)
            times = bench.medians()
            unchanged, lists = bench.unchanged(gcp, MORE * asked.rounds)
            changed = bench.changed(gcp, MORE * asked.rounds)
        if loop:
            slow = 2 * count * loop
            row(
                count,
                "cold",
                "loop of kubernetes.core.k8s",
                f"{slow:.0f} (extrapolated)",
                f"task {times[TASK]:.2f}",
                f"{slow / times[TASK]:.0f} x faster",
            )
            if LIST in times:
                each, how = times[LIST] / count, "median"
            elif count <= MEASURED:
                with api_server() as gcp:
                    each, how = core.run(gcp, LIST, count, False) / count, "measured once"
            else:
                how = "extrapolated"
            slow = each * count
            row(
                count,
                "cold",
                "one task of kubernetes.core.k8s with the list",
                f"{slow:.1f} ({how})",
                f"task {times[TASK]:.2f}",
                f"{slow / times[TASK]:.1f} x faster",
            )
        row(
            count,
            "cold",
            "bare client, same writes",
            f"{times[BARE]:.3f}",
            f"flow {times[FLOW]:.3f}",
            f"{times[FLOW] / times[BARE]:.2f} x its time",
        )
        row(
            count,
            "unchanged",
            "the same lists read and decoded",
            f"{lists:.3f}",
            f"flow {unchanged:.3f}",
            f"{unchanged / lists:.2f} x its time",
        )
        row(
            count,
            "one changed, one write",
            "the same lists read and decoded",
            f"{lists:.3f}",
            f"flow {changed:.3f}",
            f"{changed / lists:.2f} x its time",
        )
        row(count, "for comparison", "start of Python and imports", f"{times['process']:.2f}", "", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--services", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--no-core", action="store_true", help="leave out kubernetes.core, which takes most of the time"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, api_server() as aws:
        folder = pathlib.Path(name)
        version = aws.client().get("/version")["gitVersion"]
        form = Form(aws.client().serves(DISCOVERY, "EndpointSlice"))
        print(
            f"Mirrors of Services with {ENDPOINTS} endpoints each, API server {version}, as {form.plural}; Linux {os.uname().release}"
        )
        few = f"medians of {asked.rounds} interleaved runs, {MORE * asked.rounds} where little or nothing changed"
        print(f"seconds; {few}; kubernetes.core above {EVERY_ROUND} Services: one run each")
        print(
            "flow: everything behind the module, in a fresh interpreter; task: the same as a task of ansible-playbook, less an empty play\n"
        )
        loop = None if asked.no_core else measured_loop(Core(form, folder))
        head("Services", "change", "instead", "s", "service_mirror, s", "ratio")
        rows(asked, folder, form, aws, loop)
    if form.slices and max(asked.services) >= MEASURED:
        print()
        services_mcs.measure(MEASURED, asked.rounds)


if __name__ == "__main__":
    main()
