# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configurations of service-mirror and policy: order of checks, defaults, refusals."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.multicluster.network.plugins.module_utils._policy.policy_config import start_error
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_config

ACCESS = {"remoteAPIURL": "https://b", "remoteCAURL": "https://a", "remoteSATokenPath": "/t"}


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
    found = mirror_config.parse_mirror(raw)
    assert found["ok"] == (found["error"] is None)
