# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeSpan on one node: from the mesh's affiliates to the kernel's objects, in the order that leaks nothing (kubespan 10 to 17).

``resolve`` turns what the play asks for into a plain state without secrets, which the boot unit and the watcher take too::

    {layout, generation, mtu, force_routing, fail_closed, watcher, implementation, private_key_file, preshared_key_file,
     address, node_address, subnet, peers: as peers_of reads them, rotation: {device, routes, addresses} while keys are rotated}
"""

from __future__ import annotations

import ipaddress
import operator
import typing as t

from ...._dataplane.device_spec import Device
from ...._dataplane.node_spec import alias_of
from ...._dataplane.peer_spec import Key, LivePeer, Peer, Peers, parse_peers
from ...._linux.host import settings, snapshot
from ...._linux.host.links import read_link
from ...._linux.netlink import rules
from ...._linux.netlink.routes import read_routes, write_routes
from ...._linux.nftables import table as nft
from ...._linux.stats import Stats, total
from ...._mesh.kubespan.generations import GENERATIONS, PROTOCOL_STATIC, Layout, make_layout
from ...._mesh.kubespan.nft import FAMILY, table
from ...._mesh.kubespan.peers import Peer as MeshPeer, peers_of
from ...._mesh.kubespan.preflight import Conflict, conflicts
from ...._mesh.kubespan.routing import (
    bypass_routes,
    desired_rule,
    is_our_route,
    owned_to_remove,
    plan_routes,
    plan_rule,
    rule_text,
    without_gap,
)
from ...._mesh.kubespan.states import UNKNOWN, targets
from ...._plan.plan import Plan, Refusal
from ...._values.addresses import parse_network
from ...._values.prefix_sets import PrefixSet
from .. import nft_table, wireguard_device
from ..parts import Part, differing
from . import preflight as kubespan_preflight

Data = dict[str, t.Any]
Budget = t.Callable[[t.Mapping[str, LivePeer], t.Mapping[Key, LivePeer], t.Collection[Peer]], t.Optional[Refusal]]
#: A decrypted packet's way back is through the tunnel, which routing without a mark does not know: no filter on our device.
NO_FILTER = 0


def layout_of(state: t.Mapping[str, t.Any] | None) -> Layout:
    return make_layout(**(state or {}).get("layout") or {})


def carried_over(state: Data, previous: t.Mapping[str, t.Any] | None) -> Data:
    """A state with the peers confirmed before alongside its own, where nothing may be removed."""
    peers = peers_of(state)
    taken, keys = (
        PrefixSet.of_texts(text for peer in peers for text in peer.allowed_ips),
        {peer.public_key for peer in peers},
    )
    more = [
        peer
        for peer in peers_of(previous)
        if peer.public_key not in keys and not PrefixSet.of_texts(peer.allowed_ips) & taken
    ]
    return dict(state, peers=[peer.to_json() for peer in [*peers, *more]])


def all_peers(fabric: str, state: t.Mapping[str, t.Any] | None) -> tuple[list[MeshPeer], list[Refusal]]:
    """The peers of a state, with those that the discovery service has where the state has one; and who was refused there."""
    if not (state or {}).get("discovery"):
        return peers_of(state), []
    from . import discovery

    result = discovery.peers_with_members(fabric, state or {})
    return result.peers, result.refused


def without_overlaps(peers: t.Iterable[MeshPeer]) -> list[MeshPeer]:
    """Peers without those that share a key or an address with an earlier one."""
    kept: list[MeshPeer] = []
    keys: set[str] = set()
    taken = PrefixSet()
    for peer in peers:
        ranges = PrefixSet.of_texts(peer.allowed_ips)
        if peer.public_key not in keys and not ranges & taken:
            kept.append(peer)
            keys.add(peer.public_key)
            taken = taken | ranges
    return kept


class KubespanDataplane(Part):
    """One node's KubeSpan objects in one run. ``state`` None: they are to go.

    peer_states: {public key: up|down|unknown}, endpoints: {public key: endpoint to write}; both are the watcher's. secrets:
    {path: fingerprint} of preshared keys that this run writes first. budget: from the live peers, those planned and those desired to a
    refusal, where no peer may be removed; then the peers of ``previous`` are kept. leaving: our devices that
    are removed before, such as those of the mesh of another mode. peers: None: as all_peers has them. retired_key: see Device. ``actual`` is of
    wireguard_device.gather.
    """

    def __init__(
        self,
        fabric: str,
        state: Data | None,
        layout: Layout | None = None,
        adopt: bool = False,
        purge: bool = True,
        peer_states: t.Mapping[str, str] | None = None,
        endpoints: t.Mapping[str, str] | None = None,
        secrets: t.Mapping[str, str] | None = None,
        previous: t.Mapping[str, t.Any] | None = None,
        budget: Budget | None = None,
        leaving: t.Collection[str] = (),
        peers: t.Sequence[MeshPeer] | None = None,
        retired_key: str | None = None,
    ) -> None:
        self.fabric, self.state, self.adopt, self.purge = fabric, state, adopt, purge
        self.peers = list(all_peers(fabric, state)[0] if peers is None else peers)
        self.layout = layout_of(state) if layout is None else layout
        self.alias = alias_of(fabric)
        self.peer_states, self.endpoints, self.watching = peer_states or {}, endpoints or {}, peer_states is not None
        self.gen = GENERATIONS[state["generation"] if state else "current"]
        self._secrets, self._previous, self._budget = secrets or {}, previous, budget
        self._leaving, self._retired_key = leaving, retired_key
        self._next_key_for = None if self.watching else (state or {}).get("next_key_for")
        #: The bypass device carries some of the packets while keys are rotated.
        self.rotation: t.Mapping[str, t.Any] = (state or {}).get("rotation") or {}

    def gather(self) -> Data:
        """One reading of everything; the whole host is looked at once, before the first write."""
        secret = self.state["preshared_key_file"] if self.state else None
        key_file = self.state["private_key_file"] if self.state else None
        device = Device(
            self.layout.device,
            present=self.state is not None,
            alias=self.alias,
            private_key_file=key_file,
            retired_key=self._retired_key,
            next_key_for=self._next_key_for,
        )
        self.actual = wireguard_device.gather(device, [secret] if secret else [])
        self.actual["preshared"].update(self._secrets)  # what is about to be written counts as written
        self.filters = {name: settings.reverse_path_filter(name) for name in ("all", self.layout.device)}
        self.table_request = self._table()
        self.table_actual = nft_table.gather(self.table_request)
        self.rules = {version: rules.read_rules(version) for version in (4, 6)}
        self.routes = read_routes(self.layout.route_table)
        first = self.state is not None and self.actual["link"] is None and not self.watching
        self.conflicts = kubespan_preflight.find(self.layout, self.alias, self.gen, self._leaving) if first else None
        return {}

    def plan(self) -> Plan:
        """Everything that differs, for people. An unowned device keeps all the rest away."""
        todo = self._decide()
        live = self.actual["wireguard"].peers
        refusal = None
        if self._budget is not None and self.state is not None and self.purge:
            refusal = self._budget(live, self.device.after, self.desired.peers.peers if self.desired.peers else ())
        if refusal is not None and self.state is not None:
            found = [peer for peer in self.peers if peer not in peers_of(self.state)]
            self.state, self.purge = carried_over(self.state, self._previous), False
            self.peers = without_overlaps([*peers_of(self.state), *found])
            todo = self._decide()
            todo.refused.append(refusal)
        return todo

    def _decide(self) -> Plan:
        self.desired = self._device()
        # an endpoint that rotation picked is written whatever the last handshake is
        self.device = wireguard_device.plan(self.desired, self.actual, dict.fromkeys(self.endpoints, ""))
        self.table_request = self._table()
        self.table = nft_table.plan(self.table_request, self.table_actual)
        self.rule_steps = [step for version in (4, 6) for step in self._rule_steps(version)]
        self.route_steps = self._route_steps()
        problems, notes = self._preflight()
        unowned = any(refusal.object == self.layout.device for refusal in self.device.refused)
        self.refused = bool(unowned or problems or self.table.unowned)
        todo = Plan()
        todo.warnings.extend(notes)
        for problem in problems:
            todo.refuse(self.layout.device, problem.reason, problem.message)
        if problems or self.table.unowned:
            todo.refused.extend(self.table.refused)
            return todo
        todo.extend(self.device)
        if self.refused:
            return todo
        for step in self.route_steps:
            _note(todo, step["op"], "route", _route_name(step["route"], self.layout), step["route"])
        for step in self.rule_steps:
            _note(todo, step["op"], "rule", f"IPv{step['rule']['version']} {rule_text(step['rule'])}", None)
        todo.extend(self.table)
        if self.state is not None and self.filters[self.layout.device] not in (None, NO_FILTER):
            todo.update("setting", f"net.ipv4.conf.{self.layout.device}.rp_filter", None, {"value": NO_FILTER})
        return todo

    def _device(self) -> Device:
        if self.state is None:
            return Device(self.layout.device, present=False, alias=self.alias)
        # all other nodes know the key that the device has; one that the watcher makes is known when a play has published it
        keeps_key = self.watching and self.actual["link"] is not None and self.actual["key"]["state"] == "absent"
        return Device(
            name=self.layout.device,
            alias=self.alias,
            adopt=self.adopt,
            implementation=self.state["implementation"],
            mtu=self.state["mtu"],
            listen_port=self.layout.port,
            fwmark=self.layout.mark_from_wireguard,
            generate_key=True,
            private_key_file=None if keeps_key else self.state["private_key_file"],
            addresses=tuple(sorted(self._addresses())),
            purge_peers=self.purge,
            peers=self._peers(self.state),
            retired_key=self._retired_key,
            next_key_for=self._next_key_for,
        )

    def next_public_key(self) -> str | None:
        """Of the key that is to replace the one of the device, where it is there."""
        found = self.actual.get("next_key")
        is_next = found and self.actual["key"]["public_key"] == self._next_key_for
        return found["public_key"] if found and is_next else None

    def _addresses(self) -> list[str]:
        """The ULA; and where all devices have a loose reverse path filter, the node's own IPv4 address.

        The kernel drops what it cannot route back through a device without an IPv4 address, also when the filter is loose.
        """
        state = self.state or {}
        found = [f"{state['address']}/{parse_network(state['subnet']).prefixlen}"]
        if self.filters["all"] and state.get("node_address"):
            found.append(state["node_address"] + "/32")
        return found

    def _peers(self, state: Data) -> Peers:
        """Endpoints of peers that are there are runtime state: rotation's or WireGuard's own, never a play's."""
        live, rows = self.actual["wireguard"].peers, []
        secret = {"file": state["preshared_key_file"]} if state["preshared_key_file"] else None
        for peer in self.peers:
            key = peer.public_key
            announced = None if key in live and live[key].endpoint else next(iter(peer.endpoints), None)
            rows.append(peer.for_device(self.endpoints.get(key, announced), secret))
        return parse_peers(self.layout.device, rows)

    def targets(self) -> PrefixSet:
        """What must go through the tunnel, from the states of the peers."""
        if self.state is None:
            return PrefixSet()
        rows = [(peer.allowed_ips, self.peer_states.get(peer.public_key, UNKNOWN)) for peer in self.peers]
        found = targets(rows, self._forced(self.state), self.gen, ipaddress.IPv6Network(self.state["subnet"]))
        return found | PrefixSet.of_texts(self.rotation.get("addresses") or ())

    def _forced(self, state: t.Mapping[str, t.Any]) -> bool:
        """Whether no peer may be bypassed: a handshake with its new key is no sign that it was down."""
        return bool(state["force_routing"] or self.rotation)

    def _table(self) -> Data:
        desired = table(self.layout, self.state["mtu"] if self.state else 1420, self.gen)
        found = self.targets()
        for item in desired["sets"]:
            item["elements"] = found.spans(item["version"])
            # who may bypass is for the watcher to know; with forced routing both sides come to the same set
            item["external"] = bool(
                self.state and self.state["watcher"] and not self._forced(self.state) and not self.watching
            )
        return {
            "table": desired,
            "owner": self.alias,
            "adopt": self.adopt,
            "state": "absent" if self.state is None else "present",
        }

    def _preflight(self) -> tuple[list[Conflict], list[str]]:
        """(what forbids any write, what people should know) of others that use our priorities, tables and filters."""
        if self.state is None:
            return [], []
        found = self.conflicts
        if found is None:
            strict = {"all": self.filters["all"], self.layout.device: NO_FILTER}
            found = conflicts({"rules": self.rules, "routes": self.routes, "rp_filter": strict}, self.layout, self.gen)
        elif self.adopt:
            found = [item for item in found if item.reason != "adoptable"]
        if settings.without_ipv6(self.layout.device):
            message = "IPv6 is switched off on this host ({0} is 1), and KubeSpan gives every node an IPv6 address; set it to 0"
            found = [*found, Conflict("error", "family_off", message.format(settings.name_of(*settings.IPV6_OFF)))]
        return [item for item in found if item.level == "error"], [
            item.message for item in found if item.level != "error"
        ]

    def _rule_steps(self, version: int) -> list[Data]:
        desired = desired_rule(version, self.layout, self.gen)
        if self.state is None:
            return [
                {"op": "delete", "rule": rule}
                for rule in self.rules[version]
                if owned_to_remove(rule, desired, self.gen)
            ]
        return without_gap(plan_rule(self.rules[version], version, self.layout, self.gen))

    def _route_steps(self) -> list[Data]:
        if self.state is None:
            return [{"op": "delete", "route": route} for route in self.routes if is_our_route(route, self.layout)]
        bypass = self.rotation.get("device") or ""
        there = (
            not self.watching or read_link(bypass) is not None
        )  # a play makes it in the same run, the watcher does not
        more = bypass_routes(bypass, self.rotation.get("routes") or () if there else (), self.layout, self.state["mtu"])
        return plan_routes(self.routes, self.layout, self.state["mtu"], self.state["fail_closed"], more)

    def snapshot(self, before: Data) -> None:
        """The device, and what ``put_back_steering`` and ``put_back_routes`` need: our other objects as they are now."""
        name = self.layout.device
        before["devices"][name] = snapshot.take_device(name, self.actual["link"], self.actual["wireguard"])
        before["keys"] += self.device.key_files(self.desired.private_key_file)
        desired = {version: desired_rule(version, self.layout, self.gen) for version in (4, 6)}
        before["kubespan"] = {
            "layout": self.layout._asdict(),
            "owner": self.alias,
            "table": nft.read_table(FAMILY, self.layout.table_name),
            "rules": [
                rule
                for version in (4, 6)
                for rule in self.rules[version]
                if owned_to_remove(rule, desired[version], self.gen)
            ],
            "routes": [route for route in self.routes if is_our_route(route, self.layout)],
        }

    def apply(self) -> Data:
        """Writes in the order of kubespan 17.1; returns stats. Raises LinuxError, GenerationChanged."""
        if self.refused:
            return Stats().as_dict()
        if self.state is None:
            return self._switch_off()
        # peers that give something up, or go, wait until nothing steers packets to them any more
        later = [step for step in self.device.steps if step.remove or step.replace_allowed_ips]
        parts: list[Data] = []
        if self.device.changed:
            parts.append(wireguard_device.apply(self.desired, self.actual, self.device, later=later))
        stats = Stats()
        if settings.set_reverse_path_filter(self.layout.device, NO_FILTER):
            stats.add("file_writes")
        stats.add("netlink_writes", self._write_routes() + rules.apply_rules(self.rule_steps))
        parts.append(stats.as_dict())
        if self.table.steps:
            parts.append(nft_table.apply(self.table_request, self.table_actual, self.table))
        if later:
            parts.append(wireguard_device.send(self.desired.name, self.actual, later))
        return total(*parts)

    def verify(self) -> list[str]:
        """Read back; of an unowned device nothing was written."""
        if self.refused:
            return []
        self._secrets = {}
        self.gather()
        return differing(self._decide())

    def _write_routes(self) -> int:
        replaced = [step["route"] for step in self.route_steps if step["op"] == "replace"]
        deleted = [step["route"] for step in self.route_steps if step["op"] == "delete"]
        if not replaced and not deleted:
            return 0
        return write_routes(self.layout.route_table, PROTOCOL_STATIC, replaced, deleted)

    def _switch_off(self) -> Data:
        """Table, rules, routes, link: the mark goes first."""
        parts: list[Data] = []
        if self.table.steps:
            parts.append(nft_table.apply(self.table_request, self.table_actual, self.table))
        stats = Stats()
        stats.add("netlink_writes", rules.apply_rules(self.rule_steps) + self._write_routes())
        parts.append(stats.as_dict())
        if self.device.changed:
            parts.append(wireguard_device.apply(self.desired, self.actual, self.device))
        return total(*parts)


