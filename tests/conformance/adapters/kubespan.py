# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan's vectors. Fields are renamed, nothing is decided here.

Options that are set because the vectors describe upstream, and our defaults are safer: ``original`` (rotation
forgets a working endpoint after a restart), ``drop_siderolink`` and no mesh subnet (the two-byte tests for ULAs).
``fwmark`` and the segments of ``mss_clamp`` are asked of real packets, and unhandled where there can be none.
"""

from __future__ import annotations

import fractions
import ipaddress
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._dataplane import constants, device_plan, device_spec
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, LivePeer, PeerStep
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import (
    annotations as kubespan_annotations,
    config as kubespan_config,
    endpoints as kubespan_endpoints,
    generations as kubespan_generations,
    identity as kubespan_identity,
    peers as kubespan_peers,
    routing as kubespan_routing,
    sealing as kubespan_sealing,
    states as kubespan_states,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import kubespan
from ansible_collections.multicluster.network.plugins.module_utils._values import keys, prefix_sets as kubespan_ranges
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..outcome import Unhandled
from . import kubespan_packets
from .kubespan_orders import apply_order

Input = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]
#: So many steps of a rotation are answered; a vector asks for the first ones.
LONGEST_SEQUENCE = 64
NO_SECRET = "A" * 43 + "="
PEER_FIELDS = ("endpoint", "persistent_keepalive", "allowed_ips")


def generation(vector: Input) -> kubespan_generations.Generation:
    return kubespan_generations.generation("v1.3" if vector.get("generation") in ("seed", "mid", "v1.3") else "current")


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    def answer(vector: Input) -> Answer:
        try:
            return function(vector)
        except ValueRefused as error:
            return {"error": error.reason}

    return answer


def ula_address(vector: Input) -> Answer:
    subnet = kubespan_identity.mesh_subnet(vector["cluster_id"])
    address = kubespan_identity.mesh_address(vector["cluster_id"], vector["mac"])
    texts = {"subnet": str(subnet), "address": f"{address}/128", "interface_address": f"{address}/64"}
    return dict(texts, error=None)


def ula_predicate(vector: Input) -> Answer:
    address = ipaddress.ip_address(vector["address"])
    return {"matches": kubespan_identity.looks_like_ula(address, vector["purpose"])}


def peer_state(vector: Input) -> Answer:
    ages = vector.get("last_handshake_age"), vector.get("last_endpoint_change_age")
    return {"state": kubespan_states.peer_state(*ages, vector["has_last_used_endpoint"])}


def endpoint_rotation(vector: Input) -> Answer:
    # ages become times far from zero; as fractions, since floats lose the nanoseconds that bounds are tested with
    now = t.cast(float, fractions.Fraction(1 << 40))
    handshake, change = (
        None if vector.get(name) is None else now - fractions.Fraction(str(vector[name]))
        for name in ("last_handshake_age", "last_endpoint_change_age")
    )
    status = kubespan_states.Status(last_used=vector["last_used_endpoint"], changed_at=change)
    done = kubespan_states.decide(
        status, vector["endpoints"], vector["wireguard_endpoint"], handshake, now, original=True
    )
    return {
        "expected": {
            "state_before": done.state_before,
            "should_change": done.should_change,
            "picked": done.picked,
            "endpoint_written": done.write,
            "last_used_after": done.status.last_used,
            "state_after": done.status.state,
        }
    }


def endpoint_rotation_sequence(vector: Input) -> Answer:
    steps: list[str | None] = []
    last: str | None = None
    for dummy in range(LONGEST_SEQUENCE):
        picked = kubespan_states.pick(vector["endpoints"], last, last)
        steps.append(picked)
        last = picked or last
    return {"steps": steps}


@refusing
def endpoint_filters(vector: Input) -> Answer:
    candidates = [ipaddress.ip_address(text) for text in vector["candidates"]]
    kept = kubespan_endpoints.apply_filters(kubespan_endpoints.parse_filters(vector.get("filters")), candidates)
    return {"result": [kubespan_ranges.address_text(address.version, int(address)) for address in kept]}


@refusing
def local_endpoints(vector: Input) -> Answer:
    result = kubespan_endpoints.local_endpoints(
        vector["node_addresses"],
        vector.get("kubespan_address") or None,
        vector.get("discovered_public_ips") or (),
        vector.get("endpoint_filters"),
        vector.get("extra_endpoints") or (),
        drop_siderolink=True,
    )
    return {"result": result}


def allowed_ips(vector: Input) -> Answer:
    affiliates = [dict(peer, addresses=peer.get("node_addresses")) for peer in vector["peers"]]
    specs = kubespan_peers.Mesh(affiliates).specs(vector["local_node_id"])
    return {
        "result": {key: peer.allowed_ips for key, peer in specs.peers.items()},
        "overlap_warnings": [{"this_peer": this, "other_peer": other} for this, other in specs.overlaps],
    }


def nft_targets(vector: Input) -> Answer:
    peers = [(peer["allowed_ips"] or (), peer["state"]) for peer in vector["peers"]]
    now, seed = (
        kubespan_states.targets(peers, vector["force_routing"], kubespan_generations.generation(name))
        for name in ("current", "v1.3")
    )
    layout = kubespan_generations.Layout()
    answer: Answer = {"seed_sets": {layout.set_name(version): seed.ranges(version) for version in (4, 6)}}
    for version in (4, 6):
        answer[f"v{version}"] = now.ranges(version)
        answer[f"v{version}_prefixes"] = now.cidrs(version)
        answer[f"v{version}_is_any"] = now.cidrs(version) == ["0.0.0.0/0" if version == 4 else "::/0"]
    return answer


def packets(kind: str, vector: Input) -> Answer:
    """What real packets say; nobody answers where there can be none."""
    try:
        return kubespan_packets.answer(kind, vector)
    except OSError as error:
        raise Unhandled(str(error)) from None


def fwmark(vector: Input) -> Answer:
    found = packets("mark", vector)
    marks = {"resulting_mark": f"0x{found['mark']:08x}", "decided_by": found["decided_by"]}
    return dict(marks, routed_to_table_180=found["device"] == kubespan_generations.Layout().device)


def mss_clamp(vector: Input) -> Answer:
    if "syn_mss" in vector:
        return {"mss_after": packets("mss", vector)["mss"]}
    gen = kubespan_generations.generation("current")
    return {f"today_ipv{version}": kubespan_generations.clamp_to(vector["mtu"], version, gen) for version in (4, 6)}


def number(value: t.Any) -> t.Any:
    return int(value, 0) if isinstance(value, str) and value.lower().startswith("0x") else value


def rule_of(vector: Input, version: int) -> Answer:
    protocol = {"static": 4, "kernel": 2, "boot": 3}.get(vector.get("protocol"), vector.get("protocol"))
    rule = {name: number(value) for name, value in vector.items()}
    return dict(
        rule,
        version=version,
        protocol=protocol,
        **{end: None if rule.get(end) == "all" else rule.get(end) for end in ("src", "dst")},
    )


def ip_rules(vector: Input) -> Answer:
    version = 6 if str(vector.get("family", "")).endswith("6") else 4
    desired = kubespan_routing.desired_rule(version, gen=generation(vector))
    if vector["case"] == "desired":
        shown = dict(desired, fwmark=hex(desired["fwmark"]), fwmask=hex(desired["fwmask"]), action="lookup", src="all")
        shown["protocol"] = "static" if desired["protocol"] == 4 else None
        del shown["version"]
        return {"rule": shown, "printed": kubespan_routing.rule_text(desired)}
    if vector["case"] == "match":
        return {"matches": kubespan_routing.selects(desired, int(str(vector["packet_mark"]), 0))}
    if vector["case"] == "seed_priority":
        return {"chosen": kubespan_routing.free_priority(vector["occupied"])}
    if vector["case"] != "reconcile":
        raise Unhandled(vector["case"])
    # rules are read family by family
    family = vector.get("family", "inet")
    existing = [rule_of(rule, version) for rule in vector["existing"] if rule.get("family", family) == family]
    steps = kubespan_routing.plan_rule(existing, version, gen=generation(vector))
    return {"actions": ["delete existing" if step["op"] == "delete" else "add desired" for step in steps]}


SPAN_FIELDS = ("public_key", "additional_addresses", "exclude_advertised_networks", "endpoints")


def flat(nested: Input) -> Answer:
    """An affiliate with its KubeSpan part inside, as the collection's are."""
    span = nested.get("kubespan") or {}
    return dict(
        with_port(nested), kubespan_address=span.get("address"), **{name: span.get(name) for name in SPAN_FIELDS}
    )


