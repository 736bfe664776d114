# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors of the cloud controller: MetalLB's configuration. For the options see ccm.py."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import backends
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import setup, yaml_edit
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import values as bgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb import (
    config as metallb_config,
    resources as metallb_names,
    resources as metallb_resources,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..outcome import Unhandled

Input = t.Mapping[str, t.Any]
Answer = t.Any
_KINDS = {"ipaddresspools": "IPAddressPool", "bgpadvertisements": "BGPAdvertisement", "bgppeers": "BGPPeer"}


def _nodes(step: Input) -> list[bgp.NodeBgp]:
    return [
        bgp.NodeBgp(
            row["name"],
            row.get("source_ip") or "",
            row.get("local_asn") or 0,
            row.get("peer_asn") or 0,
            tuple(row.get("peers") or ()),
            row.get("password") or "",
        )
        for row in step.get("nodes") or ()
    ]


def _key(step: Input) -> tuple[str, str] | None:
    return (step["namespace"], step["name"]) if step.get("namespace") else None


def _services(step: Input) -> dict[tuple[str, str], str]:
    return {(row["namespace"], row["name"]): row["cidr"] for row in step.get("services") or ()}


def _step(target: t.Any, step: Input, reserved: t.Container[str]) -> None:
    key, nodes, op = _key(step), _nodes(step), step["op"]
    in_text = isinstance(target, metallb_config.Config)
    if op == "add_service" and in_text:
        target.add_service(key, step["cidr"], nodes, reserved)
    elif op == "add_service":
        target.add_service(key, [step["cidr"]], nodes)
    elif op == "remove_service" and in_text:
        target.remove_service(key, step["cidr"], reserved)
    elif op == "remove_service":
        target.remove_service(key)
    elif op == "add_node":
        target.add_nodes(nodes)
    elif op == "remove_node":
        target.remove_node(step["name"])
    elif op == "update_nodes":
        target.sync_nodes(nodes, key=key)
    elif op == "sync_nodes":
        target.sync_nodes(nodes)
    elif op == "sync_services":
        desired = _services(step)
        if in_text:
            target.sync_services(desired, nodes, reserved)
        else:
            target.sync_services({key: [network] for key, network in desired.items()}, nodes)
    else:
        raise Unhandled(op)


def configmap(data: Input) -> Answer:
    options = data.get("options") or {}
    other = {key: value for key, value in (data.get("configmap_data") or {}).items() if key != "config"}
    if data.get("configmap_exists") is False:
        return _without_configmap()
    given = (data.get("configmap_data") or {}).get("config") or json.dumps(data.get("existing") or {})
    document = yaml_edit.parse_document(given)
    reserved = data["reserved"] if "reserved" in data else [step["cidr"] for step in data["steps"] if step.get("cidr")]
    config = metallb_config.Config(
        document,
        metallb_config.Options(
            options.get("peer_tracking") or metallb_config.NODE, options.get("source_address"), metallb_config.PLAIN
        ),
    )
    written = given
    for step in data["steps"]:
        _step(config, step, reserved)
        # every step is written and read again, as separate runs would
        written = yaml_edit.edit(written, config.document, (metallb_config.PEERS, metallb_config.POOLS))
        config = metallb_config.Config(yaml_edit.parse_document(written), config.options, config.managed)
    patch = {"data": {"config": written}} if written != given else None
    return dict(config.document, _other_data=other, _patch=patch, _changed=patch is not None)


def _without_configmap() -> Answer:
    """The message to a cluster without it."""
    given = {"METAL_API_KEY": "k", "METAL_PROJECT_ID": "P", "METAL_LOAD_BALANCER": "metallb:///metallb-system/config"}
    made = setup.parse_setup({"cluster": "c", "provider": "equinix_metal"}, given, None)
    desired = backends.BackendRequest(
        backends.SYNC, {("default", "web"): "147.75.10.1/32"}, [], frozenset(), True, frozenset()
    )
    found = backends.BackendState(made.metallb(False))
    plan = backends.plan_backend(t.cast(Client, None), made, found, desired, "multicluster.network/vectors")
    return {"skipped": not plan.puts and bool(plan.unreachable)}


def text(data: Input) -> Answer:
    options = metallb_config.Options(passwords=metallb_config.PLAIN)
    config = metallb_config.Config(yaml_edit.parse_document(data["text"]), options)
    config.sync_nodes(_nodes(data))
    config.sync_services(_services(data), _nodes(data))
    return yaml_edit.parse_document(
        yaml_edit.edit(data["text"], config.document, (metallb_config.PEERS, metallb_config.POOLS))
    )


def resources(data: Input) -> Answer:
    options = data.get("options") or {}
    existing = [
        dict(row, kind=_KINDS.get(name, name))
        for name, rows in (data.get("existing") or {}).items()
        for row in rows or ()
    ]
    made = metallb_resources.Resources(
        existing,
        metallb_resources.Options(
            tracking=options.get("peer_tracking") or metallb_config.NODE,
            peers=options.get("peer_mode") or metallb_resources.NATIVE,
            passwords=options.get("passwords") or metallb_resources.PLAIN,
        ),
    )
    try:
        for step in data["steps"]:
            _step(made, step, ())
    except ValueRefused as error:
        return {"error": error.reason}
    return {
        "objects": {
            "/".join(ident): {"labels": obj["metadata"].get("labels"), "spec": obj.get("spec")}
            for ident, obj in made.objects.items()
        }
    }


def names(data: Input) -> Answer:
    found = metallb_names.pool_names((data["namespace"], data["name"]))
    return {"pool": found.pool, "label_key": found.label_key, "label_value": found.label_value}
