# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module node_dataplane is asked of the tunnels of a node; the documentation fragment ``_node_dataplane`` describes each option."""

from __future__ import annotations

import typing as t


def device_spec() -> dict[str, t.Any]:
    """One WireGuard device."""
    return {
        "name": {"type": "str", "required": True},
        "remote": {"type": "str", "required": True},
        "mtu": {"type": "int", "default": 1420},
        "txqueuelen": {"type": "int", "default": 1000},
        "listen_port": {"type": "int", "required": True},
        "listen_port_known": {"type": "bool", "default": True},
        "private_key_file": {"type": "path", "required": True, "no_log": False},
        "implementation": {"type": "str", "choices": ["auto", "kernel", "userspace"], "default": "auto"},
        "addresses": {"type": "list", "elements": "str"},
        "up": {"type": "bool", "default": True},
        "routes": {"type": "list", "elements": "str", "default": []},
        "overlay": {"type": "list", "elements": "str", "default": []},
        "peers": {"type": "list", "elements": "dict", "default": []},
        "contested": {"type": "list", "elements": "dict", "default": []},
        "peers_known": {"type": "bool", "default": True},
        "turned_away": {"type": "str", "default": ""},
        "borrowed": {"type": "list", "elements": "str", "default": []},
        "ranges_known": {"type": "bool", "default": True},
        "retired_key": {"type": "str", "no_log": False},
        "next_key_for": {"type": "str", "no_log": False},
        "copied_from": {"type": "path", "no_log": False},
        "copied_key": {"type": "str", "no_log": False},
        "keep_peers": {"type": "bool", "default": False},
        "kept_only": {"type": "bool", "default": False},
        "either_way": {"type": "bool", "default": False},
        "fwmark": {"type": "int", "default": 0},
    }


def kubespan_spec() -> dict[str, t.Any]:
    """The node's part of a KubeSpan mesh."""
    return {
        "mesh_id": {"type": "str", "required": True},
        "mesh_secret": {"type": "str", "no_log": True},
        "affiliates": {"type": "list", "elements": "dict", "default": []},
        "contested": {"type": "list", "elements": "dict", "default": []},
        "disputed": {"type": "list", "elements": "str", "default": []},
        "unread": {"type": "list", "elements": "str", "default": []},
        "turned_away": {"type": "str", "default": ""},
        "complete": {"type": "bool", "default": True},
        "cluster": {"type": "str", "required": True},
        "node_name": {"type": "str", "required": True},
        "cluster_networks": {"type": "list", "elements": "str", "default": []},
        "pod_cidrs": {"type": "list", "elements": "str", "default": []},
        "networks": {"type": "list", "elements": "str", "default": []},
        "exclude_interfaces": {"type": "list", "elements": "str", "default": []},
        "exclude_addresses": {"type": "list", "elements": "str", "default": []},
        "balanced": {"type": "list", "elements": "str", "default": []},
        "own_addresses": {"type": "list", "elements": "str", "default": []},
        "config": {"type": "dict", "default": {}},
        "mac": {"type": "str"},
        "layout": {"type": "dict", "default": {}},
        "generation": {"type": "str", "choices": ["current", "v1.3"], "default": "current"},
        "fail_closed": {"type": "bool"},
        "watcher": {"type": "bool", "default": True},
        "implementation": {"type": "str", "choices": ["auto", "kernel", "userspace"], "default": "auto"},
        "private_key_file": {"type": "path", "no_log": False},
        "rotation": {"type": "dict"},
        "rotation_unread": {"type": "bool", "default": False},
        "retired_key": {"type": "str", "no_log": False},
        "next_key_for": {"type": "str", "no_log": False},
        "discovery": {
            "type": "dict",
            "options": {
                "url": {"type": "str", "required": True},
                "ca": {"type": "str", "default": ""},
                "cluster": {"type": "str"},
                "pod_cidrs": {"type": "list", "elements": "str", "default": []},
                "node_cidrs": {"type": "list", "elements": "str", "default": []},
                "overlay": {"type": "list", "elements": "str", "default": []},
            },
        },
    }


def waits_spec() -> dict[str, t.Any]:
    """What the tunnels must be like before anything is read or written, see the flow ``handshakes``."""
    return {
        "tunnels": {"type": "list", "elements": "dict", "default": []},
        "quiet": {"type": "bool", "default": False},
        "quiet_seconds": {"type": "float", "default": 50},
        "timeout": {"type": "float", "default": 120},
    }
