# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One object of a node by a module of its own: read, planned, written, and read back."""

from __future__ import annotations

import typing as t

from ..._linux.stats import total
from ..._plan.plan import Plan

Data = dict[str, t.Any]
Planned = t.TypeVar("Planned", bound=Plan)


def converge(
    gather: t.Callable[[], Data],
    plan: t.Callable[[Data], Planned],
    apply: t.Callable[[Data, Planned], Data],
    check: bool,
) -> tuple[Data, Planned, Data]:
    """(the module's result, the plan over what is there now, what is there now); what did not stay as it was set is a warning.

    gather and apply answer with ``stats``; nothing planned, or check, writes nothing. Raises as they do.
    """
    actual = gather()
    planned = after = plan(actual)
    stats = actual["stats"]
    if planned.changed and not check:
        stats = total(stats, apply(actual, planned))
        actual = gather()
        stats, after = total(stats, actual["stats"]), plan(actual)
        planned.warnings.extend(f"{change.kind} {change.id} is not as it was set" for change in after.changes)
    return dict(planned.result(), diff=planned.diff(), warnings=planned.warnings, stats=stats), after, actual
