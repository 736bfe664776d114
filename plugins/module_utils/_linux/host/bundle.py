# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own code as one zipapp, for what runs on a node without Ansible (decision 34).

The archive carries its entry and what that imports, directly or not. The sources are read through the loader that loaded this
file, so it works from a checkout, from what Ansible sends to a node and from the archive itself. The bytes depend on the
sources alone: the same release gives the same file, wherever it is built.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import typing as t
import zipfile

#: Name of the package inside the zipapp.
PACKAGE = "multicluster_network"

#: module_utils, or the package of that name in the archive: this file is in _linux/host.
_ROOT = os.path.abspath(__file__).rsplit(os.sep, 3)[0]
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: Imports between our files are relative, also those inside functions; a tenth of the time that parsing the sources takes.
_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_NOT_NAMES = re.compile(rb"#.*| as \w+")


def build(entry: str) -> bytes:
    """An executable archive that runs ``main()`` of the module ``entry``, such as ``_flows.node.node_agent``."""
    sources = _sources(entry)
    members = {f"{PACKAGE}/{name}": source for name, source in sources.items()}
    for name in sources:
        folder = os.path.dirname(name)
        while folder:
            members[f"{PACKAGE}/{folder}/__init__.py"] = b""
            folder = os.path.dirname(folder)
    members[PACKAGE + "/__init__.py"] = b""
    members["__main__.py"] = f"import sys\nfrom {PACKAGE}.{entry} import main\n\nsys.exit(main(sys.argv[1:]))\n".encode(
        "ascii"
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


@functools.cache
def digest(entry: str) -> str:
    """Twelve hexadecimal digits that change when any of the sources does."""
    state = hashlib.sha256()
    for name, source in sorted(_sources(entry).items()):
        state.update(name.encode("ascii") + b"\0" + hashlib.sha256(source).digest())
    return state.hexdigest()[:12]


@functools.cache
def _sources(entry: str) -> dict[str, bytes]:
    """Path below module_utils -> source, of the entry and of everything that it imports from there."""
    found: dict[str, bytes] = {}
    todo = [entry.replace(".", "/") + ".py"]
    seen = set(todo)
    while todo:
        path = todo.pop()
        source = _source_of(path)
        if source is None:
            continue  # a name inside a module, or a folder
        found[path] = source
        todo += [other for other in _imports(path, source) if other not in seen]
        seen.update(todo)
    return found


def _imports(path: str, source: bytes) -> t.Iterator[str]:
    """What the imports of a file may mean: ``from .a import b`` is a name of a.py, or the module a/b.py."""
    package = path.split("/")[:-1]
    for dots, module, names in _IMPORT.findall(source):
        base = package[: len(package) - len(dots) + 1] + (module.decode("ascii").split(".") if module else [])
        yield "/".join(base) + ".py"
        for name in _NOT_NAMES.sub(b"", names).strip(b"()").replace(b",", b" ").split():
            yield "/".join([*base, name.decode("ascii")]) + ".py"


def _source_of(path: str) -> bytes | None:
    """One file below module_utils, from wherever this file was loaded; None when there is none."""
    try:
        source: bytes = __spec__.loader.get_data(os.path.join(_ROOT, path))  # type: ignore[union-attr]
        return source
    except OSError:
        return None
