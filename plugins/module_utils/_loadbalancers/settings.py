# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's settings: parameter over environment over file over default (ccm 3), and the one that names the load balancer (ccm 5).

That one looks like a URL and is read by hand, since URL parsers refuse one form.
"""

from __future__ import annotations

import json
import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.selectors import parse_selector
from .._values.text import field, lower, parse_object, parse_subdomain

TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[0-9]{1,19}\Z")
TEXT, NUMBER, BOOLEAN = "text", "number", "boolean"
Value = t.Union[str, int, bool]


class SettingRefused(ValueRefused):
    """A setting that cannot be used. ``key`` is the variable or the key of the file that holds it."""

    def __init__(self, reason: str, key: str, message: str) -> None:
        super().__init__(reason, message)
        self.key = key


class Setting(t.NamedTuple):
    """One setting. ``variables`` and ``keys`` are in the order of their rank; ``largest`` bounds a number."""

    name: str
    variables: tuple[str, ...]
    keys: tuple[str, ...]
    default: Value = ""
    kind: str = TEXT
    largest: int = 0
    missing: str = ""


_ASN, _PORT = 2**32 - 1, 65535
SETTINGS = (
    Setting("api_key", ("METAL_API_KEY",), ("apiKey",), missing="missing_api_key"),
    Setting("project_id", ("METAL_PROJECT_ID",), ("projectID",), missing="missing_project_id"),
    Setting("base_url", (), ("base-url",)),
    Setting("facility", ("METAL_FACILITY_NAME",), ("facility",)),
    Setting("metro", ("METAL_METRO_NAME",), ("metro",)),
    Setting("loadbalancer", ("METAL_LOAD_BALANCER", "METAL_LB"), ("loadbalancer", "metalLB")),
    Setting("local_asn", ("METAL_LOCAL_ASN",), ("localASN",), 65000, NUMBER, _ASN),
    Setting("peer_asn", ("METAL_PEER_ASN",), ("peerASN",), 65530, NUMBER, _ASN),
    Setting("bgp_pass", ("METAL_BGP_PASS",), ("bgpPass",)),
    # Empty names of annotations mean: those of the scheme in use.
    Setting("annotation_local_asn", ("METAL_ANNOTATION_LOCAL_ASN",), ("annotationLocalASN",)),
    Setting(
        "annotation_peer_asn",
        ("METAL_ANNOTATION_PEER_ASN", "METAL_ANNOTATION_PEER_ASNS"),
        ("annotationPeerASN", "annotationPeerASNs"),
    ),
    Setting(
        "annotation_peer_ip",
        ("METAL_ANNOTATION_PEER_IP", "METAL_ANNOTATION_PEER_IPS"),
        ("annotationPeerIP", "annotationPeerIPs"),
    ),
    Setting("annotation_src_ip", ("METAL_ANNOTATION_SRC_IP",), ("annotationSrcIP",)),
    Setting("annotation_bgp_pass", ("METAL_ANNOTATION_BGP_PASS",), ("annotationBGPPass",)),
    Setting(
        "annotation_network_ipv4_private",
        ("METAL_ANNOTATION_NETWORK_IPV4_PRIVATE",),
        ("annotationNetworkIPv4Private",),
        "metal.equinix.com/network-4-private",
    ),
    Setting(
        "annotation_eip_metro", ("METAL_ANNOTATION_EIP_METRO",), ("annotationEIPMetro",), "metal.equinix.com/eip-metro"
    ),
    Setting(
        "annotation_eip_facility",
        ("METAL_ANNOTATION_EIP_FACILITY",),
        ("annotationEIPFacility",),
        "metal.equinix.com/eip-facility",
    ),
    Setting("eip_tag", ("METAL_EIP_TAG",), ("eipTag",)),
    Setting("api_server_port", ("METAL_API_SERVER_PORT",), ("apiServerPort",), 0, NUMBER, _PORT),
    Setting(
        "eip_health_check_use_host_ip",
        ("METAL_EIP_HEALTH_CHECK_USE_HOST_IP",),
        ("eipHealthCheckUseHostIP",),
        False,
        BOOLEAN,
    ),
    Setting("bgp_node_selector", ("METAL_BGP_NODE_SELECTOR",), ("bgpNodeSelector",)),
    Setting("load_balancer_id", ("METAL_LOAD_BALANCER_ID",), ("loadBalancerID",)),
)
SECRETS = ("api_key", "bgp_pass")
#: Accepted below everything else but the defaults; two of them had another name as well.
_OLDEST = {"loadbalancer": ("PACKET_LB", "PACKET_LB_CONFIGMAP")}


class Settings(t.NamedTuple):
    """What counts: values by name, and warnings."""

    values: dict[str, Value]
    warnings: list[str]

    def text(self, name: str) -> str:
        """A setting that is text, empty where it is not set."""
        return str(self.values[name])

    def number(self, name: str) -> int:
        """A setting that is a number, 0 where it is not set."""
        return int(self.values[name])

    def printable(self) -> dict[str, Value]:
        return {name: "<masked>" if name in SECRETS and value else value for name, value in self.values.items()}


def read_settings(
    env: t.Mapping[str, str],
    file: str | None = None,
    parameters: t.Mapping[str, Value] | None = None,
    empty_tag_disables: bool = True,
    required: bool = True,
) -> Settings:
    """Settings from the parameters (by name), the environment and the text of the file (None: there is none).

    ``empty_tag_disables``: a control-plane tag that is set but empty switches that feature off (decision 26); False lets
    the file's value survive. ``required`` False: providers without an API need neither token nor project. Raises
    SettingRefused ``config_parse missing_api_key missing_project_id not_a_number not_a_boolean invalid_node_selector``.
    """
    fields = _file_fields(file)
    from_file = {item.name: _of_file(item, fields) for item in SETTINGS}
    values: dict[str, Value] = {}
    for item in SETTINGS:
        given = (parameters or {}).get(item.name)
        value = given if given is not None else _of_environment(item, env)
        if value is None and item.name == "eip_tag" and empty_tag_disables and env.get("METAL_EIP_TAG") == "":
            value = ""
        if value is None:
            value = from_file[item.name]
        if value is None:
            value = _of_oldest(item, env)
        if value in (None, "") and item.missing and required:
            text = "{0} is not set: write it into load_balancers_settings, or {1} into the environment with load_balancers_use_environment: true"
            raise SettingRefused(item.missing, item.variables[0], text.format(item.name, item.variables[0]))
        values[item.name] = item.default if value is None else value
    try:
        parse_selector(values["bgp_node_selector"], "invalid_node_selector")
    except ValueRefused as refused:
        raise SettingRefused(refused.reason, "METAL_BGP_NODE_SELECTOR", refused.message) from None
    warnings = (
        ["METAL_LOAD_BALANCER_ID names a product that no longer exists; it is ignored"]
        if values["load_balancer_id"]
        else []
    )
    return Settings(values, warnings)


def settings_text(values: t.Mapping[str, t.Any]) -> str:
    """The text of a configuration file with these settings by name; those that are not set are left out.

    Raises ValueRefused ``config_parse`` for names that are none.
    """
    keys = {item.name: item.keys[0] for item in SETTINGS}
    unknown = sorted(set(values) - set(keys))
    if unknown:
        raise ValueRefused("config_parse", f"{quoted(unknown[0])} is no setting")
    return json.dumps(
        {keys[name]: value for name, value in values.items() if value not in (None, "")}, indent=2, sort_keys=True
    )


def parse_boolean(text: object, reason: str = "not_a_boolean") -> bool:
    """The spellings that Go accepts, and no other."""
    if isinstance(text, bool):
        return text
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise ValueRefused(reason, f"{quoted(text)} is neither true nor false")


def _of_environment(item: Setting, env: t.Mapping[str, str]) -> Value | None:
    for variable in item.variables:
        text = env.get(variable)
        if text:
            return _parsed(item, variable, text)
    return None


def _of_oldest(item: Setting, env: t.Mapping[str, str]) -> Value | None:
    names = _OLDEST.get(item.name) or [name.replace("METAL_", "PACKET_", 1) for name in item.variables]
    return _of_environment(item._replace(variables=tuple(names)), env)


def _parsed(item: Setting, variable: str, text: str) -> Value:
    if item.kind == TEXT:
        return text
    if item.kind == BOOLEAN:
        try:
            return parse_boolean(text)
        except ValueRefused as refused:
            raise SettingRefused(refused.reason, variable, f"{variable}: {refused.message}") from None
    if not _INTEGER.match(text) or int(text) > item.largest:
        raise SettingRefused("not_a_number", variable, f"{variable}: {quoted(text)} is no number up to {item.largest}")
    return int(text)


def _file_fields(file: str | None) -> dict[str, t.Any]:
    try:
        return parse_object(file, "config_parse") if file is not None else {}
    except ValueRefused:
        # the message would quote the text, and the text holds the token
        raise SettingRefused("config_parse", "", "the configuration file is no JSON object") from None


def _of_file(item: Setting, fields: t.Mapping[str, t.Any]) -> Value | None:
    for key in item.keys:
        value = field(fields, key)
        if value is None or value == "" or (item.kind == NUMBER and value == 0 and not isinstance(value, bool)):
            continue
        desired: type[t.Any] = {TEXT: str, NUMBER: int, BOOLEAN: bool}[item.kind]
        if not isinstance(value, desired) or (
            item.kind == NUMBER and (isinstance(value, bool) or not 0 < value <= item.largest)
        ):
            raise SettingRefused("config_parse", key, f"{key} in the configuration file has the wrong type")
        return t.cast(Value, value)
    return None


DISABLED, METALLB, KUBE_VIP, EMPTY, MANAGED = "disabled", "metallb", "kube-vip", "empty", "emlb"
#: What a person may write.
KNOWN = "empty://, kube-vip://, metallb:///NAMESPACE/CONFIGMAP, metallb:///NAMESPACE?crdConfiguration=true"
CONFIGMAP, CUSTOM_RESOURCES = "configmap", "crd"
DEFAULT_NAMESPACE, DEFAULT_CONFIGMAP = "metallb-system", "config"


class LoadBalancer(t.NamedTuple):
    """A load balancer's kind and, for MetalLB, where its configuration is."""

    type: str
    namespace: str = ""
    mode: str = ""
    configmap: str = ""
    metro: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether anything of BGP and load balancing happens."""
        return self.type in (METALLB, KUBE_VIP, EMPTY)

    @property
    def uses_bgp(self) -> bool:
        """Whether BGP facts matter: wherever anything happens at all."""
        return self.enabled


def parse_load_balancer(text: object) -> LoadBalancer:
    """The setting's meaning. Raises ValueRefused ``bad_boolean``; what is not known is disabled, with a warning."""
    if not isinstance(text, str):
        raise ValueRefused("bad_format", f"{quoted(text)} is no load-balancer setting")
    if not text:
        return LoadBalancer(DISABLED)
    kind, colon, rest = text.partition(":")
    kind = lower(kind)
    if colon and kind in (KUBE_VIP, EMPTY):
        return LoadBalancer(kind)
    if colon and kind == MANAGED:
        warning = "the managed load balancer no longer exists; load balancing is disabled"
        return LoadBalancer(MANAGED, metro=rest.strip("/").partition("?")[0].partition("/")[0], warnings=(warning,))
    if not colon or kind != METALLB:
        return _disabled(f"{quoted(text)} names no load balancer")
    rest, _mark, query = rest.partition("#")[0].partition("?")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    return _metallb(text, authority, path, _custom_resources(query))


