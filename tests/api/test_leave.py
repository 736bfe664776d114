# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster leaves: nothing of it stays with the others, nothing of the fabric with it, over real API servers. Its nodes: tests/scenario/test_leave.py."""

from __future__ import annotations

import contextlib
import select
import socket

import pytest
import yaml
from mcs_clusters import other, pair  # pylint: disable=unused-import
from test_limit import KINDS, WEB, play, whole  # pylint: disable=unused-import
from test_mcs_playbooks import COREFILE, corefile, fabric  # pylint: disable=unused-import

__all__ = ["fabric", "other", "pair", "whole"]


def held(pair, name):
    """All objects of the kinds that capabilities write, as (kind, namespace/name)."""
    found = set()
    for path in KINDS:
        for one in (pair.clients[name].find(path) or {}).get("items", ()):
            found.add((path.rpartition("/")[2], f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"))
    return found


@contextlib.contextmanager
def at(folder, name, server):
    """The inventory of folder with another address of one cluster's API server."""
    alive = (folder / "hosts.yml").read_text()
    tree, config = yaml.safe_load(alive), yaml.safe_load((folder / name).read_text())
    config["clusters"][0]["cluster"]["server"] = server
    (folder / "elsewhere").write_text(yaml.safe_dump(config))
    tree["all"]["children"]["clusters"]["hosts"][name]["kubeconfig"] = str(folder / "elsewhere")
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))
    try:
        yield
    finally:
        (folder / "hosts.yml").write_text(alive)


@pytest.fixture
def joined(pair, whole):
    before = {name: held(pair, name) for name in pair.servers}
    play(whole, "site")
    after = {name: held(pair, name) for name in pair.servers}
    assert len(after["gcp"] - before["gcp"]) >= 4 and len(after["aws"] - before["aws"]) >= 4, after
    assert "cluster.aws" in corefile(pair, "gcp") and "cluster.gcp" in corefile(pair, "aws")
    yield before
    play(whole, "teardown")


def test_a_cluster_leaves_and_comes_back(pair, whole, joined):
    mark = pair.mark()
    code, shown = play(whole, "leave", "--check", "--diff", "-e", "cluster=aws")
    assert pair.writes(mark) == {"aws": [], "gcp": []} and code == 0, shown[-4000:]
    assert "out of the inventory" not in shown, "nothing was written, so the cluster has to stay there"
    for text in ("cluster.aws", "aws-shop-73736d-mirrored", "GlobalNetworkSet", "ServiceImport"):
        assert text in shown, (text, shown[-4000:])
    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert code == 0, shown[-6000:]
    assert "next: take aws and its nodes out of the inventory" in " ".join(shown.split())
    assert corefile(pair, "aws") == COREFILE
    assert held(pair, "aws") == joined["aws"]
    assert not [one for one in held(pair, "gcp") if "aws" in one[1]] and "cluster.aws" not in corefile(pair, "gcp")
    assert pair.imported("aws", WEB) is None and pair.imported("gcp", WEB)["status"]["clusters"] == [
        {"cluster": "gcp-eu"}
    ]
    mark = pair.mark()
    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert pair.writes(mark) == {"aws": [], "gcp": []} and code == 0, shown[-4000:]
    play(whole, "site")
    assert "cluster.aws" in corefile(pair, "gcp") and len(pair.imported("aws", WEB)["status"]["clusters"]) == 2

    # gone for ever: it is not asked, so that a server that takes connections and never answers delays nothing
    with socket.create_server(("127.0.0.1", 0)) as mute, at(whole, "aws", f"https://127.0.0.1:{mute.getsockname()[1]}"):
        code, shown = play(whole, "leave", "-e", "cluster=aws", "-e", "leave_gone=true")
        assert not select.select([mute], [], [], 0)[0]
    assert code == 0, shown[-6000:]
    assert "gone, so nothing was written in aws" in " ".join(shown.split())
    assert not [one for one in held(pair, "gcp") if "aws" in one[1]] and "cluster.aws" not in corefile(pair, "gcp")
    assert pair.imported("gcp", WEB)["status"]["clusters"] == [{"cluster": "gcp-eu"}]


def ledgers(pair, name):
    """What a cluster keeps of addresses that were given out."""
    found = pair.clients[name].list("/api/v1/configmaps").items
    return {one["metadata"]["name"]: one.get("data") for one in found if "203.0.113." in str(one.get("data"))}


def addresses(pair, name):
    """Where a Service has its address, in every form."""
    service = pair.get(name, "Service", "balanced", "shop")
    return [
        row.get("ip") for row in (service["status"].get("loadBalancer") or {}).get("ingress") or ()
    ], "203.0.113." in str([service["spec"], service["metadata"].get("annotations")])


@pytest.mark.takes_long
def test_addresses_of_its_services_go_and_those_of_the_others_stay(pair, whole, joined):
    held_by = {name: (addresses(pair, name), ledgers(pair, name)) for name in pair.servers}
    assert all(one[0][0] for one in held_by.values()), held_by
    code, shown = play(whole, "leave", "--check", "--diff", "-e", "cluster=aws")
    assert code == 0 and held_by["aws"][0][0][0] in shown, shown[-5000:]
    assert {name: (addresses(pair, name), ledgers(pair, name)) for name in pair.servers} == held_by

    code, shown = play(whole, "leave", "-e", "cluster=aws", "-e", "leave_gone=true")
    assert code == 0 and "load_balancers" in shown, shown[-4000:]
    assert {name: (addresses(pair, name), ledgers(pair, name)) for name in pair.servers} == held_by, "nobody asked it"

    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert code == 0, shown[-5000:]
    assert addresses(pair, "aws") == ([], False) and ledgers(pair, "aws") == {}
    assert (addresses(pair, "gcp"), ledgers(pair, "gcp")) == held_by["gcp"]


def test_nothing_goes_while_another_cluster_cannot_be_written(pair, whole, joined):
    """Clients of the other one would be sent where nothing answers any more."""
    before, mark = held(pair, "aws"), pair.mark()
    with at(whole, "gcp", "https://127.0.0.1:9"):
        code, shown = play(whole, "leave", "-e", "cluster=aws")
    said = " ".join(shown.split())
    assert code != 0 and "aws and its nodes are left as they are" in said and "[others_unwritten]" in said, shown[
        -4000:
    ]
    assert "next: take aws" not in said
    assert pair.writes(mark) == {"aws": [], "gcp": []} and held(pair, "aws") == before
    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert code == 0 and held(pair, "aws") == joined["aws"], shown[-4000:]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "write -e cluster=NAME, one of aws, gcp"),
        (("-e", "cluster=ibm"), "cluster=ibm is no cluster of the inventory, which has aws, gcp"),
        (("--limit", "aws", "-e", "leave_gone=true"), "leave_gone is about a cluster"),
    ],
)
def test_who_leaves_is_said(pair, fabric, arguments, said):
    mark = pair.mark()
    code, shown = play(fabric, "leave", *arguments)
    assert code != 0 and said in " ".join(shown.split()), shown[-3000:]
    assert pair.writes(mark) == {"aws": [], "gcp": []}
