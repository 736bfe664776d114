# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that the modules of load balancing share. Fresh dictionaries at every call."""

from __future__ import annotations

import typing as t

from ..._kubernetes.argspec import clusters_spec, inventory_spec, owner_spec
from ..._loadbalancers.bgp.routes import NOT_READY_SECONDS
from ..._loadbalancers.reservations import DEFAULT_IDENTITY, IDENTITIES
from ..._loadbalancers.services import OTHER, SPEAKER
from ..._loadbalancers.setup import PROVIDERS
from ..._module import fail_on_refused_spec

Spec = dict[str, t.Any]


def settings_spec() -> Spec:
    """One cluster's settings, as the documentation fragment describes them."""
    texts = (
        "load_balancer",
        "load_balancer_class",
        "project_id",
        "base_url",
        "metadata_url",
        "metro",
        "facility",
        "eip_tag",
        "bgp_node_selector",
        "crd_label",
        "cluster_uid",
        "advertisement",
        "annotation_domain",
        "wrong",
    )
    spec: Spec = {name: {"type": "str"} for name in texts}
    spec.update(
        cluster={"type": "str", "required": True},
        provider={"type": "str", "choices": list(PROVIDERS), "default": "static"},
        identity={"type": "str", "choices": sorted(IDENTITIES), "default": DEFAULT_IDENTITY},
        adopt_identities={"type": "list", "elements": "str", "choices": sorted(IDENTITIES)},
        pool={"type": "list", "elements": "str", "default": []},
        load_balancer_classes={"type": "list", "elements": "str", "default": []},
        pools={
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "addresses": {"type": "list", "elements": "str", "required": True},
                "reserved": {"type": "list", "elements": "str", "default": []},
                "auto_assign": {"type": "bool", "default": True},
                "priority": {"type": "int", "default": 0},
                "avoid_buggy_ips": {"type": "bool", "default": False},
                "namespaces": {"type": "list", "elements": "str", "default": []},
                "namespace_selector": {"type": "str"},
                "service_selector": {"type": "str"},
                "max_per_namespace": {"type": "int"},
                "tenants": {
                    "type": "list",
                    "elements": "dict",
                    "default": [],
                    "options": {
                        "name": {"type": "str", "required": True},
                        "namespaces": {"type": "list", "elements": "str", "required": True},
                        "max_addresses": {"type": "int", "required": True},
                    },
                },
            },
        },
        config_file={"type": "path"},
        config_secret={"type": "str", "no_log": False},
        allow_plain_http={"type": "bool", "default": False},
        api_key={"type": "str", "no_log": True},
        bgp_pass={"type": "str", "no_log": True},
        local_asn={"type": "int"},
        peer_asn={"type": "int"},
        api_server_port={"type": "int"},
        eip_health_check_use_host_ip={"type": "bool"},
        max_prefixes={"type": "int"},
        reclaim_policy={"type": "str", "choices": ["delete", "retain"], "default": "delete"},
        gc_orphans={"type": "bool"},
        release_unrecorded={"type": "bool", "default": False},
        on_duplicate_reservation={"type": "str", "choices": ["refuse", "first"], "default": "refuse"},
        service_ip_field={"type": "str", "choices": ["spec", "annotation"], "default": "spec"},
        annotation_scheme={"type": "str", "choices": ["both", "legacy", "indexed"], "default": "both"},
        annotation_legacy_singular={"type": "bool", "default": True},
        publish_bgp_password={"type": "bool", "default": False, "no_log": False},
        metallb_mode={"type": "str", "choices": ["auto", "configmap", "crd"]},
        metallb_peer_tracking={"type": "str", "choices": ["node", "service"], "default": "node"},
        metallb_peer_mode={"type": "str", "choices": ["native", "frr", "none"], "default": "native"},
        metallb_advertise={"type": "str", "choices": ["bgp", "layer2", "both"]},
        metallb_layer2={
            "type": "dict",
            "options": {
                "interfaces": {"type": "list", "elements": "str", "default": []},
                "node_selectors": {"type": "list", "elements": "dict", "default": []},
            },
        },
        metallb_source_address={"type": "bool"},
        bgp_nodes={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "source_ip": {"type": "str", "required": True},
                "peers": {"type": "list", "elements": "str", "required": True},
                "local_asn": {"type": "int"},
                "peer_asn": {"type": "int"},
                "password": {"type": "str", "no_log": True},
                "multihop": {"type": "bool", "default": False},
            },
        },
        bgp_speakers={"type": "list", "elements": "str"},
        bgp_families={"type": "list", "elements": "int"},
        layer2_nodes={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "segment": {"type": "str", "required": True},
                "addresses": {"type": "list", "elements": "str", "required": True},
            },
        },
        layer2_reserved_vrids={"type": "list", "elements": "int", "default": []},
        reserved_ranges={"type": "dict", "default": {}},
        announced_by={"type": "str", "choices": [SPEAKER, OTHER], "default": SPEAKER},
        exclude_cordoned={"type": "bool", "default": False},
        not_ready_seconds={"type": "int", "default": NOT_READY_SECONDS},
        bgp_grants={
            "type": "dict",
            "options": {
                "local_asns": {"type": "list", "elements": "int", "default": []},
                "peer_asns": {"type": "list", "elements": "int", "default": []},
                "peers": {"type": "list", "elements": "str", "default": []},
                "sources": {"type": "list", "elements": "str", "default": []},
            },
        },
    )
    return spec


def settings_options() -> Spec:
    """``settings`` and the options for where they come from."""
    return {
        "cluster": {"type": "str"},
        "settings": {"type": "list", "elements": "dict", "options": settings_spec()},
        "use_environment": {"type": "bool", "default": False},
    }


def device_spec() -> Spec:
    """What devices are to nodes."""
    return {
        "region_from": {"type": "str", "choices": ["metro", "facility"], "default": "metro"},
        "zone_from": {"type": "str", "choices": ["none", "facility"], "default": "none"},
        "node_devices": {"type": "dict", "default": {}},
    }


def common_spec() -> Spec:
    """``clusters``, ``settings`` and what goes with them."""
    return {
        **settings_options(),
        **inventory_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def writer_spec() -> Spec:
    """As common_spec, for modules that adopt and delete nothing."""
    return {
        "fabric": {"type": "str", "required": True},
        "fail_on_failures": {"type": "bool", "default": True},
        **settings_options(),
        **inventory_spec(),
        **fail_on_refused_spec(),
    }


def cleanup_spec() -> Spec:
    """What a provider needs, for a cluster that is gone."""
    spec = clusters_spec(required=False)
    spec["clusters"]["default"] = []
    spec.update(
        cluster_uid={"type": "str", "required": True},
        confirm={"type": "bool", "default": False},
        force={"type": "bool", "default": False},
        project_id={"type": "str"},
        api_key={"type": "str", "no_log": True},
        base_url={"type": "str"},
        allow_plain_http={"type": "bool", "default": False},
        config_file={"type": "path"},
        use_environment={"type": "bool", "default": False},
        identity={"type": "str", "choices": sorted(IDENTITIES), "default": DEFAULT_IDENTITY},
        adopt_identities={"type": "list", "elements": "str", "choices": sorted(IDENTITIES)},
        fail_on_failures={"type": "bool", "default": True},
        **fail_on_refused_spec(),
    )
    return spec
