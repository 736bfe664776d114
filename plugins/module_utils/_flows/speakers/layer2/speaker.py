# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layer 2 speaker of one node: rendered, checked by keepalived, put in place, and read again by what runs, so that addresses stay.

Whether this node can deliver is the follower's work (follow.py), which goes on without a play; who holds what nodes find out among themselves.
"""

from __future__ import annotations

import contextlib
import json
import time
import typing as t

from ...._linux import files
from ...._linux.daemons import command, keepalived
from ...._linux.files import FileState
from ...._linux.host import bundle, systemd
from ...._linux.host.lock import HostLock
from ...._linux.netlink.links import Link, read_links
from ...._loadbalancers.layer2 import keepalived_config
from ...._loadbalancers.layer2.segment import Segment, check_interface, on_link, parse_segment
from ...._plan.plan import Plan
from ...._values.addresses import Network, parse_network
from ...._values.refused import ValueRefused
from ...._values.text import is_digits
from .. import unfinished
from ..follower import unit_text
from . import follow
from .follow import KEPT, STATE, STATUS

#: The module with the ``main()`` that the archive runs.
AGENT = "_flows.speakers.layer2.agent"
CODE = "/usr/local/lib/multicluster-network-layer2/speaker.pyz"
UNIT = "/etc/systemd/system/" + keepalived.UNIT
FOLLOWER = "multicluster-layer2-follow.service"
FOLLOWER_UNIT = "/etc/systemd/system/" + FOLLOWER
FOLLOWER_TITLE = "What the layer 2 speaker of multicluster.network can deliver"
#: Of whoever changes the state, alongside the follower's own; so long another one may take.
LOCK, LOCK_SECONDS = "multicluster-layer2-state", 120.0
#: What ``routes_only`` changes; all else of a state stays as a whole run left it.
_REPORTED = ("nodes", "routes", "left_out")
#: What a run that was killed has written and started nothing for.
UNFINISHED = keepalived.FOLDER + "/unfinished"
#: The files of the node's own keepalived.
UNOWNED = ("/etc/keepalived/keepalived.conf", "/etc/keepalived/conf.d")
#: Where kube-proxy with IPVS keeps every address on every node.
_IPVS = "kube-ipvs0"
_ARP_IGNORE = "/proc/sys/net/ipv4/conf/{0}/arp_ignore"
_ALL_ANSWER = (
    "kube-proxy with IPVS keeps every address on every node, and all of them would answer for it: "
    "set strictARP: true in its configuration, as for MetalLB"
)


class Place(t.NamedTuple):
    """Where the node is on its segment: the interface, and the networks with the addresses that neighbours ask for there."""

    interface: str
    networks: tuple[Network, ...]


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense or that keepalived refuses, LinuxError.

    One at a time: a node call that only changes routes must not put back what a play that comes at the same time has changed.
    """
    with contextlib.nullcontext() if check else HostLock(LOCK, LOCK_SECONDS):
        return _run(request, check)


