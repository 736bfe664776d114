# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file for a bug report: what is known of the fabric, of every node and of the plans, without a secret in it."""

from __future__ import annotations

import json
import platform
import sys
import typing as t

from ..._kubernetes.access import AccessRefused, parse_access
from ..._kubernetes.argspec import ACCESS_OPTIONS
from ..._kubernetes.kubeconfig import KubeconfigRefused, parse_kubeconfig, secret_leaves
from ..._linux.files import make_folder, read_state
from ..._linux.host.archive import write_archive
from ..._status.redact import Redactor, public_keys, secrets_of
from ..._values.text import is_alnum
from .status import unpacked

Data = dict[str, t.Any]

_ABOUT = """What is in here, of fabric {fabric}:

status.json, status.html, status.prom   the fabric as the status playbook saw it
nodes/HOST.json                         what each node said: devices, routes, rules, tables, units, versions, journal of our units, state
plans.json                              what plans in check mode would change, and what they refuse
inventory.json                          the clusters' and nodes' variables, and how the clusters are reached
versions.json                           programs of the controller

Secrets were taken out by the names of fields, by their shapes, and wherever a known one stood: {count} places. Public keys, addresses,
names of hosts, namespaces and Services are in it, since nothing can be understood without them. Look before you send it.
"""


def run(request: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """The module's result. Raises OSError where the file cannot be written.

    ``request``: {fabric, clusters, definition, nodes, node_plans, plans, files: {name in the bundle: path}, secrets: [text],
    versions: {name: text}, path}.
    """
    request = unpacked(request)
    files = {
        name: text
        for name, text in ((name, _text(path)) for name, path in sorted((request.get("files") or {}).items()))
        if text is not None
    }
    known = (
        set(request.get("secrets") or ()) | secrets_of(request.get("definition")) | _of_clusters(request["clusters"])
    )
    document = _json(files.get("status.json"))
    redactor = Redactor(known, public_keys(document) if isinstance(document, dict) else ())
    access = [
        {name: given[name] for name in ACCESS_OPTIONS if given.get(name) not in (None, "", [])}
        for given in request["clusters"]
    ]
    parts: dict[str, t.Any] = {
        "plans.json": {"nodes": request.get("node_plans") or {}, "capabilities": request.get("plans") or {}},
        "inventory.json": {"definition": request.get("definition") or {}, "clusters": access},
        "versions.json": dict(request.get("versions") or {}, python=sys.version, platform=platform.platform()),
    }
    for host, node in (request.get("nodes") or {}).items():
        parts[f"nodes/{_name(host)}.json"] = node
    bundle = {
        name: json.dumps(redactor.value(value), sort_keys=True, indent=1) + "\n"
        for name, value in sorted(parts.items())
    }
    bundle.update({name: _redacted(redactor, name, text) for name, text in files.items()})
    # once more over the whole: what no single value was, two of them together may be
    bundle = {name: redactor.text(text) for name, text in bundle.items()}
    bundle["README.txt"] = _ABOUT.format(fabric=redactor.text(str(request["fabric"])), count=redactor.count)
    if not check:
        make_folder(request["path"].rpartition("/")[0] or ".")
        write_archive(
            request["path"],
            "support-" + _name(request["fabric"]),
            {name: text.encode("utf-8") for name, text in bundle.items()},
        )
    return {
        "changed": False,
        "path": request["path"],
        "files": sorted(bundle),
        "redacted": redactor.count,
        "refused": [],
    }


def _redacted(redactor: Redactor, name: str, text: str) -> str:
    value = _json(text) if name.endswith(".json") else None
    return json.dumps(redactor.value(value), sort_keys=True) + "\n" if value is not None else redactor.text(text)


def _json(text: str | None) -> t.Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _text(path: str) -> str | None:
    try:
        state = read_state(path)
    except OSError:
        return None
    return state.content.decode("utf-8", "replace") if state is not None and state.kind == "file" else None


def _name(text: t.Any) -> str:
    """Safe as a name in an archive."""
    return "".join(char if is_alnum(char) or char in "._-" else "_" for char in str(text)).lstrip(".")[:100] or "_"


def _of_clusters(given: t.Sequence[t.Mapping[str, t.Any]]) -> set[str]:
    """Every credential by which the clusters are reached, in dictionaries and in files."""
    found: set[str] = set()
    for entry in given:
        found |= {str(entry[name]) for name in ("token",) if entry.get(name)}
        config = entry.get("kubeconfig")
        if isinstance(config, str):
            try:
                config = parse_kubeconfig((_text(config) or "").encode("utf-8"))
            except (KubeconfigRefused, AccessRefused):
                config = None
        found |= set(secret_leaves(config))
        for name in ("token_file", "client_key"):
            text = _text(str(entry[name])) if entry.get(name) else None
            found |= {text.strip()} if text else set()
        try:
            access = parse_access(entry)
        except (KubeconfigRefused, AccessRefused):
            continue
        found |= {access.token} if access.token else set()
        found |= {access.client_key.decode("utf-8", "replace")} if access.client_key else set()
    return found
