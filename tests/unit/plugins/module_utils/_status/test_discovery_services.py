# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preflight reports of discovery services."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._status import discovery_services

URL = "https://discovery.example.com/"


def plan(reason="", message="", members=2, url=URL):
    shown = {"url": url, "reached": reason != "service_away", "members": members, "reason": reason, "message": message}
    return {"plan": {}, "discovery": shown}


def test_services_that_are_reached_are_named_and_those_that_are_not_are_findings():
    away = (
        "the discovery service discovery.example.com:443 is not reached: refused [service_away]; peers stay as they are"
    )
    plans = {
        "a": plan(),
        "b": plan("service_away", away, 0),
        "c": {"plan": {}},
        "d": plan("wrong_secret", "x", 0, "http://other"),
    }
    assert discovery_services.findings(plans) == [
        {
            "where": "b",
            "object": "discovery service",
            "reason": "service_away",
            "message": "the discovery service discovery.example.com:443 is not reached: refused",
        }
    ]
    assert discovery_services.lines(plans) == [
        "discovery service http://other: reached by 1 of 1 nodes, 0 other members of the mesh",
        f"discovery service {URL}: reached by 1 of 2 nodes, 2 other members of the mesh",
    ]
    assert discovery_services.findings({"c": {}}) == [] == discovery_services.lines({})
