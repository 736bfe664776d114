# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Affiliates and endpoints as the discovery service stores them: protobuf, sealed with the mesh secret (kubespan 5.3).

Pure: the nonce is an argument, which the caller takes from the system's source of randomness, never twice. The packages cryptography and
protobuf are imported by what needs them, so that hosts without discovery need neither.
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import Address, network_span, parse_address
from ..._values.prefix_sets import address_text
from ..._values.protobuf import Schema
from ..._values.refused import ValueRefused
from .annotations import Affiliate
from .endpoints import AddrPort, prefix_text

NONCE = 12
TAG = 16
BLOCK = 16
MAX_RECORD = 2048
MAX_ENDPOINT = 32
_REASON = "bad_record"
_SEALED_OTHERWISE = "sealed_otherwise"

RECORDS = Schema(
    "sidero.discovery.client",
    {
        "Affiliate": {
            "node_id": (1, "string"),
            "addresses": (2, "bytes*"),
            "hostname": (3, "string"),
            "nodename": (4, "string"),
            "machine_type": (5, "string"),
            "operating_system": (6, "string"),
            "kubespan": (7, "KubeSpan"),
            "control_plane": (8, "ControlPlane"),
        },
        "KubeSpan": {
            "public_key": (1, "string"),
            "address": (2, "bytes"),
            "additional_addresses": (3, "IPPrefix*"),
            "exclude_advertised_networks": (4, "IPPrefix*"),
        },
        "IPPrefix": {"ip": (1, "bytes"), "bits": (2, "uint32")},
        "Endpoint": {"ip": (1, "bytes"), "port": (2, "uint32")},
        "ControlPlane": {"api_server_port": (1, "uint32")},
    },
)
_TEXTS = ("node_id", "hostname", "nodename", "machine_type", "operating_system")


def _packed(text: str) -> bytes:
    return parse_address(text).packed


def _ip(raw: bytes) -> str:
    if len(raw) not in (4, 16):
        raise ValueRefused(_REASON, f"an address in the record has {len(raw)} bytes")
    return address_text(4 if len(raw) == 4 else 6, int.from_bytes(raw, "big"))


def _prefix(text: str) -> t.Any:
    address, _slash, bits = prefix_text(text).partition("/")
    return RECORDS.make("IPPrefix", ip=_packed(address), bits=int(bits))


def _prefix_of(row: t.Any) -> str:
    text = f"{_ip(row.ip)}/{row.bits}"
    network_span(text, _REASON)
    return text


def _read(name: str, raw: bytes) -> t.Any:
    try:
        return RECORDS.read(name, raw)
    except ValueError as error:
        raise ValueRefused(_REASON, str(error)) from None


def encode_endpoint(endpoint: AddrPort) -> bytes:
    """One endpoint as protobuf."""
    raw: bytes = RECORDS.make("Endpoint", ip=endpoint.address.packed, port=endpoint.port).SerializeToString()
    return raw


def decode_endpoint(raw: bytes) -> AddrPort:
    """The inverse of encode_endpoint; ``bad_record``."""
    found = _read("Endpoint", raw)
    address: Address = parse_address(_ip(found.ip), _REASON)
    if not 1 <= found.port <= 65535:
        raise ValueRefused(_REASON, f"an endpoint in the record has port {found.port}")
    return AddrPort(address, found.port)


def encode_affiliate(affiliate: t.Mapping[str, t.Any]) -> bytes:
    """An affiliate's record as protobuf; endpoints travel apart from it."""
    values: dict[str, t.Any] = {name: affiliate.get(name) or "" for name in _TEXTS}
    values["addresses"] = [_packed(text) for text in affiliate.get("addresses") or ()]
    span: dict[str, t.Any] = {
        "public_key": affiliate.get("public_key") or "",
        "address": _packed(affiliate["kubespan_address"]) if affiliate.get("kubespan_address") else b"",
    }
    for name in ("additional_addresses", "exclude_advertised_networks"):
        span[name] = [_prefix(text) for text in affiliate.get(name) or ()]
    if any(span.values()):
        values["kubespan"] = RECORDS.make("KubeSpan", **span)
    if affiliate.get("api_server_port"):
        values["control_plane"] = RECORDS.make("ControlPlane", api_server_port=affiliate["api_server_port"])
    raw: bytes = RECORDS.make("Affiliate", **values).SerializeToString()
    return raw


