# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One compressed archive, written whole or not at all, the same bytes for the same content."""

from __future__ import annotations

import gzip
import io
import tarfile
import typing as t

from ..files import FileState, write_state


def write_archive(path: str, folder: str, files: t.Mapping[str, bytes]) -> None:
    """A tar.gz with files below a folder, for its owner alone. Raises OSError."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(files[name]), 0o600
            archive.addfile(entry, io.BytesIO(files[name]))
    write_state(path, FileState("file", 0o600, packed.getvalue()))
