# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle has no secret in it, in any spelling."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
import urllib.parse

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import support_bundle
from ansible_collections.multicluster.network.plugins.module_utils._status import redact
from hypothesis import given, strategies as some

PUBLIC = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
PRIVATE = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2E="
SECRETS = [
    PRIVATE,
    "Pa55 w0rd/of+BGP",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "tok-en_0123456789abcdef",
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIOq1x5/9o4m0Hq\nAwEHoUQDQgAE\n-----END EC PRIVATE KEY-----\n",
]


def spelled(secret):
    """The ways in which a reader could have it back."""
    raw = secret.encode()
    ways = {
        secret,
        json.dumps(secret)[1:-1],
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        urllib.parse.quote(secret, safe=""),
    }
    if secret == PRIVATE:
        ways |= {base64.b64decode(secret).hex(), base64.b64decode(secret).hex().upper()}
    return ways


@pytest.mark.parametrize("secret", SECRETS, ids=["key", "password", "jwt", "token", "pem"])
def test_a_known_secret_is_gone_in_every_spelling(secret):
    for way in spelled(secret):
        text = redact.Redactor([secret]).text("before " + way + " after")
        assert way not in text and text.startswith("before ") and text.endswith(" after"), way
        data = redact.Redactor([secret]).value({"a": [{"note": "x" + way + "y"}], "k " + way: 1})
        assert way not in json.dumps(data, ensure_ascii=False)


@given(some.binary(min_size=16, max_size=40), some.binary(max_size=9), some.binary(max_size=9))
def test_base64_of_a_text_around_a_secret_does_not_give_it_away(secret, before, after):
    """kubectl shows Secrets so: base64 of a whole file in which a secret is, at any offset."""
    coded = base64.b64encode(before + secret.hex().encode() + after).decode()
    found = redact.Redactor([secret.hex()]).text(coded)
    left = "".join(char for char in found.replace(redact.MARK, "") if char.isalnum() or char in "+/")
    whole = base64.b64decode(left[: len(left) - len(left) % 4])
    assert secret.hex().encode() not in whole and found != coded


@given(some.text(min_size=redact.SHORTEST, max_size=60), some.text(max_size=20), some.text(max_size=20))
def test_no_text_survives(secret, before, after):
    assert secret not in redact.Redactor([secret]).text(before + secret + after) or secret in redact.MARK


@pytest.mark.parametrize(
    "text,gone",
    [
        (PRIVATE, PRIVATE),
        ("key " + "a1" * 32 + ".", "a1" * 32),
        (SECRETS[4], "MHcCAQ"),
        ("-----BEGIN PRIVATE KEY-----\nMHcC", "MHcC"),
        (SECRETS[2], "eyJhbGci"),
        ("neighbor 10.0.0.1 password hunter22", "hunter22"),
        ("ip bgp password 7 hunter22", "hunter22"),
        ("https://me:hunter22@example.net/", "hunter22"),
        ("Authorization: Bearer abcdef", "abcdef"),
        ('token="hunter22"', "hunter22"),
        ("psk preshared-key=hunter22", "hunter22"),
    ],
)
def test_shapes_that_secrets_have(text, gone):
    redactor = redact.Redactor()
    assert gone not in redactor.text(text) and redactor.count


def test_public_keys_and_ordinary_words_stay():
    redactor = redact.Redactor((), [PUBLIC])
    text = f"peer {PUBLIC} endpoint 10.22.22.27:51821, token bucket".replace("token bucket", "10.4.7.0/24")
    assert redactor.text(text) == text and not redactor.count
    value = {
        "private_key_file": "/var/lib/x.key",
        "preshared": True,
        "public_key": PUBLIC,
        "token_file": "/x",
        "token": "",
        "secrets": [],
    }
    assert redactor.value(value) == value


@pytest.mark.parametrize(
    "name",
    [
        "private_key",
        "preshared_key",
        "privateKey",
        "presharedKey",
        "psk",
        "mesh_secret",
        "token",
        "api_key",
        "bgp_pass",
        "password",
        "client-key-data",
        "client-certificate-secret",
        "ansible_become_password",
        "kubeconfig_data",
        "bearer",
        "auth",
    ],
)
def test_fields_with_names_of_secrets(name):
    assert redact.Redactor().value({name: "hunter22"}) == {name: redact.MARK}
    assert redact.secrets_of({"x": [{name: "hunter22"}]}) == {"hunter22"}


def test_paths_are_no_secrets():
    assert redact.secrets_of({"token": "/run/token", "kubeconfig": "~/.kube/config", "password": "short"}) == set()


def members(path):
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive.getmembers()}


def test_the_bundle_has_none_of_what_was_planted_anywhere(tmp_path):
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [
            {
                "name": "u",
                "user": {"token": SECRETS[3], "client-key-data": base64.b64encode(SECRETS[4].encode()).decode()},
            }
        ],
    }
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig))
    page = tmp_path / "page.html"
    ways = [way for secret in SECRETS for way in spelled(secret)]
    page.write_text("<p>" + "</p><p>".join(ways) + "</p>")
    path = tmp_path / "out" / "support.tar.gz"
    result = support_bundle.run(
        {
            "fabric": "default",
            "path": str(path),
            "clusters": [
                {"name": "aws", "kubeconfig": str(config), "token": SECRETS[2]},
                {"name": "gcp", "kubeconfig": kubeconfig},
            ],
            "definition": {
                "nodes": {"n": {"bgp_speaker_neighbors": [{"password": SECRETS[1]}], "ansible_host": "10.0.0.1"}}
            },
            "nodes": {
                "../n": {
                    "journal": ways,
                    "state": {"devices": [{"private_key": PRIVATE}]},
                    "devices": [{"public_key": PUBLIC}],
                },
                "m": None,
            },
            "node_plans": {},
            "plans": {"service_mirror": {"msg": " ".join(ways)}},
            "files": {"status.html": str(page), "missing": str(tmp_path / "no")},
            "secrets": [PRIVATE],
            "versions": {},
        }
    )
    found = members(path)
    assert {name.partition("/")[2] for name in found} == set(result["files"]) and result["redacted"] > 10
    assert not [name for name in found if ".." in name.split("/")] and (path.stat().st_mode & 0o777) == 0o600
    whole = "".join(found.values())
    assert [way for way in ways if way in whole] == []
    assert "10.0.0.1" in whole and "https://127.0.0.1:6443" not in json.dumps(kubeconfig["users"])


def test_check_mode_writes_nothing(tmp_path):
    path = tmp_path / "support.tar.gz"
    support_bundle.run({"fabric": "default", "path": str(path), "clusters": []}, check=True)
    assert not path.exists()
