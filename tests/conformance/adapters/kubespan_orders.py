# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The orders of KubeSpan's operations: what the flow of a node writes, in the order in which it does.

The flow runs as it is, on a host that replaces the kernel: it answers reads, notes writes, and is afterwards as the plan
states. The kernel's own order is tested by tests/kernel/test_kubespan_order.py.
"""

from __future__ import annotations

import base64
import contextlib
import typing as t
from unittest import mock

from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, Dump
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import nft_table, wireguard_device
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.kubespan import (
    dataplane as kubespan,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import routing as kubespan_routing

from ..outcome import Unhandled

Data = dict[str, t.Any]
Input = t.Mapping[str, t.Any]

A, B, FIRST_KEY, OTHER_KEY = (base64.b64encode(bytes([number]) * 32).decode("ascii") for number in range(1, 5))
PEERS: Data = {A: ["10.1.0.0/24"], B: ["10.2.0.0/24"]}
#: What each operation starts from and ends in (``mtu``, ``peers``, ``key``, ``secret``; None: no KubeSpan), and what its writes are called.
OPERATIONS: t.Mapping[str, tuple[Data | None, Data | None, t.Mapping[str, str]]] = {
    "enable": (
        None,
        {},
        {
            "link": "link",
            "settings": "wireguard settings and peers",
            A: "wireguard settings and peers",
            B: "wireguard settings and peers",
            "mtu": "mtu",
            "up": "link up",
            "address": "ula address",
            "routes": "table 180 routes",
            "rules": "ip rules",
            "nft": "nft table",
        },
    ),
    "disable": ({}, None, {"nft": "nft table", "rules": "ip rules", "routes": "table 180 routes", "link": "link"}),
    "peer_added": ({"peers": {A: PEERS[A]}}, {}, {B: "wireguard peer with allowed ips", "nft": "nft targets"}),
    "peer_removed": ({}, {"peers": {A: PEERS[A]}}, {"nft": "nft targets", B: "wireguard peer"}),
    "prefix_moved": (
        {},
        {"peers": {A: [], B: ["10.1.0.0/25", "10.1.0.128/25", "10.2.0.0/24"]}},
        {B: "wireguard gaining peer", A: "wireguard losing peer", "nft": "nft targets"},
    ),
    "mtu_lowered": ({}, {"mtu": 1300}, {"mtu": "link", "routes": "routes", "nft": "clamp rules"}),
    "mtu_raised": ({"mtu": 1300}, {}, {"mtu": "link", "routes": "routes", "nft": "clamp rules"}),
    "key_changed": ({}, {"key": OTHER_KEY}, {"settings": "wireguard attributes in place"}),
    "secret_changed": (
        {},
        {"secret": "another"},
        {A: "wireguard attributes in place", B: "wireguard attributes in place"},
    ),
}


def state_of(wish: Data, force: bool) -> Data:
    """A node's resolved state, as the flow takes it."""
    peers = [
        {
            "public_key": key,
            "node_id": key,
            "address": "fd00::1",
            "allowed_ips": list(ranges),
            "endpoints": [],
            "label": key,
        }
        for key, ranges in wish.get("peers", PEERS).items()
    ]
    return {
        "layout": {},
        "generation": "current",
        "mtu": wish.get("mtu", 1420),
        "force_routing": force,
        "fail_closed": force,
        "watcher": True,
        "implementation": "auto",
        "private_key_file": "/key",
        "preshared_key_file": "/secret",
        "address": "fd7a:6197:edb7:2302::1",
        "node_address": None,
        "subnet": "fd7a:6197:edb7:2302::/64",
        "peers": peers,
    }


