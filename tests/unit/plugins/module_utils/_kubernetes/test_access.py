# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to a cluster: what is refused, with which reason, and that no credential is ever shown (T18, T19)."""

from __future__ import annotations

import base64
import contextlib
import copy
import os
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import (
    ALLOWABLE,
    Access,
    AccessRefused,
    parse_access,
    with_environment,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    ACCESS_OPTIONS,
    access_spec,
    take_access,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.kubeconfig import (
    parse_kubeconfig,
    secret_leaves,
)
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import cluster_access
from hypothesis import given, strategies as st

TOKEN = "eyJhbGciOi.very-secret_token~+/=="
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
B64 = base64.b64encode(PEM.encode()).decode()
GOOD = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "admin@aws",
    "contexts": [{"name": "admin@aws", "context": {"cluster": "aws", "user": "admin"}}],
    "clusters": [{"name": "aws", "cluster": {"server": "https://10.0.0.1:6443/", "certificate-authority-data": B64}}],
    "users": [
        {"name": "other", "user": {"exec": {"command": "touch"}}},
        {"name": "admin", "user": {"token": TOKEN}},
    ],
}


def config(cluster=None, user=None):
    made = copy.deepcopy(GOOD)
    made["clusters"][0]["cluster"].update(cluster or {})
    if user is not None:
        made["users"][1]["user"] = user
    return made


def refused(**options):
    with pytest.raises(AccessRefused) as error:
        parse_access(dict({"name": "aws"}, **options))
    assert "cluster aws" in str(error.value) and TOKEN not in str(error.value) and "hunter2" not in str(error.value)
    return error.value.reason


def test_kubeconfig_as_dict_and_as_file(tmp_path, monkeypatch):
    access = parse_access({"name": "aws", "kubeconfig": GOOD})
    assert (access.server, access.token, access.ca_pem, access.verify) == ("https://10.0.0.1:6443", TOKEN, PEM, True)
    path = tmp_path / "aws"
    path.write_text(yaml.safe_dump(GOOD))
    assert parse_access({"name": "aws", "kubeconfig": str(path)}).token == TOKEN
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_access({"name": "aws", "kubeconfig": "~/aws"}).token == TOKEN


def test_nothing_is_guessed(monkeypatch, tmp_path):
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(GOOD))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert refused() == "remote_access_incomplete"
    assert refused(token=TOKEN) == "remote_access_incomplete"
    assert refused(api_url="https://a") == "remote_access_incomplete"
    assert refused(context="x") == "remote_access_incomplete"


def test_names_of_kubernetes_core(tmp_path):
    (tmp_path / "ca").write_text(PEM)
    (tmp_path / "cert").write_text("c")
    files = {
        "ssl_ca_cert": str(tmp_path / "ca"),
        "cert_file": str(tmp_path / "cert"),
        "key_file": str(tmp_path / "cert"),
    }
    access = parse_access(
        {
            "name": "aws",
            "host": "https://10.0.0.1",
            "api_key": TOKEN,
            "proxy": "http://proxy:1",
            "verify_ssl": False,
            "allow": ["insecure_tls"],
            **files,
        }
    )
    assert (access.server, access.token, access.proxy_url, access.verify) == (
        "https://10.0.0.1",
        TOKEN,
        "http://proxy:1",
        False,
    )
    assert (access.ca_pem, access.client_cert, access.client_key) == (PEM, b"c", b"c")
    assert (
        parse_access({"name": "aws", "host": "https://no", "api_url": "https://yes", "api_key": TOKEN}).server
        == "https://yes"
    )


def test_the_environment_is_of_the_only_cluster(monkeypatch):
    monkeypatch.setenv("K8S_AUTH_HOST", "https://10.0.0.1")
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)
    given = [{"name": "aws", "read_limit_mib": 5, "allow": []}]
    access = parse_access(with_environment(given)[0])
    assert (access.server, access.token, access.read_limit_mib) == ("https://10.0.0.1", TOKEN, 5)
    assert access.credential == "the variable K8S_AUTH_API_KEY of the environment"
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "false")
    assert with_environment(given)[0]["validate_certs"] == "false", "a text, for the validator of options"
    for parts in (
        {"api_url": "https://evil.example"},
        {"host": "https://evil.example"},
        {"context": "x"},
        {"kubeconfig": ""},
        {"validate_certs": False},
    ):
        alone = [{"name": "aws", **parts}]
        assert with_environment(alone) is alone, (
            "no credential for a server that the user named, and none where the user states that there is none"
        )
    several = [{"name": "aws"}, {"name": "gcp"}]
    assert with_environment(several) is several
    for odd in (None, "text", ["text"], []):
        assert with_environment(odd) is odd


