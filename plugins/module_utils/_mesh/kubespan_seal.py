# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Affiliate records and endpoints as the discovery service stores them: protobuf, sealed with the mesh secret (kubespan 5.3).

Pure: the nonce is an argument, which the caller takes from the system's source of randomness, never twice.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import Address, parse_address, parse_network
from .._values.refused import ValueRefused
from .kubespan_annotations import Affiliate
from .kubespan_endpoints import AddrPort
from .kubespan_ranges import address_text

NONCE = 12
TAG = 16
BLOCK = 16
MAX_RECORD = 2048
MAX_ENDPOINT = 32
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Number of a field whose place in the original's format is not confirmed; check before talking to a real service.
EXCLUDED_FIELD = 4
_WORD = "bad_record"
Fields = t.Dict[int, t.List[t.Union[int, bytes]]]


# --- protobuf ----------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: t.Union[int, bytes, str]) -> bytes:
    """One field; the default (0, nothing) is left out, as proto3 does."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    raw = value.encode("utf-8") if isinstance(value, str) else value
    return _message(number, raw)


def _message(number: int, raw: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(raw)) + raw


def _read_varint(raw: bytes, place: int) -> t.Tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(raw) or shift > 63:
            raise ValueRefused(_WORD, "the record breaks off or has a number that is too long")
        byte = raw[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place


def _fields(raw: bytes) -> Fields:
    """Every field by its number; unknown ones do no harm."""
    found: Fields = {}
    place = 0
    while place < len(raw):
        tag, place = _read_varint(raw, place)
        kind, number = tag & 7, tag >> 3
        if kind == _VARINT:
            value, place = _read_varint(raw, place)
            found.setdefault(number, []).append(value)
            continue
        if kind == _BYTES:
            size, place = _read_varint(raw, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueRefused(_WORD, "the record has a field of an unknown kind")
        if number == 0 or place + size > len(raw):
            raise ValueRefused(_WORD, "the record breaks off")
        found.setdefault(number, []).append(raw[place : place + size])
        place += size
    return found


def _last(fields: Fields, number: int, kind: type, default: t.Any) -> t.Any:
    values = fields.get(number)
    if not values:
        return default
    if not isinstance(values[-1], kind):
        raise ValueRefused(_WORD, "field {0} of the record is of the wrong kind".format(number))
    return values[-1]


def _text(fields: Fields, number: int) -> str:
    try:
        return str(_last(fields, number, bytes, b"").decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueRefused(_WORD, "field {0} of the record is no text".format(number)) from None


def _all_bytes(fields: Fields, number: int) -> t.List[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _ip(raw: bytes) -> str:
    if len(raw) not in (4, 16):
        raise ValueRefused(_WORD, "an address in the record has {0} bytes".format(len(raw)))
    return address_text(4 if len(raw) == 4 else 6, int.from_bytes(raw, "big"))


def _packed(text: str) -> bytes:
    return parse_address(text).packed


def _prefix(number: int, text: str) -> bytes:
    raw = _field(1, _packed(text.split("/", maxsplit=1)[0])) + _field(2, parse_network(text).prefixlen)
    return _message(number, raw)


def _prefix_of(raw: bytes) -> str:
    fields = _fields(raw)
    text = "{0}/{1}".format(_ip(_last(fields, 1, bytes, b"")), _last(fields, 2, int, 0))
    parse_network(text, _WORD)
    return text


def encode_endpoint(endpoint: AddrPort) -> bytes:
    """One endpoint as protobuf."""
    return _field(1, endpoint.address.packed) + _field(2, endpoint.port)


def decode_endpoint(raw: bytes) -> AddrPort:
    """The inverse of encode_endpoint; ``bad_record``."""
    fields = _fields(raw)
    address: Address = parse_address(_ip(_last(fields, 1, bytes, b"")), _WORD)
    port = _last(fields, 2, int, 0)
    if not 1 <= port <= 65535:
        raise ValueRefused(_WORD, "an endpoint in the record has port {0}".format(port))
    return AddrPort(address, port)


def encode_affiliate(affiliate: t.Mapping[str, t.Any]) -> bytes:
    """An affiliate's record as protobuf; endpoints travel apart from it."""
    out = _field(1, affiliate.get("node_id") or "")
    out += b"".join(_message(2, _packed(text)) for text in affiliate.get("addresses") or ())
    for number, name in ((3, "hostname"), (4, "nodename"), (5, "machine_type"), (6, "operating_system")):
        out += _field(number, affiliate.get(name) or "")
    span = _field(1, affiliate.get("public_key") or "")
    if affiliate.get("kubespan_address"):
        span += _field(2, _packed(affiliate["kubespan_address"]))
    span += b"".join(_prefix(3, text) for text in affiliate.get("additional_addresses") or ())
    span += b"".join(_prefix(EXCLUDED_FIELD, text) for text in affiliate.get("exclude_advertised_networks") or ())
    out += _field(7, span)
    if affiliate.get("api_server_port"):
        out += _message(8, _field(1, affiliate["api_server_port"]))
    return out


