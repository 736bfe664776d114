# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What settings of the service mirror may be: prefixes of clusters, zones (semaphore 4.1)."""

from __future__ import annotations

import re
import typing as t

from .._values.problems import Problem
from .._values.refused import quoted

DEFAULT_ZONES = ("local",)
#: Kubernetes allows so many zone hints per endpoint.
MOST_ZONES = 8
#: Names of global services begin with it.
RESERVED_PREFIX = "gl"
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")


def prefix_problems(remotes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    """Prefixes that make no names, or the same names as somebody else's. ``remotes``: rows with ``servicePrefix``."""
    seen: t.Set[str] = set()
    for index, remote in enumerate(remotes):
        prefix = remote["servicePrefix"]
        if not prefix:
            continue
        if prefix == RESERVED_PREFIX:
            message = "prefix gl is taken by the names of global services"
            yield Problem("reserved_service_prefix", index, "servicePrefix", message)
        elif not _LABEL.match(prefix):
            message = "prefix {0} is not a label that a Service's name can begin with".format(quoted(prefix))
            yield Problem("service_prefix_invalid", index, "servicePrefix", message)
        if prefix in seen:
            message = "two remotes have prefix {0} and would delete each other's mirrors".format(quoted(prefix))
            yield Problem("duplicate_service_prefix", index, "servicePrefix", message)
        seen.add(prefix)


def zone_problems(zones: t.Sequence[str]) -> t.Iterator[Problem]:
    """At most eight zones, since an endpoint can carry no more hints."""
    if len(zones) > MOST_ZONES:
        message = "{0} zones; an endpoint takes hints for {1} at most".format(len(zones), MOST_ZONES)
        yield Problem("too_many_zones", None, "zones", message)
