# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owned files on a node: read with their mode, written in one step, removed with the folders that we made."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tempfile
import typing as t

from .errors import failing

#: No file of the collection comes near; a larger one is not owned.
MAX_BYTES = 64 * 1024 * 1024


class FileState(t.NamedTuple):
    """What a path holds: ``kind`` is file, link or other; ``content`` the bytes of a file or the target of a link."""

    kind: str
    mode: int
    content: bytes

    def shown(self) -> dict[str, t.Any]:
        """Plain data for a plan: links show their target, unit-like texts their lines, everything else a digest."""
        if self.kind == "link":
            return {"link": self.content.decode("utf-8", "replace")}
        data: dict[str, t.Any] = {"mode": f"{self.mode:04o}"}
        if self.kind == "other":
            return dict(data, kind="neither an owned file nor a link")
        if len(self.content) <= 4096 and self.content.isascii() and b"\0" not in self.content:
            data["lines"] = self.content.decode("ascii").splitlines()
        else:
            data["sha256"] = hashlib.sha256(self.content).hexdigest()
        return data

    def brief(self) -> dict[str, t.Any]:
        """The same with the number of lines in place of a text."""
        data = self.shown()
        return dict(data, lines=len(data["lines"])) if "lines" in data else data


def read_state(path: str) -> FileState | None:
    """The state of a path, None when nothing is there. Links are read, never followed."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(info.st_mode):
        return FileState("link", 0o777, os.fsencode(os.readlink(path)))
    if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
        return FileState("other", stat.S_IMODE(info.st_mode), b"")
    with open(path, "rb") as source:
        return FileState("file", stat.S_IMODE(info.st_mode), source.read(MAX_BYTES))


def content(path: str) -> bytes | None:
    """What a regular file holds; None where there is none. Links are not followed."""
    state = read_state(path)
    return state.content if state is not None and state.kind == "file" else None


def text_file(mode: int, text: str) -> FileState:
    """A file with that text."""
    return FileState("file", mode, text.encode("utf-8"))


def json_file(mode: int, data: t.Any) -> FileState:
    """A file with the data as one line of JSON, always the same for the same data."""
    return text_file(mode, json.dumps(data, sort_keys=True) + "\n")


def read_lines(path: str) -> list[str]:
    """The lines of a text of the host's, none where there is none to read. What is not UTF-8 is replaced."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(MAX_BYTES).splitlines()
    except OSError:
        return []


def stamp(path: str) -> tuple[int, int] | None:
    """Something that differs after every replacement of a file; None when there is none."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


def read_folder(path: str) -> tuple[int, int] | None:
    """(mode, owner) of a folder; None when there is none. Links are not followed."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (stat.S_IMODE(info.st_mode), info.st_uid) if stat.S_ISDIR(info.st_mode) else None


def set_mode(path: str, mode: int, folder: bool = False) -> None:
    """Of a file or a folder, through a handle, so that a link put in its place meanwhile is not followed. Raises LinuxError."""
    with failing("set the mode of", path):
        handle = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if folder else os.O_NONBLOCK)
        )
        try:
            os.fchmod(handle, mode)
        finally:
            os.close(handle)


def is_me(uid: int) -> bool:
    """Whether that is the user who runs this: root, on a node."""
    return uid == os.geteuid()


def is_roots_alone(path: str) -> bool:
    """True for a file that only this user (root, on a node) can have written: its owner is, and nobody else may write it."""
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return info.st_uid == os.geteuid() and not info.st_mode & 0o022


def write_state(path: str, state: FileState) -> None:
    """Put a file or link in place in one step: readers see the old state or the new one, never a part. An OSError names this path."""
    folder = os.path.dirname(path)
    make_folder(folder)
    try:
        _write_state(path, folder, state)
    except OSError as error:  # of a spare file, or of none: a full disk
        raise OSError(error.errno, error.strerror, path) from None


def _write_state(path: str, folder: str, state: FileState) -> None:
    if state.kind == "link":
        spare = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}")
        os.symlink(os.fsdecode(state.content), spare)
        os.replace(spare, path)
        return
    handle, spare = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as target:
            os.fchmod(target.fileno(), state.mode)
            target.write(state.content)
            target.flush()
            os.fsync(target.fileno())
        os.replace(spare, path)
    except BaseException:
        os.unlink(spare)
        raise


def make_folder(path: str, mode: int = 0o755) -> None:
    """Make a folder with this mode, whatever the umask, and what is missing above it with 0755."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_folder(above)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    os.chmod(path, mode)


def remove(path: str) -> bool:
    """Remove a file or link; False when it was not there."""
    try:
        os.unlink(path)
        return True
    except FileNotFoundError:
        return False


def remove_empty_folders(path: str, stop: str) -> None:
    """Remove a folder and its parents below ``stop`` as long as they are empty: what others put there stays."""
    while len(path) > len(stop) and path.startswith(stop):
        try:
            os.rmdir(path)
        except OSError as err:
            if err.errno != errno.ENOENT:
                return
        path = os.path.dirname(path)


def spares(path: str) -> list[str]:
    """What writers of this path left behind when they were killed between writing and renaming, sorted."""
    folder, name = os.path.split(path)
    return [os.path.join(folder, other) for other in list_folder(folder) if other.startswith(f".{name}.")]


def list_folder(path: str) -> list[str]:
    """The names in a folder, sorted; empty when it is not there."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def give_to_group(path: str, group: int) -> bool:
    """Let a group own the file (its mode stays); False when it does already."""
    if os.lstat(path).st_gid == group:
        return False
    os.chown(path, -1, group, follow_symlinks=False)
    return True
