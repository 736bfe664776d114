# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""X25519 against the RFC's vectors and against cryptography."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import clamp, public_key, x25519
from cryptography.hazmat.primitives.asymmetric import x25519 as x25519_oracle
from hypothesis import given, strategies as st


@pytest.mark.parametrize(
    "scalar, point, expected",
    [  # RFC 7748 section 5.2
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
    ],
)
def test_rfc_7748_section_5_2(scalar, point, expected):
    assert x25519(bytes.fromhex(scalar), bytes.fromhex(point)).hex() == expected


def test_rfc_7748_section_5_2_iterated():
    k = u = (9).to_bytes(32, "little")
    for _round in range(1000):
        k, u = x25519(k, u), k
    assert k.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


def test_rfc_7748_section_6_1():
    private = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    assert x25519(private).hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"


@given(st.binary(min_size=32, max_size=32))
def test_public_key_agrees_with_cryptography(private):
    theirs = x25519_oracle.X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    assert public_key(private) == base64.b64encode(theirs).decode()
    assert public_key(private) == public_key(clamp(private))


@given(st.binary(max_size=64).filter(lambda raw: len(raw) != 32))
def test_other_lengths_are_refused(raw):
    with pytest.raises(ValueError):
        x25519(raw)
