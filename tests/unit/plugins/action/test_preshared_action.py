# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves the controller for a node with preshared keys: those of its own pairs, in an option without a log, and never the secret."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from ansible_collections.multicluster.network.plugins.action import node_dataplane
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import (
    ClusterPlan,
    MeshPlan,
    NodePlan,
    RemotePlan,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key
from ansible_collections.multicluster.network.plugins.plugin_utils import preshared_secret

SECRET = encode_key(bytes(range(32)))
KEYS = {"a1": encode_key(b"a" * 32), "g1": encode_key(b"b" * 32)}
MODULE = pathlib.Path(__file__).parents[4] / "plugins/modules/node_dataplane.py"


class Templar:
    def template(self, value):
        return value


def action():
    made = object.__new__(node_dataplane.ActionModule)
    made._templar = Templar()
    return made


def plan(number=1, ident=""):
    """Two nodes with one device each, towards the other's cluster."""
    clusters, nodes = {}, {}
    for local, remote, host, other in (("aws", "gcp", "a1", "g1"), ("gcp", "aws", "g1", "a1")):
        peer = {
            "node": other,
            "public_key": KEYS[other],
            "endpoint": "192.0.2.1:51821",
            "allowed_ips": ["10.2.0.0/24"],
            "persistent_keepalive": 25,
            "preshared_key": None,
        }
        settings = RemotePlan(
            device="wireguard." + remote,
            listen_port=51821,
            private_key_file=f"/var/lib/semaphore-wireguard/wireguard.{remote}.key",
            peers=[peer],
        )
        clusters[local] = ClusterPlan(remotes={remote: settings})
        nodes[host] = NodePlan(
            local,
            host,
            publishable=True,
            annotations={key_of(remote, "pubKey"): KEYS[host]},
            preshared={remote: number} if number else {},
        )
    return MeshPlan(fabric="demo", clusters=clusters, nodes=nodes, preshared_used=bool(number), preshared_id=ident)


def filled(host, mesh, variables):
    made, options = action(), {}
    made.host, made.variables = host, variables
    made._fill(options, mesh, leaves=False)
    return options


def test_a_node_gets_the_keys_of_its_own_pairs_and_never_the_secret():
    given = {host: filled(host, plan(), {"preshared_secret": SECRET}) for host in KEYS}
    (one,), (other,) = (list(row["preshared_keys"].values()) for row in given.values())
    assert one == other
    for row in given.values():
        assert SECRET not in json.dumps(row)
        rest = {name: value for name, value in row.items() if name != "preshared_keys"}
        assert one not in json.dumps(rest)
        (peer,) = row["devices"][0]["peers"]
        assert peer["preshared_key"] == {"file": next(iter(row["preshared_keys"]))}
        assert "preshared" not in row["devices"][0]


def test_the_option_with_the_keys_has_no_log_and_no_option_has_the_secret():
    text = MODULE.read_text("utf-8")
    assert '"preshared_keys": {"type": "dict", "no_log": True}' in text and '"preshared_secret"' not in text
    for path in MODULE.parents[2].glob("roles/*/tasks/*.yml"):
        assert not re.search(r"\bpreshared_secret\b", path.read_text("utf-8")), path


def test_without_preshared_keys_nothing_is_read_and_nothing_is_given():
    assert "preshared_keys" not in filled("a1", plan(number=0), {})


@pytest.mark.parametrize("given", [None, "", "hunter2hunter2"])
def test_a_secret_that_is_missing_or_none_is_named_by_its_variable(given):
    with pytest.raises(ValueError, match="preshared_secret") as caught:
        filled("a1", plan(), {"preshared_secret": given} if given is not None else {})
    assert "bad_preshared_secret" in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_host_with_another_secret_is_refused_by_name():
    ident = preshared_secret.identity(action(), {"preshared_secret": SECRET})
    assert SECRET not in ident and "preshared_keys" in filled("a1", plan(ident=ident), {"preshared_secret": SECRET})
    with pytest.raises(ValueError, match="^g1: its preshared_secret"):
        filled("g1", plan(ident=ident), {"preshared_secret": KEYS["a1"]})
