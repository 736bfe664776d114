# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the kernel (sysctl): what they are, which files of the host set them; and what others add to an owned unit."""

from __future__ import annotations

import fnmatch
import os
import pwd

from ..files import read_lines

_ROOT = "/proc/sys/"
#: Where the host's settings and units are kept, as sysctl.d(5) and systemd.unit(5) have them.
SETTING_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
SETTING_FILES = ("/etc/sysctl.conf",)
UNIT_FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


def name_of(*parts: str) -> str:
    """The name of a setting as people write it; a device's name keeps its dots, with slashes for the others then."""
    return ("." if not any("." in part for part in parts) else "/").join(parts)


def read(*parts: str) -> int | None:
    """A setting that is a number; None where it is not there, as for a device that is not."""
    try:
        with open(_ROOT + "/".join(parts), encoding="ascii") as source:
            return int(source.read().strip())
    except (OSError, ValueError):
        return None


def write(value: int, *parts: str) -> bool:
    """True when it has been set; False where it is not there."""
    try:
        with open(_ROOT + "/".join(parts), "w", encoding="ascii") as target:
            target.write(str(value))
    except OSError:
        return False
    return True


def reverse_path_filter(device: str) -> int | None:
    """The device's own filter of IPv4, None where it has none. The effective one is the larger of this and that of ``all``."""
    return read("net", "ipv4", "conf", device, "rp_filter")


def set_reverse_path_filter(device: str, value: int) -> bool:
    """True when it was something else and has been set."""
    return reverse_path_filter(device) not in (None, value) and write(value, "net", "ipv4", "conf", device, "rp_filter")


#: What switches IPv6 off, for devices that are there and for those to come.
IPV6_OFF = ("net", "ipv6", "conf", "all", "disable_ipv6")


def without_ipv6(device: str) -> bool:
    """Whether the kernel takes no IPv6 on a device: switched off for it, for all when it comes, or not there at all."""
    own = read(*IPV6_OFF[:3], device, IPV6_OFF[4])
    value = read(*IPV6_OFF[:3], "default", IPV6_OFF[4]) if own is None else own
    return value != 0


def ipv6_off() -> dict[str, str] | None:
    """{name, value, set_by} of what keeps IPv6 off on devices that come; None where it is on."""
    for where in ("all", "default"):
        parts = (*IPV6_OFF[:3], where, IPV6_OFF[4])
        value = read(*parts)
        if value not in (None, 0) and without_ipv6("default"):
            return {"name": name_of(*parts), "value": str(value), "set_by": "; ".join(set_by(*parts))}
    return (
        {"name": "ipv6.disable", "value": "1", "set_by": "the kernel's command line"}
        if read(*IPV6_OFF[:3], "default", IPV6_OFF[4]) is None
        else None
    )


def set_by(*parts: str) -> list[str]:
    """``FILE sets VALUE`` for every file of the host that sets it, also by a pattern, in the order in which they are applied."""
    desired, found = "/".join(parts), []
    for path in _files():
        for line in read_lines(path):
            key, equals, value = line.strip().partition("=")
            if (
                equals
                and not key.startswith(("#", ";"))
                and fnmatch.fnmatchcase(desired, _path(key.strip().lstrip("-")))
            ):
                found.append(f"{path} sets {value.strip()[:20]}")
    return found


def _path(key: str) -> str:
    """net.ipv4.ip_forward and net/ipv4/ip_forward are one: the sign that comes first is the separator, and the other one is of the name."""
    first = min((key.find(sign), sign) for sign in "./" if sign in key)[1] if any(sign in key for sign in "./") else "/"
    return key if first == "/" else key.translate(str.maketrans("./", "/."))


def _files() -> list[str]:
    by_name = {name: folder + "/" + name for folder in reversed(SETTING_FOLDERS) for name in _drop_ins(folder)}
    return [by_name[name] for name in sorted(by_name)] + list(SETTING_FILES)


def _drop_ins(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".conf")]
    except OSError:
        return []


def drop_ins(unit: str) -> list[tuple[str, str]]:
    """(path, owner) of every file that changes a unit alongside its own file, sorted; drop-ins for all services are not among them."""
    found = {}
    prefixes = [unit]
    stem, _dot, kind = unit.rpartition(".")
    while "-" in stem:  # foo-bar.service is changed by foo-.service.d too
        stem = stem.rpartition("-")[0]
        prefixes.append(f"{stem}-.{kind}")
    for folder in UNIT_FOLDERS:
        for prefix in prefixes:
            place = f"{folder}/{prefix}.d"
            for name in _drop_ins(place):
                path = os.path.realpath(place) + "/" + name
                found[path] = _owner(path)
    return sorted(found.items())


def _owner(path: str) -> str:
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
