# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloud controller: its variables and its file as load_balancers_settings of the cluster in which it runs (ccm 3, 5)."""

from __future__ import annotations

import typing as t

from .._loadbalancers.settings import (
    BOOLEAN,
    DISABLED,
    KUBE_VIP,
    MANAGED,
    NUMBER,
    SECRETS,
    SETTINGS,
    Setting,
    parse_boolean,
    parse_load_balancer,
)
from .._values.refused import ValueRefused
from .._values.text import lower, parse_subdomain
from . import fields
from .fields import Document
from .programs import EQUINIX
from .proposal import Proposal
from .workloads import ConfigMaps, Configured, Process

VARIABLE = "load_balancers_settings"
SECRET_KEY, SECRET_NAMESPACE = "cloud-sa.json", "kube-system"
#: The collection's name where it is not the option's own. Names of annotations have none: only upstream's file and Secret are read for them.
_CALLED = {"loadbalancer": "load_balancer"}
_UNSAID = ("annotation_", "load_balancer_id")

#: In the tags of its reservations and in names of its objects; the second is of its oldest releases. With another name it would not find what we
#: reserve, should it come back.
_IDENTITY, _FORMER = "cloud-provider-equinix-metal", "packet-ccm"


def read_controller(one: Process, config_maps: ConfigMaps, into: Proposal) -> None:
    """The controller of a cluster: variables rank over the file."""
    if not one.cluster:
        into.find(
            one.where, "local_name_missing", "it is not said in which cluster it runs: give its file with a cluster"
        )
        return
    identity = _FORMER if "packet" in lower(one.image) else _IDENTITY
    _begin(one.cluster, one.where, into, identity)
    for item in SETTINGS:
        names = [*item.variables, *(name.replace("METAL_", "PACKET_", 1) for name in item.variables)]
        configured = one.first(*names)
        if configured is not None:
            _configured(one.cluster, item, configured, one.where, names[0], into)
    named = one.text("--cloud-config", "--provider-config")
    if named is None:
        return
    kind, name, key = one.mounted(named)
    if kind == "Secret" and key == SECRET_KEY and one.namespace == SECRET_NAMESPACE:
        name = into.checked(one.where, "the name of its Secret", parse_subdomain, name)
        if name:
            into.put(one.cluster, VARIABLE, "config_secret", name, one.where)
            into.find(
                one.where,
                "config_unread",
                "its Secret was not read: config_secret lets every run take its settings from there, token included",
            )
        return
    configured = one.file(named, config_maps)
    if configured.text is None:
        into.find(
            one.where, "config_unread", f"its configuration is {configured.place}, which is not read; give the file"
        )
        return
    read_file(one.cluster, configured.text, configured.place, into, identity)


def read_file(cluster: str, text: str, where: str, into: Proposal, identity: str = _IDENTITY) -> None:
    """A file cloud-sa.json. Its secrets stay where they are: the proposal names variables of a vault."""
    document = Document.parse(text, where, into)
    if document is None:
        return
    document.tell(EQUINIX)
    _begin(cluster, where, into, identity)
    for item in SETTINGS:
        for key in item.keys:
            if item.name in SECRETS:
                if document.value(key, _anything) is not None:
                    _secret(cluster, item, f"{where}, key {key}", where, into)
            else:
                value = document.value(key, _parser(item))
                if value is not None:
                    _say(cluster, item, value, where, into)


def _begin(cluster: str, where: str, into: Proposal, identity: str) -> None:
    into.put(cluster, VARIABLE, "provider", "equinix_metal", where)
    into.put(cluster, VARIABLE, "identity", identity, where)
    into.add(None, "multicluster_capabilities", ["load_balancers"])


def _configured(cluster: str, item: Setting, configured: Configured, where: str, name: str, into: Proposal) -> None:
    place = configured.place or f"the variable {name} of {where}"
    if item.name in SECRETS or configured.secret:
        _secret(cluster, item, place, where, into)
    elif configured.text is None:
        into.find(where, "config_unread", f"{name} is {place}, which is not known here")
    else:
        value = into.checked(where, name, _parser(item), configured.text)
        if value is not None:
            _say(cluster, item, value, where, into)


def _secret(cluster: str, item: Setting, place: str, where: str, into: Proposal) -> None:
    if not item.name.startswith(_UNSAID):
        into.put(cluster, VARIABLE, item.name, into.vault(cluster, item.name, place), where)


def _say(cluster: str, item: Setting, value: t.Any, where: str, into: Proposal) -> None:
    if item.name.startswith(_UNSAID):
        into.find(where, "no_variable", f"{item.keys[0]}: only config_secret and config_file have it; keep it there")
        return
    if item.name == "loadbalancer" and parse_load_balancer(value).type in (DISABLED, MANAGED):
        into.find(
            where,
            "no_load_balancer",
            "its load balancer is none that there is: addresses are given, and nobody is notified of them",
        )
        value = "empty://"
    if item.name == "loadbalancer" and parse_load_balancer(value).type == KUBE_VIP:
        into.put(
            cluster, VARIABLE, "publish_bgp_password", True, where
        )  # kube-vip takes the sessions' passwords from nodes' annotations
    into.put(cluster, VARIABLE, _CALLED.get(item.name, item.name), value, where)


def _anything(value: t.Any) -> bool:
    return bool(value)


def _parser(item: Setting) -> t.Callable[[t.Any], t.Any]:
    if item.kind == NUMBER:
        return fields.number(0, item.largest)
    if item.kind == BOOLEAN:
        return parse_boolean
    if item.name == "bgp_node_selector":
        return fields.selector
    if item.name == "base_url":
        return fields.url
    return _setting if item.name == "loadbalancer" else fields.short_text


def _setting(value: t.Any) -> str:
    text = fields.short_text(value)
    try:
        parse_load_balancer(text)
    except ValueRefused:
        raise ValueRefused("bad_boolean", "that is no load-balancer setting") from None
    if "@" in text:
        raise ValueRefused("bad_url", "that names a user")
    return text
