# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of addresses, and the interface that each implements (ccm 15). The Equinix Metal API: its public service ended; forks and doubles of it
answer at a URL of one's own (ccm 14), and its metadata service returns where a host is (ccm 4, 14.9). And that of people who own their addresses: a
pool and BGP facts of the inventory."""

from __future__ import annotations

import typing as t

from ..._io.json_api import ApiFailed, JsonApi, Manners, Transport, https
from ..._loadbalancers import equinix_records as records
from ..._loadbalancers.bgp.remembered import Neighbours, asked_again, neighbours, remembered_text, still_true
from ..._loadbalancers.bgp.values import SESSION_REQUEST, NodeBgp, ProjectBgp, node_bgp, session_answer
from ..._loadbalancers.instances import Device
from ..._loadbalancers.ledger import Entry, Ledger
from ..._loadbalancers.named_pools import Held, Wish, allocate
from ..._loadbalancers.node_annotations import private_network
from ..._loadbalancers.reservations import Assignment, Reservation, carries, family_of
from ..._loadbalancers.setup import Setup
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from ..._values.text import dicts_of, is_alnum, mapping, text_of

PROJECT_BGP, NODE_BGP, RESERVE, ASSIGN, MOVE = "project_bgp", "node_bgp", "reserve", "assign", "move"
DEVICES, TAGS, LOCATIONS, REMEMBERS = "devices", "tags", "locations", "remembers"
CAPABILITIES = (PROJECT_BGP, NODE_BGP, RESERVE, ASSIGN, MOVE, DEVICES, TAGS, LOCATIONS, REMEMBERS)


class Provider(t.Protocol):
    """What the flows call. What a provider lacks in ``capabilities`` is never called.

    Failures are ValueRefused with ``api``, ``auth`` or ``quota``; a method never answers with half a list.
    """

    def capabilities(self) -> frozenset[str]:
        """Some of CAPABILITIES."""

    def read_project_bgp(self) -> t.Mapping[str, t.Any]:
        """The project's BGP configuration, {} when it was never switched on; see bgp.project_bgp."""

    def enable_project_bgp(self, plan: ProjectBgp) -> None:
        """Switch it on as planned."""

    def ensure_node_bgp(self, device: str) -> bool:
        """Open a session for a device; True when there was none."""

    def node_bgp_info(self, device: str, name: str) -> NodeBgp | None:
        """What a speaker on the device needs; None when the provider does not say."""

    def list_addresses(self) -> list[Reservation]:
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

    def list_devices(self) -> list[Device]:
        """Every device of the project, all pages."""

    def get_device(self, ident: str) -> Device | None:
        """One device; None only when the provider said that it does not exist."""

    def private_network(self, device: str) -> str | None:
        """The network of the device's private address."""

    def warnings(self) -> list[str]:
        """What people should know before they rely on it."""


def failure_reason(status: int | None, ordering: bool = False) -> str:
    """The error class of an HTTP answer, None for no answer at all; empty for a good one (ccm 13)."""
    if status is not None and 200 <= status < 300:
        return ""
    if status in (401, 403):
        return "auth"
    return "quota" if status == 422 and ordering else "api"


def may_repeat(status: int | None, method: str) -> bool:
    """Whether a failed request may be sent again after a delay: never one that writes something new."""
    return method in ("GET", "DELETE") and status in (None, 429, 502, 503, 504)


def retired_warning(base_url: str | None) -> list[str]:
    """Equinix Metal itself is gone; only doubles and compatible forks answer, at a URL of one's own."""
    return [] if base_url else ["service_retired: the public service ended on 30 June 2026; set a base URL of your own"]


PUBLIC_URL = "https://api.equinix.com/metal/v1"
PER_PAGE, PAGES = 250, 400


MANNERS = Manners(
    records.error_message,
    lambda status, method, path: failure_reason(
        status, ordering=method == "POST" and path.startswith("/projects/") and path.endswith("/ips")
    ),
    may_repeat,
)


