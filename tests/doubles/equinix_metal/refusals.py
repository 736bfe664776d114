# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API's description does not allow in a request: each function gives the messages of its 422, none for a good one.

A double that takes what the service refused lets mistakes through, so in doubt it is the stricter of the two.
"""

from __future__ import annotations

import re

MD5 = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{10,20}\Z")
METROS = {
    "am": ("Amsterdam", "NL"),
    "at": ("Atlanta", "US"),
    "ch": ("Chicago", "US"),
    "da": ("Dallas", "US"),
    "dc": ("Washington DC", "US"),
    "fr": ("Frankfurt", "DE"),
    "hk": ("Hong Kong", "HK"),
    "la": ("Los Angeles", "US"),
    "ld": ("London", "GB"),
    "md": ("Madrid", "ES"),
    "ny": ("New York", "US"),
    "pa": ("Paris", "FR"),
    "se": ("Seattle", "US"),
    "sg": ("Singapore", "SG"),
    "sp": ("Sao Paulo", "BR"),
    "sv": ("Silicon Valley", "US"),
    "sy": ("Sydney", "AU"),
    "tr": ("Toronto", "CA"),
    "ty": ("Tokyo", "JP"),
}
FACILITY = re.compile(r"([a-z]{2})[0-9]{1,2}\Z")
TYPES = ("public_ipv4", "global_ipv4")
#: Addresses of one block -> its prefix length.
SIZES = {1 << (32 - length): length for length in range(24, 33)}
SESSIONS = {"ipv4": 4, "ipv6": 6}


def is_number(value, most):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def order(body, facilities):
    """Of an address. ``facilities``: whether they are still taken, as before the end of 2023."""
    found = []
    if body.get("type") not in TYPES:
        found.append(f"type must be one of {', '.join(TYPES)}")
    if not is_number(body.get("quantity"), 256) or body["quantity"] not in SIZES:
        found.append("quantity must be a power of two up to 256")
    metro, facility = body.get("metro"), body.get("facility")
    if facility is not None and not facilities:
        found.append("facility is no longer supported")
    elif facility is not None and not (
        isinstance(facility, str) and FACILITY.match(facility.lower()) and facility.lower()[:2] in METROS
    ):
        found.append(f"facility {facility} is unknown")
    if metro is not None and not (isinstance(metro, str) and metro.lower() in METROS):
        found.append(f"metro {metro} is unknown")
    if metro is None and facility is None and body.get("type") == "public_ipv4":
        found.append("metro or facility is required")
    tags = body.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        found.append("tags must be a list of texts")
    if not isinstance(body.get("customdata", {}), dict):
        found.append("customdata must be an object")
    return found


def bgp_config(body, held):
    """Of a project that has ``held`` now, {} for none. An empty password is none: upstream sends it always."""
    found = []
    if body.get("deployment_type") not in ("local", "global"):
        found.append("deployment_type must be local or global")
    if not is_number(body.get("asn"), 4294967295):
        found.append("asn is required")
    if body.get("md5") not in (None, "") and not (isinstance(body["md5"], str) and MD5.match(body["md5"])):
        found.append("Md5 is invalid")
    if held and held["status"] != "disabled":
        found.append("BGP is already enabled for this project")
    return found


def session(body, bgp, held):
    """Of a device with the sessions ``held``, in a project with ``bgp``."""
    family = body.get("address_family")
    if not bgp or bgp["status"] != "enabled":
        return ["BGP is not enabled for the project"]
    if family not in SESSIONS:
        return [f"address_family must be one of {', '.join(sorted(SESSIONS))}"]
    if any(item["address_family"] == family for item in held):
        return [f"Address family already has session with {family}"]
    return []
