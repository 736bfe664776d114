# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric in which flannel masquerades by its default settings, from preflight to teardown. The tests build on each other, in their order."""

from __future__ import annotations

import json

RANGES = {"aws": "10.2.0.0/16", "gcp": "10.4.0.0/16"}
#: As flannel writes them with --ip-masq, in short (tests/fixtures/cni/flannel-iptables-save.txt).
RULES = """
iptables -t nat -N FLANNEL-POSTRTG
iptables -t nat -A POSTROUTING -m comment --comment flanneld -j FLANNEL-POSTRTG
iptables -t nat -A FLANNEL-POSTRTG -s {0} -d {0} -j RETURN
iptables -t nat -A FLANNEL-POSTRTG -s {0} ! -d 224.0.0.0/4 -j MASQUERADE --random-fully
"""


def preflight(fabric, **variables):
    path = fabric.state / "findings.json"
    run = fabric.play("preflight", variables=dict(variables, preflight_file=str(path)))
    return run, {row["reason"] for row in json.loads(path.read_text())}


def test_preflight_has_nothing_against_it(fabric):
    for node in fabric.nodes:
        fabric.sh(node, "sh", "-ec", RULES.format(RANGES[node[:3]]))
    run, reasons = preflight(fabric)
    assert run.rc == 0 and not reasons & {"masqueraded", "no_prefix_nat"}, run.out[-3000:]
    run, reasons = preflight(fabric, keep_pod_addresses=False)
    assert run.rc != 0 and "masqueraded" in reasons and "keep_pod_addresses" in run.out, run.out[-3000:]


def test_pods_keep_their_addresses_and_verify_proves_it(fabric):
    run = fabric.play("site").ok()
    assert "all green" in run.out, run.out[-3000:]
    assert not fabric.play("mesh").ok().changed
    assert not [row for row in fabric.reaches() if row["cross"] and not row["ok"]]


def test_without_the_table_nothing_gets_through_and_with_it_again(fabric):
    fabric.play("mesh", variables={"keep_pod_addresses": False}).ok()
    run = fabric.play("verify", variables={"keep_pod_addresses": False})
    assert run.rc != 0 and "all green" not in run.out
    assert [row for row in fabric.reaches() if row["cross"] and not row["ok"]], "the breakage breaks"
    fabric.play("mesh").ok()
    assert "all green" in fabric.play("verify").ok().out


def test_teardown_takes_the_table(fabric):
    fabric.play("teardown", variables={"teardown_confirm": True}).ok()
    for node in fabric.nodes:
        fabric.sh(node, "sh", "-ec", "iptables -t nat -F; iptables -t nat -X")
        assert "multicluster-network" not in fabric.sh(node, "nft", "list", "ruleset")
