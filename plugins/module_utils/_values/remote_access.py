# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""How Semaphore's components reach a remote cluster: the settings that all three share (semaphore 2.2, 2.5)."""

from __future__ import annotations

import re
import typing as t
from fractions import Fraction

from .ascii_text import strip
from .durations import as_seconds, parse_duration
from .json_text import Fields
from .refused import ValueRefused, quoted

ACCESS_KEYS = ("remoteAPIURL", "remoteCAURL", "remoteSATokenPath")
_TOKEN = re.compile(r"[A-Za-z0-9|\-._~+/]+=*\Z")


class Problem(t.NamedTuple):
    """One thing wrong with a configuration. ``remote`` is the index of the entry, ``key`` its setting."""

    word: str
    remote: t.Optional[int]
    key: str
    message: str


def read_access(entry: Fields) -> t.Dict[str, t.Any]:
    """The name of a remote and the two ways to its API server, which all components share."""
    return {key: entry.text(key) for key in ("name", "kubeConfigPath") + ACCESS_KEYS}


def read_resync_period(entry: Fields) -> t.Union[int, float]:
    """Seconds; the file has a Go duration or a bare number of nanoseconds. A null there is an error, not a default."""
    if not entry.has("resyncPeriod"):
        return 0
    value = entry.get("resyncPeriod")
    if isinstance(value, str):
        return parse_duration(value, "bad_json")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63:
        return as_seconds(Fraction(int(value), 10**9))
    raise ValueRefused("bad_json", "{0} is neither a duration nor a number".format(entry.path("resyncPeriod")))


def access_problems(index: int, remote: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """A remote needs a name, and a kubeconfig or all three of URL, CA and token."""
    if not remote["name"]:
        yield Problem("remote_name_missing", index, "name", "remotes[{0}] has no name".format(index))
    if not remote["kubeConfigPath"] and not all(remote[key] for key in ACCESS_KEYS):
        message = "remote {0} has neither kubeConfigPath nor all of {1}".format(
            quoted(remote["name"]), ", ".join(ACCESS_KEYS)
        )
        yield Problem("remote_access_incomplete", index, "kubeConfigPath", message)


def name_problems(local: str, remotes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    """Every cluster has a name of its own."""
    seen: t.Set[str] = set()
    for index, remote in enumerate(remotes):
        name = remote["name"]
        if not name:
            continue
        if name in seen:
            yield Problem("duplicate_remote_name", index, "name", "two remotes are named {0}".format(quoted(name)))
        elif name == local:
            message = "remote {0} carries the local cluster's name".format(quoted(name))
            yield Problem("remote_is_local", index, "name", message)
        seen.add(name)


def start_access_problems(
    remote: t.Mapping[str, t.Any], files: t.Mapping[str, t.Optional[str]], index: t.Optional[int] = None
) -> t.Iterator[Problem]:
    """The token is read for the token way only; a kubeconfig needs none."""
    if not remote.get("kubeConfigPath"):
        yield from token_problems(remote.get("remoteSATokenPath") or "", files, index)


def token_problems(
    path: str, files: t.Mapping[str, t.Optional[str]], index: t.Optional[int] = None
) -> t.Iterator[Problem]:
    """The token's file must be readable and hold one bearer token, white space around it aside."""
    content = files.get(path)
    if content is None:
        message = "the token file {0} cannot be read".format(quoted(path))
        yield Problem("token_unreadable", index, "remoteSATokenPath", message)
    elif not token_valid(strip(content)):
        yield Problem("token_invalid", index, "remoteSATokenPath", "{0} holds no bearer token".format(quoted(path)))


def token_valid(token: str) -> bool:
    """True for a whole bearer token; an empty one would make anonymous requests."""
    return bool(_TOKEN.match(token))
