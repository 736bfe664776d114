# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of what a node announces, and of what shows that it can deliver it (documented in doc_fragments/_speaker.py)."""

from __future__ import annotations

import typing as t


def speaker_spec() -> dict[str, t.Any]:
    """Fresh arguments that the modules of speakers have in common."""
    return {
        "routes": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "network": {"type": "str", "required": True},
                "group": {"type": "int"},
                "health_ports": {"type": "list", "elements": "int", "default": []},
                "services": {"type": "list", "elements": "str", "default": []},
            },
        },
        "node_health_port": {"type": "int", "default": 10256},
    }
