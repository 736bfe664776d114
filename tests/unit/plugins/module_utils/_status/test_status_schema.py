# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of the status document: no document has more or less than it names, and it names nothing that no document has."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import model
from ansible_collections.multicluster.network.plugins.module_utils._status.cluster import describe

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[3]), str(HERE.parents[4] / "browser")]

import fabrics  # pylint: disable=wrong-import-position
import status_schema  # pylint: disable=wrong-import-position

SCHEMA = json.loads(status_schema.FILE.read_text("utf-8"))
GUIDE = (HERE.parents[5] / "docs" / "docsite" / "rst" / "guide_status.rst").read_text("utf-8")
#: Fields of a row of trace, which its own tests compare.
FINDING = SCHEMA["properties"]["traces"]["properties"]["findings"]["items"]["properties"]
LOSS = {"name": "aws-node-1", "cluster": "aws", "pairs": 1, "services": ["gcp/a/b"], "service_count": 1}


def whole_facts():
    """A fabric of which everything is known that a document can have."""
    facts = fabrics.facts({"aws": 2, "gcp": 2})
    facts["mesh"]["nodes"]["aws-node-1"].update(rotation={"gcp": {"phase": "both"}}, preshared={"gcp": 2})
    facts["mesh"]["clusters"]["aws"]["exported"] = {}
    facts["nodes"]["aws-node-1"].update(
        errors=[{"section": "rules", "message": "no"}],
        keys=[{"since": fabrics.NOW - 100}],
        bgp={
            "announces": ["203.0.113.10/32"],
            "since": {"203.0.113.10/32": fabrics.NOW},
            "sessions": [{"neighbor": "192.0.2.1", "state": "Established"}],
        },
    )
    pod = {
        "metadata": {"namespace": "a", "name": "b"},
        "status": {"podIP": "10.9.9.9", "startTime": "2026-11-22T01:00:00Z"},
    }
    facts["mesh"]["nodes"]["aws-node-1"]["pod_cidrs"] = ["10.2.0.0/24"]
    facts["clusters"]["aws"].update(pods=describe({"pods": [pod]})["pods"], all_pods=True)
    facts["clusters"]["aws"]["kilo_peers"] = [
        {"name": "n", "endpoint": "e", "allowed_ips": ["10.0.0.0/8"], "owner": "kgctl"}
    ]
    drift = {
        "where": "gcp",
        "kind": "Service",
        "name": "a/b",
        "action": "update",
        "difference": "differs: spec",
        "owner": "kubectl-edit",
    }
    facts.update(
        plans={
            "load_balancers": {
                "load_balancers": {"aws": {"pools": [{"pool": "p", "family": 4, "total": 9, "used": 1, "free": 8}]}}
            },
            "mcs": {
                "sources": {"aws": {"listed": True, "exports": 3, "valid": 2, "conflicts": 1}},
                "imports": {"aws": 1},
            },
        },
        drift=[dict(drift, since="2026-11-22T01:02:03Z", note="by Update")],
        refused=[{"where": "mesh", "object": "o", "reason": "outside_grant", "message": "m"}],
        failures=[{"cluster": "gcp", "operation": "list", "reason": "timeout", "message": "m"}],
        tenants={
            "interfaces": [dict.fromkeys(("name", "source", "network", "node", "state"), "x")],
            "counts": {"orphans": 1},
        },
        trace={
            "flows": [{"id": "0"}],
            "findings": [dict.fromkeys(FINDING, "x")],
            "hops": [{"where": "aws-node-1"}],
        },
        next_failure={"pairs": 4, "node": LOSS, "cluster": dict(LOSS, name="aws")},
        limit="aws_nodes",
        outside=["gcp-node-2"],
        unasked=["tenants"],
    )
    before = {
        "generated": "2026-11-22T00:00:00Z",
        "drift": [{"where": "gcp", "kind": "Service", "name": "a/gone", "first_seen": "2026-11-21T00:00:00Z"}],
        "history": [
            dict(
                dict.fromkeys(("nodes", "nodes_answered", "tunnels", "tunnels_up", "drift", "refused", "failures"), 1),
                runs=1,
                first="2026-11-22T00:00:00Z",
                last="2026-11-22T00:00:00Z",
                verdict="proven",
                cause="",
                of_another_program=True,
            )
        ],
    }
    return dict(facts, previous=before)


WHOLE = model.build(whole_facts())


def objects_of(value, path=()):
    """(path, object) of all objects."""
    if isinstance(value, dict):
        yield path, value
        for name, part in value.items():
            yield from objects_of(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from objects_of(part, (*path, index))


def schemas_of(schema, path=()):
    """(path, schema) of everything that has named properties."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            yield path, schema
        for name, part in schema.items():
            yield from schemas_of(part, (*path, name))
    elif isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from schemas_of(part, (*path, index))


#: Their fields are names of clusters, parts or networks, or those of another document.
FREE = (
    "parts",
    "exported_pod_cidrs",
    "exported_node_cidrs",
    "announces_since",
    "announced_since",
    "rotation",
    "preshared",
    "flows",
    "hops",
    "findings",
)


def test_the_whole_document_follows_the_schema():
    assert status_schema.problems(WHOLE) == []
    assert WHOLE["format"] == model.FORMAT == SCHEMA["properties"]["format"]["const"]
    assert SCHEMA["$id"].endswith(f":{model.FORMAT}")


@pytest.mark.parametrize("unreachable", [(), ("gcp-node-1",)], ids=["all answer", "one does not"])
@pytest.mark.parametrize("sizes", [{"aws": 1}, {"aws": 2, "gcp": 3}, {"aws": 20, "gcp": 15, "azure": 10}], ids=str)
def test_documents_of_the_pages_fabrics_are(sizes, unreachable):
    document = model.build(fabrics.facts(sizes, unreachable if "gcp" in sizes else ()))
    assert status_schema.problems(document) == []
    assert status_schema.problems(model.build(dict(fabrics.facts(sizes), previous=document))) == []


def test_a_field_that_the_schema_does_not_name_fails_wherever_it_is():
    tried = 0
    for path, dummy in objects_of(WHOLE):
        if any(part in FREE for part in path):
            continue
        changed = copy.deepcopy(WHOLE)
        place = changed
        for part in path:
            place = place[part]
        place["of_tomorrow"] = 1
        assert status_schema.problems(changed), path
        tried += 1
    assert tried > 30


def test_a_field_that_is_gone_fails_wherever_it_was():
    for path, found in objects_of(WHOLE):
        if any(part in FREE for part in path):
            continue
        for name in found:
            if name in ("rotation", "preshared"):
                continue
            changed = copy.deepcopy(WHOLE)
            place = changed
            for part in path:
                place = place[part]
            del place[name]
            assert status_schema.problems(changed), (*path, name)


def test_the_schema_names_nothing_that_no_document_has():
    seen = {name for dummy, found in objects_of(WHOLE) for name in found}
    assert {name for dummy, schema in schemas_of(SCHEMA) for name in schema["properties"]} - seen == set()


def test_the_guide_has_the_parts_of_the_document():
    section = GUIDE.partition("The JSON\n--------\n")[2].partition("\n-----")[0]
    first = re.findall(r"^   \* - (.+)$", section, re.MULTILINE)
    assert {name for cell in first for name in re.findall(r"``([a-z_]+)``", cell)} == set(SCHEMA["properties"])
    assert f"is {model.FORMAT}" in section and status_schema.FILE.name in section