def _run(request: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    plan = Plan()
    if request.get("state") == "absent":
        _absent(plan, check)
        return _result(plan, None, {})
    only = bool(request.get("routes_only"))
    if only:
        request = _with_state(request)
    elif not request.get("node") or not request.get("nodes"):
        raise ValueRefused("bad_setting", "node and nodes belong together, and one of them is missing")
    links = read_links()
    given, off_link = _given(request, links)
    stored = files.json_file(0o600, given)
    state = follow.parse_state(stored.content.decode("ascii"))
    for address in off_link:
        plan.refuse(f"address {address}", "outside_grant", _OFF_LINK.format(address, state.interface))
    _no_rival(state, links)
    config = keepalived_config.render(state.segment, state.interface, keepalived.TRACK)
    desired = {
        keepalived.CONFIG: FileState("file", 0o644, config.encode("ascii")),
        STATE: stored,
    }
    if not only:
        desired.update(
            {
                CODE: FileState("file", 0o755, bundle.build(AGENT)),
                UNIT: files.text_file(0o644, keepalived.unit_text(CODE)),
                FOLLOWER_UNIT: files.text_file(0o644, unit_text(FOLLOWER_TITLE, CODE, STATE)),
            }
        )
    before = {path: files.read_state(path) for path in desired}
    unfinished.note_files(plan, before, desired)
    runs = all(keepalived.active(unit) for unit in (keepalived.UNIT, FOLLOWER))
    current = follow.is_loaded() and not unfinished.left(UNFINISHED) & set(desired)
    if not plan.changes and systemd.running() and not (runs and current):
        plan.update("speaker", keepalived.UNIT, {"active": runs, "current": False}, {"active": True, "current": True})
    if plan.changes:
        keepalived.check_config(config)
    if not check and plan.changes:
        _put(before, desired, float(request.get("verify_seconds") or 0))
    return _result(plan, state, follow.held(state.interface, state.segment.addresses))


def _with_state(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What a configured speaker has been given, with the news of the request. Raises ValueRefused ``no_speaker``."""
    state, found = follow.load_state(), files.read_state(STATE)
    given = json.loads(found.content.decode("utf-8")) if found is not None and state is not None else {}
    if "networks" not in given:  # of a release that did not remember them
        raise ValueRefused(
            "no_speaker", "this node has no layer 2 speaker yet, and routes_only only changes what one holds"
        )
    return dict(
        given,
        node_health_port=given["node_port"],
        verify_seconds=request.get("verify_seconds"),
        **{name: request.get(name) for name in _REPORTED},
    )


_OFF_LINK = (
    "{0} is in no network of {1}, so no host on the segment asks for it there: choose another pool, or, where routers send it to the segment, "
    "name its network in layer2_speaker_networks"
)


def _given(request: t.Mapping[str, t.Any], links: t.Sequence[Link]) -> tuple[dict[str, t.Any], list[str]]:
    """What the follower has to know, as plain data (the same request gives the same), and addresses that are not on the segment. Raises ValueRefused."""
    routes = [
        {
            "network": str(row["network"]),
            "group": row.get("group") or 0,
            "health_ports": sorted(row.get("health_ports") or ()),
        }
        for row in request.get("routes") or ()
    ]
    given: dict[str, t.Any] = {
        "version": follow.VERSION,
        "node": str(request["node"]),
        "nodes": sorted(
            ({"name": str(row["name"]), "addresses": list(row["addresses"])} for row in request["nodes"]),
            key=lambda row: str(row["name"]),
        ),
        "advert_interval": 0.5 if request.get("advert_interval") is None else float(request["advert_interval"]),
        "node_port": request.get("node_health_port") or 0,
        "left_out": request.get("left_out") or "",
        "networks": sorted(str(parse_network(text)) for text in request.get("networks") or ()),
        "routes": sorted(routes, key=lambda row: str(row["network"])),
    }
    segment = parse_segment(given)
    place = _place(request, segment, links)
    inside, outside = on_link(segment.addresses, place.networks)
    given["routes"] = [row for row in given["routes"] if str(row["network"]).partition("/")[0] not in outside]
    return dict(given, interface=place.interface), sorted(outside)


def _place(request: t.Mapping[str, t.Any], segment: Segment, links: t.Sequence[Link]) -> Place:
    """The interface that is named, or the one that has this node's address. Raises ValueRefused."""
    mine = segment.me.of(segment.version)
    found = [link for link in links if any(address.text.partition("/")[0] == mine for address in link.addresses)]
    named = request.get("interface") or ""
    if named:
        check_interface(named)
        found = [link for link in links if link.name == named]
        if not found:
            raise ValueRefused("unknown_interface", f"this node has no interface {named}; see layer2_speaker_interface")
    if not found:
        text = (
            "no interface of this node has {0}, which layer2_speaker_address has for {1}; see layer2_speaker_interface"
        )
        raise ValueRefused("unknown_interface", text.format(mine, segment.node))
    networks = [parse_network(address.text) for address in found[0].addresses]
    more = [parse_network(text) for text in request.get("networks") or ()]
    return Place(
        check_interface(found[0].name),
        tuple([one for one in networks if one.prefixlen < one.max_prefixlen and not one.is_link_local] + more),
    )


def _no_rival(state: follow.State, links: t.Sequence[Link]) -> None:
    """Raises ValueRefused for what would make two nodes answer for one address, or the node's own keepalived receive this speaker's messages."""
    numbers = {group.number for group in state.segment.groups}
    paths = [UNOWNED[0], *(f"{UNOWNED[1]}/{name}" for name in files.list_folder(UNOWNED[1]))]
    for path in paths:
        both = keepalived_config.own_numbers("\n".join(files.read_lines(path))) & numbers
        if both:
            text = "{0} of this node has virtual_router_id {1}: name it in layer2_reserved_vrids of load_balancers_settings"
            raise ValueRefused("conflict", text.format(path, min(both)))
    for link in links:
        mine = {address.text.partition("/")[0] for address in link.addresses}
        if link.name == _IPVS:
            ignores = max(_number(_ARP_IGNORE.format(name)) for name in ("all", state.interface))
            if ignores < 1:
                raise ValueRefused("conflict", _ALL_ANSWER)
        elif link.name != state.interface and mine & set(state.segment.addresses):
            raise ValueRefused(
                "conflict", f"{link.name} of this node has {min(mine & set(state.segment.addresses))} already"
            )


def _number(path: str) -> int:
    text = "".join(files.read_lines(path)).strip()
    return int(text) if is_digits(text) else 0


def _put(before: t.Mapping[str, FileState | None], desired: t.Mapping[str, FileState], seconds: float) -> None:
    """The files, the state before keepalived's, so that what it may hold is decided first. Raises ValueRefused ``speaker_failed``."""
    written = {path for path in desired if before.get(path) != desired[path]}
    changed = written | (unfinished.left(UNFINISHED) & set(desired))
    if changed - {STATE, keepalived.CONFIG}:
        unfinished.begin(UNFINISHED, changed)
    if keepalived.CONFIG in changed:
        files.remove(keepalived.LOADED)  # whoever is killed from here on leaves the rest to the next run
    for path in sorted(desired, key=lambda path: (path == keepalived.CONFIG, path)):
        if path in written:
            files.write_state(path, desired[path])
    if systemd.running():
        _carry_out(changed)
        _wait_until_followed(desired[STATE], seconds)
    unfinished.end(UNFINISHED, changed)


def _carry_out(changed: t.AbstractSet[str]) -> None:
    if changed & {UNIT, FOLLOWER_UNIT}:
        systemd.reload_units()
    if UNIT in changed or not keepalived.active():
        _begin(keepalived.UNIT, "restart")
    elif not follow.is_loaded():
        follow.Follower().round()
        _begin(keepalived.UNIT, "reload")
        follow.note_loaded()
    if changed & {CODE, FOLLOWER_UNIT} or not keepalived.active(FOLLOWER):
        _begin(FOLLOWER, "restart")


def _begin(unit: str, verb: str) -> None:
    command.systemctl("enable", unit)
    command.systemctl("reset-failed", unit)
    if not command.systemctl(verb, unit):
        raise ValueRefused("speaker_failed", f"the unit {unit} did not {verb}; see its journal")


def _wait_until_followed(state: FileState, seconds: float) -> None:
    """Until the follower has decided on this state and keepalived runs. Raises ValueRefused ``speaker_failed``."""
    digest = follow.parse_state(state.content.decode("utf-8")).digest
    deadline = time.monotonic() + max(seconds, 5.0)
    while follow.read_status().get("state") != digest or not keepalived.active():
        if time.monotonic() >= deadline:
            unit = FOLLOWER if keepalived.active() else keepalived.UNIT
            raise ValueRefused("speaker_failed", f"{unit} does not do its work; see its journal")
        time.sleep(0.1)


def _result(plan: Plan, state: follow.State | None, holds: t.Collection[str]) -> dict[str, t.Any]:
    result, status = plan.result(), follow.read_status() if state is not None else {}
    result.update(
        diff=plan.diff(),
        warnings=list(plan.warnings),
        interface=state.interface if state is not None else "",
        holds=sorted(holds),
        withheld=status.get("withheld") or {},
    )
    return result


def _absent(plan: Plan, check: bool) -> None:
    there = {path: files.read_state(path) for path in (CODE, UNIT, FOLLOWER_UNIT, keepalived.CONFIG, STATE)}
    for path, state in there.items():
        if state is None:
            plan.unchanged += 1
        else:
            plan.delete("file", path, state.shown())
    if plan.changes and not check:
        _take_away(there)


def _take_away(paths: t.Iterable[str]) -> None:
    # keepalived ends with a last message, so that the next node takes over at once
    for unit in (FOLLOWER, keepalived.UNIT):
        systemd.retire(unit)
        command.systemctl("disable", unit)
    with contextlib.suppress(ValueError):  # a state that nobody can read names no address
        follow.clean()
    for path in (*paths, KEPT, STATUS, UNFINISHED):
        files.remove(path)
    keepalived.forget_everything()
    systemd.reload_units()
    for folder, top in (
        (keepalived.FOLDER, "/etc"),
        (CODE.rsplit("/", 1)[0], "/usr/local/lib"),
        (KEPT.rsplit("/", 1)[0], "/var/lib"),
        (STATUS.rsplit("/", 1)[0], "/run"),
    ):
        files.remove_empty_folders(folder, top)
