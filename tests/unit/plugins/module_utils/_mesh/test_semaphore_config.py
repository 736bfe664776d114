# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three components' configurations: order of checks, defaults, refusals."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.multicluster.network.plugins.module_utils._mesh import semaphore_config
from ansible_collections.multicluster.network.plugins.module_utils._policy.policy_config import start_error
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_config

ACCESS = {"remoteAPIURL": "https://b", "remoteCAURL": "https://a", "remoteSATokenPath": "/t"}


def remote(name: str = "c2", **fields: t.Any) -> t.Dict[str, t.Any]:
    merged = {**ACCESS, "name": name, "podSubnet": "10.4.0.0/16", **fields}
    return {key: value for key, value in merged.items() if value != "(absent)"}


def parse(*remotes: t.Any, **local: t.Any) -> t.Dict[str, t.Any]:
    raw = json.dumps({"local": dict({"name": "c1"}, **local), "remotes": list(remotes)})
    return semaphore_config.parse_wireguard(raw)


OTHER = {"podSubnet": "10.6.0.0/16", "wgListenPort": 51821}


@pytest.mark.parametrize(
    "raw, word",
    [
        ("", "bad_json"),
        ("{", "bad_json"),
        ("[]", "bad_json"),
        ("null", "local_name_missing"),
        ("{}", "local_name_missing"),
        ('{"local": "x"}', "bad_json"),
        ('{"local": {"name": 7}}', "bad_json"),
        ('{"local": {"name": "c1"}}', "no_remotes"),
        ('{"local": {"name": "c1"}, "remotes": {}}', "bad_json"),
        ('{"local": {"name": "c1"}, "remotes": [null]}', "remote_name_missing"),
        ('{"local": {"name": "c1"}, "remotes": ["x"]}', "bad_json"),
        ('{"local": {"name": "c1"}, "remotes": [{}]}', "remote_name_missing"),
        ('{"local": {"name": "c1"}, "remotes": [{"name": "c2"}]}', "remote_access_incomplete"),
        ('{"local": {"name": "c1"}, "remotes": [{"name": "c2", "kubeConfigPath": "/k"}]}', "pod_subnet_missing"),
    ],
)
def test_order_of_checks(raw: str, word: str) -> None:
    found = semaphore_config.parse_wireguard(raw)
    assert (found["ok"], found["error"], found["config"]) == (False, word, None)


@pytest.mark.parametrize(
    "remotes, word",
    [
        ([remote(remoteCAURL="(absent)")], "remote_access_incomplete"),
        ([remote(wgListenPort=70000)], "port_out_of_range"),
        ([remote(wgListenPort=-1)], "port_out_of_range"),
        ([remote(wgListenPort="70000")], "port_out_of_range"),
        ([remote(wgDeviceMTU=575)], "mtu_out_of_range"),
        ([remote(wgDeviceMTU=-5)], "mtu_out_of_range"),
        ([remote(wgDeviceMTU=9217)], "mtu_out_of_range"),
        ([remote(), remote("c3", podSubnet="10.6.0.0/16")], "duplicate_listen_port"),
        ([remote(), remote("c3", wgListenPort=51821)], "pod_subnet_overlap"),
        ([remote(), remote("c2", **OTHER)], "duplicate_remote_name"),
        ([remote(), remote("c2")], "duplicate_remote_name"),
        ([remote("c1")], "remote_is_local"),
        ([remote(wgListenPort=1.5)], "bad_json"),
        ([remote(wgListenPort=2**63)], "bad_json"),
        ([remote(wgListenPort=True)], "bad_json"),
        ([remote(wgListenPort="x")], "bad_json"),
        ([remote(podSubnet=7)], "bad_json"),
        ([remote(resyncPeriod=None)], "bad_json"),
        ([remote(resyncPeriod="10")], "bad_json"),
        ([remote(resyncPeriod=True)], "bad_json"),
        ([remote(resyncPeriod="")], "bad_json"),
    ],
)
def test_refusals(remotes: t.List[t.Any], word: str) -> None:
    assert parse(*remotes)["error"] == word