def test_with_several_clusters_in_the_inventory_none_takes_the_environment():
    """Also where a task asks one of them alone."""
    hosts = {"aws": {"context": "aws", "host": "unowned"}, "gcp": {"pod_cidrs": []}}
    one, other = cluster_access(hosts, {"clusters": ["aws", "gcp"]})
    assert (one, other) == ({"name": "aws", "context": "aws"}, {"name": "gcp", "kubeconfig": ""})
    assert with_environment([other]) == [other]
    assert cluster_access(hosts, {"clusters": ["gcp"]}) == [{"name": "gcp"}]


def test_a_token_of_the_environment_is_hidden(monkeypatch):
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)

    class Module:
        params: t.ClassVar = {"clusters": [{"name": "aws"}]}
        no_log_values: t.ClassVar = set()

    take_access(Module)
    assert Module.no_log_values == {TOKEN} and Module.params["clusters"] == [{"name": "aws", "token": TOKEN}]


def test_repr_shows_no_secret():
    access = parse_access({"name": "aws", "kubeconfig": GOOD, "proxy_url": "http://u:hunter2hunter2@proxy:1"})
    for text in (repr(access), str(access), f"{access}", f"{access!r}"):
        assert TOKEN not in text and "hunter2" not in text and "aws" in text
    assert set(access.secrets()) == {TOKEN, "hunter2hunter2"}
    with pytest.raises(AttributeError):
        access.token = "x"
    with pytest.raises(TypeError):
        copy.deepcopy(access)


HOSTILE = [
    ("exec", config(user={"exec": {"command": "/bin/sh", "args": ["-c", "touch /tmp/pwned"]}})),
    ("auth_provider", config(user={"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}})),
    ("insecure_tls", config(cluster={"insecure-skip-tls-verify": True})),
    ("plain_http", config(cluster={"server": "http://10.0.0.1:8080"})),
    ("proxy", config(cluster={"proxy-url": "http://evil.example:3128"})),
    ("tls_server_name", config(cluster={"tls-server-name": "other.example.org"})),
    ("impersonation", config(user={"token": TOKEN, "as": "system:admin"})),
    ("file_references", config(user={"tokenFile": "/etc/shadow"})),
    ("file_references", config(user={"client-certificate": "/etc/passwd", "client-key": "/etc/shadow"})),
    ("file_references", config(cluster={"certificate-authority": "/etc/shadow", "certificate-authority-data": ""})),
]


@pytest.mark.parametrize("reason, kubeconfig", HOSTILE)
def test_hostile_kubeconfig_is_refused_by_name(reason, kubeconfig):
    assert refused(kubeconfig=kubeconfig) == reason
    assert reason in ALLOWABLE
    others = [one for one in ALLOWABLE if one != reason]
    assert refused(kubeconfig=kubeconfig, allow=others) == reason


def test_each_can_be_allowed(tmp_path):
    def allowed(option, kubeconfig):
        return parse_access({"name": "aws", "kubeconfig": kubeconfig, "allow": [option]})

    by_option = dict(HOSTILE)
    assert allowed("exec", by_option["exec"]).plugin.config["command"] == "/bin/sh"
    assert allowed("insecure_tls", by_option["insecure_tls"]).verify is False
    assert allowed("plain_http", by_option["plain_http"]).server.startswith("http:")
    assert allowed("proxy", by_option["proxy"]).proxy_url == "http://evil.example:3128"
    assert allowed("tls_server_name", by_option["tls_server_name"]).tls_server_name == "other.example.org"
    assert allowed("impersonation", by_option["impersonation"]).impersonate == {"Impersonate-User": ["system:admin"]}
    (tmp_path / "tok").write_text(TOKEN + "\n")
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config(user={"tokenFile": "tok"})))
    assert allowed("file_references", str(path)).token == TOKEN
    assert refused(kubeconfig=config(user={"tokenFile": "tok"}), allow=["file_references"]) == "file_references"


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]",
        "a: !!python/object/apply:os.system ['touch /tmp/pwned']",
        "[" * 20000,
        "- just\n- a list",
        "{",
        "\x00",
        "a: {b: 1}: c",
        "",
    ],
)
def test_hostile_yaml(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    assert refused(kubeconfig=str(path)) == "kubeconfig_invalid"


def test_files_that_are_none(tmp_path):
    assert refused(kubeconfig=str(tmp_path / "none")) == "kubeconfig_unreadable"
    assert refused(kubeconfig=str(tmp_path)) == "kubeconfig_unreadable"
    assert refused(kubeconfig="/dev/zero") == "kubeconfig_unreadable"
    os.mkfifo(str(tmp_path / "fifo"))
    assert refused(kubeconfig=str(tmp_path / "fifo")) == "kubeconfig_unreadable"
    (tmp_path / "big").write_bytes(b"a: b\n" * 200_000)
    assert refused(kubeconfig=str(tmp_path / "big")) == "kubeconfig_unreadable"
    assert refused(api_url="https://a", token_file=str(tmp_path / "none")) == "token_unreadable"
    assert refused(api_url="https://a", token=TOKEN, ca_cert=str(tmp_path / "none")) == "ca_unreadable"


@pytest.mark.parametrize(
    "token", ["a b", "a\nHost: evil", "a\r\n", "=", "", "\u00e9", "a=b", 5, "x" * 70000, "\ta", "a\x00", "hunter2\n\n"]
)
def test_token_invalid(tmp_path, token):
    assert refused(kubeconfig=config(user={"token": token})) in ("token_invalid", "remote_access_incomplete")
    path = tmp_path / "token"
    path.write_text(str(token))
    if token != 5 and str(token).strip() == token:
        assert refused(api_url="https://a", token_file=str(path)) == "token_invalid"


@pytest.mark.parametrize("around", ["{0}\n", "{0}\r\n", "\n{0}\n\n", " {0}\t"])
def test_blanks_around_the_token_of_a_file_do_not_count(tmp_path, around):
    path = tmp_path / "token"
    path.write_bytes(around.format(TOKEN).encode())
    assert parse_access({"name": "aws", "api_url": "https://a", "token_file": str(path)}).token == TOKEN


@pytest.mark.parametrize(
    "reason, options",
    [
        ("ca_url_unpinned", {"ca_url": "https://ca.example/ca"}),
        ("ca_url_unpinned", {"ca_url": "https://ca.example/ca", "ca_sha256": "abc"}),
        ("plain_http", {"ca_url": "http://ca.example/ca", "ca_sha256": "0" * 64, "allow": ["plain_http"]}),
        ("remote_access_incomplete", {"ca_url": "https://ca.example", "ca_sha256": "0" * 64, "ca_data": PEM}),
        ("remote_access_incomplete", {"ca_sha256": "0" * 64}),
        ("remote_access_incomplete", {"token_file": "/x"}),
        ("ca_invalid", {"ca_data": "no certificate"}),
        ("insecure_tls", {"validate_certs": False}),
        ("proxy", {"proxy_url": "file:///etc/passwd"}),
        ("impersonation", {"impersonate_user": "a\r\nX: y"}),
        ("allow_invalid", {"allow": ["everything"]}),
    ],
)
def test_explicit_options(reason, options):
    assert refused(**dict({"api_url": "https://10.0.0.1", "token": TOKEN}, **options)) == reason


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "https://",
        "https://u:hunter2@a",
        "https://a/?x=1",
        "https://a:99999",
        "https://a b",
        "a",
        "https://a\n",
    ],
)
def test_api_url(url):
    assert refused(api_url=url, token=TOKEN) == "api_url_invalid"