def nested_of(affiliate: Input | None) -> Answer | None:
    if affiliate is None:
        return None
    plain = ("node_id", "hostname", "nodename", "machine_type", "operating_system", "addresses")
    span = {name: affiliate[name] for name in SPAN_FIELDS}
    port = affiliate["api_server_port"]
    control = {"api_server_port": port} if port else None
    return dict(
        {name: affiliate[name] for name in plain},
        kubespan=dict(span, address=affiliate["kubespan_address"]),
        control_plane=control,
    )


def node_object(node: Input) -> Answer:
    """A flat node as the API has it; one that has ``metadata`` is that already."""
    if "metadata" in node:
        return dict(node)
    addresses = list(node.get("addresses") or ())
    if node.get("hostname"):
        addresses.append({"type": "Hostname", "address": node["hostname"]})
    metadata = {"name": node["name"], "annotations": node.get("annotations"), "labels": node.get("labels")}
    return {"metadata": metadata, "status": {"addresses": addresses, "nodeInfo": {"osImage": node.get("os_image")}}}


def annotations(vector: Input) -> Answer:
    if vector["direction"] == "encode":
        return {"annotations": kubespan_annotations.encode(flat(vector["affiliate"]))}
    return {"affiliate": nested_of(kubespan_annotations.decode(node_object(vector["node"])))}


