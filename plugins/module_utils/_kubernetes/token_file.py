# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfig files that we write: private, replaced in one step."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t

from .kubeconfig import read_small_file


class File(t.NamedTuple):
    """A kubeconfig file of one cluster: its path, what it holds (None: not there or not ours to read), its mode."""

    path: str
    content: t.Optional[t.Dict[str, t.Any]]
    exists: bool
    mode: int


def read_token_file(path: str) -> File:
    """The file as it is; whatever is no JSON object has the content None."""
    try:
        mode = os.stat(path).st_mode & 0o7777
        content = json.loads(read_small_file(path).decode("utf-8"))
    except FileNotFoundError:
        return File(path, None, False, 0)
    except (OSError, ValueError, RecursionError):
        return File(path, None, True, 0)
    return File(path, content if isinstance(content, dict) else None, True, mode)


def write_private(path: str, data: bytes) -> None:
    """Replace a file in one step, readable by its owner only. A missing folder is made, 0700."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".mcn-")  # 0600 from the start
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_token_file(path: str) -> None:
    """Remove the file; fine when it has just gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