def decode_affiliate(raw: bytes) -> Affiliate:
    """The inverse of encode_affiliate; ``bad_record`` for bytes that are none."""
    fields = _fields(raw)
    span = _fields(_last(fields, 7, bytes, b""))
    control = _fields(_last(fields, 8, bytes, b""))
    address = _last(span, 2, bytes, b"")
    return {
        "node_id": _text(fields, 1),
        "addresses": [_ip(value) for value in _all_bytes(fields, 2)],
        "hostname": _text(fields, 3),
        "nodename": _text(fields, 4),
        "machine_type": _text(fields, 5),
        "operating_system": _text(fields, 6),
        "public_key": _text(span, 1),
        "kubespan_address": _ip(address) if address else None,
        "additional_addresses": [_prefix_of(value) for value in _all_bytes(span, 3)],
        "exclude_advertised_networks": [_prefix_of(value) for value in _all_bytes(span, EXCLUDED_FIELD)],
        "api_server_port": _last(control, 1, int, 0) or None,
        "endpoints": [],
    }


# --- sealing -----------------------------------------------------------------------------------------------------


def pad_endpoint(raw: bytes) -> bytes:
    """A length byte and the record, filled with zeros to whole blocks."""
    if len(raw) >= MAX_ENDPOINT:
        raise ValueRefused(_WORD, "an endpoint record has {0} bytes".format(len(raw)))
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
    """The inverse; ``bad_record`` for anything that was not sealed with this secret."""
    if not sealed or len(sealed) % BLOCK or len(sealed) > MAX_ENDPOINT:
        raise ValueRefused(_WORD, "an endpoint record has {0} bytes".format(len(sealed)))
    decryptor = _blocks(secret).decryptor()
    text = bytes(decryptor.update(sealed) + decryptor.finalize())
    size = text[0]
    if size + 1 > len(text) or len(text) - size - 1 >= BLOCK or any(text[size + 1 :]):
        raise ValueRefused(_WORD, "an endpoint record was not sealed with this secret")
    return decode_endpoint(text[1 : size + 1])


def seal_affiliate(secret: bytes, affiliate: t.Mapping[str, t.Any], nonce: bytes) -> bytes:
    """nonce, ciphertext and tag of an affiliate's record."""
    return seal_record(secret, encode_affiliate(affiliate), nonce)


def seal_record(secret: bytes, raw: bytes, nonce: bytes) -> bytes:
    """nonce, ciphertext and tag of a record that is encoded already."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(nonce) != NONCE:
        raise ValueRefused("bad_nonce", "a nonce has {0} bytes".format(NONCE))
    sealed = nonce + AESGCM(secret).encrypt(nonce, raw, None)
    if len(sealed) > MAX_RECORD:
        raise ValueRefused("record_too_long", "the record has {0} bytes, {1} are allowed".format(len(sealed), MAX_RECORD))
    return sealed


def open_affiliate(secret: bytes, sealed: bytes) -> Affiliate:
    """The inverse; ``bad_record`` for anything else."""
    return decode_affiliate(open_record(secret, sealed))


def open_record(secret: bytes, sealed: bytes) -> bytes:
    """The inverse of seal_record; ``bad_record``."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not NONCE + TAG <= len(sealed) <= MAX_RECORD:
        raise ValueRefused(_WORD, "a record has {0} bytes".format(len(sealed)))
    try:
        return bytes(AESGCM(secret).decrypt(sealed[:NONCE], sealed[NONCE:], None))
    except InvalidTag:
        raise ValueRefused(_WORD, "a record was not sealed with this secret") from None
