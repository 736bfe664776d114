# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others, read strictly: case, digits and blanks of ASCII alone, numbers, names, JSON, maps in data that anybody wrote.

``str.lower`` makes ``k`` of the Kelvin sign, ``str.isdigit`` takes digits that ``int`` refuses, ``str.strip`` takes away blanks
that no other program does: a name that only matches after such a change is another name, and somebody chose it for that. Python's
int() takes blanks, signs, underscores and non-ASCII digits; the specs do not.
"""

from __future__ import annotations

import json
import re
import string
import typing as t

from .refused import ValueRefused, quoted

BLANKS = " \t\r\n"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,18})\Z")
_CLUSTER = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z")


def lower(text: str) -> str:
    """The text with A to Z in lower case; every other character stays what it is."""
    return text.translate(_LOWER)


def is_digits(text: str) -> bool:
    """True for one or more of 0 to 9."""
    return text.isascii() and text.isdigit()


def is_alnum(text: str) -> bool:
    """True for one or more ASCII letters and digits."""
    return text.isascii() and text.isalnum()


def is_graphic(text: str) -> bool:
    """True for text of visible ASCII characters alone: no blank anywhere, no control, nothing beyond ASCII."""
    return text.isascii() and text.isprintable() and " " not in text


def parse_decimal(text: object, reason: str = "bad_number") -> int:
    """A non-negative decimal of at most 19 digits without sign, blanks or leading zeros, or an int."""
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueRefused(reason, f"{text} is negative")
        return text
    if not isinstance(text, str) or not _DECIMAL.match(text):
        raise ValueRefused(reason, f"{quoted(text)} is not a plain decimal number")
    return int(text)


def parse_port(text: object, reason: str = "port_out_of_range") -> int:
    """A UDP or TCP port, 1 to 65535."""
    port = parse_decimal(text, reason)
    if not 1 <= port <= 65535:
        raise ValueRefused(reason, f"port {port} is not between 1 and 65535")
    return port


def parse_json(text: object, reason: str = "bad_json") -> t.Any:
    """One JSON document. NaN, Infinity and anything behind the document are refused."""
    if not isinstance(text, str):
        raise ValueRefused(reason, "the configuration is not text")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueRefused(reason, f"the configuration is not JSON: {quoted(error)}") from None


def _no_constant(name: str) -> t.NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_object(text: object, reason: str = "bad_json") -> dict[str, t.Any]:
    """One JSON object; null is an empty one."""
    found = parse_json(text, reason)
    if found is not None and not isinstance(found, dict):
        raise ValueRefused(reason, "the configuration is not an object")
    return found or {}


def mapping(value: t.Any, *path: str) -> dict[str, t.Any]:
    """The map at a path inside of data; {} where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def list_of(value: t.Any) -> list[t.Any]:
    """The value where it is a list; of anything else there is nothing."""
    return value if isinstance(value, list) else []


def dicts_of(value: t.Any) -> list[dict[str, t.Any]]:
    """The mappings of a list; of anything else there are none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: t.Any) -> str:
    """The value where it is a text; of anything else an empty one."""
    return value if isinstance(value, str) else ""


def in_short(texts: t.Sequence[str], most: int, joint: str = ", ") -> str:
    """The first texts, at most so many, and how many more there are."""
    more = len(texts) - most
    return joint.join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def field(values: t.Mapping[str, t.Any], key: str) -> t.Any:
    """The value of a key in any case, None when it is absent. The exact spelling wins, then the last of the others."""
    if key in values:
        return values[key]
    found = [name for name in values if lower(name) == lower(key)]
    return values[found[-1]] if found else None


def parse_cluster_name(text: object, reason: str = "cluster_name_not_dns_label") -> str:
    """A cluster's name: it becomes part of annotation keys, labels, object, DNS and device names (semaphore 2.1)."""
    if not isinstance(text, str) or len(text) > 63 or not _CLUSTER.match(text):
        raise ValueRefused(reason, f"{quoted(text)} is not a DNS label that begins with a letter")
    return text


def parse_subdomain(text: object, reason: str = "name_invalid") -> str:
    """A Kubernetes object name: a DNS subdomain of at most 253 characters."""
    if not isinstance(text, str) or len(text) > 253 or not _SUBDOMAIN.match(text):
        raise ValueRefused(reason, f"{quoted(text)} is not a DNS subdomain")
    return text


def check_interface_name(name: object) -> str:
    """A Linux device name: 1 to 15 bytes, no white space, slash or colon, not ``.`` or ``..`` (semaphore 3.2, 11.2).

    The first failing check names the reason, in the specification's order: length, space, slash, other characters.
    """
    if not isinstance(name, str):
        raise ValueRefused("device_name_invalid_char", f"{quoted(name)} is not a device name")
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= 15:
        raise ValueRefused("device_name_too_long", f"{quoted(name)} is not 1 to 15 bytes long")
    if " " in name:
        raise ValueRefused("device_name_has_space", f"{quoted(name)} contains a space")
    if "/" in name:
        raise ValueRefused("device_name_has_slash", f"{quoted(name)} contains a slash")
    if name in (".", "..") or ":" in name or any(ch.isspace() or ord(ch) < 32 or ord(ch) == 127 for ch in name):
        raise ValueRefused("device_name_invalid_char", f"{quoted(name)} has a character that Linux refuses")
    return name