def affiliate_merge(vector: Input) -> Answer:
    """Records have their port inside of ``control_plane``, as affiliates do, or alongside the rest; so have the merged ones."""
    nested = any("control_plane" in record for record in vector["raw"])
    merged = kubespan.merge({record["id"]: with_port(record) if nested else record for record in vector["raw"]})
    shown = [{name: value for name, value in record.items() if name != "sources"} for record in merged]
    for row in shown if nested else ():
        port = row.pop("api_server_port")
        row["control_plane"] = {"api_server_port": port} if port else None
    return {"merged": shown, "merged_ids": [record["node_id"] for record in merged]}


def with_port(record: Input) -> Answer:
    """An affiliate with the port in the place of the node's own."""
    return dict(record, api_server_port=(record.get("control_plane") or {}).get("api_server_port"))


def harvest(vector: Input) -> Answer:
    peers = [dict(peer, endpoint=peer.get("wireguard_endpoint")) for peer in vector["peers"]]
    return {"published": kubespan_endpoints.harvest(vector["enabled"], vector["affiliates"], peers)}


def config(vector: Input) -> Answer:
    try:
        if "cluster_id" in vector or "cluster_secret" in vector:
            kubespan_config.parse_mesh(vector.get("cluster_id"), vector.get("cluster_secret"))
        parsed = kubespan_config.parse_config(
            vector["input"], (vector.get("document") or "").startswith("legacy"), generation(vector)
        )
    except ValueRefused:
        return {"valid": False, "effective": None, "effective_subset": None}
    return {"valid": True, "effective": parsed._asdict(), "effective_subset": parsed._asdict()}


def additional_addresses(vector: Input) -> Answer:
    networks = list(vector.get("cluster_pod_subnets") or ()) + list(vector.get("cluster_service_subnets") or ())
    result = kubespan_endpoints.additional_addresses(
        vector["advertise"],
        generation(vector),
        vector.get("node_pod_cidrs") or (),
        vector.get("interface_addresses") or (),
        networks,
    )
    return {"result": result}


def first_mac(vector: Input) -> Answer:
    return {"result": kubespan_identity.first_mac(vector["links"])}


