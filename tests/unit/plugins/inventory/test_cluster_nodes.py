# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin over whatever clusters say: nothing changes but its own hosts and groups (threat T46).

The source has its cache, so that no server is asked; everything else is as in ``ansible-inventory``.
"""

from __future__ import annotations

import json
import pathlib
import string
import tempfile
import typing as t

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.cache import CachePluginAdjudicator
from ansible.plugins.loader import inventory_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from hypothesis import given, settings, strategies as st

NAME = "multicluster.network.cluster_nodes"
FIXTURE = json.loads(
    (pathlib.Path(__file__).resolve().parents[3] / "fixtures" / "hostile" / "inventory_names.json").read_text("utf-8")
)
RANGES = {"aws": "10.66.23.0/24", "gcp": "10.22.22.0/24"}
ADDRESS = {"aws": "10.66.23.9", "gcp": "10.22.22.9"}
#: What the operator writes; the group of a literal name is one that nodes may join.
OPTIONS: dict[str, t.Any] = {
    "groups": {"declared": "true"},
    "keyed_groups": [
        {"key": "node_labels.site", "prefix": "", "separator": ""},
        {"key": "node_labels.site", "prefix": "site", "parent_group": "sites"},
    ],
    "leading_separator": False,
}


def node(name: str, address: str, site: str = "") -> dict[str, t.Any]:
    labels = {"site": site} if site else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


def inventory(clusters: t.Mapping[str, t.Any], **options: t.Any) -> t.Any:
    """Ansible's inventory of the fixture's hosts and groups, and behind them of the Nodes {cluster: [Node]}; None: without this plugin."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        hosts, source = folder / "10-hosts.yml", folder / "20-cluster_nodes.yml"
        hosts.write_text(yaml.safe_dump(FIXTURE["inventory"]))
        sources = [str(hosts)]
        if clusters is not None:
            access = [
                {"name": name, "api_url": "https://127.0.0.1:1", "token": "t", "node_cidrs": [RANGES[name]]}
                for name in clusters
            ]
            cache = {
                "cache": True,
                "cache_plugin": "ansible.builtin.jsonfile",
                "cache_connection": str(folder / "cache"),
                "cache_prefix": "nodes",
            }
            source.write_text(yaml.safe_dump({"plugin": NAME, "clusters": access, **cache, **OPTIONS, **options}))
            cached = CachePluginAdjudicator("ansible.builtin.jsonfile", _uri=str(folder / "cache"), _prefix="nodes")
            cached[inventory_loader.get(NAME).get_cache_key(str(source))] = clusters
            cached.set_cache()
            sources.append(str(source))
        manager = InventoryManager(loader=DataLoader(), sources=sources)
    assert all(cluster + "_nodes" in manager.groups for cluster in clusters or ()), "the source was not read"
    return manager


def shape(manager: t.Any) -> t.Any:
    """{host: (variables, groups)}, {group: (variables, hosts, children)} of all that is there."""
    hosts = {
        name: (host.get_vars(), sorted(group.name for group in host.groups)) for name, host in manager.hosts.items()
    }
    groups = {
        name: (
            group.get_vars(),
            sorted(host.name for host in group.hosts),
            sorted(child.name for child in group.child_groups),
        )
        for name, group in manager.groups.items()
    }
    return hosts, groups, getattr(manager.localhost, "name", None)


def check_untouched(after: t.Any, clusters: t.Mapping[str, t.Any], allowed: t.Collection[str]) -> set[str]:
    """Everything that was there is as it was; returns the hosts that are new.

    A host that the inventory has for a node gets its labels, roles and name; the groups of nodes their nodes; ``all`` its children.
    """
    hosts, groups, local = shape(inventory(None))  # type: ignore[arg-type]
    found_hosts, found_groups, found_local = shape(after)
    assert local == found_local
    new = set(found_hosts) - set(hosts)
    for name, (variables, member_of) in hosts.items():
        theirs = {
            key: value
            for key, value in found_hosts[name][0].items()
            if not (name in allowed and key in ("node_labels", "node_roles", "node_name"))
        }
        strip = {"group_names", "inventory_file", "inventory_dir"}
        assert {k: v for k, v in theirs.items() if k not in strip} == {
            k: v for k, v in variables.items() if k not in strip
        }
        if name not in allowed:
            assert found_hosts[name][1] == member_of
    for name, (variables, members, children) in groups.items():
        assert found_groups[name][0] == variables
        if name == "all":
            assert found_groups[name][1] == members and set(children) <= set(found_groups[name][2])
        elif name not in ("ungrouped", *(cluster + "_nodes" for cluster in clusters)):
            assert found_groups[name][1:] == (members, children), name
    for name in new:
        assert name not in found_groups and name not in (
            "all",
            "ungrouped",
            "localhost",
            "127.0.0.1",
            "clusters",
            "aws",
            "gcp",
        )
        assert not name.endswith((".yml", ".yaml", ".json"))
        of = [cluster for cluster in clusters if cluster + "_nodes" in found_hosts[name][1]]
        assert len(of) == 1 and found_hosts[name][0]["ansible_host"] == ADDRESS[of[0]]
    return new


