# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a twin is: the field managers that applied it say so (decisions 1 and 32)."""

from __future__ import annotations

import typing as t

from .fields import Object, entries
from .links import linked
from .options import Options
from .profile import PROFILES

ADOPTABLE, NOT_OURS = "adoptable", "not_ours"


def foreign(kind: str, twin: Object, options: Options) -> str:
    """"" for a twin that is ours to write, else why not: ADOPTABLE or NOT_OURS. ``kind``: of its source object.

    Where no server has noted who wrote what, the labels alone decide, and they were looked at already.
    """
    noted = entries(twin, "metadata", "managedFields")
    if options.adopt or not noted or options.profile.field_manager in appliers(noted):
        return ""
    theirs = PROFILES[options.profile.name].field_manager in appliers(noted)
    return ADOPTABLE if theirs or linked(kind, twin, options.profile) is not None else NOT_OURS


def appliers(noted: t.Sequence[t.Mapping[str, t.Any]]) -> t.Set[str]:
    """The field managers that applied an object; who only patched it does not own it."""
    return {str(entry.get("manager")) for entry in noted if entry.get("operation") == "Apply" and not entry.get("subresource")}


def message(reason: str, kind: str) -> str:
    """A sentence for the reason word."""
    if reason == ADOPTABLE:
        return "the {0} of the network side was made by another program; set adopt to take it over".format(kind)
    return "there is another program's {0} under the name of the twin".format(kind)
