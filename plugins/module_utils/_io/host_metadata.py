# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider's metadata service says of the host that asks: the facility in which it stands (ccm 4, 14.9)."""

from __future__ import annotations

from .._values.refused import ValueRefused
from .json_api import JsonApi, Manners, Transport, https

#: No token is sent, and a GET may be asked again whatever came of it.
MANNERS = Manners(lambda body: "", lambda status, method, path: "no_location", lambda status, method: status is None or status >= 500)


def host_facility(url: str, plain_http: bool = False, send: Transport = https, seconds: float = 10.0) -> str:
    """``facility`` of ``GET <url>/metadata``; whether it names a place is for locations.location_of to say.

    Raises ValueRefused ``no_location``: the Service is not refused for another reason than that its place is not known.
    """
    try:
        answer = JsonApi(url, {}, MANNERS, send, plain_http, tries=2, request_s=seconds / 2, total_s=seconds).call("GET", "/metadata")
    except ValueRefused as error:
        raise ValueRefused("no_location", "the host's metadata could not be read: {0}".format(error.message)) from None
    facility = answer.get("facility") if isinstance(answer, dict) else None
    if not isinstance(facility, str) or not facility:
        raise ValueRefused("no_location", "the host's metadata at {0} name no facility".format(url))
    return facility
