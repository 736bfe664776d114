# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Letters, digits and blanks that only look like, or fold to, those that a parser takes."""

from __future__ import annotations

import sys
import typing as t
import unicodedata

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._io.json_api import JsonApi, Manners
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import AccessRefused, parse_access
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import node_listing
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.claims import read_claim
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo import (
    endpoints as kilo_endpoints,
    meshes as kilo_meshes,
    values as kilo_values,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import (
    annotations as kubespan_annotations,
    endpoints as kubespan_endpoints,
    identity as kubespan_identity,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.annotations import check_annotations
from ansible_collections.multicluster.network.plugins.module_utils._services import names as service_names
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_rules import absolute
from ansible_collections.multicluster.network.plugins.module_utils._values import (
    addresses,
    keys,
    selectors,
    text as strict,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.text import field
from hypothesis import given, strategies as st

MANNERS = Manners(str, lambda status, method, path: "api", lambda status, method: False)
KEY = "2BTwBcDdDWTsTSr3wPkFVyQUUzZcNUOKQYSNuVLUsCM="


def _folds(char: str) -> set[str]:
    said = {char.lower(), char.upper(), char.casefold(), unicodedata.normalize("NFKC", char)}
    digit = unicodedata.digit(char, None)
    return said | ({str(digit)} if digit is not None else set())


#: ASCII character -> every other character that folds to it, is the same digit, or looks like it.
LOOKALIKES: dict[str, list[str]] = {}
for _code in range(128, sys.maxunicode + 1):
    _char = chr(_code)
    if unicodedata.category(_char) in ("Cs", "Co", "Cn"):
        continue
    for _said in _folds(_char):
        if len(_said) == 1 and ord(_said) < 128:
            LOOKALIKES.setdefault(_said, []).append(_char)
            LOOKALIKES.setdefault(_said.swapcase(), []).append(_char)
BLANKS = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()] + ["\u200b", "\ufeff", "\x00"]


def refuses(parse: t.Callable[[str], t.Any]) -> t.Callable[[str], bool]:
    def refused(text: str) -> bool:
        try:
            parse(text)
        except (ValueRefused, AccessRefused):
            return True
        return False

    return refused


def denies(judge: t.Callable[[str], t.Any]) -> t.Callable[[str], bool]:
    return lambda text: not judge(text)


def _affiliate(key: str, text: str) -> t.Any:
    node = {"metadata": {"name": "n", "annotations": {kubespan_annotations.NODE_ID: "id", key: text}}}
    return kubespan_annotations.decode(node)


def _access(text: str) -> t.Any:
    return parse_access(
        {
            "name": "aws",
            "api_url": text,
            "token": "abc",
            "ca_data": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        }
    )


def _proxy(text: str) -> t.Any:
    ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
    return parse_access({"name": "aws", "api_url": "https://a", "token": "abc", "ca_data": ca, "proxy_url": text})


def _listed(text: str) -> t.Any:
    return node_listing.read_listing("aws", {"nodes": [{"metadata": {"name": text}}]}).nodes


#: name -> (what it is given, True when it refuses a text)
PARSERS: dict[str, tuple[str, t.Callable[[str], bool]]] = {
    "address": ("10.66.23.14", refuses(addresses.parse_address)),
    "address v6": ("fd7a:6197::ff:feaa:1", refuses(addresses.parse_address)),
    "address number": ("10.66.23.14", refuses(addresses.address_number)),
    "network": ("10.2.0.0/16", refuses(addresses.parse_network)),
    "network v6": ("fd00:2::/64", refuses(addresses.parse_network)),
    "network span": ("10.2.0.0/16", refuses(addresses.network_span)),
    "network span v6": ("fd00:2::/64", refuses(addresses.network_span)),
    "network text": ("10.2.0.0/16", refuses(addresses.network_text_and_key)),
    "endpoint": ("10.66.23.14:51820", refuses(addresses.parse_endpoint)),
    "endpoint v6": ("[fd00:2::1]:51820", refuses(addresses.parse_endpoint)),
    "endpoint by name": ("kiosk-5.example.com:51820", refuses(addresses.parse_endpoint)),
    "plain endpoint": ("10.66.23.14:51820", denies(addresses.is_plain_endpoint)),
    "decimal": ("1234567890", refuses(strict.parse_decimal)),
    "port": ("51820", refuses(strict.parse_port)),
    "cluster name": ("kiosk-5", refuses(strict.parse_cluster_name)),
    "object name": ("kiosk-5.example", refuses(strict.parse_subdomain)),
    "key": (KEY, refuses(keys.parse_key)),
    "selector": ("disk in (ssd,k5),tier=1,age>15", refuses(selectors.parse_selector)),
    "node's name": ("kiosk-5", denies(_listed)),
    "kilo's endpoint": (
        "10.66.23.14:51820",
        lambda text: refuses(kilo_endpoints.parse_endpoint)(text) or _kilo_is_dns(text),
    ),
    "kilo's address": ("10.66.23.14", refuses(kilo_values.parse_ip)),
    "kilo's network": ("10.2.0.0/16", refuses(kilo_values.parse_cidr)),
    "kubespan endpoint": ("10.66.23.14:51820", refuses(kubespan_endpoints.parse_addr_port)),
    "kubespan prefix": ("10.2.0.0/16", refuses(kubespan_endpoints.prefix_text)),
    "kubespan address": (
        "fd7a:6197::1",
        lambda text: _affiliate(kubespan_annotations.KUBESPAN_IP, text)["kubespan_address"] is None,
    ),
    "kubespan self-ips": ("10.66.23.14", lambda text: not _affiliate(kubespan_annotations.SELF_IPS, text)["addresses"]),
    "kubespan prefixes": (
        "10.2.0.0/16",
        lambda text: not _affiliate(kubespan_annotations.ASSIGNED_PREFIXES, text)["additional_addresses"],
    ),
    "kubespan endpoints": (
        "10.66.23.14:51820",
        lambda text: not _affiliate(kubespan_annotations.ENDPOINTS, text)["endpoints"],
    ),
    "kubespan api port": (
        "6443",
        lambda text: _affiliate(kubespan_annotations.API_SERVER_PORT, text)["api_server_port"] is None,
    ),
    "mac": ("52:54:00:aa:bb:cc", refuses(kubespan_identity.parse_mac)),
    "mac, dotted": ("5254.00aa.bbcc", refuses(kubespan_identity.parse_mac)),
    "semaphore's endpoint": (
        "10.66.23.14:51820",
        refuses(lambda text: read_claim("aws", "aws-1", KEY, text, [addresses.parse_network("10.2.1.0/24")])),
    ),
    "annotation": ("kiosk.example.com/5", refuses(lambda text: check_annotations({text: "x"}))),
    "service's name": ("kiosk-5", denies(service_names.is_service_name)),
    "API server": ("https://kiosk-5.example.com:6443", refuses(_access)),
    "proxy": ("socks5://kiosk-5.example.com:1080", refuses(_proxy)),
    "provider's API": ("https://kiosk-5.example.com:6443/v1", refuses(lambda text: JsonApi(text, {}, MANNERS))),
}


def _kilo_is_dns(text: str) -> bool:
    """Kilo's rules take any text as a name; what is no name is then doubtful, which refuses it."""
    return kilo_endpoints.endpoint_doubt(kilo_endpoints.parse_endpoint(text)) is not None


@pytest.mark.parametrize("name", PARSERS)
def test_the_text_itself_passes(name: str) -> None:
    text, refused = PARSERS[name]
    assert not refused(text)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_lookalike_is_another_text(name: str, data: st.DataObject) -> None:
    text, refused = PARSERS[name]
    place = data.draw(st.sampled_from([index for index, char in enumerate(text) if char in LOOKALIKES]))
    other = text[:place] + data.draw(st.sampled_from(LOOKALIKES[text[place]])) + text[place + 1 :]
    assert refused(other), ascii(other)


#: Blanks between its terms are part of a selector's grammar; tokens are trimmed by those who read their files.
LOOSE = {"selector": " \t\r\n\x0b\x0c"}


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_blank_around_or_inside_is_refused(name: str, data: st.DataObject) -> None:
    text, refused = PARSERS[name]
    blank = data.draw(st.sampled_from([char for char in BLANKS if char not in LOOSE.get(name, "")]))
    place = data.draw(st.integers(0, len(text)))
    assert refused(text[:place] + blank + text[place:])


@given(text=st.text())
def test_folding_changes_ascii_letters_only(text: str) -> None:
    folded = strict.lower(text)
    assert len(folded) == len(text)
    assert all(one == other or (one.isascii() and one.lower() == other) for one, other in zip(text, folded))


def test_the_kelvin_sign_is_no_k() -> None:
    assert strict.lower("\u212aIOSK") == "\u212aiosk"
    assert absolute("\u212a.example") == "\u212a.example."
    assert field({"\u212aey": "x"}, "key") is None and field({"KEY": "x"}, "key") == "x"
    assert not strict.is_digits("\u00b2") and not strict.is_digits("")


def test_a_mesh_name_of_kilo_has_no_folded_letter() -> None:
    assert kilo_meshes._CLUSTER_NAME.match("kiosk") and not kilo_meshes._CLUSTER_NAME.match("\u212aiosk")
