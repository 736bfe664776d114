# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the address of a Service has come: Requested, Reserved, Assigned, Mapped (ccm 0)."""

from __future__ import annotations

import typing as t

from .reservations import CREATED, PENDING, Reservation


class States(t.NamedTuple):
    """The four states and whether traffic flows."""

    requested: bool
    reserved: bool
    assigned: bool
    mapped: bool

    @property
    def ready(self) -> bool:
        """Traffic flows only when an address is reserved, stands in the Service and is announced."""
        return self.reserved and self.assigned and self.mapped

    @property
    def word(self) -> str:
        """The farthest state, for people."""
        for name in ("mapped", "assigned", "reserved", "requested"):
            if getattr(self, name):
                return name.capitalize()
        return ""


def states(service_address: str, reservation: t.Optional[Reservation], mapped: t.Container[str]) -> States:
    """The states of one Service; ``mapped`` are the networks in the back end's address configuration."""
    has_address = reservation is not None and bool(reservation.address)
    reserved = reservation is not None and has_address and reservation.state == CREATED
    requested = reservation is not None and not reserved and reservation.state == PENDING
    assigned = reservation is not None and has_address and service_address == reservation.address
    on_map = reservation is not None and has_address and reservation.network in mapped
    return States(requested, reserved, assigned, on_map)