def warnings_of(capsys: t.Any) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("node_names, column", [("plain", "reason"), ("prefixed", "prefixed")])
def test_hostile_names(
    node_names: str, column: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    clusters = {"aws": [node(row["node"], ADDRESS["aws"]) for row in FIXTURE["rows"]]}
    found = inventory(clusters, node_names=node_names)
    warned = warnings_of(capsys)
    prefix = "aws-" if node_names == "prefixed" else ""
    good = {prefix + row["node"] for row in FIXTURE["rows"] if row[column] is None}
    assert check_untouched(found, clusters, {"by-hand"}) == good - {"by-hand"}
    for row in FIXTURE["rows"]:
        assert (f"node aws/{row['node']} is no host: " in warned) == (row[column] is not None)
        assert row[column] is None or f"[{row[column]}]" in warned


def test_hostile_labels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    clusters = {"aws": [node(f"node-{number}", ADDRESS["aws"], site) for number, site in enumerate(FIXTURE["labels"])]}
    found = inventory(clusters, keyed_groups=[{"key": "node_labels.site", "prefix": "", "separator": ""}])
    warned = warnings_of(capsys)
    check_untouched(found, clusters, ())
    for number, site in enumerate(FIXTURE["labels"]):
        made = site == "node-1"  # as a group it is node_1
        assert (f"node-{number} does not join the group {site} of keyed_groups" in warned) != made
    assert [host.name for host in found.groups["node_1"].hosts] == ["node-8"]


NAMES = st.sampled_from(
    [row["node"] for row in FIXTURE["rows"]] + ["one", "gcp-one", "aws-one", "site_x", "x"]
) | st.text(string.ascii_lowercase[:3] + "-.0", min_size=1, max_size=6)
SITES = st.sampled_from(["", *FIXTURE["labels"], "x", "one", "sites"])


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["aws", "gcp"]),
        st.lists(st.tuples(NAMES, SITES), max_size=8, unique_by=lambda row: row[0]),
        min_size=1,
    ),
    st.sampled_from(["plain", "prefixed"]),
)
def test_whatever_clusters_say(said: t.Any, node_names: str) -> None:
    clusters = {cluster: [node(name, ADDRESS[cluster], site) for name, site in rows] for cluster, rows in said.items()}
    own = {"aws": {"by-hand", "aws-stolen"}, "gcp": {"gcp-1", "aws-stolen"}}
    check_untouched(
        inventory(clusters, node_names=node_names), clusters, set().union(*(own[cluster] for cluster in clusters))
    )


def test_nodes_that_are_reached_by_their_pods(tmp_path: pathlib.Path) -> None:
    """Only hosts that the plugin made get the connection; a credential stays with the cluster's host where there is one."""
    clusters = {"aws": [node("by-hand", ADDRESS["aws"]), node("new", ADDRESS["aws"])]}
    found = inventory(clusters, connection="node_pod")
    made, own = found.hosts["new"].get_vars(), found.hosts["by-hand"].get_vars()
    assert made["ansible_connection"] == "multicluster.network.node_pod" and "ansible_host" not in made
    assert made["ansible_node_pod_access"] == {"api_url": "https://127.0.0.1:1", "token": "t"}
    assert not [name for name in own if name.startswith("ansible_node_pod")] and "ansible_connection" not in own
    assert own["node_labels"] == {}


def test_the_access_of_a_cluster_that_is_a_host(tmp_path: pathlib.Path) -> None:
    """No node_cidrs are needed, since no address is connected to."""
    (tmp_path / "10-clusters.yml").write_text(
        yaml.safe_dump({"clusters": {"hosts": {"aws": {"api_url": "https://127.0.0.1:1", "token": "secret-of-aws"}}}})
    )
    source = tmp_path / "20-cluster_nodes.yml"
    cache = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "cache_prefix": "nodes",
    }
    source.write_text(yaml.safe_dump({"plugin": NAME, "connection": "node_pod", **cache}))
    cached = CachePluginAdjudicator("ansible.builtin.jsonfile", _uri=str(tmp_path / "cache"), _prefix="nodes")
    cached[inventory_loader.get(NAME).get_cache_key(str(source))] = {"aws": [node("new", ADDRESS["aws"])]}
    cached.set_cache()
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(tmp_path / "10-clusters.yml"), str(source)])
    raw = manager.hosts["new"].get_vars()
    assert "secret-of-aws" not in json.dumps(raw, default=str)
    variables = VariableManager(loader=loader, inventory=manager).get_vars(host=manager.hosts["new"])
    variables["hostvars"] = HostVars(manager, VariableManager(loader=loader, inventory=manager), loader)
    access = Templar(loader=loader, variables=variables).template(raw["ansible_node_pod_access"])
    assert access == {"api_url": "https://127.0.0.1:1", "token": "secret-of-aws"}