def known_load_balancer(text: object) -> LoadBalancer:
    """The same for what a person wrote: raises ValueRefused ``bad_choice`` for text that would switch everything off without being empty."""
    balancer = parse_load_balancer(text)
    if text and balancer.type == DISABLED:
        reason = "; ".join(warning.partition("; ")[0] for warning in balancer.warnings)
        raise ValueRefused("bad_choice", f"{reason}: write {KNOWN}, or nothing for no load balancing")
    return balancer


def _metallb(text: str, authority: str, path: str, custom: bool) -> LoadBalancer:
    warnings: list[str] = []
    if ":" in authority:
        namespace, _colon, name = authority.partition(":")
    else:
        if authority:
            warnings.append("{0} is in the place of a host; write metallb:///{0}".format(quoted(authority)))
        # one slash at each end is decoration, a further one an empty namespace or name
        path = path[1:] if path.startswith("/") else path
        path = path[:-1] if path.endswith("/") else path
        namespace, _slash, name = path.partition("/")
        name, _slash, more = name.partition("/")
        if more:
            warnings.append(f"{quoted(text)} has more parts than a namespace and a name")
    namespace, name = namespace or DEFAULT_NAMESPACE, name or DEFAULT_CONFIGMAP
    try:
        parse_subdomain(namespace)
        parse_subdomain(name)
    except ValueRefused as refused:
        return _disabled(f"{quoted(text)}: {refused.message}")
    if custom:
        return LoadBalancer(METALLB, namespace, CUSTOM_RESOURCES, warnings=tuple(warnings))
    return LoadBalancer(METALLB, namespace, CONFIGMAP, name, warnings=tuple(warnings))


def _custom_resources(query: str) -> bool:
    for part in query.split("&"):
        key, _equals, value = part.partition("=")
        if key == "crdConfiguration" and value:
            return parse_boolean(value, "bad_boolean")
    return False


def _disabled(reason: str) -> LoadBalancer:
    return LoadBalancer(DISABLED, warnings=(reason + "; load balancing is disabled",))
