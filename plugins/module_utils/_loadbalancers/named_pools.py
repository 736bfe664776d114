# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named pools of a cluster's own addresses: to whom each is granted, which address a Service gets, how many are left.

The inventory grants; what a Service or its annotations say only chooses among what is granted to its namespace. The choice depends on nothing but
the inventory and on which addresses are taken, so the same run gives the same addresses: pools for this very Service before those for all, by
priority as MetalLB has it (1 before 2, 0 last), then in the order of the inventory; of a pool the lowest free address.
"""

from __future__ import annotations

import collections
import re
import typing as t

from .._values.addresses import Address, parse_address, special_kind
from .._values.refused import ValueRefused, quoted
from .._values.selectors import Requirement, matches, parse_selector
from .pools import Pool, parse_pool, shared

#: Of the pool that has no name in the inventory.
DEFAULT_POOL = "default"
SETTING = "pools in load_balancers_settings"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?\Z")
Given = t.Mapping[str, t.Any]
#: One of each kind, in the middle of what somebody may write.
_NOBODYS = tuple(
    map(
        parse_address,
        ("127.0.0.1", "169.254.169.254", "224.0.0.1", "::1", "::ffff:0:0", "64:ff9b::", "fe80::1", "ff02::1"),
    )
)


class Tenant(t.NamedTuple):
    """Namespaces that together get at most so many addresses of a pool."""

    name: str
    namespaces: frozenset[str]
    most: int


class NamedPool(t.NamedTuple):
    """Addresses, those of them that nobody gets, and who gets the others. A selector of None grants to all."""

    name: str
    pool: Pool
    reserved: Pool = Pool(())
    auto_assign: bool = True
    priority: int = 0
    avoid_buggy_ips: bool = False
    namespaces: frozenset[str] = frozenset()
    namespace_selector: tuple[Requirement, ...] | None = None
    service_selector: tuple[Requirement, ...] | None = None
    most_per_namespace: int | None = None
    tenants: tuple[Tenant, ...] = ()

    @property
    def pinned(self) -> bool:
        """Whether it is for some namespaces or Services, and not for all."""
        return bool(self.namespaces) or self.namespace_selector is not None or self.service_selector is not None

    def grants(self, namespace: str, labels: t.Mapping[str, str], namespace_labels: t.Mapping[str, str]) -> bool:
        """Whether a Service of this namespace and with these labels may have an address of it, asked for or not."""
        if self.namespaces or self.namespace_selector is not None:
            selected = self.namespace_selector is not None and matches(self.namespace_selector, namespace_labels)
            if namespace not in self.namespaces and not selected:
                return False
        return self.service_selector is None or matches(self.service_selector, labels)

    def hands_out(self, address: Address) -> bool:
        """Whether it has the address, and for Services."""
        if address not in self.pool or address in self.reserved:
            return False
        return not (self.avoid_buggy_ips and address.version == 4 and int(address) % 256 in (0, 255))

    def limit(self, namespace: str, version: int, held: Held) -> str:
        """Why a namespace gets no further address of it, or nothing: each family has its own count."""
        if self.most_per_namespace is None and not self.tenants:
            return ""
        users = held.users(self, version)
        text = "{0} has {1} of {1} addresses of the pool {2} ({3} of {4})"
        if self.most_per_namespace is not None and users[namespace] >= self.most_per_namespace:
            return text.format(
                "the namespace " + namespace, self.most_per_namespace, self.name, "max_per_namespace", SETTING
            )
        for tenant in self.tenants:
            if namespace in tenant.namespaces and sum(users[user] for user in tenant.namespaces) >= tenant.most:
                return text.format("the tenant " + tenant.name, tenant.most, self.name, "tenants", SETTING)
        return ""

    def lowest(self, version: int, taken: t.Container[int]) -> Address | None:
        """The lowest address of a family that is free. ``taken``: numbers."""
        for first, last in self._open(version):
            for number in range(first, last + 1):
                if number not in taken and not (self.avoid_buggy_ips and version == 4 and number % 256 in (0, 255)):
                    return parse_address(_text(number, version))
        return None

    def count(self, version: int) -> int:
        """How many addresses of a family it hands out."""
        found = 0
        for first, last in self._open(version):
            found += last - first + 1
            if self.avoid_buggy_ips and version == 4:
                found -= sum((last - rest) // 256 - (first - 1 - rest) // 256 for rest in (0, 255))
        return found

    def _open(self, version: int) -> t.Iterator[tuple[int, int]]:
        """Its spans without what is reserved, going upwards; a reserved range may be larger than anybody counts through."""
        for span in self.pool.spans:
            if span.version != version:
                continue
            first = span.first
            for hole in self.reserved.spans:
                if hole.version != version or hole.last < first or hole.first > span.last:
                    continue
                if hole.first > first:
                    yield first, hole.first - 1
                first = hole.last + 1
            if first <= span.last:
                yield first, span.last


class Held:
    """Addresses that are taken, and what a further choice has to know of them, counted once: there may be thousands of either.

    ``rows``: address -> ``namespace/name`` of its Service, or nothing for another owner's.
    """

    def __init__(self, rows: t.Mapping[str, str]) -> None:
        self._rows: dict[str, str] = {}
        self._addresses: dict[str, Address] = {}
        self.taken: dict[int, set[int]] = {4: set(), 6: set()}
        self._users: dict[tuple[str, int], tuple[NamedPool, t.Counter[str]]] = {}
        self.become(rows)

    def __contains__(self, address: object) -> bool:
        return address in self._rows

    def __getitem__(self, address: str) -> str:
        return self._rows[address]

    def become(self, rows: t.Mapping[str, str]) -> None:
        """Other rows; what is the same is not looked at again."""
        for address, key in [row for row in self._rows.items() if rows.get(row[0]) != row[1]]:
            parsed = self._addresses.pop(address)
            del self._rows[address]
            self.taken[parsed.version].discard(int(parsed))
            self._count(parsed, key, -1)
        for address, key in rows.items():
            if address not in self._rows:
                self.add(address, key)

    def add(self, address: str, key: str) -> None:
        parsed = parse_address(address)
        self._rows[address], self._addresses[address] = key, parsed
        self.taken[parsed.version].add(int(parsed))
        self._count(parsed, key, 1)

    def users(self, pool: NamedPool, version: int) -> t.Counter[str]:
        """How many addresses of a pool's family each namespace has."""
        found = self._users.get((pool.name, version))
        if found is None:
            rows = (
                (address, self._rows[text]) for text, address in self._addresses.items() if address.version == version
            )
            count = collections.Counter(key.partition("/")[0] for address, key in rows if key and address in pool.pool)
            found = self._users[pool.name, version] = (pool, count)
        return found[1]

    def _count(self, address: Address, key: str, more: int) -> None:
        for (unused, version), (pool, count) in self._users.items():
            if key and version == address.version and address in pool.pool:
                count[key.partition("/")[0]] += more


