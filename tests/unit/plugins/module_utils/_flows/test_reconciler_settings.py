# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the reconciler takes from the inventory, by a real play of the roles: needs no cluster."""

from __future__ import annotations

import json
import pathlib
import sys
import threading

from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.capabilities import CAPABILITIES
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.settings import SettingsReader

CLUSTERS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16"], "mcs_namespaces": ["shop"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"], "multicluster_cluster_id": "gcp-eu"},
}


def test_every_capability_gets_the_options_of_its_own_module(tmp_path, monkeypatch):
    hosts = {name: dict(given, api_url="https://127.0.0.1:1", token="x") for name, given in CLUSTERS.items()}
    names = sorted(CAPABILITIES)
    run = {
        "multicluster_capabilities": names,
        "mcs_stale_after": 600,
        "coredns_rewrite_global_zone": True,
        "service_mirror_as": "slices",
        "ansible_python_interpreter": sys.executable,
    }
    (tmp_path / "hosts.yml").write_text(
        json.dumps({"all": {"vars": run, "children": {"clusters": {"hosts": hosts}}}}), "utf-8"
    )
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "-i", str(tmp_path / "hosts.yml")]
    found = SettingsReader(command, str(tmp_path / "hosts.yml"), names, 120.0, threading.Event()).read()
    assert sorted(found) == names and all(isinstance(options, dict) for options in found.values())
    assert found["mcs"]["stale_after"] == 600 and found["mcs"]["keep_first"] is False
    assert found["mcs"]["definition"]["clusters"]["aws"]["mcs_namespaces"] == ["shop"]
    assert (
        found["coredns_rewrite"]["global_zone"] is True
        and found["coredns_rewrite"]["clusterset_domain"] == "clusterset.local"
    )
    assert found["service_mirror"]["mirror_as"] == "slices"
    for name in names:
        CAPABILITIES[name](dict(found[name], fabric="default"))