class Host:
    """A host that notes what is written."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.link: Data | None = None
        self.dumped = EMPTY
        self.table: Data | None = None
        self.rules: dict[int, list[Data]] = {4: [], 6: []}
        self.routes: list[Data] = []
        self.key, self.secret = FIRST_KEY, "first"

    def note(self, what: str, answer: t.Any = None) -> t.Callable[..., t.Any]:
        """A function that is one write."""

        def write(*dummy: t.Any, **more: t.Any) -> t.Any:
            self.writes.append(what)
            return answer

        return write

    def set_link(self, name: str, **desired: t.Any) -> None:
        """One message; the kernel takes the MTU before it changes the state."""
        self.writes.extend(what for what in ("mtu", "up") if desired.get(what) is not None)

    def change_addresses(
        self, name: str, add: t.Sequence[str], remove: t.Sequence[str], keep: t.Sequence[str] = ()
    ) -> int:
        """Nothing to change is no write."""
        self.writes.extend(["address"] if add or remove else [])
        return len(add) + len(remove)

    def apply_rules(self, steps: t.Sequence[Data]) -> int:
        """As _linux.netlink.rules."""
        self.writes.extend(["rules"] if steps else [])
        return len(steps)

    # a device and a key file, as far as the flow uses them

    def dump(self) -> Dump:
        """The device's."""
        return self.dumped

    def configure(self, **settings: t.Any) -> None:
        """The device's."""
        self.writes.extend(["settings"] if settings else [])

    def apply(self, steps: t.Sequence[Data]) -> None:
        """The device's: its peers, one by one."""
        self.writes.extend(step.public_key for step in steps)

    def close(self) -> None:
        """The device's."""

    def state(self) -> Data:
        """The key file's."""
        return {"state": "key", "public_key": self.key, "mode": "0600", "message": None}

    def private_key(self) -> bytes:
        """The key file's."""
        return bytes(32)

    @contextlib.contextmanager
    def replaced(self) -> t.Iterator[None]:
        """For the host that the flow runs on."""
        device = mock.Mock(wraps=self, writes=0)
        fakes: dict[t.Any, Data] = {
            wireguard_device: {
                "read_link": lambda name: self.link,
                "open_device": lambda name, implementation: device,
                "create_wireguard_link": self.note("link", "kernel"),
                "delete_link": self.note("link"),
                "set_link": self.set_link,
                "change_addresses": self.change_addresses,
                "KeyFile": lambda path: self,
                "resolve": lambda names: {},
                "preshared_fingerprint": lambda path: self.secret,
                "now": lambda: 0,
            },
            kubespan.settings: {
                "reverse_path_filter": lambda name: None,
                "set_reverse_path_filter": lambda name, value: False,
            },
            kubespan.kubespan_preflight: {"find": lambda *dummy: []},
            kubespan.rules: {"read_rules": lambda version: self.rules[version], "apply_rules": self.apply_rules},
            kubespan: {"read_routes": lambda table: self.routes, "write_routes": self.note("routes", 1)},
            nft_table.nft: {"read_table": lambda *dummy: self.table, "apply_steps": self.note("nft", 1)},
        }
        with contextlib.ExitStack() as stack:
            for module, names in fakes.items():
                stack.enter_context(mock.patch.multiple(module, **names))
            yield

    def converge(self, wish: Data | None, force: bool) -> None:
        """One run of the flow; afterwards the host is as the run desired it."""
        self.key, self.secret = (wish or {}).get("key", FIRST_KEY), (wish or {}).get("secret", "first")
        state = None if wish is None else state_of(wish, force)
        layout = kubespan.layout_of(state)
        with self.replaced():
            part = kubespan.KubespanDataplane("mesh", state, layout, peer_states=dict.fromkeys(PEERS, "up"))
            part.gather()
            refused = part.plan().refused
            if refused:
                raise ValueError(refused)
            part.apply()
        if state is None:
            self.link, self.dumped, self.table, self.rules, self.routes = None, EMPTY, None, {4: [], 6: []}, []
            return
        after = part.device.device
        self.link = dict(
            {name: after[name] for name in ("mtu", "txqueuelen", "alias", "up", "addresses")}, index=2, kind="wireguard"
        )
        self.link["implementation"] = "kernel"
        self.dumped = Dump(after["listen_port"], after["fwmark"], after["public_key"], part.device.after)
        self.table = dict(part.table_request["table"], owner=part.alias, generation=1)
        self.rules = {version: [kubespan_routing.desired_rule(version, layout, part.gen)] for version in (4, 6)}
        self.routes = kubespan_routing.desired_routes(layout, state["mtu"], state["fail_closed"])


def apply_order(vector: Input) -> Data:
    """``operation`` of OPERATIONS, ``force_routing`` (default true): ``safe_order``, names of the writes, each once."""
    if vector["operation"] not in OPERATIONS:
        raise Unhandled(f"operation {vector['operation']}")
    before, after, names = OPERATIONS[vector["operation"]]
    force, host = vector.get("force_routing", True), Host()
    if before is not None:
        host.converge(before, force)
    host.writes.clear()
    host.converge(after, force)
    shown = [names.get(what, what) for what in host.writes]
    return {"safe_order": [name for index, name in enumerate(shown) if index == 0 or shown[index - 1] != name]}