def _text(number: int, version: int) -> str:
    if version == 4:
        return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    return ":".join(f"{number >> shift & 65535:x}" for shift in range(112, -1, -16))


def parse_named_pools(nameless: t.Iterable[object], given: t.Iterable[Given] | None) -> tuple[NamedPool, ...]:
    """The pools of one cluster, the nameless one first. Raises ValueRefused ``bad_cidr claimed_twice bad_setting selector_syntax``."""
    found: list[NamedPool] = []
    whole = list(nameless)
    if whole or not given:
        found.append(NamedPool(DEFAULT_POOL, _usable(parse_pool(whole))))
    for row in given or ():
        one = _parse(row)
        if one.name in [other.name for other in found]:
            raise ValueRefused("claimed_twice", f"two pools are called {quoted(one.name)}")
        found.append(one)
    for first, second, address in shared({one.name: one.pool for one in found}):
        raise ValueRefused(
            "claimed_twice", f"the pools {first} and {second} both hold {address}; take it out of one of them"
        )
    return tuple(found)


def _usable(pool: Pool) -> Pool:
    """Raises ValueRefused ``special_address`` for one that has what no Service may have, such as 10.0.0.0/0 written in haste."""
    for span in pool.spans:
        for address in (
            *map(parse_address, (_text(span.first, span.version), _text(span.last, span.version))),
            *_NOBODYS,
        ):
            kind = special_kind(address)
            if kind is not None and address.version == span.version and span.first <= int(address) <= span.last:
                raise ValueRefused("special_address", f"{address} is in the pool, and no Service may have it ({kind})")
    return pool


def _parse(row: Given) -> NamedPool:
    name = row.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueRefused(
            "bad_setting", f"{quoted(name)} is no name of a pool: small letters, digits, dots and dashes"
        )
    try:
        limits = [
            row.get("max_per_namespace"),
            *((tenant or {}).get("max_addresses") for tenant in row.get("tenants") or ()),
        ]
        for limit in limits:
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise ValueRefused("bad_setting", f"{quoted(limit)} is no number of addresses")
        if not row.get("addresses"):
            raise ValueRefused("bad_setting", "it has no addresses")
        selectors = [row.get(key) for key in ("namespace_selector", "service_selector")]
        parsed = [None if text is None else tuple(parse_selector(text)) for text in selectors]
        tenants = tuple(
            Tenant(str(one["name"]), frozenset(one["namespaces"]), one["max_addresses"])
            for one in row.get("tenants") or ()
        )
        whole, reserved = _usable(parse_pool(row["addresses"])), parse_pool(row.get("reserved") or ())
        for hole in reserved.spans:
            if not any(
                span.version == hole.version and span.first <= hole.last and hole.first <= span.last
                for span in whole.spans
            ):
                raise ValueRefused("bad_setting", f"reserved has {hole}, and none of its addresses is there")
        return NamedPool(
            name,
            whole,
            reserved,
            row.get("auto_assign") is not False,
            row.get("priority") or 0,
            bool(row.get("avoid_buggy_ips")),
            frozenset(row.get("namespaces") or ()),
            parsed[0],
            parsed[1],
            row.get("max_per_namespace"),
            tenants,
        )
    except ValueRefused as error:
        raise ValueRefused(error.reason, f"the pool {quoted(name)}: {error.message}") from None