def test_a_context_can_be_named_and_must_exist():
    assert refused(kubeconfig=GOOD, context="nope") == "kubeconfig_invalid"
    assert refused(kubeconfig=dict(GOOD, users=[])) == "kubeconfig_invalid"
    assert (
        refused(kubeconfig={key: value for key, value in GOOD.items() if key != "current-context"})
        == "kubeconfig_invalid"
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_any_data_is_refused_and_never_breaks(data):
    for given_config in (
        {"x": data},
        config(user={"token": data}),
        config(cluster={"server": data}),
        dict(GOOD, users=data),
    ):
        with contextlib.suppress(AccessRefused):
            assert isinstance(parse_access({"name": "aws", "kubeconfig": given_config}), Access)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_a_mapping(raw):
    with contextlib.suppress(ValueError):
        assert isinstance(parse_kubeconfig(raw), dict)


def test_secret_leaves_are_hidden_before_anything_else():
    hostile = config(
        user={"exec": {"command": "x", "env": [{"name": "PASS", "value": "hunter2hunter2"}]}, "password": "p4ssw0rd"}
    )
    assert set(secret_leaves(hostile)) == {"hunter2hunter2", "p4ssw0rd"}

    class Module:
        params: t.ClassVar = {
            "clusters": [
                {"kubeconfig": GOOD},
                {"token": "tokentoken"},
                {"api_key": "keykeykey"},
                {"proxy_url": "http://u:proxypass@h"},
                "odd",
                {"token": "ab"},
            ]
        }
        no_log_values: t.ClassVar = set()

    take_access(Module)
    assert Module.no_log_values == {TOKEN, "tokentoken", "keykeykey", "proxypass"}


def test_every_secret_like_option_is_marked():
    spec = access_spec()
    assert set(ACCESS_OPTIONS) == set(spec)
    for name, option in spec.items():
        if any(part in name for part in ("key", "token", "secret", "password", "kubeconfig")):
            assert "no_log" in option, name