@refusing
def wireguard_keys(vector: Input) -> Answer:
    """A private key's public key; with ``identity_file`` (fields of one node's identity), what holds when it is loaded."""
    if "identity_file" not in vector:
        return {"public_key": keys.public_key(keys.decode_key_text(vector["private_key"]))}
    # of what is kept only the private key counts: address and subnet are computed in every run
    key_text = vector["identity_file"].get("privateKey") or ""
    loaded = {
        "address": f"{kubespan_identity.mesh_address(vector['cluster_id'], vector['mac'])}/128",
        "subnet": str(kubespan_identity.mesh_subnet(vector["cluster_id"])),
        "privateKey": key_text,
        "publicKey": keys.public_key(keys.decode_key_text(key_text)),
    }
    return {"loaded": loaded}


@refusing
def discovery_encryption(vector: Input) -> Answer:
    secret = kubespan_config.parse_mesh("any", vector["cluster_secret"])[1]
    if vector["kind"] != "endpoint":
        return sealed_affiliate(vector, secret) if "nonce_hex" in vector else opened_affiliate(vector, secret)
    endpoint = kubespan_endpoints.AddrPort(ipaddress.ip_address(vector["ip"]), vector["port"])
    sealed = kubespan_sealing.seal_endpoint(secret, endpoint)
    if kubespan_sealing.open_endpoint(secret, sealed) != endpoint:
        raise ValueError("opening does not undo sealing")
    record = kubespan_sealing.encode_endpoint(endpoint)
    texts = {"protobuf_hex": record, "padded_hex": kubespan_sealing.pad_endpoint(record), "ciphertext_hex": sealed}
    return only(vector, {name: raw.hex() for name, raw in texts.items()})


def only(vector: Input, answer: Answer) -> Answer:
    """Of texts that a vector may have under one name or another: those that it has."""
    return {name: value for name, value in answer.items() if name in vector}


SEALED = ("wire_hex", "sealed_hex", "record_hex", "ciphertext_hex")


def sealed_affiliate(vector: Input, secret: bytes) -> Answer:
    """A record made of an affiliate, or of bytes in place of one."""
    given = next((vector[name] for name in ("protobuf_hex", "plaintext_hex") if name in vector), "")
    raw = (
        kubespan_sealing.encode_affiliate(flat(vector["affiliate"])) if "affiliate" in vector else bytes.fromhex(given)
    )
    sealed = kubespan_sealing.seal_record(secret, raw, bytes.fromhex(vector["nonce_hex"]))
    if kubespan_sealing.open_record(secret, sealed) != raw:
        raise ValueError("opening does not undo sealing")
    texts = {
        "protobuf_hex": raw,
        "plaintext_hex": raw,
        "tag_hex": sealed[-kubespan_sealing.TAG :],
        **dict.fromkeys(SEALED, sealed),
    }
    # a ciphertext that is shorter goes without the nonce, or also without the tag
    size = len(vector.get("ciphertext_hex") or "") // 2
    texts["ciphertext_hex"] = sealed if size == len(sealed) else sealed[kubespan_sealing.NONCE :][: max(size, len(raw))]
    return only(vector, {name: part.hex() for name, part in texts.items()})


def opened_affiliate(vector: Input, secret: bytes) -> Answer:
    """The affiliate of a sealed record."""
    given = next((vector[name] for name in SEALED if name in vector), None)
    if given is None:
        raise Unhandled(vector["kind"])
    raw = kubespan_sealing.open_record(secret, bytes.fromhex(given))
    answer: Answer = {"protobuf_hex": raw.hex(), "plaintext_hex": raw.hex()}
    if "affiliate" in vector:
        answer["affiliate"] = nested_of(kubespan_sealing.decode_affiliate(raw))
    return only(vector, answer)


def device_of(side: Input) -> tuple[t.Any, Answer]:
    """(the dump of a device, its peers by key) from a side of a vector."""
    private = side.get("private_key")
    public = keys.public_key(keys.decode_key_text(private)) if private else None
    peers = {peer["public_key"]: peer for peer in side.get("peers") or ()}
    return EMPTY._replace(
        listen_port=side.get("listen_port", 0), fwmark=number(side.get("fwmark", 0)), public_key=public
    ), peers