def test_local_subnet_overlaps() -> None:
    assert parse(remote(), podSubnet="10.4.3.0/24")["error"] == "pod_subnet_overlap"
    assert parse(remote(), podSubnet="10.2.0.0/16")["ok"]


@pytest.mark.parametrize(
    "given_value, seconds",
    [("10s", 10), ("1h30m", 5400), ("500ms", 0.5), (10**9, 1), (5 * 10**8, 0.5), (0, 0), ("0", 0)],
)
def test_resync_periods(given_value: t.Any, seconds: float) -> None:
    assert parse(remote(resyncPeriod=given_value))["config"]["remotes"][0]["resyncPeriodSeconds"] == seconds


def test_normal_form() -> None:
    found = parse(remote(wgListenPort="51821", wgDeviceMTU=0, surprise=1), **{"kubeConfigPath": None})
    assert found["config"] == {
        "local": {"name": "c1", "kubeConfigPath": ""},
        "remotes": [
            dict(
                ACCESS,
                name="c2",
                kubeConfigPath="",
                podSubnet="10.4.0.0/16",
                wgDeviceMTU=1420,
                wgListenPort=51821,
                resyncPeriodSeconds=0,
            )
        ],
    }
    assert found["warnings"] == ["'remotes[0].surprise' is not a known key"]


def test_keys_in_another_case_are_found_and_reported() -> None:
    found = semaphore_config.parse_wireguard(json.dumps({"LOCAL": {"Name": "c1"}, "remotes": [remote()]}))
    assert found["ok"] and len(found["warnings"]) == 2


@pytest.mark.parametrize(
    "fields, files, words",
    [
        ({}, {"/t": "abc\n"}, []),
        ({}, {"/t": " abc "}, []),
        ({}, {}, ["token_unreadable"]),
        ({}, {"/t": ""}, ["token_invalid"]),
        ({}, {"/t": "!!a!!"}, ["token_invalid"]),
        ({"kubeConfigPath": "/k"}, {}, []),
        ({"podSubnet": "x"}, {"/t": "a"}, ["pod_subnet_invalid"]),
        ({"name": "cluster1"}, {"/t": "a"}, ["device_name_too_long"]),
        (
            {"name": "cluster1", "podSubnet": "x"},
            {},
            ["token_unreadable", "pod_subnet_invalid", "device_name_too_long"],
        ),
    ],
)
def test_start(fields: t.Dict[str, t.Any], files: t.Dict[str, str], words: t.List[str]) -> None:
    found = semaphore_config.start_problems(dict(remote(), **fields), files)
    assert [problem.word for problem in found] == words


GLOBAL = {
    "globalSvcLabelSelector": "g",
    "globalSvcRoutingStrategyLabel": "r",
    "mirrorSvcLabelSelector": "m",
    "mirrorNamespace": "ns",
}


def mirror(*remotes: t.Any, overrides: t.Any = None, **parts: t.Any) -> t.Dict[str, t.Any]:
    shared = {key: value for key, value in dict(GLOBAL, **parts.get("shared", {})).items() if value is not None}
    raw = {"global": shared, "localCluster": parts.get("local", {"name": "c1"}), "remoteClusters": list(remotes)}
    return mirror_config.parse_mirror(json.dumps(raw), overrides)


def source(name: str = "c2", prefix: t.Any = "c2") -> t.Dict[str, t.Any]:
    return dict(ACCESS, name=name, servicePrefix=prefix)


