# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The delete budget: a source that suddenly shrinks is more often broken than empty (decision 38)."""

from __future__ import annotations

import typing as t

from .plan import Refusal

#: Deletions that are never suspicious, and the share of what we own that is not either.
FREE_DELETES, FREE_SHARE = 5, 0.20
#: How the advice begins where most of what is missing is refused by a range of the inventory.
_FIX_GRANT = "Correct the grant of cluster "
#: A wrong range in the inventory refuses any part of a source, and then there is nothing to be deleted.
_GRANT_FIRST = (
    "Where this run refuses some of {0} as outside_grant, fix pod_cidrs of cluster {0} in the inventory. Otherwise: "
)


def allowed_deletes(owned: int, max_deletes: int | None = None) -> int:
    """How many of ``owned`` objects one run may delete. ``max_deletes`` overrides; 0 means none, negative means no limit."""
    if max_deletes is not None:
        return owned if max_deletes < 0 else max_deletes
    return max(FREE_DELETES, int(owned * FREE_SHARE))


def check_budget(
    source: str,
    kind: str,
    owned: int,
    deletes: int,
    remaining: int,
    max_deletes: int | None = None,
    confirm_empty: bool = False,
    turned_away: str = "",
    claimed: bool = False,
) -> Refusal | None:
    """None when the deletions may go ahead, else a ``delete_budget`` refusal that names the way out.

    owned: objects of this kind and source that we own now; deletes: how many of them would go; remaining: how many
    the source still wants; turned_away: why it wants so few, where that is known (of why_refused). It is to be fixed,
    so it replaces the way to delete nevertheless: a source is not empty where a range of the inventory refuses its objects, and
    only max_deletes, which is a number, has them deleted. claimed: whether they are claims, which a wrong grant refuses.
    """
    if deletes == 0 or (max_deletes is not None and max_deletes < 0):
        return None
    limit = allowed_deletes(owned, max_deletes)
    if max_deletes == 0:
        # the one limit that no confirmation passes: it was written down to say that nothing may go
        why = f"{deletes} of {owned} {kind} would be deleted, and max_deletes is 0; nothing was deleted. Raise max_deletes if that is right."
    elif remaining == 0 and owned > 0 and not confirm_empty:
        advice = turned_away or f"Name {source} in confirm_empty if that is right."
        why = f"the source wants no {kind} any more while we own {owned}; nothing was deleted. {advice}"
    elif (
        confirm_empty
        and remaining == 0
        and _FIX_GRANT in turned_away
        and (max_deletes is None or deletes > max_deletes)
    ):
        text = "{0} is in confirm_empty and is not empty; nothing was deleted. {1} If all {2} {3} are to go nevertheless, set max_deletes to {2}."
        why = text.format(source, turned_away, deletes, kind)
    elif (confirm_empty and remaining == 0) or deletes <= limit:
        return None
    else:
        advice = turned_away or (_GRANT_FIRST.format(source) if claimed else "") + "Raise max_deletes if that is right."
        why = f"{deletes} of {owned} {kind} would be deleted, at most {limit} may; nothing was deleted. {advice}"
    return Refusal(source, "delete_budget", why)


def why_refused(refused: t.Iterable[Refusal], kept: t.Collection[str] = (), kind: str = "node") -> str:
    """Which nodes of a source were read and refused, and what to fix; nothing unless they are more than those that got in.

    refused: their refusals, of which the objects are ``cluster/node``; kept: the objects of the source that got in. A few
    bad nodes explain no loss, and whoever can register one must not change the message for the others.
    """
    rows = sorted({row for row in refused if row.object not in kept})
    count = len({row.object for row in rows})
    if count <= len(kept):
        return ""
    granted = [row for row in rows if row.reason == "outside_grant" or row.reason.endswith("OutOfRange")]
    first = rows[0]
    remedy = f"Mend the {kind}, or the variable that its refusal names."
    if 2 * len({row.object for row in granted}) > count:  # one range is wrong, and not so many nodes at once
        first = granted[0]
        remedy = _FIX_GRANT + "{0} in the inventory (pod_cidrs or what else the refusal names), or the {1}.".format(
            first.object.partition("/")[0], kind
        )
    text = "{0} refused, the first is {1} [{2}]. {3}".format(
        f"1 {kind} was" if count == 1 else f"{count:,} {kind}s were", first.object, first.reason, remedy
    )
    # the names are those of a cluster, and the text becomes an argument of a task: nothing in it is a template
    return text.replace("{", "\\x7b")