class EquinixMetal:
    """Implements Provider. What it read is kept for the run: one call each, whoever asks."""

    predicts = False

    def __init__(
        self,
        api_key: str,
        project: str,
        base_url: str = "",
        local_asn: int = 0,
        peer_asn: int = 0,
        password: str = "",
        plain_http: bool = False,
        send: Transport | None = None,
        now: str = "",
        **more: t.Any,
    ) -> None:
        self.api = JsonApi(base_url or PUBLIC_URL, {"X-Auth-Token": api_key}, MANNERS, send, plain_http, **more)
        self._project = "/projects/" + _segment(project)
        self._base_url, self._asns, self._password, self.now = base_url, (local_asn, peer_asn), password, now
        self._devices: dict[str, Device | None] = {}
        self._listed: list[Device] | None = None
        self._project_bgp: t.Mapping[str, t.Any] | None = None
        self._sessions: dict[str, str] | None = None
        self._neighbours: dict[str, list[t.Mapping[str, t.Any]]] = {}
        self._held: list[Reservation] | None = None
        self._remembered: t.Mapping[str, Neighbours] = {}
        self._again: frozenset[str] = frozenset()
        self._known: dict[str, Neighbours] = {}
        self.notes: list[str] = []

    @property
    def calls(self) -> int:
        return self.api.calls

    def capabilities(self) -> frozenset[str]:
        """All but moving an address in one step."""
        return frozenset(CAPABILITIES) - {MOVE}

    def warnings(self) -> list[str]:
        return retired_warning(self._base_url) + self.notes

    # -- BGP -----------------------------------------------------------------------------------------------------

    def read_project_bgp(self) -> t.Mapping[str, t.Any]:
        if self._project_bgp is None:
            answer = self.api.call("GET", self._project + "/bgp-config")
            if answer is not None and not isinstance(answer, dict):
                raise ApiFailed("api", "the project's BGP configuration is no object", 200)
            self._project_bgp = answer or {}
        return self._project_bgp

    def enable_project_bgp(self, plan: ProjectBgp) -> None:
        """Never repeated: a second one would replace the password."""
        self._project_bgp = None
        self.api.call("POST", self._project + "/bgp-configs", body=plan.post)

    def ensure_node_bgp(self, device: str) -> bool:
        self._neighbours.pop(device, None)
        try:
            answer = self.api.call("POST", f"/devices/{_segment(device)}/bgp/sessions", body=SESSION_REQUEST)
        except ApiFailed as error:
            good, changed = session_answer(error.status, error.message)
            if not good:
                raise
            return changed
        if not session_answer(self.api.status, "")[0]:
            raise ApiFailed("api", f"nobody knows whether {device} has a session now", self.api.status)
        if self._sessions is not None and isinstance(answer, dict):
            self._sessions[device] = str(answer.get("id") or "")
        return True

    def sessions(self, device: str) -> list[dict[str, str]]:
        """Family and status of a device's sessions, as the provider sees them."""
        answer = self.api.call("GET", f"/devices/{_segment(device)}/bgp/sessions")
        rows = answer.get("bgp_sessions") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise ApiFailed("api", f"the sessions of {device} are no list", 200)
        return [
            {"address_family": str(row.get("address_family")), "status": str(row.get("status"))}
            for row in rows
            if isinstance(row, dict)
        ]

    def neighbours(self, device: str) -> list[t.Mapping[str, t.Any]]:
        """The records of a device; none while it has no session."""
        answer = self.api.call("GET", f"/devices/{_segment(device)}/bgp/neighbors")
        found = answer.get("bgp_neighbors") if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise ApiFailed("api", f"the neighbours of {device} are no list", 200)
        return found

    def node_bgp_info(self, device: str, name: str) -> NodeBgp | None:
        """None while there is no session. Raises ValueRefused ``no_ipv4_neighbor`` for one without IPv4.

        Not asked for is what was remembered of a device and still holds. Its session alone is asked for, those of all devices at once.
        """
        row = self._remembered.get(device)
        session = self._session(device)
        password = str(self.read_project_bgp().get("md5") or "") or self._password if session else ""
        if row is not None and device not in self._again and self._holds(row, device, session):
            self._known[device] = row
            return row.facts(name, password)
        if device not in self._neighbours:
            self._neighbours[device] = self.neighbours(device)
        found = self._neighbours[device]
        facts = node_bgp(name, found, *self._asns, password=self._password) if found else None
        if facts is not None and session and facts.password == password:
            self._known[device] = neighbours(session, facts)
        return facts

    def remember(self, rows: t.Mapping[str, Neighbours], seconds: float) -> None:
        """What an earlier run was answered; ``seconds`` decide which devices are asked all the same."""
        self._remembered, self._again = rows, asked_again(rows, seconds)

    def remembered(self) -> str:
        """What the next run may take as answered: of those devices that this one asked for."""
        return remembered_text(self._known)

    def _holds(self, row: Neighbours, device: str, session: str) -> bool:
        self.list_devices()  # one read for all nodes
        found, asn = self._devices.get(device), self.read_project_bgp().get("asn")
        return found is not None and isinstance(asn, int) and still_true(row, session, asn, found.addresses)

    def _session(self, device: str) -> str:
        """The id of its session of IPv4, or nothing: then the device itself is asked, and so where there is no such list."""
        if self._sessions is None:
            self._sessions = {}
            try:
                answer = self.api.call("GET", self._project + "/bgp/sessions", missing_ok=True)
            except ApiFailed as error:
                if error.reason == "auth":
                    raise
                answer = None
            for row in dicts_of(answer.get("bgp_sessions")) if isinstance(answer, dict) else ():
                link = row.get("device")
                if row.get("address_family") == "ipv4" and isinstance(link, dict) and isinstance(row.get("id"), str):
                    self._sessions[str(link.get("href") or "").rpartition("/")[2]] = row["id"]
        return self._sessions.get(device, "")

    # -- addresses -----------------------------------------------------------------------------------------------

    def list_addresses(self) -> list[Reservation]:
        rows = self._pages(self._project + "/ips", "ip_addresses", {"include": "assignments"})
        self._held, notes = records.reservations(rows)
        self.notes += [
            note for note in ("a reservation was left out: " + text for text in notes) if note not in self.notes
        ]
        return list(self._held)

    def reserve_address(self, request: t.Mapping[str, t.Any], description: str) -> Reservation:
        """One order. When nobody knows whether it was taken, the list shows it: an order is never repeated blindly (ccm 13)."""
        known = {item.id for item in (self.list_addresses() if self._held is None else self._held)}
        try:
            made = self.order(dict(request, details="Service " + description[:200]))
        except ApiFailed as error:
            if error.status is not None:
                raise
            new = [
                item for item in self.list_addresses() if carries(item.tags, request["tags"]) and item.id not in known
            ]
            if len(new) != 1:
                raise
            return new[0]
        if made.id in known:
            raise ApiFailed("api", f"the answer to an order is the reservation {made.id}, which was there before", 201)
        self._held = [*(self._held or ()), made]
        return made

    def order(self, body: t.Mapping[str, t.Any]) -> Reservation:
        return records.reservation(self._record(self.api.call("POST", self._project + "/ips", body=body)))

    def release_address(self, ident: str) -> bool:
        self.api.call("DELETE", "/ips/" + _segment(ident), missing_ok=True)
        return self.api.status != 404

    #: By the assignment's own id, in the same way.
    unassign = release_address

    def assign(self, address: str, device: str) -> Assignment:
        answer = self.api.call("POST", f"/devices/{_segment(device)}/ips", body={"address": address})
        made = records.assignment(self._record(answer))
        return made._replace(device=made.device or device, address=made.address or address)

    def update_address(self, ident: str, changes: t.Mapping[str, t.Any]) -> Reservation:
        return records.reservation(self._record(self.api.call("PATCH", "/ips/" + _segment(ident), body=changes)))

    # -- devices -------------------------------------------------------------------------------------------------

    def list_devices(self) -> list[Device]:
        if self._listed is None:
            query = {"include": "ip_addresses.parent_block,parent_block"}
            self._listed = [records.device(row) for row in self._pages(self._project + "/devices", "devices", query)]
            self._devices.update({item.id: item for item in self._listed})
        return list(self._listed)

    def get_device(self, ident: str) -> Device | None:
        """None only for a 404: any other failure never means that a device is gone (ccm 6.2)."""
        if ident not in self._devices:
            query = {"include": "ip_addresses.parent_block,parent_block"}
            answer = self.api.call("GET", "/devices/" + _segment(ident), query, missing_ok=True)
            self._devices[ident] = records.device(self._record(answer)) if answer is not None else None
        return self._devices[ident]

    def private_network(self, device: str) -> str | None:
        """Raises ValueRefused ``no_private_network``."""
        self.list_devices()  # one read for all nodes
        found = self._devices.get(device)
        if found is None:
            raise ValueRefused("no_private_network", "the project has no device of this id")
        return private_network(found.addresses)

    # -- inside --------------------------------------------------------------------------------------------------

    def _pages(self, path: str, key: str, query: t.Mapping[str, str]) -> list[t.Mapping[str, t.Any]]:
        """Every page, or ApiFailed: half a list would make what is in use look unused (T14)."""
        found: list[t.Mapping[str, t.Any]] = []
        ids: set[str] = set()
        total: int | None = None
        for page in range(1, PAGES + 1):
            answer = self.api.call("GET", path, dict(query, page=page, per_page=PER_PAGE))
            rows = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ApiFailed("api", f"GET {path}: page {page} is no list", 200)
            found += rows
            meta = mapping(answer, "meta")
            before, total = total, meta["total"] if isinstance(meta.get("total"), int) else total
            named = [row["id"] for row in rows if isinstance(row.get("id"), str)]
            if before not in (None, total) or len(set(named)) < len(named) or not ids.isdisjoint(named):
                # what moves from one page to another while they are read is in both, or in none
                raise ApiFailed("api", f"GET {path}: the list changed while its pages were read", 200)
            ids.update(named)
            last = meta.get("last_page")
            more = page < last if isinstance(last, int) else bool(meta.get("next"))
            if not more:
                if total is not None and len(found) < total:
                    raise ApiFailed("api", f"GET {path}: {len(found)} of {total} entries", 200)
                return found
            if not rows:
                break
        raise ApiFailed("api", f"GET {path}: the pages do not end", 200)

    def _record(self, answer: t.Any) -> t.Mapping[str, t.Any]:
        if not isinstance(answer, dict):
            raise ApiFailed("api", "the answer is no object", 200)
        return answer