def secret_of(peer: Input) -> str | None:
    """A preshared key as a dump shows it; 32 zero bytes are none."""
    text = peer.get("preshared_key")
    return None if text in (None, NO_SECRET) else keys.fingerprint(text)


def wireguard_diff(vector: Input) -> Answer:
    """The messages of one device's plan; endpoints are those that rotation wants written."""
    device, desired = vector["desired"], device_of(vector["desired"])
    dump, peers = device_of(vector["existing"] or {})
    live = {
        # a dump has one spelling of an endpoint
        key: LivePeer(
            kubespan_states.same_endpoint(peer["endpoint"]),
            tuple(peer["allowed_ips"]),
            peer["persistent_keepalive"],
            secret_of(peer),
        )
        for key, peer in peers.items()
    }
    request = {"name": "kubespan", "listen_port": device.get("listen_port"), "fwmark": desired[0].fwmark, "peers": []}
    for key, peer in desired[1].items():
        secret = {"file": "/secrets/" + key} if secret_of(peer) else None
        request["peers"].append(
            {"public_key": key, "preshared_key": secret, **{name: peer[name] for name in PEER_FIELDS}}
        )
    if "private_key" in device:
        request["private_key_file"] = "/key"
    link = dict(
        index=2,
        kind="wireguard",
        implementation="kernel",
        alias=constants.OWNER,
        mtu=1420,
        txqueuelen=1000,
        up=True,
        addresses=[],
    )
    actual = {
        "link": link if vector["existing"] is not None else None,
        "wireguard": dump._replace(peers=live),
        "key": {"state": "key", "public_key": desired[0].public_key, "mode": "0600", "message": None},
        "preshared": {"/secrets/" + key: secret_of(peer) for key, peer in desired[1].items()},
        "resolved": {},
        "now": 0,
    }
    plan = device_plan.plan_device(device_spec.parse_device(request), actual, dict.fromkeys(desired[1], ""))
    if plan.refused:
        raise ValueError(plan.refused)
    settings = dict(plan.work["configure"])
    if "fwmark" in settings:
        settings["fwmark"] = hex(settings["fwmark"])
    if "private_key" in settings:  # of the file, which holds the vector's
        settings["private_key"] = device["private_key"]
    return {
        "operations": ([dict(settings, op="set_device")] if settings else []) + [message(step) for step in plan.steps]
    }


def message(step: PeerStep) -> Answer:
    """A step as the vectors write one; of a preshared key only that one is sent, or that it is forgotten."""
    if step.remove:
        return {"op": "remove_peer", "public_key": step.public_key}
    shown: Answer = {"op": "set_peer", "public_key": step.public_key, "replace_allowed_ips": step.replace_allowed_ips}
    sent = {
        "endpoint": step.endpoint,
        "persistent_keepalive": step.keepalive,
        "allowed_ips": list(step.allowed_ips) or None,
    }
    shown.update((name, value) for name, value in sent.items() if value is not None)
    if step.preshared is not None:
        shown["preshared_key" if step.preshared.file else "clear_preshared_key"] = True
    return shown


HANDLERS = {
    "ula_address": refusing(ula_address),
    "ula_predicate": ula_predicate,
    "peer_state": peer_state,
    "endpoint_rotation": endpoint_rotation,
    "endpoint_rotation_sequence": endpoint_rotation_sequence,
    "endpoint_filters": endpoint_filters,
    "local_endpoints": local_endpoints,
    "allowed_ips": allowed_ips,
    "nft_targets": nft_targets,
    "fwmark": fwmark,
    "mss_clamp": mss_clamp,
    "ip_rules": ip_rules,
    "annotations": annotations,
    "affiliate_merge": affiliate_merge,
    "harvest": harvest,
    "config": config,
    "additional_addresses": additional_addresses,
    "first_mac": first_mac,
    "wireguard_keys": wireguard_keys,
    "discovery_encryption": discovery_encryption,
    "apply_order": apply_order,
    "wireguard_diff": wireguard_diff,
}