def _note(todo: Plan, operation: str, kind: str, name: str, value: t.Any) -> None:
    shown = None if value is None else {key: value[key] for key in ("type", "dev", "metric", "mtu")}
    if operation == "delete":
        todo.delete(kind, name, shown)
    else:
        todo.create(kind, name, shown)


def _route_name(route: t.Mapping[str, t.Any], layout: Layout) -> str:
    kind = "" if route["type"] == "unicast" else route["type"] + " "
    return f"{kind}{route['dst']} table {layout.route_table} metric {route['metric']}"


def put_back_steering(before: t.Mapping[str, t.Any] | None) -> None:
    """First part of a rollback: table and rules as they were; what was not there goes, the mark first. Raises LinuxError."""
    if before is None:
        return
    layout = make_layout(**before["layout"])
    now = nft.read_table(FAMILY, layout.table_name)
    was = before["table"]
    if was is None:
        if now is not None and now["owner"] == before["owner"]:
            nft.apply_steps(FAMILY, layout.table_name, [{"op": "delete_table"}])
    else:
        desired = dict(
            was, sets=[dict(item, elements=[tuple(span) for span in item["elements"] or ()]) for item in was["sets"]]
        )
        request = {"table": desired, "owner": before["owner"], "adopt": True, "state": "present"}
        actual = nft_table.gather(request)
        nft_table.apply(request, actual, nft_table.plan(request, actual))
    desired_rules = before["rules"]
    for version in (4, 6):
        mine = desired_rule(version, layout)
        live = [rule for rule in rules.read_rules(version) if owned_to_remove(rule, mine)]
        extra = [{"op": "delete", "rule": rule} for rule in live if rule not in desired_rules]
        missing = [
            {"op": "add", "rule": rule} for rule in desired_rules if rule["version"] == version and rule not in live
        ]
        rules.apply_rules(missing + extra)
    if not before["routes"]:
        _restore_routes(layout, [])


def put_back_routes(before: t.Mapping[str, t.Any] | None) -> None:
    """Last part of a rollback, when the device exists again."""
    if before is not None and before["routes"]:
        _restore_routes(make_layout(**before["layout"]), before["routes"])


def _restore_routes(layout: Layout, was: t.Sequence[Data]) -> None:
    live = [route for route in read_routes(layout.route_table) if is_our_route(route, layout)]
    missing = [route for route in was if route not in live]
    place = operator.itemgetter("version", "dst", "metric", "type")
    extra = [route for route in live if place(route) not in map(place, was)]
    if missing or extra:
        write_routes(layout.route_table, PROTOCOL_STATIC, missing, extra)