def _segment(ident: str) -> str:
    """An id as a part of a path."""
    if not ident or not all(is_alnum(char) or char in "-_" for char in ident):
        raise ValueRefused("bad_provider_id", "an id is part of a path and cannot be this")
    return ident


class StaticProvider:
    """Implements Provider over a ledger in memory, which the flow writes once, before any Service gets an address.

    ``taken``: addresses that nobody is given -> the Service that has each, or nothing. ``namespace_labels``: for pools that are for some.
    """

    #: What it will do is known without doing it.
    predicts = True

    def __init__(
        self,
        setup: Setup,
        ledger: Ledger,
        taken: t.Mapping[str, str] | None = None,
        now: str = "",
        namespace_labels: t.Mapping[str, t.Mapping[str, str]] | None = None,
    ) -> None:
        self.setup, self.ledger, self.now = setup, ledger, now
        self.taken = dict(taken or {})
        self._held = Held({})
        self.grants = setup.pool_grants(namespace_labels or {})

    def capabilities(self) -> frozenset[str]:
        """No project, no devices: only addresses and what the inventory has of sessions, which the module bgp_speaker opens."""
        return frozenset((RESERVE, TAGS, NODE_BGP, MOVE))

    def node_bgp_info(self, device: str, name: str) -> NodeBgp | None:
        return next((node for node in self.setup.nodes if node.name == name), None)

    def list_addresses(self) -> list[Reservation]:
        return [entry.reservation() for entry in self.ledger.values()]

    def reserve_address(self, request: t.Mapping[str, t.Any], description: str) -> Reservation:
        """What the pools have for the wish in it; for the same tags and family the same one. Raises ValueRefused ``outside_grant claimed_twice quota``."""
        tags, wish = (
            tuple(request["tags"]),
            t.cast(Wish, request.get("wish") or Wish("", "", version=request.get("version", 4))),
        )
        for entry in self.ledger.values():
            if (
                all(tag in entry.tags for tag in tags)
                and set(entry.tags) == set(tags)
                and family_of(entry.reservation()) == wish.version
            ):
                return entry.reservation()
        self._held.become(self.held())
        address = allocate(self.grants, wish, self._held)
        entry = Entry(address, address, parse_address(address).max_prefixlen, tags, description, "", self.now)
        self.ledger[address] = entry
        return entry.reservation()

    def held(self) -> dict[str, str]:
        """Every address that is taken now -> its Service."""
        return {**self.taken, **{entry.address: entry.service for entry in self.ledger.values() if entry.address}}

    def release_address(self, ident: str) -> bool:
        return self.ledger.pop(ident, None) is not None

    def move(self, address: str, device: str) -> Assignment:
        """Note who holds the address; what makes it so is a hook of the user's."""
        for entry in self.ledger.values():
            if entry.address == address:
                self.ledger[entry.id] = entry._replace(device=device)
                return Assignment(entry.id + "-assignment", address, device)
        raise ValueRefused("eip_not_found", f"{address} is not reserved")

    def warnings(self) -> list[str]:
        return []


#: No token is sent, and a GET may be asked again whatever came of it.
METADATA_MANNERS = Manners(
    lambda body: "", lambda status, method, path: "no_location", lambda status, method: status is None or status >= 500
)


def host_facility(url: str, plain_http: bool = False, send: Transport = https, seconds: float = 10.0) -> str:
    """``facility`` of ``GET <url>/metadata``; whether it names a place is for locations.location_of to say.

    Raises ValueRefused ``no_location``: the Service is not refused for another reason than that its place is not known.
    """
    try:
        answer = JsonApi(
            url, {}, METADATA_MANNERS, send, plain_http, tries=2, request_s=seconds / 2, total_s=seconds
        ).call("GET", "/metadata")
    except ValueRefused as error:
        raise ValueRefused("no_location", f"the host's metadata could not be read: {error.message}") from None
    facility = text_of(mapping(answer).get("facility"))
    if not facility:
        raise ValueRefused("no_location", f"the host's metadata at {url} name no facility")
    return facility