def decode_affiliate(raw: bytes) -> Affiliate:
    """The inverse of encode_affiliate; ``bad_record`` for bytes that are none."""
    found = _read("Affiliate", raw)
    span = found.kubespan
    return {
        **{name: str(getattr(found, name)) for name in _TEXTS},
        "addresses": [_ip(value) for value in found.addresses],
        "public_key": str(span.public_key),
        "kubespan_address": _ip(span.address) if span.address else None,
        "additional_addresses": [_prefix_of(row) for row in span.additional_addresses],
        "exclude_advertised_networks": [_prefix_of(row) for row in span.exclude_advertised_networks],
        "api_server_port": found.control_plane.api_server_port or None,
        "endpoints": [],
    }


def pad_endpoint(raw: bytes) -> bytes:
    """A length byte and the record, filled with zeros to whole blocks."""
    if len(raw) >= MAX_ENDPOINT:
        raise ValueRefused(_REASON, f"an endpoint record has {len(raw)} bytes")
    text = bytes([len(raw)]) + raw
    return text + bytes(-len(text) % BLOCK)


def _blocks(secret: bytes) -> t.Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # Every block by itself, so that equal endpoints look equal: the service has to recognise one that two nodes report.
    return Cipher(algorithms.AES(secret), modes.ECB())


def seal_endpoint(secret: bytes, endpoint: AddrPort) -> bytes:
    """An endpoint as the service stores it; equal endpoints give equal bytes."""
    encryptor = _blocks(secret).encryptor()
    return bytes(encryptor.update(pad_endpoint(encode_endpoint(endpoint))) + encryptor.finalize())


def open_endpoint(secret: bytes, sealed: bytes) -> AddrPort:
    """The inverse; ``sealed_otherwise`` for what was not sealed with this secret, ``bad_record`` for what is no endpoint."""
    if not sealed or len(sealed) % BLOCK or len(sealed) > MAX_ENDPOINT:
        raise ValueRefused(_REASON, f"an endpoint record has {len(sealed)} bytes")
    decryptor = _blocks(secret).decryptor()
    text = bytes(decryptor.update(sealed) + decryptor.finalize())
    size = text[0]
    if size + 1 > len(text) or len(text) - size - 1 >= BLOCK or any(text[size + 1 :]):
        raise ValueRefused(_SEALED_OTHERWISE, "an endpoint record was not sealed with the secret of this mesh")
    return decode_endpoint(text[1 : size + 1])


def seal_record(secret: bytes, raw: bytes, nonce: bytes) -> bytes:
    """nonce, ciphertext and tag of a record that is encoded already."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(nonce) != NONCE:
        raise ValueRefused("bad_nonce", f"a nonce has {NONCE} bytes")
    sealed = nonce + AESGCM(secret).encrypt(nonce, raw, None)
    if len(sealed) > MAX_RECORD:
        raise ValueRefused("record_too_long", f"the record has {len(sealed)} bytes, {MAX_RECORD} are allowed")
    return sealed


def open_record(secret: bytes, sealed: bytes) -> bytes:
    """The inverse of seal_record; ``bad_record`` for bytes of a wrong size, ``sealed_otherwise`` for another secret's or changed ones."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not NONCE + TAG <= len(sealed) <= MAX_RECORD:
        raise ValueRefused(_REASON, f"a record has {len(sealed)} bytes")
    try:
        return bytes(AESGCM(secret).decrypt(sealed[:NONCE], sealed[NONCE:], None))
    except InvalidTag:
        raise ValueRefused(_SEALED_OTHERWISE, "a record was not sealed with the secret of this mesh") from None


def seal_affiliate(secret: bytes, affiliate: t.Mapping[str, t.Any], nonce: bytes) -> bytes:
    """nonce, ciphertext and tag of an affiliate's record."""
    return seal_record(secret, encode_affiliate(affiliate), nonce)


def open_affiliate(secret: bytes, sealed: bytes) -> Affiliate:
    """The inverse; ``bad_record`` and ``sealed_otherwise`` as open_record has them."""
    return decode_affiliate(open_record(secret, sealed))