@pytest.mark.parametrize(
    "found, word",
    [
        (mirror(source()), None),
        (mirror(shared={"mirrorSvcLabelSelector": None}), "mirror_selector_missing"),
        (mirror(shared={"mirrorNamespace": ""}), "mirror_namespace_missing"),
        (mirror(local={}), "local_name_missing"),
        (mirror(), "no_remotes"),
        (mirror(None), "remote_name_missing"),
        (mirror({"name": "c2"}), "remote_access_incomplete"),
        (mirror(source(prefix="")), "service_prefix_missing"),
        (mirror(source(prefix="gl")), "reserved_service_prefix"),
        (mirror(source(prefix="cluster-A")), "service_prefix_invalid"),
        (mirror(source(), source("c3")), "duplicate_service_prefix"),
        (mirror(source(), source("c2", "x")), "duplicate_remote_name"),
        (mirror(source("c1")), "remote_is_local"),
        (mirror(source(), local={"name": "c1", "zones": list("abcdefghi")}), "too_many_zones"),
        (mirror(source(), local={"name": "c1", "zones": list("abcdefgh")}), None),
        (mirror(source(), shared={"serviceSync": "true"}), "bad_json"),
        (mirror(source(), local={"name": "c1", "zones": [7]}), "bad_json"),
    ],
)
def test_mirror_checks(found: t.Dict[str, t.Any], word: t.Optional[str]) -> None:
    assert found["error"] == word and found["ok"] == (word is None)


def test_mirror_features_and_overrides() -> None:
    without = mirror(source(), shared={"globalSvcLabelSelector": None})
    assert without["features"] == {"global_services": False, "routing": False}
    found = mirror(source(), overrides={"mirror_ns": "flag", "mirror_svc_label_selector": ""})["config"]
    assert found["global"]["mirrorNamespace"] == "flag" and found["global"]["mirrorSvcLabelSelector"] == "m"
    assert found["localCluster"]["zones"] == ["local"]
    words = [p.word for p in mirror_config.start_problems(dict(GLOBAL, globalSvcRoutingStrategyLabel="a=="))]
    assert words == []
    assert [p.word for p in mirror_config.start_problems({"globalSvcRoutingStrategyLabel": "a=b=c"})] == [
        "routing_label_syntax"
    ]


NAME = {"SP_TARGET_CLUSTER_NAME": "aws"}
URLS = {"SP_REMOTE_API_URL": "u", "SP_REMOTE_CA_URL": "c"}


@pytest.mark.parametrize(
    "env, files, word",
    [
        ({}, {}, "target_cluster_missing"),
        ({"KPS_TARGET_CLUSTER_NAME": "aws"}, {}, "target_cluster_missing"),
        (NAME, {}, "remote_access_incomplete"),
        (dict(NAME, SP_TARGET_KUBE_CONFIG="/k"), {}, None),
        (dict(NAME, **URLS), {}, "remote_access_incomplete"),
        (dict(NAME, SP_REMOTE_SERVICE_ACCOUNT_TOKEN="abc", **URLS), {}, None),
        (dict(NAME, SP_REMOTE_SERVICE_ACCOUNT_TOKEN="!!", **URLS), {}, "token_invalid"),
        (dict(NAME, SP_REMOTE_SERVICE_ACCOUNT_TOKEN_PATH="/t", **URLS), {}, "token_unreadable"),
        (dict(NAME, SP_REMOTE_SERVICE_ACCOUNT_TOKEN_PATH="/t", **URLS), {"/t": "abc\n"}, None),
    ],
)
def test_policy_start(env: t.Dict[str, str], files: t.Dict[str, str], word: t.Optional[str]) -> None:
    assert start_error({}, env, files) == word


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["local", "name", "remotes", "podSubnet", "wgListenPort", "resyncPeriod"]), inner
    ),
    max_leaves=10,
)


@given(JSON | st.text())
def test_no_text_breaks_a_parser(data: t.Any) -> None:
    raw = data if isinstance(data, str) else json.dumps(data)
    for found in (semaphore_config.parse_wireguard(raw), mirror_config.parse_mirror(raw)):
        assert found["ok"] == (found["error"] is None)
