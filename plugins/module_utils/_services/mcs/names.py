# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and marks of the Multi-Cluster Services API, and of what we make for it (mcs 1). Pure."""

from __future__ import annotations

import functools
import hashlib

GROUP = "multicluster.x-k8s.io"
#: The versions that we know, the one that is written where it is served first.
VERSIONS = (GROUP + "/v1beta1", GROUP + "/v1alpha1")
EXPORT, IMPORT, SERVICE, SLICE = "ServiceExport", "ServiceImport", "Service", "EndpointSlice"
#: Labels of the API: the Service that a slice or derived Service is of, and the cluster that its endpoints are in.
SERVICE_LABEL, SOURCE_LABEL = "multicluster.kubernetes.io/service-name", "multicluster.kubernetes.io/source-cluster"
#: Who manages our slices: nobody else may take them for their own.
SLICES_MANAGED_BY = "multicluster-mcs.multicluster.network"
#: When a source was first found unreachable, on its slices.
UNREACHABLE_SINCE = "multicluster.network/unreachable-since"
#: Which export decided first, on imports, where that is asked for.
FIRST_EXPORT = "multicluster.network/first-export"
DERIVED_PREFIX = "derived-"
_LENGTH = 10
#: Digits and consonants: no text of them is an English term.
_LETTERS = "0123456789bcdfghjklmnpqrstvwxyz"
#: (namespace, name)
Id = tuple[str, str]


@functools.lru_cache(maxsize=65536)
def derived_name(namespace: str, name: str) -> str:
    """The name of the Service that has the address of an import: nothing that a user would choose, and never too long."""
    number = int.from_bytes(hashlib.sha256(f"{namespace}/{name}".encode()).digest(), "big")
    letters = []
    for dummy in range(_LENGTH):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return DERIVED_PREFIX + "".join(letters)


def slices_name(derived: str, cluster_id: str) -> str:
    """How the names of the slices of one source cluster begin."""
    return f"{derived}-{cluster_id}"
