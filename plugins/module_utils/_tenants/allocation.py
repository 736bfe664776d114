# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network IDs and public addresses: the next free one, or the wanted one (19.1, 19.2)."""

from __future__ import annotations

import re
import typing as t

from .._values.addresses import Network, contains, parse_address, parse_network
from .._values.refused import ValueRefused, quoted
from .fields import Object, name, namespace, show_address, uid
from .profile import ONMETAL, Profile

#: The range of network IDs that the original hands out, both ends included.
MIN_ID, MAX_ID = 200, 16777215

# A sign is allowed as in the original's parser; int() would also take blanks, underscores and other digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,32}\Z", re.ASCII)


def check_range(lowest: int, highest: int) -> None:
    """Raises ValueRefused unless 0 <= lowest < highest."""
    if not 0 <= lowest < highest:
        raise ValueRefused("invalid_range", "0 <= {0} < {1} does not hold".format(lowest, highest))


def next_id(taken: t.Container[str], wanted: t.Any = None, lowest: int = MIN_ID, highest: int = MAX_ID, start: int = 0) -> str:
    """The wanted ID or the first free one from ``start`` on, with wrap-around.

    Refused with ``invalid_vni``, ``not_in_range``, ``allocated`` or ``full``.
    """
    check_range(lowest, highest)
    if wanted not in (None, ""):
        if not isinstance(wanted, str) or not _NUMBER.match(wanted) or not -(2**31) <= int(wanted) < 2**31:
            raise ValueRefused("invalid_vni", "{0} is no decimal number of 32 bits".format(quoted(wanted)))
        number = int(wanted)
        if not lowest <= number <= highest:
            raise ValueRefused("not_in_range", "{0} is not in {1} to {2}".format(number, lowest, highest))
        if str(number) in taken:
            raise ValueRefused("allocated", "{0} is taken".format(number))
        return str(number)
    size = highest - lowest + 1
    for offset in range(size):
        free = str(lowest + (start + offset) % size)
        if free not in taken:
            return free
    raise ValueRefused("full", "every ID from {0} to {1} is taken".format(lowest, highest))


def next_address(
    prefixes: t.Sequence[t.Union[str, Network]], family: t.Any, taken: t.Container[str], wanted: t.Any = None, start: int = 0
) -> str:
    """The wanted address or the first free one of the family's prefixes; their first and last are handed out too.

    Refused with ``no_prefix``, ``bad_address``, ``not_in_range``, ``allocated`` or ``full``.
    """
    ranges = [parse_network(prefix) if isinstance(prefix, str) else prefix for prefix in prefixes]
    ranges = [prefix for prefix in ranges if "IPv{0}".format(prefix.version) == family]
    if not ranges:
        raise ValueRefused("no_prefix", "there is no prefix of family {0}".format(quoted(family)))
    if wanted not in (None, ""):
        address = parse_address(wanted)
        if not any(contains(prefix, parse_network("{0}/{1}".format(address, address.max_prefixlen))) for prefix in ranges):
            raise ValueRefused("not_in_range", "{0} is in none of the prefixes".format(address))
        if show_address(address) in taken:
            raise ValueRefused("allocated", "{0} is taken".format(address))
        return show_address(address)
    for prefix in ranges:
        size = prefix.num_addresses
        for offset in range(size):
            found = show_address(prefix[(start + offset) % size])
            if found not in taken:
                return found
    raise ValueRefused("full", "every address of family {0} is taken".format(quoted(family)))


def claim_reference(resource: str, claimer: Object, namespaced: bool = True, profile: Profile = ONMETAL) -> t.Dict[str, str]:
    """Whom an ID or an address belongs to."""
    found = {"group": profile.apinet.partition("/")[0], "resource": resource}
    if namespaced:
        found["namespace"] = namespace(claimer)
    return dict(found, name=name(claimer), uid=uid(claimer))


def address_labels(address: str, family: str, profile: Profile = ONMETAL) -> t.Dict[str, str]:
    """The labels of an IP object. A label cannot have colons."""
    prefix = profile.server_label_prefix
    return {prefix + "ip-family": family, prefix + "ip": address.replace(":", "-").strip("-") or "0"}


def address_object_name(address: str) -> str:
    """The name of an IPAddress: colons are not allowed in names of custom resources, nor dashes at their ends."""
    text = address.replace(":", "-")
    return ("0" if text.startswith("-") else "") + text + ("0" if text.endswith("-") else "")
