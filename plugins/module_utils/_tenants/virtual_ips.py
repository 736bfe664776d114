# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual IPs: an address of the network side for each, shown in the status (10)."""

from __future__ import annotations

from .fields import address_or_none, get
from .links import link_labels
from .profile import IP, VIRTUAL_IP
from .work import TWIN, Work, twin_manifest


def plan_virtual_ip(work: Work) -> None:
    """One virtual IP that is not being deleted. Who uses it is the interface's business."""
    spec = {"type": "Public", "ipFamily": get(work.subject, "spec", "ipFamily")}
    manifest = twin_manifest(work, IP, link_labels(VIRTUAL_IP, work.subject, work.options.profile), spec=spec)
    twin = work.apply(TWIN, manifest)
    if twin is None:
        return
    address = address_or_none(get(twin, "spec", "ip"))
    if address is None:
        work.wait("address_not_allocated", "the network side has not given an address yet")
        return
    work.status({"ip": address})
