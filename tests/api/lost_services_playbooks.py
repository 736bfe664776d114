# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks that would take the last endpoint of a Service, or all addresses of a set, stop before their first write. `tests/run what_if` runs it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from mirror_clusters import FLUENTD, fluentd, other, two  # pylint: disable=unused-import
from set_kinds import LABEL, pod, remove
from test_lost_services import GRANTS, SET, SETS, kinds, take_label, writes  # pylint: disable=unused-import

__all__ = ["fluentd", "kinds", "other", "two"]
PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"


@pytest.fixture
def inventory(kinds, tmp_path):
    """The path of one with the access to both clusters, over the example's Service and a pod."""
    rows = {
        name: {**one.access(name), "pod_cidrs": GRANTS[name]["pod_cidrs"], "node_cidrs": GRANTS[name]["node_cidrs"]}
        for name, one in kinds.servers.items()
    }
    for row in rows.values():
        del row["name"]
    path = tmp_path / "hosts.yml"
    settings = {"multicluster_fabric": "t", "service_mirror_create_namespace": True}
    path.write_text(yaml.safe_dump({"all": {"vars": settings, "children": {"clusters": {"hosts": rows}}}}))
    return path


def play(inventory, book, *arguments):
    """(return code, what was printed, on one line)."""
    environment = dict(os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0")
    environment["ANSIBLE_HOME"] = str(inventory.parent / "ansible")
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = ["ansible-playbook", "-i", str(inventory), "-e", "ansible_python_interpreter=" + sys.executable]
    done = subprocess.run(
        [*command, str(PLAYBOOKS / book), *arguments],
        env=environment,
        cwd=str(inventory.parent),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_label_taken_from_the_only_service_stops_the_run(two, inventory):
    assert play(inventory, "service_mirror.yml")[0] == 0
    take_label(two)
    mark = two.mark()
    code, out = play(inventory, "service_mirror.yml")
    assert code != 0 and "service_unlabelled/gcp/aws" in out and "[pairs_lost]" in out, out
    assert "aws/sys-log/fluentd" in out and "stops before its first write" in out, out
    code, out = play(inventory, "service_mirror.yml", "--check")
    assert code == 0 and "lost 1 pair [service_unlabelled/gcp/aws], gcp to aws/sys-log/fluentd" in out, out
    assert writes(two, mark) == [] and FLUENTD in two.names("gcp", "Service")
    confirmed = '{"multicluster_confirm_lost": ["service_unlabelled/gcp/aws"], "service_mirror_confirm_empty": ["aws"]}'
    assert play(inventory, "service_mirror.yml", "-e", confirmed)[0] == 0
    assert FLUENTD not in two.names("gcp", "Service")


def test_a_set_of_a_policy_that_would_be_emptied_stops_the_run(two, inventory):
    client = two.clients["aws"]
    assert play(inventory, "network_sets.yml")[0] == 0
    assert client.get(SET)["spec"]["nets"] == ["10.4.1.3/32"]
    label = {"metadata": {"labels": {LABEL: None}}}
    two.clients["gcp"].merge_patch("/api/v1/namespaces/shop/pods/only", label, "somebody")
    mark = two.mark()
    code, out = play(inventory, "network_sets.yml")
    assert code != 0 and "set_unlabelled/gcp/aws" in out and "[pairs_lost]" in out, out
    assert "gcp/shop/only" in out and writes(two, mark) == [], out
    code, out = play(inventory, "network_sets.yml", "--check")
    assert code == 0 and "lost 1 pair [set_unlabelled/gcp/aws]" in out, out
    remove(two.clients["gcp"], "shop", "only")
    pod(two.clients["gcp"], "shop", "only", None, "10.4.1.9")
    code, out = play(inventory, "network_sets.yml", "-e", '{"network_sets_confirm_empty": ["gcp"]}')
    assert code == 0 and client.list(SETS).items == [], "the pod is gone, so nothing is lost"
