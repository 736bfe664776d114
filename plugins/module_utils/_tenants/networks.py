# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks: a twin with labels only, its ID back into the provider ID, and the state (9)."""

from __future__ import annotations

from .fields import get, name, text, uid
from .links import link_labels
from .options import PEERING
from .peerings import wanted_peerings
from .profile import NETWORK
from .provider_ids import NetworkID, format_id
from .states import AVAILABLE, network_state
from .work import MAIN, TWIN, Work, twin_manifest


def plan_network(work: Work) -> None:
    """One network that is not being deleted."""
    source, options = work.subject, work.options
    before = get(source, "status", "state")
    spec = None
    if PEERING in options.switches:
        peerings = wanted_peerings(work)
        spec = {"peerings": peerings} if peerings else None
    manifest = twin_manifest(work, NETWORK, link_labels(NETWORK, source, options.profile), spec=spec)
    owned = [("spec", "peerings")] if PEERING in options.switches else []
    # a failed write must not leave a network that looks ready; one that was ready stays so
    refused = work.status_step({"state": network_state(before, False)})
    twin = work.apply(TWIN, manifest, owned, otherwise=refused)
    if twin is None:
        return
    ident = text(twin, "spec", "id")
    if not ident:
        work.status({"state": network_state(before, False)})
        work.wait("id_not_allocated", "the network side has not given an ID yet")
        return
    if not text(source, "spec", "providerID"):
        parts = NetworkID(options.apinet_namespace, name(twin), ident, uid(twin))
        work.patch_source(MAIN, {"spec": {"providerID": format_id(parts, options.profile)}})
    work.status({"state": AVAILABLE})
