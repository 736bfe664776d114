# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider of people who own their addresses: a pool of the inventory, and BGP facts of the inventory (ccm 15).

It works on the ledger in memory; the flow writes that once, before any Service gets an address.
"""

from __future__ import annotations

import typing as t

from ..._loadbalancers import provider as interface
from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.ledger import Entry, Ledger
from ..._loadbalancers.pools import reserve
from ..._loadbalancers.reservations import Assignment, Reservation
from ..._loadbalancers.setup import Setup
from ..._values.refused import ValueRefused


class StaticProvider:
    """Implements provider.Provider over a ledger. ``taken``: addresses that Services have without any reservation."""

    #: What it will do is known without doing it.
    predicts = True

    def __init__(self, setup: Setup, ledger: Ledger, taken: t.Iterable[str] = (), now: str = "") -> None:
        self.setup, self.ledger, self.now = setup, ledger, now
        self._taken = [Reservation("", address) for address in taken]

    def capabilities(self) -> t.FrozenSet[str]:
        """No project, no devices: only addresses and what the inventory says of sessions."""
        return frozenset((interface.RESERVE, interface.TAGS, interface.NODE_BGP, interface.ASSIGN, interface.MOVE))

    def read_project_bgp(self) -> t.Mapping[str, t.Any]:
        """There is none."""
        return {}

    def ensure_node_bgp(self, device: str) -> bool:
        """Sessions are the business of the module bgp_speaker."""
        return False

    def node_bgp_info(self, device: str, name: str) -> t.Optional[NodeBgp]:
        """What the inventory says."""
        return next((node for node in self.setup.nodes if node.name == name), None)

    def list_addresses(self) -> t.List[Reservation]:
        """What was handed out."""
        return [entry.reservation() for entry in self.ledger.values()]

    def reserve_address(self, request: t.Mapping[str, t.Any], description: str) -> Reservation:
        """The lowest free address; for the same tags the same one. Raises ValueRefused ``quota``."""
        held = self.list_addresses()
        made, new = reserve(self.setup.pool, held + self._taken, request["tags"], request.get("version", 4))
        if new:
            self.ledger[made.id] = Entry(made.id, made.address, made.cidr, made.tags, description, "", self.now)
        return made

    def release_address(self, ident: str) -> bool:
        """Back into the pool."""
        return self.ledger.pop(ident, None) is not None

    def assign(self, address: str, device: str) -> Assignment:
        """Note who holds the address; what makes it so is a hook of the user's."""
        for entry in self.ledger.values():
            if entry.address == address:
                self.ledger[entry.id] = entry._replace(device=device)
                return Assignment(entry.id + "-assignment", address, device)
        raise ValueRefused("eip_not_found", "{0} is not reserved".format(address))

    move = assign

    def unassign(self, assignment: str) -> bool:
        """Forget who held the address."""
        for entry in self.ledger.values():
            if entry.id + "-assignment" == assignment and entry.device:
                self.ledger[entry.id] = entry._replace(device="")
                return True
        return False

    def list_devices(self) -> t.List[t.Any]:
        """Devices are the inventory's."""
        return []

    def warnings(self) -> t.List[str]:
        """Nothing."""
        return []
