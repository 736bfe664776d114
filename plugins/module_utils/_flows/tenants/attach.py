# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attaching interfaces to nodes, as a machine pool does it: twin, readiness, provider ID (20)."""

from __future__ import annotations

import time
import typing as t

from ..._tenants.attachment import READS, Attachment, attached_to, plan_attachment, plan_detachment
from ..._tenants.converge import PASS_LIMIT, Result, predict_pass, run_passes
from ..._tenants.links import parse_interface_id
from ..._tenants.object_turn import ObjectTurn
from ..._tenants.options import SOURCE, Options
from ..._tenants.view import View
from ..._values.refused import ValueRefused
from .converge import open_run, report_turns
from .store import Writer, gather

#: Seconds between two looks at a twin that is not ready yet.
_POLL = 1.0


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    leaving = request.get("state") == "absent"
    opened = open_run(dict(request, state="present"))
    clusters, stores, options = opened.clusters, opened.stores, opened.options
    desired = [_desired(entry, leaving, options) for entry in request.get("interfaces") or ()]
    if len({one.label for one in desired}) != len(desired):
        raise ValueRefused("duplicate_interface", "interfaces names one interface twice")
    result = None
    view = gather(clusters, stores, options, READS) if len(stores) == len(opened.names) else None
    if view is not None and not view.unread:
        if leaving and request.get("detach_namespace"):
            desired = sorted(set(desired) | set(attached_to(view, request["detach_namespace"])))

        def plan(current: View) -> list[ObjectTurn]:
            if leaving:
                return plan_detachment(current, desired)
            return plan_attachment(current, desired, request.get("require_ready") is not False)

        result = predict_pass(view, plan) if check else run_passes(view, plan, Writer(stores, options), PASS_LIMIT)
        deadline = time.monotonic() + float(request.get("wait") or 0)
        while not check and _not_ready(result) and time.monotonic() < deadline:
            time.sleep(_POLL)
            view = gather(clusters, stores, options, READS)
            if view.unread:
                break
            more = run_passes(view, plan, Writer(stores, options), PASS_LIMIT)
            result = more._replace(done=result.done + more.done, passes=result.passes + more.passes)
    return report_turns(opened, result, SOURCE, "detach" if leaving else "attach")


def _desired(entry: t.Mapping[str, t.Any], leaving: bool, options: Options) -> Attachment:
    one = Attachment(str(entry["namespace"]), str(entry["name"]), "" if leaving else str(entry.get("node") or ""))
    if not leaving:
        # it becomes part of an ID that must be readable again
        parse_interface_id(f"x/x/{one.node}/x", options.profile)
    return one


def _not_ready(result: Result) -> bool:
    return any(condition.reason == "twin_not_ready" for outcome in result.outcomes for condition in outcome.reasons)
