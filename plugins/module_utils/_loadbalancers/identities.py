# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names under which generations of the cloud controller keep their tags, objects and provider IDs (ccm 2, 6.1)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted

#: The controller's three names, newest first: tags and objects of each are in the wild.
IDENTITIES = ("cloud-provider-equinix-metal", "metal-ccm", "packet-ccm")
DEFAULT_IDENTITY = "metal-ccm"
#: Where its annotations live unless said otherwise.
DEFAULT_DOMAIN = "metal.equinix.com"
#: Prefixes of provider IDs that are read; the first is written.
PROVIDER_PREFIXES = ("equinixmetal", "packet")
CONTROL_PLANE_NAMESPACE = "kube-system"


def parse_identity(text: object) -> str:
    """One of the three names. Raises ValueRefused ``bad_format``."""
    if text not in IDENTITIES:
        raise ValueRefused("bad_format", "{0} is none of {1}".format(quoted(text), ", ".join(IDENTITIES)))
    return str(text)


def usage_tag(identity: str) -> str:
    """The tag that says who ordered an address."""
    return "usage={0}-auto".format(identity)


def external_service_name(identity: str) -> str:
    """The Service (and Endpoints) through which nodes accept the control plane's address."""
    return "{0}-kubernetes-external".format(identity)


def is_control_plane_service(namespace: str, name: str) -> bool:
    """Whether a Service is the control plane's own, under any identity: no load balancer may touch it (ccm 9.2)."""
    return namespace == CONTROL_PLANE_NAMESPACE and name in [external_service_name(identity) for identity in IDENTITIES]


def provider_id(device: str, prefix: str = PROVIDER_PREFIXES[0]) -> str:
    return "{0}://{1}".format(prefix, device)


def parse_provider_id(text: object, prefixes: t.Sequence[str] = PROVIDER_PREFIXES) -> str:
    """The device's id. Raises ValueRefused ``empty_provider_id``, ``wrong_provider`` or ``bad_format``."""
    if not isinstance(text, str) or not text:
        raise ValueRefused("empty_provider_id", "the node has no provider ID")
    parts = text.split("://")
    if len(parts) > 2:
        raise ValueRefused("bad_format", "{0} is no provider ID".format(quoted(text)))
    if len(parts) == 2 and parts[0] not in prefixes:
        raise ValueRefused("wrong_provider", "{0} is of another provider than {1}".format(quoted(text), prefixes[0]))
    device = parts[-1]
    if not device:
        raise ValueRefused("empty_provider_id", "{0} names no device".format(quoted(text)))
    # The id becomes part of a path of the provider's API; a node must not be able to choose another path (T23).
    if not device.isascii() or not device.isprintable() or any(char in "/?#%\\ " for char in device) or set(device) == {"."}:
        raise ValueRefused("bad_format", "{0} is no provider ID".format(quoted(text)))
    return device
