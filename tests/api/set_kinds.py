# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of network sets on a bare API server, and labelled pods: what the tests of network_sets need of a cluster."""

from __future__ import annotations

import json
import pathlib
import time

LABEL = "policy.semaphore.uw.io/name"
KINDS = json.loads((pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "crds" / "sets.json").read_text("utf-8"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def path_of(name, item=""):
    kind = KINDS[name]
    return "/apis/{group}/{version}/{plural}".format(**kind) + ("/" + item if item else "")


def serve(client, name):
    """Define the kind and wait until it is served."""
    kind = KINDS[name]
    full = "{plural}.{group}".format(**kind)
    names = {
        "plural": kind["plural"],
        "singular": kind["plural"][:-1],
        "kind": kind["kind"],
        "listKind": kind["kind"] + "List",
    }
    spec = {"type": "object", "properties": {kind["field"]: {"type": "array", "items": {"type": "string"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": kind["version"], "served": True, "storage": True, "schema": schema}
    metadata = {"name": full}
    if kind["group"].endswith("cilium.io"):
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, tests only"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": kind["group"], "scope": "Cluster", "names": names, "versions": [version]},
    }
    client.create(DEFINITIONS, body, "tests")
    deadline = time.monotonic() + 120
    while client.resource("{group}/{version}".format(**kind), kind["kind"], refresh=True) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def withdraw(client, name):
    """The kind goes, with everything of it."""
    client.delete("{0}/{plural}.{group}".format(DEFINITIONS, **KINDS[name]))
    deadline = time.monotonic() + 120
    kind = KINDS[name]
    while client.resource("{group}/{version}".format(**kind), kind["kind"], refresh=True) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def namespace(client, name):
    client.apply(
        "/api/v1/namespaces/" + name, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "tests"
    )


def pod(client, space, name, value, address, host=False, phase="Running", more=()):
    """A pod as a kubelet would report it."""
    path = f"/api/v1/namespaces/{space}/pods"
    labels = {} if value is None else {LABEL: value}
    spec = {"containers": [{"name": "c", "image": "none"}], "nodeName": "node-1", "hostNetwork": host}
    client.create(
        path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}, "tests"
    )
    ips = [{"ip": one} for one in (address,) + tuple(more)]
    status = {"phase": phase, "podIP": address, "podIPs": ips}
    client.merge_patch(f"{path}/{name}/status", {"status": status}, "tests")


def remove(client, space, name):
    """The pod goes at once: nothing here would end it."""
    client._object("delete", "DELETE", f"/api/v1/namespaces/{space}/pods/{name}", {"gracePeriodSeconds": "0"})
