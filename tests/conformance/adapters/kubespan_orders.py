# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The orders of KubeSpan's operations, compared as enumerations (decision 52): texts name our parts, the order is ours."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh import kubespan_order

Input = t.Mapping[str, t.Any]
Answer = t.Dict[str, t.Any]
Part = kubespan_order.Part
#: How texts name the parts of an operation; the first pattern that is found decides, and of its parts the one that the operation has.
PARTS: t.Sequence[t.Tuple[str, t.Sequence[Part]]] = (
    ("clamp", (Part.CLAMP,)),
    ("target|element|nft set", (Part.TARGETS,)),
    ("nft", (Part.TABLE, Part.TARGETS)),
    ("rule", (Part.RULES,)),
    ("route", (Part.ROUTES,)),
    ("address|ula", (Part.ADDRESS,)),
    ("mtu", (Part.MTU, Part.LINK)),
    ("gain", (Part.GAINING_PEER,)),
    ("los[ei]", (Part.LOSING_PEER,)),
    ("wireguard|peer", (Part.WIREGUARD, Part.PEER_WITH_IPS, Part.PEER, Part.WIREGUARD_IN_PLACE, Part.GAINING_PEER)),
    ("link up", (Part.LINK_UP,)),
    ("link|interface", (Part.LINK,)),
)


def place_in(order: t.Sequence[str], text: str) -> t.Optional[int]:
    if "state file" in text.lower():
        return len(order)  # it goes after everything
    for pattern, parts in PARTS:
        if re.search(pattern, text.lower()):
            return next((order.index(part.value) for part in parts if part.value in order), None)
    return None


def operation_of(name: str) -> str:
    """Our name of an operation: of a prefix, a size or a key there is one change each, or two with the same order."""
    word = name.split("_", maxsplit=1)[0]
    if name in kubespan_order.ORDERS or word not in ("prefix", "mtu", "key", "secret"):
        return name
    return next(ours for ours in kubespan_order.ORDERS if ours.startswith(word))


def apply_order(vector: Input) -> Answer:
    """An enumeration in order: the vector's own names of our parts, in the order that we apply them."""
    order = kubespan_order.safe_order(operation_of(vector["operation"]))
    places = [place_in(order, text) for text in vector["safe_order"]]
    if None in places or len(set(places)) != len(places):
        return {"safe_order": order}
    return {"safe_order": [text for dummy, text in sorted(zip(places, vector["safe_order"]))]}
