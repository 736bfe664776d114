# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own code as one zipapp, for what runs on a node without Ansible (decision 34).

The sources are read through the loader that loaded this file, so it works from a checkout and from the archive that
Ansible sends to a node alike. The bytes depend on the sources alone: the same release gives the same file.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import typing as t
import zipfile

#: Name of the package inside the zipapp.
PACKAGE = "multicluster_network"

_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(files: t.Iterable[str], entry: str) -> bytes:
    """Pack ``files`` (paths below module_utils, such as ``_linux/host/links.py``) into an executable archive.

    ``entry`` is the module (``_flows.node.boot``) whose ``main()`` runs. All imports between the files are relative, so
    they work under the archive's package name too.
    """
    names = sorted(set(files))
    members: t.Dict[str, bytes] = {PACKAGE + "/__init__.py": b""}
    for name in names:
        folder = os.path.dirname(name)
        while folder:
            members["{0}/{1}/__init__.py".format(PACKAGE, folder)] = b""
            folder = os.path.dirname(folder)
        members["{0}/{1}".format(PACKAGE, name)] = source_of(name)
    members["__main__.py"] = (
        "import sys\nfrom {0}.{1} import main\n\nsys.exit(main(sys.argv[1:]))\n".format(PACKAGE, entry).encode("ascii")
    )
    # Stored, not deflated: the bytes must not depend on the release of zlib.
    archive = io.BytesIO(b"#!/usr/bin/python3\n")
    archive.seek(0, os.SEEK_END)
    with zipfile.ZipFile(archive, "w") as target:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.external_attr = 0o644 << 16
            target.writestr(info, members[name])
    return archive.getvalue()


def source_of(name: str) -> bytes:
    """The source of one file below module_utils, from wherever this file was loaded."""
    here = os.path.dirname(os.path.abspath(__file__))  # module_utils/_linux/host
    path = os.path.join(os.path.dirname(os.path.dirname(here)), *name.split("/"))
    spec = sys.modules[__name__].__spec__
    return spec.loader.get_data(path)  # type: ignore[union-attr]


def digest(files: t.Iterable[str]) -> str:
    """Twelve hexadecimal digits that change when any of the sources does."""
    state = hashlib.sha256()
    for name in sorted(set(files)):
        state.update(name.encode("ascii") + b"\0" + hashlib.sha256(source_of(name)).digest())
    return state.hexdigest()[:12]