class Grants(t.NamedTuple):
    """The pools of a cluster and the labels of its namespaces. ``strict``: the inventory names pools, so that an address of none is nobody's."""

    pools: tuple[NamedPool, ...] = ()
    namespace_labels: t.Mapping[str, t.Mapping[str, str]] = {}
    strict: bool = False

    def of(self, namespace: str, labels: t.Mapping[str, str]) -> list[NamedPool]:
        """Those that are granted to a Service, in the order in which they are tried."""
        granted = [
            pool for pool in self.pools if pool.grants(namespace, labels, self.namespace_labels.get(namespace) or {})
        ]
        return sorted(granted, key=lambda pool: (not pool.pinned, pool.priority < 1, pool.priority))

    def name_of(self, address: object) -> str:
        """The pool that has the address, or nothing."""
        parsed = parse_address(address)
        return next((pool.name for pool in self.pools if parsed in pool.pool), "")


class Wish(t.NamedTuple):
    """What a Service wants. ``address`` that it asks for, ``pool`` that it names; empty: any."""

    namespace: str
    name: str
    labels: t.Mapping[str, str] = {}
    version: int = 4
    address: str = ""
    pool: str = ""


def check_wish(grants: Grants, wish: Wish) -> list[NamedPool]:
    """The pools that may serve a wish, in the order in which they are tried. Raises ValueRefused ``outside_grant``, naming what is not granted."""
    granted = grants.of(wish.namespace, wish.labels)
    whom = f"{wish.namespace}/{wish.name}"
    if wish.address:
        asked = parse_address(wish.address)
        found = [pool for pool in granted if asked in pool.pool]
        if not found:
            text = "{0} asks for {1}, which no pool has that is for it; {2} lists those for the namespace {3}"
            raise ValueRefused("outside_grant", text.format(whom, asked, SETTING, quoted(wish.namespace)))
        if not found[0].hands_out(asked):
            text = "{0} asks for {1}, which the pool {2} hands out to nobody (reserved, avoid_buggy_ips of {3})"
            raise ValueRefused("outside_grant", text.format(whom, asked, found[0].name, SETTING))
        return found
    if wish.pool and grants.strict:
        found = [pool for pool in granted if pool.name == wish.pool]
        if not found:
            text = "{0} asks for an address of the pool {1}, which is not for it or not there; {2} lists those for the namespace {3}"
            raise ValueRefused("outside_grant", text.format(whom, quoted(wish.pool), SETTING, quoted(wish.namespace)))
        return found
    return [pool for pool in granted if pool.auto_assign]


def allocate(grants: Grants, wish: Wish, held: Held) -> str:
    """The address for a wish.

    Raises ValueRefused ``outside_grant``, ``claimed_twice``, or ``quota`` where no pool has an address left for it.
    """
    pools = check_wish(grants, wish)
    if wish.address:
        asked = str(parse_address(wish.address))
        if asked in held:
            raise ValueRefused(
                "claimed_twice",
                f"{asked} is asked for and belongs to {quoted(held[asked]) if held[asked] else 'something else'}",
            )
        why = pools[0].limit(wish.namespace, parse_address(asked).version, held)
        if why:
            raise ValueRefused("quota", why)
        return asked
    reasons = []
    for pool in pools:
        if not pool.count(wish.version):
            continue
        why = pool.limit(wish.namespace, wish.version, held)
        address = None if why else pool.lowest(wish.version, held.taken[wish.version])
        if address is not None:
            return str(address)
        reasons.append(why or f"the pool {pool.name} is used up")
    if grants.strict:
        why = (
            "; ".join(reasons)
            or f"no pool of {SETTING} that is given without being asked for has one for the namespace {quoted(wish.namespace)}"
        )
    else:
        why = "make the pool larger or release one"
    raise ValueRefused("quota", f"no IPv{wish.version} address of the pool is free; {why}")


class Usage(t.NamedTuple):
    """How a family of a pool is used. ``total`` that it hands out, ``free`` of those."""

    pool: str
    family: int
    total: int
    used: int
    free: int


def usage(pools: t.Iterable[NamedPool], held: t.Iterable[str]) -> list[Usage]:
    """For every pool and family that it has. ``held``: addresses that are taken, by whomever."""
    taken = [parse_address(text) for text in set(held)]
    rows = []
    for pool in pools:
        for version in sorted({span.version for span in pool.pool.spans}):
            inside = [address for address in taken if address.version == version and address in pool.pool]
            total = pool.count(version)
            rows.append(Usage(pool.name, version, total, len(inside), total - sum(map(pool.hands_out, inside))))
    return rows
