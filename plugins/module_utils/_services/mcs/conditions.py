# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of a ServiceExport (mcs 3). Pure: the time is given."""

from __future__ import annotations

import typing as t

from ..._values.text import dicts_of, in_short, mapping
from ..mirror_services import Manifest, Object
from .exports import Claim
from .merge import Merged

EXPORTED, PENDING, FAILED = "Exported", "Pending", "Failed"
NO_CONFLICTS = "NoConflicts"
#: Those that we give.
TYPES = ("Valid", "Ready", "Conflict")
_SHOWN = 5
#: Of a message, since its parts come from another cluster.
_LONGEST = 1024


class Reach(t.NamedTuple):
    """State of one import. ``failed``: clusters in which it cannot be written; ``pending``: in which it is not yet; ``unknown``: that could
    not be read, of which the earlier report holds."""

    failed: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()


def conditions(claim: Claim, merged: Merged | None, reach: Reach, now: str) -> list[Manifest]:
    """All conditions that we give an export, by type. ``merged``: what it is a part of, None where it exports nothing."""
    before = known_conditions(claim.object)
    made = [_condition("Valid", claim.export is not None, claim.reason, claim.message)]
    if claim.export is None or merged is None:
        made.append(_condition("Ready", False, PENDING, "it is not exported"))
    else:
        made.append(_of_endpoints(_ready(before.get("Ready"), reach), claim))
        if merged.conflict is not None:
            made.append(_condition("Conflict", True, ",".join(merged.conflict.reasons), merged.conflict.message))
        elif merged.held and before.get("Conflict", {}).get("status") == "True":
            # whether they still differ, the clusters that cannot be read would have to say
            made.append(
                _condition(
                    "Conflict", True, str(before["Conflict"].get("reason")), str(before["Conflict"].get("message"))
                )
            )
        else:
            made.append(_condition("Conflict", False, NO_CONFLICTS, "all clusters that export it agree"))
    generation = claim.object["metadata"].get("generation")
    for condition in made:
        old = before.get(condition["type"])
        if isinstance(generation, int):
            condition["observedGeneration"] = generation
        same = (
            old is not None
            and old.get("status") == condition["status"]
            and isinstance(old.get("lastTransitionTime"), str)
        )
        condition["lastTransitionTime"] = old["lastTransitionTime"] if old is not None and same else now
    return sorted(made, key=lambda condition: TYPES.index(condition["type"]))


def known_conditions(obj: Object) -> dict[str, t.Mapping[str, t.Any]]:
    """The conditions that an object has, by type."""
    return {str(row.get("type")): row for row in dicts_of(mapping(obj, "status").get("conditions"))}


def _condition(kind: str, holds: bool, reason: str, message: str) -> Manifest:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _ready(before: t.Mapping[str, t.Any] | None, reach: Reach) -> Manifest:
    if reach.failed:
        return _condition("Ready", False, FAILED, f"cannot be written in {_names(reach.failed)}")
    if reach.pending:
        return _condition("Ready", False, PENDING, f"not yet in {_names(reach.pending)}")
    if reach.unknown and not (before is not None and before.get("status") == "True"):
        return _condition("Ready", False, PENDING, f"not known of {_names(reach.unknown)}")
    return _condition("Ready", True, EXPORTED, "every cluster that has the namespace imports it")


def _of_endpoints(ready: Manifest, claim: Claim) -> Manifest:
    """The same for an export of which endpoints were refused: without any that is left it is not ready, whatever was written."""
    if not claim.left_out or ready["status"] != "True":
        return ready
    message = "no endpoint is left: {0}" if claim.none_left else "imported without some endpoints: {0}"
    return _condition(
        "Ready", not claim.none_left, FAILED if claim.none_left else EXPORTED, message.format(claim.left_out)[:_LONGEST]
    )


def _names(clusters: t.Collection[str]) -> str:
    return in_short(sorted(clusters), _SHOWN)


def differs(obj: Object, desired: t.Sequence[Manifest]) -> bool:
    """Whether the export's conditions are not those: each desired one, and no owned one that is not desired any more."""
    known = known_conditions(obj)
    for condition in desired:
        found = known.get(condition["type"])
        if found is None or any(found.get(field) != value for field, value in condition.items()):
            return True
    return any(kind in known for kind in TYPES if kind not in {condition["type"] for condition in desired})
