# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the mapping relies on in an API server. Run by the store in memory and by the one that talks to a real server.

Each function takes a store and a namespace in which the stand-in kinds of the network side are served and nothing is.
"""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import ONMETAL
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import Store, StoreError, key_of

MANAGER = ONMETAL.field_manager
Object = dict[str, t.Any]


def balancer(namespace: str, *families: str, **meta: t.Any) -> Object:
    ips = [{"name": family.lower(), "ipFamily": family} for family in families]
    spec: Object = {
        "type": "Public",
        "networkRef": {"name": "n"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}},
    }
    if ips:
        spec["ips"] = ips
    return {
        "apiVersion": ONMETAL.apinet,
        "kind": "LoadBalancer",
        "metadata": dict({"namespace": namespace, "name": "lb"}, **meta),
        "spec": spec,
    }


def reason(call: t.Callable[[], t.Any]) -> str:
    try:
        call()
    except StoreError as error:
        return error.reason
    return ""


def apply_is_idempotent(store: Store, namespace: str) -> None:
    first = store.apply(balancer(namespace, "IPv4", labels={"x": "y"}), MANAGER)
    again = store.apply(balancer(namespace, "IPv4", labels={"x": "y"}), MANAGER)
    assert first["metadata"]["uid"]
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


def apply_keeps_what_others_wrote_and_drops_what_we_send_no_more(store: Store, namespace: str) -> None:
    made = store.apply(balancer(namespace, "IPv4", "IPv6", labels={"x": "y"}), MANAGER)
    ips = [dict(entry, ip=address) for entry, address in zip(made["spec"]["ips"], ("203.0.113.1", "2001:db8::1"))]
    store.patch(key_of(made), {"spec": {"ips": ips}, "metadata": {"labels": {"team": "blue"}}})
    after = store.apply(balancer(namespace, "IPv4"), MANAGER)
    kept = {entry["name"]: entry.get("ip") for entry in after["spec"]["ips"]}
    assert kept["ipv4"] == "203.0.113.1"
    assert after["metadata"]["labels"] == {"team": "blue"}


def status_is_written_only_as_status(store: Store, namespace: str) -> None:
    made = store.apply(dict(balancer(namespace), status={"collisionCount": 3}), MANAGER)
    assert not made.get("status")
    shown = store.patch(key_of(made), {"status": {"collisionCount": 4}, "spec": {"type": "Internal"}}, True)
    assert shown is not None
    assert (shown["status"], shown["spec"]["type"]) == ({"collisionCount": 4}, "Public")
    assert store.patch(key_of(made), {"status": {"collisionCount": 5}})["status"] == {"collisionCount": 4}  # type: ignore[index]


def preconditions_hold(store: Store, namespace: str) -> None:
    made = store.apply(balancer(namespace), MANAGER)
    key = key_of(made)
    old = made["metadata"]["resourceVersion"]
    store.patch(key, {"metadata": {"labels": {"a": "b"}}})
    assert reason(lambda: store.patch(key, {"metadata": {"labels": {"c": "d"}, "resourceVersion": old}})) == "Conflict"
    assert reason(lambda: store.patch(key, {"metadata": {"labels": {"c": "d"}, "uid": "another"}})) == "Conflict"
    assert reason(lambda: store.delete(key, "another")) == "Conflict"
    assert len(store.list(ONMETAL.apinet, "LoadBalancer", namespace)) == 1


def finalizers_hold_an_object(store: Store, namespace: str) -> None:
    made = store.apply(balancer(namespace), MANAGER)
    key = key_of(made)
    store.patch(key, {"metadata": {"finalizers": ["example.org/x"]}})
    lingering = store.delete(key, made["metadata"]["uid"])
    assert lingering is not None
    assert lingering["metadata"]["deletionTimestamp"]
    assert store.patch(key, {"metadata": {"finalizers": []}}) is None
    assert not store.list(ONMETAL.apinet, "LoadBalancer", namespace)


def what_is_not_there(store: Store, namespace: str) -> None:
    key = Key(ONMETAL.apinet, "LoadBalancer", namespace, "none")
    assert store.delete(key) is None
    assert reason(lambda: store.patch(key, {"metadata": {"labels": {"a": "b"}}})) == "NotFound"
    store.create(balancer(namespace))
    assert reason(lambda: store.create(balancer(namespace))) == "AlreadyExists"


def labels_are_checked(store: Store, namespace: str) -> None:
    for value in ("n" * 64, "2001:db8::1", "-a", "a b"):
        manifest = balancer(namespace, labels={"x": value})
        assert reason(lambda manifest=manifest: store.apply(manifest, MANAGER)) == "Invalid"  # type: ignore[misc]


CONTRACT = (
    apply_is_idempotent,
    apply_keeps_what_others_wrote_and_drops_what_we_send_no_more,
    status_is_written_only_as_status,
    preconditions_hold,
    finalizers_hold_an_object,
    what_is_not_there,
    labels_are_checked,
)
