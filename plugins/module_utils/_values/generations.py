# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the second device that carries packets while the key of the first one changes (rotate_keys)."""

from __future__ import annotations

import hashlib
import re
import typing as t

#: What a next_key_file ends with.
_NEXT_KEY = ".next"
#: What the name of a file with a preshared key ends with, after the name of its device.
_PRESHARED = re.compile(r"\.[0-9a-f]{20}\.psk\Z")
#: Devices of a Semaphore mesh and their bypass devices. Both prefixes have the same length, so what fits into 15 bytes does so with either.
PREFIX, _BYPASS = "wireguard.", "wg-rotate."
#: All of them, as a pattern.
BYPASS_DEVICES = _BYPASS + "*"
#: An address that both devices have while keys are rotated, and the device from then on. The kernel takes in packets by a device without an IPv4 address
#: only where it would answer by that device, unless no reverse-path filter is on; with an address, loose mode is what it is called. Taking the last
#: address of a device away would take its routes along. Its scope is the host, so that no packet has it as its source.
HOST_ADDRESS = "169.254.255.254/32"
#: What marks the remote of a bypass device, and the key that is to replace the one of the device: ``gcp/next``. No cluster's name has a slash.
NEXT = "/next"
#: What the device of a KubeSpan mesh, which leads to all nodes, has in place of a remote cluster.
WHOLE_MESH = "kubespan"


def bypass_device(device: str) -> str:
    """The bypass device of a device: ``wg-rotate.gcp`` of ``wireguard.gcp``."""
    return _BYPASS + device[len(PREFIX) :]


def bypass_of_mesh(fabric: str) -> str:
    """The bypass device of a KubeSpan mesh, by its fabric: the device may have any name, and two meshes on one host have two."""
    return _BYPASS + ("span" if fabric == "default" else hashlib.sha256(fabric.encode("utf-8")).hexdigest()[:5])


def other_end(device: str, seen: str) -> str:
    """The name that a tunnel has at its other end, where that is ``device`` or its bypass device. seen: the name at this end."""
    if not is_bypass(seen):
        return device
    return bypass_device(device) if device.startswith(PREFIX) else seen


def same_tunnel(one: str | None, other: str) -> bool:
    """Whether two devices are the same, or a device and its bypass device: while keys are rotated both have the same ranges, and one of them sends."""
    if one == other or one is None:
        return one == other
    return (is_bypass(one) and one == other_end(other, one)) or (is_bypass(other) and other == other_end(one, other))


def is_bypass(device: str) -> bool:
    """Whether a device is a bypass device."""
    return device.startswith(_BYPASS)


def bypass_key_file(path: str) -> str:
    """The key file of a bypass device, alongside that of its device."""
    folder, dummy, name = path.rpartition("/")
    return f"{folder}/{bypass_device(name)}"


def is_bypass_key(path: str) -> bool:
    """Whether a key file is of a bypass device, so that it goes with the device."""
    return is_bypass(path.rpartition("/")[2])


def next_key_file(path: str) -> str:
    """The file of the key that is to replace the one of a device, alongside that."""
    return path + _NEXT_KEY


def is_next_key(path: str) -> bool:
    """Whether a path is one of next_key_file; no device has the key of it."""
    return path.endswith(_NEXT_KEY)


def preshared_file(key_file: str, digest: str) -> str:
    """The file of a preshared key, alongside the private key of its device. digest: at least 20 hexadecimal digits that tell keys apart."""
    return f"{_stem(key_file)}.{digest[:20]}.psk"


def is_preshared_file(path: object, key_files: t.Iterable[str] | None = None) -> bool:
    """Whether a path is one of preshared_file; where key files are given, of one of these or of their bypass devices."""
    found = _PRESHARED.search(path) if isinstance(path, str) and path.startswith("/") else None
    if found is None or key_files is None:
        return found is not None
    stem = found.string[: found.start()]
    return any(stem in (_stem(key), _stem(bypass_key_file(key))) for key in key_files)


def _stem(key_file: str) -> str:
    return key_file[: -len(".key")] if key_file.endswith(".key") else key_file
