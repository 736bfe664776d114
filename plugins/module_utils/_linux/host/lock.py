# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on a host: files in folders that only their user can enter, taken by flock, so that no other user can hold one.

The kernel frees such a lock with its process, however that ends. The file names the holder, and goes with the lock when that is
given back; what a killed process left is taken like a new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
import types
import typing as t

from ..errors import LinuxError, os_reason
from . import processes

Data = dict[str, t.Any]
#: A holder's record of itself is never longer.
_MAX_BYTES = 64 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 500
#: Root's alone, and alongside nothing that others may read.
FOLDER = "/run/multicluster-network-lock"
_PAUSE = 0.1


class LockFile:
    """The lock ``name`` in ``folder``; ``take`` once."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = f"{folder}/{name}"
        self._folder, self._name = folder, name
        self._handle: int | None = None

    def take(self, record: t.Mapping[str, t.Any]) -> bool:
        """True when this process has it now, with ``record`` in it; False when another one has it. Raises LinuxError."""
        for _attempt in range(_TRIES):
            folder = open_own_folder(self._folder)
            try:
                handle = self._open(folder)
                if handle is None:
                    continue
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(handle)
                    return False
                if not _is_named(handle, self._name, folder):
                    os.close(handle)  # its holder gave it back, and the file went with it
                    continue
                self._handle = handle
                try:
                    self.tell(record)
                except OSError:
                    self.release()  # nobody could find out who has it, its own run neither
                    raise
                return True
            except OSError as error:
                raise LinuxError("lock", self.path, os_reason(error)) from None
            finally:
                os.close(folder)
        raise LinuxError("lock", self.path, "it is put there and taken away all the time")

    def _open(self, folder: int) -> int | None:
        """The file, owned by this user and nobody else; None when something was in the way that is away now."""
        try:
            handle = os.open(self._name, _FILE, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                _clear(self._name, folder)
                return None
            if error.errno == errno.ENOENT:
                return None  # the last holder removed the folder with its file
            raise
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink > 1:
            os.close(handle)
            _clear(self._name, folder)
            return None
        if stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(handle, 0o600)
        return handle

    def tell(self, record: t.Mapping[str, t.Any]) -> None:
        """Change what others read while we hold it."""
        if self._handle is not None:
            text = json.dumps(record, sort_keys=True).encode("utf-8")
            # in this order a record takes the room of the last one, which a full disk still has
            os.pwrite(self._handle, text, 0)
            os.ftruncate(self._handle, len(text))

    def record(self) -> Data:
        """The last holder's record of itself; {} when there is none. It may have ended since."""
        return read_record(self._folder, self._name)

    def release(self) -> None:
        """Give it back; the file goes first, and the folder when nothing else is in it."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        with contextlib.suppress(OSError, LinuxError):
            folder = open_own_folder(self._folder)
            try:
                if _is_named(handle, self._name, folder):
                    os.unlink(self._name, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(self._folder)
        os.close(handle)


def read_record(folder: str, name: str) -> Data:
    """The content of a lock's file; {} for everything that is no map."""
    try:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        found = json.loads(os.read(handle, _MAX_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(handle)
    return found if isinstance(found, dict) else {}


def open_own_folder(path: str) -> int:
    """A handle of a folder of mode 0700 that this user owns; made when it is missing, its mode put right. Raises LinuxError."""
    for _attempt in range(_TRIES):
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            handle = os.open(path, _FOLDER)
        except FileNotFoundError:
            continue  # somebody removed it meanwhile, as empty
        except FileExistsError:
            if _is_no_folder(path):
                raise LinuxError("use", path, "it is no folder") from None
            continue
        except OSError as error:
            reason = (
                "it is a symbolic link or no folder"
                if error.errno in (errno.ELOOP, errno.ENOTDIR)
                else os_reason(error)
            )
            raise LinuxError("use", path, reason) from None
        try:
            found = os.fstat(handle)
            if found.st_uid != os.geteuid():
                raise LinuxError("use", path, f"it belongs to another user ({found.st_uid})")
            _mind_parents(path)
            if found.st_mode & 0o077:
                os.fchmod(handle, 0o700)
        except OSError as error:
            os.close(handle)
            raise LinuxError("use", path, os_reason(error)) from None
        except LinuxError:
            os.close(handle)
            raise
        return handle
    raise LinuxError("use", path, "it is made and removed all the time")


def _is_no_folder(path: str) -> bool:
    """Whether something other than a folder is there. One look: another run may remove the folder between two."""
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return os.path.islink(path)  # one that leads nowhere


def _mind_parents(path: str) -> None:
    """Whoever may write above a folder can put another one in its place; a sticky folder (/tmp) does not let him."""
    above = os.path.dirname(os.path.realpath(path))
    while True:
        mode = os.stat(above).st_mode
        if mode & 0o002 and not mode & stat.S_ISVTX:
            raise LinuxError("use", path, f"everybody may write into {above}")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _is_named(handle: int, name: str, folder: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    mine = os.fstat(handle)
    return (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev)


def _clear(name: str, folder: int) -> None:
    """Out of the way with what is no lock; this user alone can write in the folder, so it was put there before that."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        os.rename(name, f"{name}.{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)


class HostLock:
    """``with`` it one process at a time works on ``name``."""

    def __init__(self, name: str, wait_seconds: float) -> None:
        self._name, self._wait = name, wait_seconds
        self._file = LockFile(FOLDER, name.replace("/", "_") + ".lock")

    def __enter__(self) -> HostLock:
        deadline = time.monotonic() + self._wait
        record = {
            "pid": os.getpid(),
            "born": processes.birth(os.getpid()),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        while not self._file.take(record):
            if time.monotonic() >= deadline:
                raise LinuxError("lock", self._name, self._held())
            time.sleep(_PAUSE)
        return self

    def _held(self) -> str:
        message = f"another run has been changing this host for {self._wait:.0f} s"
        holder = self._file.record()
        if processes.lives(holder.get("pid"), holder.get("born")):
            pid = int(holder["pid"])
            message += ": process {0} ({1}) since {2}; if it hangs, `kill {0}` on this host frees the lock".format(
                pid, processes.command(pid), str(holder.get("since"))[:32]
            )
        return message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._file.release()
