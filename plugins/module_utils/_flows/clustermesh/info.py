# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster mesh as it is, without writing: the same reading and planning as clustermesh, and a report of both."""

from __future__ import annotations

import typing as t

from ..._kilo.plan import plan_clustermesh
from ..._kilo.report import report
from ..._kubernetes.clusters import Clusters
from .converge import gather, looked_up, plan_node_annotations, settings_of, shown
from .objects import Management


def run(request: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    settings = settings_of(request)
    clusters = Clusters(request["clusters"], request.get("timeout") or 120.0)
    meshes = list(request.get("meshes") or ()) + Management.of(request, clusters).meshes
    gathered, refused = gather(clusters, meshes)
    settings = looked_up(settings, gathered, clusters.timeout)
    plan = plan_clustermesh(meshes, gathered, settings)
    noted = plan_node_annotations(plan, gathered, settings)[0]
    plan.plan.extend(noted)
    result = plan.plan.result()
    result.update(
        report(meshes, gathered, settings, plan),
        changed=False,
        skipped_nodes=[refusal._asdict() for refusal in plan.plan.refused + refused],
        drift=shown(plan),
        in_sync=not plan.plan.changes and not clusters.failures,
        anchors=plan.anchors,
        adoptable=plan.adoptable,
        refused=[],
        failures=clusters.failures,
        stats=clusters.stats(),
        warnings=plan.plan.warnings,
    )
    return result
