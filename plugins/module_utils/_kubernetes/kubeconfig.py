# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfig files: read once, bounded, as data (what of them may be used is decided in access.py); written privately, in one step."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import tempfile
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import dicts_of
from .plain_yaml import plain_documents

#: An admin kubeconfig has about 6 KB; more than this is no kubeconfig.
MAX_BYTES = 512 * 1024


class KubeconfigRefused(ValueRefused):
    """A kubeconfig that cannot be read or is not one: ``kubeconfig_unreadable`` or ``kubeconfig_invalid``."""


class CredentialPlugin(t.NamedTuple):
    """What gives a credential: ``kind`` exec or auth-provider, its own part of the kubeconfig, and the cluster's."""

    kind: str
    config: t.Mapping[str, t.Any]
    cluster: t.Mapping[str, t.Any]


class Chosen(t.NamedTuple):
    """The parts of a kubeconfig that its context selects."""

    cluster: dict[str, t.Any]
    user: dict[str, t.Any]


def read_small_file(path: str, limit: int = MAX_BYTES) -> bytes:
    """A regular file's bytes. Raises OSError, also for pipes, devices and files beyond the limit."""
    # without O_NONBLOCK, opening a pipe would wait for a writer
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file")
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(limit + 1)
    finally:
        os.close(handle)
    if len(data) > limit:
        raise OSError(0, f"larger than {limit} bytes")
    return data


def load_kubeconfig(given: t.Any) -> tuple[dict[str, t.Any], str | None]:
    """A path, several of them or a dict -> (the document, the folder for its relative paths or None).

    Several are a list, or as in KUBECONFIG a text with a colon between them; they are merged as kubectl does.
    """
    if isinstance(given, dict):
        return given, None
    several = (
        given
        if isinstance(given, (list, tuple))
        else given.split(os.pathsep)
        if isinstance(given, str) and not os.path.exists(given)
        else ()
    )
    several = [path for path in several if path]
    if len(several) > 1 and all(isinstance(path, str) for path in several):
        return _merged(several), None
    if len(several) == 1:
        given = several[0]
    if not isinstance(given, (str, os.PathLike)):
        raise KubeconfigRefused("kubeconfig_invalid", "kubeconfig is neither a path nor a dictionary")
    path = os.path.abspath(os.path.expanduser(os.fspath(given)))
    try:
        raw = read_small_file(path)
    except OSError as error:
        raise KubeconfigRefused(
            "kubeconfig_unreadable", f"kubeconfig {path} cannot be read: {error.strerror or error}"
        ) from None
    return parse_kubeconfig(raw, f"kubeconfig {path}"), os.path.dirname(path)


def _merged(paths: t.Sequence[str]) -> dict[str, t.Any]:
    """One document of several files: the first that has a name or a current-context counts, one that is not there does not."""
    found: dict[str, t.Any] = {"clusters": [], "contexts": [], "users": []}
    there = [path for path in paths if os.path.exists(os.path.expanduser(path))]
    for path in there or paths[:1]:
        config, folder = load_kubeconfig(path)
        found["current-context"] = found.get("current-context") or config.get("current-context")
        for plural, key in (("clusters", "cluster"), ("contexts", "context"), ("users", "user")):
            before = [entry.get("name") for entry in found[plural]]
            entries = config.get(plural)
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict) and entry.get("name") not in before:
                    found[plural].append(dict(entry, **{key: _located(entry.get(key), folder)}))
    return found


def _located(part: t.Any, folder: str | None) -> t.Any:
    """A cluster or user with its relative names of files resolved from the folder of its own file."""
    if not isinstance(part, dict) or folder is None:
        return part
    made = dict(part)
    for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        if isinstance(part.get(key), str) and part[key] and not part[key].startswith("~"):
            made[key] = os.path.join(folder, part[key])
    program = part.get("exec")
    if isinstance(program, dict) and isinstance(program.get("command"), str) and "/" in program["command"]:
        made["exec"] = dict(program, command=os.path.join(folder, program["command"]))
    return made


def parse_kubeconfig(raw: bytes, where: str = "kubeconfig") -> dict[str, t.Any]:
    """YAML or JSON text -> dict. Aliases are refused: a kubeconfig has none, a YAML bomb is made of them.

    As kubectl, it takes a text that ends with empty documents; unlike kubectl, it refuses several instead of ignoring all but the first.
    """
    try:
        # JSON may have tabs, which this YAML has not
        found = _json(raw) or [document for document in plain_documents(raw) if document is not None]
    except ImportError:
        raise KubeconfigRefused(
            "kubeconfig_unreadable", "reading a kubeconfig file needs the Python library PyYAML"
        ) from None
    except ValueRefused as refused:
        raise KubeconfigRefused("kubeconfig_invalid", f"{where} is {refused.message}") from None
    if len(found) > 1:
        raise KubeconfigRefused("kubeconfig_invalid", f"{where} has {len(found)} documents; keep one")
    config = found[0] if found else None
    if not isinstance(config, dict):
        raise KubeconfigRefused("kubeconfig_invalid", f"{where} is not a mapping")
    for key, expected in (("kind", "Config"), ("apiVersion", "v1")):
        if config.get(key) not in (None, "", expected):
            raise KubeconfigRefused(
                "kubeconfig_invalid", f"{where} is no kubeconfig: its {key} is {quoted(config[key])}"
            )
    return config


