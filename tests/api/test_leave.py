# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster leaves: nothing of it stays with the others, nothing of ours with it, over real API servers. Its nodes: tests/scenario/test_leave.py."""

from __future__ import annotations

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
            found.add((path.rpartition("/")[2], "{0}/{1}".format(one["metadata"].get("namespace", ""), one["metadata"]["name"])))
    return found


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
    for word in ("cluster.aws", "aws-shop-73736d-mirrored", "GlobalNetworkSet", "ServiceImport"):
        assert word in shown, (word, shown[-4000:])
    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert code == 0, shown[-6000:]
    assert "next: take aws and its nodes out of the inventory" in " ".join(shown.split())
    assert corefile(pair, "aws") == COREFILE
    assert held(pair, "aws") == joined["aws"]
    assert not [one for one in held(pair, "gcp") if "aws" in one[1]] and "cluster.aws" not in corefile(pair, "gcp")
    assert pair.imported("aws", WEB) is None and pair.imported("gcp", WEB)["status"]["clusters"] == [{"cluster": "gcp-eu"}]
    mark = pair.mark()
    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert pair.writes(mark) == {"aws": [], "gcp": []} and code == 0, shown[-4000:]
    play(whole, "site")
    assert "cluster.aws" in corefile(pair, "gcp") and len(pair.imported("aws", WEB)["status"]["clusters"]) == 2

    # gone for ever: it is not asked
    tree = yaml.safe_load((whole / "hosts.yml").read_text())
    config = yaml.safe_load((whole / "aws").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (whole / "dead").write_text(yaml.safe_dump(config))
    alive = (whole / "hosts.yml").read_text()
    tree["all"]["children"]["clusters"]["hosts"]["aws"]["kubeconfig"] = str(whole / "dead")
    (whole / "hosts.yml").write_text(yaml.safe_dump(tree))
    try:
        code, shown = play(whole, "leave", "-e", "cluster=aws", "-e", "leave_gone=true")
    finally:
        (whole / "hosts.yml").write_text(alive)
    assert code == 0, shown[-6000:]
    assert "gone, so nothing was written in aws" in " ".join(shown.split())
    assert not [one for one in held(pair, "gcp") if "aws" in one[1]] and "cluster.aws" not in corefile(pair, "gcp")
    assert pair.imported("gcp", WEB)["status"]["clusters"] == [{"cluster": "gcp-eu"}]


@pytest.mark.parametrize(("arguments", "said"), [
    ((), "write -e cluster=NAME, one of aws, gcp"),
    (("-e", "cluster=ibm"), "cluster=ibm is no cluster of the inventory, which has aws, gcp"),
    (("--limit", "aws", "-e", "leave_gone=true"), "leave_gone is said of a cluster"),
])  # fmt: skip
def test_who_leaves_is_said(pair, fabric, arguments, said):
    mark = pair.mark()
    code, shown = play(fabric, "leave", *arguments)
    assert code != 0 and said in " ".join(shown.split()), shown[-3000:]
    assert pair.writes(mark) == {"aws": [], "gcp": []}
