# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's own files must look like before anything is concluded from them: the journal of a change, the confirmed state.

A disk that was full, a power cut or a hand leaves files that are half there, or another program's. What is checked is every
value that decides which file is written, which device is removed or which process is ended.
"""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted

Data = dict[str, t.Any]
REASON = "journal_invalid"
FORMATS = (1,)

_IDENT = re.compile(r"[0-9a-f]{16}\Z", re.ASCII)
_DEVICE = re.compile(r"[!-.0-~]{1,15}\Z", re.ASCII)  # what the kernel takes, without the slash
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z", re.ASCII)
_NUMBER = (int, float)

_LINK = {
    "implementation": (str, type(None)),
    "mtu": int,
    "txqueuelen": int,
    "alias": (str, type(None)),
    "up": bool,
    "addresses": [str],
}
_PEER = {
    "endpoint": (str, type(None)),
    "allowed_ips": [str],
    "persistent_keepalive": (int, type(None)),
    "preshared_key": (str, type(None)),
    "last_handshake": _NUMBER + (type(None),),
}
_ROUTE = {"dst": str, "metric": int, "type": str, "protocol": int, "dev": (str, type(None))}


def parse_journal(found: t.Any, fabric: str, code_folder: str) -> Data:
    """The journal as it was read (JSON), when this fabric wrote it. Raises ValueRefused ``journal_invalid`` with the part that is not.

    code_folder: below which the boot program of the fabric is.
    """
    _expect(
        found,
        {
            "format": int,
            "fabric": str,
            "id": str,
            "seconds": int,
            "persist": bool,
            "armed": str,
            "writer": list,
            "devices": dict,
            "routes": [_ROUTE],
            "route_devices": [str],
            "files": dict,
            "code": (str, type(None)),
            "applied_at": _NUMBER + (type(None),),
        },
        "journal",
    )
    if found["format"] not in FORMATS:
        raise ValueRefused(
            REASON, f"its format is {found['format']}; this release reads {', '.join(map(str, FORMATS))}"
        )
    if found["fabric"] != fabric:
        raise ValueRefused(REASON, f"it is of fabric {quoted(found['fabric'])}")
    if not _IDENT.match(found["id"]):
        raise ValueRefused(REASON, f"{quoted(found['id'])} is no number of a change")
    writer = found["writer"]
    if len(writer) != 2 or not _is(writer[0], int) or not _is(writer[1], _NUMBER + (type(None),)):
        raise ValueRefused(REASON, f"writer: {quoted(writer)} names no process")
    if found["code"] is not None and not (is_plain_path(found["code"]) and found["code"].startswith(code_folder + "/")):
        raise ValueRefused(REASON, f"code: {quoted(found['code'])} is no program of this collection")
    for name, device in found["devices"].items():
        if not _DEVICE.match(name) or name in (".", ".."):
            raise ValueRefused(REASON, f"devices: {quoted(name)} is no name of a device")
        if device is not None:
            _expect(device, {"link": _LINK, "wireguard": dict, "secrets": dict}, "devices: " + name)
            if device["link"]["implementation"]:
                _wireguard(name, device)
    for path, entry in found["files"].items():
        _file(path, entry)
    for part in ("kubespan", "tables"):
        if not _is(found.get(part), (dict, type(None))):
            raise ValueRefused(REASON, f"{part}: it is no map")
    return t.cast(Data, found)


def _wireguard(name: str, device: Data) -> None:
    where = "devices: " + name
    _expect(
        device["wireguard"], {"listen_port": int, "fwmark": int, "public_key": (str, type(None)), "peers": dict}, where
    )
    _expect(device["secrets"], {"private_key": (str, type(None)), "preshared": dict}, where)
    for peer in device["wireguard"]["peers"].values():
        _expect(peer, _PEER, where)
    if device["secrets"]["private_key"] is not None and not _BASE64.match(device["secrets"]["private_key"]):
        raise ValueRefused(REASON, f"{where}: its secrets are none")  # never quoted


def _file(path: str, entry: t.Any) -> None:
    if not is_plain_path(path):
        raise ValueRefused(REASON, f"files: {quoted(path)} is no plain absolute path")
    if entry is None:
        return
    _expect(entry, {"kind": str, "mode": int, "content": str}, "files: " + path)
    if entry["kind"] not in ("file", "link") or not 0 <= entry["mode"] <= 0o777 or not _BASE64.match(entry["content"]):
        raise ValueRefused(REASON, f"files: {quoted(path)} is kept as no file and no link")


def is_plain_path(path: t.Any) -> bool:
    """An absolute path of a file, without a way up."""
    if not isinstance(path, str) or not path.startswith("/") or path.endswith("/") or "\0" in path or len(path) > 4096:
        return False
    return ".." not in path.split("/")


def check_release(found: Data, fabric: str, path: str) -> None:
    """Raise ValueRefused ``state_of_later_release`` where a state file (JSON) of the fabric has a format that comes after those read here.

    Taken for no state at all it would be written anew, and what only the later release has made would be forgotten.
    """
    written = found.get("format")
    if found.get("fabric") != fabric or not isinstance(written, int) or isinstance(written, bool):
        return
    if written > max(FORMATS):
        raise ValueRefused(
            "state_of_later_release",
            f"{path} was written by a later release: its format is {written}, this one reads {max(FORMATS)}; "
            "run the collection that wrote it, or go back as its guide on upgrading has it",
        )


def is_state(found: t.Any, fabric: str) -> bool:
    """Whether something that was read (JSON) is a confirmed state of a fabric; what is none is written anew by the next run."""
    try:
        _expect(
            found,
            {"fabric": str, "devices": [{"name": str, "private_key_file": str, "peers": [{"public_key": str}]}]},
            "state",
        )
        keys, kubespan = found.get("key_files", []), found.get("kubespan")
        _expect(keys, [str], "key_files")
        for name in ("tables", "address_tables"):
            _expect(found.get(name, []), [dict], name)
        if kubespan is not None:
            _expect(kubespan, {"peers": [{"public_key": str}]}, "kubespan")
    except ValueRefused:
        return False
    plain = all(map(is_plain_path, [*keys, *(device["private_key_file"] for device in found["devices"])]))
    return plain and found["fabric"] == fabric and found.get("format", 1) in FORMATS


def _is(value: t.Any, kinds: t.Any) -> bool:
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, bool):  # a bool is an int for Python only
        return bool in kinds
    return isinstance(value, kinds)


def _expect(value: t.Any, shape: t.Any, where: str) -> None:
    """Raise unless a value has a shape: a type, a tuple of types, [shape of every entry], {key: shape} of a map that may hold more."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueRefused(REASON, f"{where}: it is no list")
        for entry in value:
            _expect(entry, shape[0], where)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise ValueRefused(REASON, f"{where}: it is no map")
        for key, inner in shape.items():
            if key not in value:
                raise ValueRefused(REASON, f"{where}: {key} is missing")
            _expect(value[key], inner, f"{where}.{key}")
    elif not _is(value, shape):
        raise ValueRefused(REASON, f"{where}: it is of the wrong type")
