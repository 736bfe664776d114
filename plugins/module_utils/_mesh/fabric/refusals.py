# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run refused, as a few lines for its end: said once, whoever refused it."""

from __future__ import annotations

import typing as t

LINES, SEEN_BY = 40, 3


def lines(refused: t.Iterable[t.Mapping[str, t.Any]], by_host: t.Mapping[str, t.Iterable[t.Mapping[str, t.Any]]]) -> t.List[str]:
    """Sorted lines. refused: of the fabric's plan; by_host: of each host's result. Rows are {object, reason, message}."""
    rows: t.Dict[t.Tuple[str, str, str], t.List[str]] = {_key(row): [] for row in refused}
    for host in sorted(by_host):
        for row in by_host[host]:
            rows.setdefault(_key(row), []).append(host)
    found = []
    for (about, reason, message), hosts in sorted(rows.items()):
        # a refusal quotes what somebody else wrote, and a play may keep these lines as variables: nothing in them is a template
        about, message = about.replace("{", "\\x7b"), message.replace("{", "\\x7b")
        text = message if message.startswith(about) else "{0}: {1}".format(about, message)
        more = " and {0} more".format(len(hosts) - SEEN_BY) if len(hosts) > SEEN_BY else ""
        seen = " (refused by {0}{1})".format(", ".join(hosts[:SEEN_BY]), more) if hosts else ""
        found.append("refused: {0} [{1}]{2}".format(text, reason, seen))
    if len(found) > LINES:
        found[LINES - 1 :] = ["... and {0} more".format(len(found) - LINES + 1)]
    return found


def _key(row: t.Mapping[str, t.Any]) -> t.Tuple[str, str, str]:
    return str(row.get("object")), str(row.get("reason")), str(row.get("message"))
