# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted against actual, as sets: the comparison that every capability uses."""

from __future__ import annotations

import typing as t

from .plan import Plan


def reconcile(
    kind: str,
    wanted: t.Mapping[str, t.Any],
    actual: t.Mapping[str, t.Any],
    owned: t.Callable[[str], bool] = lambda ident: True,
    purge: bool = True,
) -> Plan:
    """Compare two maps of id -> plain data of one kind.

    An actual object is only changed or deleted when ``owned(id)`` says that it is ours; a wanted object under
    the name of a foreign one is refused as ``not_ours``. ``purge=False`` keeps owned objects that nobody wants.
    Creations and updates come before deletions, each sorted by id.
    """
    plan = Plan()
    for ident in sorted(wanted):
        if ident not in actual:
            plan.create(kind, ident, wanted[ident])
        elif actual[ident] == wanted[ident]:
            plan.unchanged += 1
        elif owned(ident):
            plan.update(kind, ident, actual[ident], wanted[ident])
        else:
            plan.refuse("{0} {1}".format(kind, ident), "not_ours", "exists, is not ours and differs; it is left alone")
    if purge:
        for ident in sorted(set(actual) - set(wanted)):
            if owned(ident):
                plan.delete(kind, ident, actual[ident])
    return plan
