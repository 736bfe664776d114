# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface behind which every provider of addresses stands, and what it can (ccm 15)."""

from __future__ import annotations

import typing as t

from .bgp.values import NodeBgp, ProjectBgp
from .instances import Device
from .reservations import Assignment, Reservation

PROJECT_BGP, NODE_BGP, RESERVE, ASSIGN, MOVE = "project_bgp", "node_bgp", "reserve", "assign", "move"
DEVICES, TAGS, LOCATIONS = "devices", "tags", "locations"
CAPABILITIES = (PROJECT_BGP, NODE_BGP, RESERVE, ASSIGN, MOVE, DEVICES, TAGS, LOCATIONS)


class Provider(t.Protocol):
    """What the flows call. What a provider lacks in ``capabilities`` is never called.

    Failures are ValueRefused with ``api``, ``auth`` or ``quota``; a method never answers with half a list.
    """

    def capabilities(self) -> t.FrozenSet[str]:
        """Some of CAPABILITIES."""

    def read_project_bgp(self) -> t.Mapping[str, t.Any]:
        """The project's BGP configuration, {} when it was never switched on; see bgp.project_bgp."""

    def enable_project_bgp(self, plan: ProjectBgp) -> None:
        """Switch it on as the plan says."""

    def ensure_node_bgp(self, device: str) -> bool:
        """Open a session for a device; True when there was none."""

    def node_bgp_info(self, device: str, name: str) -> t.Optional[NodeBgp]:
        """What a speaker on the device needs; None when the provider does not say."""

    def list_addresses(self) -> t.List[Reservation]:
        """Every reservation of the project, all pages."""

    def reserve_address(self, request: t.Mapping[str, t.Any], description: str) -> Reservation:
        """Order what service_plan asks for; the answer may be pending. Never repeated blindly."""

    def release_address(self, ident: str) -> bool:
        """Give a reservation back; False when it was gone already."""

    def assign(self, address: str, device: str) -> Assignment:
        """Point an address at a device."""

    def unassign(self, assignment: str) -> bool:
        """Take an assignment, not the reservation, away; False when it was gone already."""

    def move(self, address: str, device: str) -> Assignment:
        """The two in one step, where the provider has that."""

    def list_devices(self) -> t.List[Device]:
        """Every device of the project, all pages."""

    def get_device(self, ident: str) -> t.Optional[Device]:
        """One device; None only when the provider said that it does not exist."""

    def private_network(self, device: str) -> t.Optional[str]:
        """The network of the device's private address."""

    def warnings(self) -> t.List[str]:
        """What people should know before they rely on it."""


def failure_reason(status: t.Optional[int], ordering: bool = False) -> str:
    """The error class of an HTTP answer, None for no answer at all; empty for a good one (ccm 13)."""
    if status is not None and 200 <= status < 300:
        return ""
    if status in (401, 403):
        return "auth"
    return "quota" if status == 422 and ordering else "api"


def may_repeat(status: t.Optional[int], method: str) -> bool:
    """Whether a failed request may be sent again after a delay: never one that writes something new."""
    return method in ("GET", "DELETE") and status in (None, 429, 502, 503, 504)


def retired_warning(base_url: t.Optional[str]) -> t.List[str]:
    """Equinix Metal itself is gone; only doubles and compatible forks answer, at a URL of one's own."""
    return [] if base_url else ["service_retired: the public service ended on 30 June 2026; set a base URL of your own"]