def _json(raw: bytes) -> list[t.Any]:
    """The one document of a JSON text, else nothing."""
    try:
        return [json.loads(raw.decode("utf-8-sig"))] if raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else []
    except (ValueError, RecursionError):
        return []


def resolve_context(config: t.Mapping[str, t.Any], context: str | None = None) -> Chosen:
    """The cluster and the user of the named context, or of ``current-context``. Raises ``kubeconfig_invalid``."""
    name = context or config.get("current-context")
    if not name:
        raise KubeconfigRefused(
            "kubeconfig_invalid", "the kubeconfig has no current-context; name one in the variable context"
        )
    chosen = _named(config, "contexts", "context", name)
    cluster = _named(config, "clusters", "cluster", chosen.get("cluster"))
    user = _named(config, "users", "user", chosen.get("user"))
    return Chosen(cluster, user)


def _named(config: t.Mapping[str, t.Any], plural: str, key: str, name: t.Any) -> dict[str, t.Any]:
    found = [entry for entry in dicts_of(config.get(plural)) if entry.get("name") == name]
    if len(found) > 1:  # programs differ in which one counts; kubectl refuses, too
        raise KubeconfigRefused(
            "kubeconfig_invalid", f"the kubeconfig has {len(found)} entries of {plural} named {quoted(name)}; keep one"
        )
    value = (found[0].get(key) or {}) if found else None
    if not isinstance(value, dict):
        raise KubeconfigRefused("kubeconfig_invalid", f"the kubeconfig has no {key} named {quoted(name)}")
    return value


def secret_leaves(config: t.Any, depth: int = 0) -> list[str]:
    """Texts of a kubeconfig dict that must be hidden: credentials of every user in it, whatever its context."""
    found: list[str] = []
    if depth > 12:
        return found
    if isinstance(config, dict):
        for key, value in config.items():
            if key in _SECRET_KEYS and isinstance(value, str) and value.strip():
                found.append(value.strip())
            elif key in ("env", "config") and depth > 1:
                found.extend(_texts(value))
            else:
                found.extend(secret_leaves(value, depth + 1))
    elif isinstance(config, (list, tuple)):
        for value in config:
            found.extend(secret_leaves(value, depth + 1))
    return found


_SECRET_KEYS = frozenset(
    ("token", "client-key-data", "password", "id-token", "refresh-token", "access-token", "client-secret")
)


def _texts(value: t.Any, depth: int = 0) -> list[str]:
    """Long texts anywhere inside; short ones would blank half of every message (module contract 7)."""
    if depth > 6:
        return []
    if isinstance(value, str):
        return [value] if len(value) >= 8 else []
    if isinstance(value, dict):
        return [text for key, item in value.items() if key != "name" for text in _texts(item, depth + 1)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item, depth + 1)]
    return []


class KubeconfigFile(t.NamedTuple):
    """A kubeconfig file of one cluster: its path, what it holds (None: not there or not readable), its mode."""

    path: str
    content: dict[str, t.Any] | None
    exists: bool
    mode: int


def read_kubeconfig_file(path: str) -> KubeconfigFile:
    """The file as it is; whatever is no JSON object has the content None."""
    try:
        mode = pathlib.Path(path).stat().st_mode & 0o7777
        content = json.loads(read_small_file(path).decode("utf-8"))
    except FileNotFoundError:
        return KubeconfigFile(path, None, False, 0)
    except (OSError, ValueError, RecursionError):
        return KubeconfigFile(path, None, True, 0)
    return KubeconfigFile(path, content if isinstance(content, dict) else None, True, mode)


def write_private(path: str, data: bytes) -> None:
    """Replace a file in one step, readable by its owner only. A missing folder is made, 0700."""
    folder = pathlib.Path(path).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".mcn-")  # 0600 from the start
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        pathlib.Path(temporary).replace(path)
    except BaseException:
        pathlib.Path(temporary).unlink()
        raise


def remove_kubeconfig_file(path: str) -> None:
    """Remove the file; fine when it has just gone."""
    pathlib.Path(path).unlink(missing_ok=True)
