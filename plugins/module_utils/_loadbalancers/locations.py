# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an address is reserved: one place for all, or each Service's own (ccm 4)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .identities import DEFAULT_DOMAIN

METRO, FACILITY = "metro", "facility"


class Places(t.NamedTuple):
    """What is configured. ``host_facility`` is what the host's metadata says, the seed's last resort."""

    metro: str = ""
    facility: str = ""
    host_facility: str = ""
    metro_annotation: str = DEFAULT_DOMAIN + "/eip-metro"
    facility_annotation: str = DEFAULT_DOMAIN + "/eip-facility"


def location_of(annotations: t.Optional[t.Mapping[str, str]], places: Places) -> t.Dict[str, str]:
    """``{"metro": code}`` or ``{"facility": code}``. Raises ValueRefused ``no_location``."""
    given = annotations or {}
    for kind, text in (
        (METRO, given.get(places.metro_annotation)),
        (FACILITY, given.get(places.facility_annotation)),
        (METRO, places.metro),
        (FACILITY, places.facility),
        (FACILITY, places.host_facility),
    ):
        if text:
            if not isinstance(text, str) or len(text) > 63 or not text.isascii() or not text.isprintable():
                raise ValueRefused("no_location", "{0} is no {1}".format(quoted(text), kind))
            return {kind: text}
    raise ValueRefused("no_location", "no metro or facility is known; set metro in load_balancers_settings, or annotate the Service")
