# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""WireGuard's keys on a host (semaphore 3.3): their files, and what both back ends tell a device of them and read from it.

A file is read without following links, made in one step and never overwritten by chance. Only public keys leave this module, except
towards the device.
"""

from __future__ import annotations

import base64
import errno
import os
import stat
import typing as t

from ..._dataplane.peer_spec import LivePeer, Preshared
from ..._values.keys import clamp, decode_key_text, encode_key, fingerprint, public_key
from ..._values.refused import ValueRefused
from .. import files
from ..errors import LinuxError, failing, os_reason

#: A key's text has 45 bytes with its newline; nothing longer is one.
_MAX_BYTES = 256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NO_KEY = bytes(32)


def read_secret(path: str) -> bytes:
    """The 32 bytes of a key. Raises LinuxError; its text never contains any of the file."""
    text = read_text(path)[0]
    if text is None:
        raise LinuxError("read", path, "there is no such file")
    try:
        return decode_key_text(text)
    except ValueRefused as error:
        raise LinuxError("read", path, error.message) from None


def read_text(path: str) -> tuple[str | None, os.stat_result | None]:
    """(text, file status) of a small regular file; (None, None) when there is none. Raises LinuxError."""
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else os_reason(error)
        raise LinuxError("read", path, reason) from None
    with failing("read", path):
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise LinuxError("read", path, "it is not a regular file")
            data = os.read(handle, _MAX_BYTES + 1)
        finally:
            os.close(handle)
    # Latin-1 takes every byte, and what is not base64 is refused by the caller.
    return data.decode("latin-1"), status


def write_new(path: str, text: str, replace: bool) -> None:
    """Put a file of mode 0600 in place in one step, its content on disk before its name.

    With ``replace`` an existing file gives way, else it is an error: a key that appeared meanwhile is somebody's.
    """
    folder = os.path.dirname(path)
    make_folder(folder)
    spare = f"{folder}/.{os.path.basename(path)}.{os.urandom(8).hex()}"
    with failing("write", path):
        try:
            with os.fdopen(os.open(spare, _CREATE, 0o600), "wb") as target:
                os.fchmod(target.fileno(), 0o600)
                target.write(text.encode("ascii"))
                target.flush()
                os.fsync(target.fileno())
            if replace:
                os.rename(spare, path)
            else:
                os.link(spare, path)
        finally:
            if os.path.lexists(spare):
                os.unlink(spare)
        sync_folder(folder)


def make_folder(folder: str) -> None:
    """Make the folder with mode 0755 when it is missing, and refuse one in which others could swap our files."""
    with failing("make", folder):
        files.make_folder(folder)
        status = os.stat(folder)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise LinuxError("use", folder, "other users than root may write into it")


def sync_folder(folder: str) -> None:
    """Make a change of names in a folder last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class KeyFile:
    """One key file by its absolute path."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise LinuxError("use", path, "a key file is named by an absolute path")
        self.path = path

    def state(self) -> dict[str, t.Any]:
        """``{"state": absent|key|unusable, "public_key": text|None, "mode": "0600"|None, "message": text|None}``."""
        try:
            text, status = read_text(self.path)
            if text is None or status is None:
                return {"state": "absent", "public_key": None, "mode": None, "message": None}
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            public = public_key(decode_key_text(text))
            return {"state": "key", "public_key": public, "mode": mode, "message": None}
        except (LinuxError, ValueRefused) as error:
            return {"state": "unusable", "public_key": None, "mode": None, "message": error.message}

    def private_key(self) -> bytes:
        """The 32 bytes, for the device's ``configure`` and nobody else."""
        return read_secret(self.path)

    def ensure(self) -> str:
        """Make the key unless the file exists, set its mode to 0600, return the public key. Raises LinuxError."""
        found = self.state()
        if found["state"] == "unusable":
            raise LinuxError("use", self.path, found["message"])
        if found["state"] == "absent":
            return self._write(replace=False)
        if found["mode"] != "0600":
            files.set_mode(self.path, 0o600)
        return str(found["public_key"])

    def rotate(self) -> str:
        """Put a new key in place of the old one in one step, return the new public key."""
        if self.state()["state"] == "unusable":
            raise LinuxError("rotate", self.path, "what is there is no key, and it is never overwritten")
        return self.write_anew()

    def write_anew(self) -> str:
        """Put a new key in place of whatever the file holds, return the new public key. Raises LinuxError."""
        return self._write(replace=True)

    def copy(self, source: KeyFile) -> str:
        """Put the key of another file into this one in one step; one that is missing there is made there. Returns the public key. Raises LinuxError."""
        public = source.ensure()
        write_new(self.path, encode_key(source.private_key()), replace=True)
        return public

    def succeed(self, following: KeyFile) -> str:
        """Let the key of another file take the place of this one in one step; where it has none, a new one. Returns the public key. Raises LinuxError."""
        found = following.state()
        if found["state"] != "key":
            return self.rotate()
        with failing("rename", following.path):
            os.rename(following.path, self.path)
            sync_folder(os.path.dirname(self.path))
        return str(found["public_key"])

    def remove(self) -> bool:
        """Delete the file. True when there was one."""
        with failing("remove", self.path):
            there = files.remove(self.path)
            if there:
                sync_folder(os.path.dirname(self.path))
        return there

    def _write(self, replace: bool) -> str:
        private = clamp(os.urandom(32))
        write_new(self.path, encode_key(private), replace)
        return public_key(private)


class PeerReader:
    """Peers in the order in which they come. One with thousands of allowed IPs comes in several parts."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, t.Any]] = {}
        self._ranges: dict[str, list[str]] = {}

    def part(self, key: str) -> tuple[dict[str, t.Any], list[str]]:
        """(LivePeer's fields, allowed IPs) of a peer, to be added to; later parts say nothing but more allowed IPs."""
        return self._fields.setdefault(key, {}), self._ranges.setdefault(key, [])

    def peers(self) -> dict[str, LivePeer]:
        return {key: LivePeer(allowed_ips=tuple(self._ranges[key]), **fields) for key, fields in self._fields.items()}


def handshake_time(seconds: int, nanoseconds: int) -> float:
    """One number; a whole second less would make a handshake older than the endpoint that was set just before it."""
    return seconds + nanoseconds / 1e9 if seconds and nanoseconds else seconds


def read_preshared_key(desired: Preshared) -> bytes:
    """The 32 bytes to send for a step; all zero makes the peer forget its key."""
    if desired.raw is not None:
        return base64.b64decode(desired.raw)
    return NO_KEY if desired.file is None else read_secret(desired.file)


def preshared_fingerprint(path: str) -> str | None:
    """The fingerprint of a preshared key's file; None when it holds no key that can be read."""
    try:
        return fingerprint(encode_key(read_secret(path)))
    except LinuxError:
        return None
