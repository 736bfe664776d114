# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that hold one WireGuard key: read without following links, made in one step, never overwritten by chance."""

from __future__ import annotations

import errno
import os
import stat
import typing as t

from ..._values.keys import decode_key_text
from ..._values.refused import ValueRefused
from ..errors import LinuxError, os_reason

#: A key's text has 45 bytes with its newline; nothing longer is one.
_MAX_BYTES = 256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_secret(path: str) -> bytes:
    """The 32 bytes of a key. Raises LinuxError; its text never contains any of the file."""
    text = read_text(path)[0]
    if text is None:
        raise LinuxError("read", path, "there is no such file")
    try:
        return decode_key_text(text)
    except ValueRefused as error:
        raise LinuxError("read", path, error.message) from None


def read_text(path: str) -> t.Tuple[t.Optional[str], t.Optional[os.stat_result]]:
    """(text, file status) of a small regular file; (None, None) when there is none. Raises LinuxError."""
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else os_reason(error)
        raise LinuxError("read", path, reason) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise LinuxError("read", path, "it is not a regular file")
        data = os.read(handle, _MAX_BYTES + 1)
    except OSError as error:
        raise LinuxError("read", path, os_reason(error)) from None
    finally:
        os.close(handle)
    # Latin-1 takes every byte, and what is not base64 is refused by the caller.
    return data.decode("latin-1"), status


def set_private(path: str) -> None:
    """Set a file's mode to 0600, through a handle so that a link put in its place meanwhile is not followed."""
    try:
        handle = os.open(path, _READ)
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    except OSError as error:
        raise LinuxError("set the mode of", path, os_reason(error)) from None


def write_new(path: str, text: str, replace: bool) -> None:
    """Put a file of mode 0600 in place in one step, its content on disk before its name.

    With ``replace`` an existing file gives way, else it is an error: a key that appeared meanwhile is somebody's.
    """
    folder = os.path.dirname(path)
    make_folder(folder)
    spare = "{0}/.{1}.{2}".format(folder, os.path.basename(path), os.urandom(8).hex())
    try:
        handle = os.open(spare, _CREATE, 0o600)
        try:
            os.fchmod(handle, 0o600)
            os.write(handle, text.encode("ascii"))
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            if replace:
                os.rename(spare, path)
            else:
                os.link(spare, path)
        finally:
            if os.path.lexists(spare):
                os.unlink(spare)
        sync_folder(folder)
    except OSError as error:
        raise LinuxError("write", path, os_reason(error)) from None


def make_folder(folder: str) -> None:
    """Make the folder with mode 0755 when it is missing, and refuse one in which others could swap our files."""
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder, 0o755)
            os.chmod(folder, 0o755)
        status = os.stat(folder)
    except OSError as error:
        raise LinuxError("make", folder, os_reason(error)) from None
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise LinuxError("use", folder, "other users than root may write into it")


def sync_folder(folder: str) -> None:
    """Make a change of names in a folder last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
