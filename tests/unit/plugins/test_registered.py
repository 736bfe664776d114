# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of many hosts for one task: each host is looked at once, and results are taken as they are."""

import collections.abc

import pytest
from ansible_collections.multicluster.network.plugins.plugin_utils.registered import Registered, registered


class Given(collections.abc.Mapping):
    """One host as Ansible gives it: each look at a value makes a copy of it."""

    def __init__(self, variables):
        self._vars, self.looked = variables, []

    def __getitem__(self, name):
        self.looked.append(name)
        return str(self._vars[name]).upper()

    def __iter__(self):
        return iter(self._vars)

    def __len__(self):
        return len(self._vars)


class Hosts(dict):
    def __init__(self, hosts):
        super().__init__(hosts)
        self.asked = []

    def __getitem__(self, host):
        self.asked.append(host)
        return super().__getitem__(host)


def test_a_host_is_asked_for_once_and_a_result_is_not_copied():
    plan = {"mesh": {"nodes": {}}}
    hosts = Hosts({"a": Given({"__mesh_r_plan": plan, "region": "east"})})
    seen = registered(hosts)
    assert seen["a"]["__mesh_r_plan"] is plan and seen["a"]["region"] == "EAST"
    assert hosts.asked == ["a"] and hosts["a"].looked == ["region"]
    assert (
        "region" in seen["a"]
        and "other" not in seen["a"]
        and sorted(seen["a"]) == ["__mesh_r_plan", "region"]
        and len(seen["a"]) == 2
    )


def test_it_is_otherwise_what_ansible_gave():
    hosts = Hosts({"a": {"x": 1}})
    seen = registered(hosts)
    assert registered(seen) is seen and "a" in seen and "b" not in seen and list(seen) == ["a"] and len(seen) == 1
    assert seen.asked is hosts.asked, "attributes are those of Ansible"
    assert list(registered(None)) == [] and isinstance(registered({}), Registered)


@pytest.mark.parametrize("nothing", [None, 3, object()])
def test_a_host_that_is_not_there_is_a_missing_key(nothing):
    with pytest.raises(KeyError):
        registered({"a": nothing})["a"]
