# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What node_info returns of the tables of nftables: the keys that its documentation has, and the content of owned tables alone."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.node import status


def test_owned_tables_have_their_content_and_all_have_the_documented_keys(monkeypatch):
    tables = [
        {"family": "inet", "name": "guard", "owner": "multicluster.network/demo"},
        {"family": "ip", "name": "filter", "owner": None},
        {"family": "inet", "name": "other", "owner": "multicluster.network/lab"},
    ]
    whole = {"sets": [{"name": "pods", "elements": ["10.4.0.0/16"]}], "chains": [{"name": "in", "rules": [1, 2]}]}
    monkeypatch.setattr(status.users, "read_tables", lambda: tables)
    monkeypatch.setattr(status, "read_table", lambda family, name: whole if name == "guard" else None)
    guard, *others = status._tables("demo")
    assert guard == {
        **tables[0],
        "owned": True,
        "sets": [{"name": "pods", "elements": 1}],
        "chains": [{"name": "in", "rules": 2}],
    }
    assert others == [{**row, "owned": False} for row in tables[1:]]
