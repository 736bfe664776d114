# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A peer's JSON form is read and written in one file, and every form that the guide names is there."""

from __future__ import annotations

import ast
import ipaddress
import pathlib
import re
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import Peer, parse_peers
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.claims import (
    Claim,
    check_claims,
    open_claims,
    read_claim,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
UTILS = ROOT / "plugins" / "module_utils"
KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
#: The one file with the form, and what checks a rollback journal before anything of it is believed.
FORM = {"_dataplane/peer_spec.py", "_dataplane/journal.py"}
#: The KubeSpan mesh's peers with several endpoints, in the state file.
MESH_FORM = {"_mesh/kubespan/peers.py"}
#: What shows peers of nodes to people and to the controller.
SHOWN = {
    "_flows/node/kubespan/known_members.py",
    "_flows/node/probe.py",
    "_flows/node/status.py",
    "_flows/node/trace/facts.py",
    "_dataplane/path_changes.py",
}
#: What chooses among the plan's rows of peers and changes none of their addresses.
CHOSEN = {"_mesh/topology/generations.py", "_mesh/topology/kubespan_rotation.py"}
#: What asks which field of a peer a change concerns.
FIELDS = {"_dataplane/safe_changes.py"}


def naming(key: str, *rooms: str) -> set[str]:
    """Files with a string that is this key, other than in a docstring."""
    found = set()
    for room in rooms:
        for path in (UTILS / room).rglob("*.py"):
            texts = (
                node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
            )
            if any(text == key for text in texts):
                found.add(path.relative_to(UTILS).as_posix())
    return found


def test_one_file_has_the_json_form_of_a_peer() -> None:
    assert (
        naming(
            "persistent_keepalive",
            "_dataplane",
            "_linux",
            "_flows/node",
            "_mesh/semaphore",
            "_mesh/fabric",
            "_mesh/topology",
        )
        == FORM | FIELDS
    )
    rooms = (
        "_dataplane",
        "_linux",
        "_flows/node",
        "_flows/mesh",
        "_mesh/semaphore",
        "_mesh/kubespan",
        "_mesh/fabric",
        "_mesh/topology",
    )
    assert naming("allowed_ips", *rooms) == FORM | MESH_FORM | SHOWN | CHOSEN


def test_a_claim_is_a_frozen_value_around_the_peer_that_travels() -> None:
    reported = t.get_type_hints(Claim)
    assert (
        issubclass(Claim, tuple)
        and reported["peer"] is Peer
        and not [name for name, kind in reported.items() if kind is t.Any or "Dict" in str(kind)]
    )
    for stage in (check_claims, open_claims):
        taken = t.get_type_hints(stage)
        assert taken["claims"] == t.Iterable[Claim] and t.get_args(taken["return"])[0] == list[Claim]
    made = read_claim("gcp", "gcp-1", KEY, "10.0.0.1:51820", [ipaddress.ip_network("10.4.7.0/24")], keepalive=25)
    assert parse_peers("wireguard.gcp", [made.peer.to_json()]).peers == (
        made.peer._replace(endpoints=("10.0.0.1:51820",)),
    )


def test_claims_are_read_in_one_place() -> None:
    """Who makes a claim: the two topologies and Kilo, all by read_claim; nobody else makes one, or a peer of announced text."""
    makers = {name: set() for name in ("Claim", "read_claim")}  # type: t.Dict[str, t.Set[str]]
    for path in UTILS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
                makers[node.func.id].add(path.relative_to(UTILS).as_posix())
    assert makers["Claim"] - {"_services/claims.py", "_services/mcs/exports.py"} == {
        "_mesh/fabric/claims.py"
    }  # claims of Services are others
    assert makers["read_claim"] == {
        "_mesh/topology/semaphore.py",
        "_mesh/topology/kubespan_claims.py",
        "_mesh/kilo/claims.py",
    }


def test_the_forms_that_the_guide_names_are_there() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_design.rst").read_text("utf-8")
    section = guide.split("The path of a peer")[1].split("Trust\n-----")[0]
    named = re.findall(r"``(_[a-z_/]+\.py)``", section)
    assert "in four forms" in section and len(re.findall(r"^[1-9]   ", section, re.MULTILINE)) == 4
    assert len(named) >= 8 and not [name for name in named if not (UTILS / name).is_file()]
