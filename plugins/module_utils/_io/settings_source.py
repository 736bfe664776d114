# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where settings come from besides the options: files and the environment of the process."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
import typing as t

from .._values.refused import ValueRefused

LONGEST = 1048576


def read_text(path: str) -> str:
    """A file of settings. Raises ValueRefused ``config_parse``, which never quotes what it holds."""
    try:
        with pathlib.Path(path).open(encoding="utf-8") as stream:
            text = stream.read(LONGEST + 1)
    except OSError as error:
        raise ValueRefused("config_parse", f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueRefused("config_parse", f"{path} is no text") from None
    if len(text) > LONGEST:
        raise ValueRefused("config_parse", f"{path} is longer than {LONGEST} characters")
    return text


def environment(prefixes: t.Sequence[str]) -> dict[str, str]:
    """The variables of this process that begin like one of these."""
    return {name: value for name, value in os.environ.items() if name.startswith(tuple(prefixes))}


def play_path(name: str) -> str:
    """Where one of the collection's plays is."""
    return str(pathlib.Path(__file__).absolute().parents[3] / "playbooks" / "plays" / name)


#: What files look like from outside: (path, time of change, size) of each.
States = tuple[tuple[str, int, int], ...]


def inventory_states(inventory: str) -> States:
    """The files of an inventory: all of a folder, or one with the variables of groups and hosts alongside it."""
    if not inventory:
        return ()
    path = pathlib.Path(inventory)
    found = []
    for root in [path] if path.is_dir() else [path, path.parent / "group_vars", path.parent / "host_vars"]:
        for one in sorted(root.rglob("*")) if root.is_dir() else [root]:
            with contextlib.suppress(OSError):
                seen = one.stat()
                if not one.is_dir():
                    found.append((str(one), seen.st_mtime_ns, seen.st_size))
    return tuple(found)


@contextlib.contextmanager
def private_folder() -> t.Iterator[str]:
    """A folder that only this user can enter and that goes with all that is in it; where systemd gave the service one, below that."""
    with tempfile.TemporaryDirectory(prefix="multicluster-", dir=os.environ.get("RUNTIME_DIRECTORY")) as folder:
        yield folder


def read_json(folder: str, name: str) -> t.Any:
    """What a program of the collection wrote there; None where it wrote nothing."""
    try:
        with pathlib.Path(folder, name).open(encoding="utf-8") as source:
            return json.load(source)
    except FileNotFoundError:
        return None


def write_json(folder: str, name: str, value: t.Any) -> str:
    """A file in such a folder, for a program of the collection; gives its path. Raises OSError."""
    path = pathlib.Path(folder, name)
    with path.open("w", encoding="utf-8") as target:
        json.dump(value, target)
    return str(path)
