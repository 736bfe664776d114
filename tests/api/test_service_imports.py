# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_imports between two real API servers. The audit logs say what was really asked and written."""

from __future__ import annotations

from mcs_clusters import derived_name, other, pair, reasons

__all__ = ["other", "pair"]
WEB = ("shop", "web")


def test_one_service_of_two_clusters(pair):
    pair.export("aws", WEB, "10.2.3.1", "10.2.3.2")
    pair.export("gcp", WEB, "10.4.3.1")
    mark = pair.mark()
    result = pair.run(check=True)
    assert result["changed"] and result["failures"] == result["refused"] == [] and pair.writes(mark) == {"aws": [], "gcp": []}
    assert "addresses of Service shop/" + derived_name(*WEB) in str(result["diff"]["after"])

    result = pair.run()
    assert (result["failures"], result["refused"], result["warnings"]) == ([], [], [])
    assert result["sources"]["aws"] == {"listed": True, "exports": 1, "valid": 1, "conflicts": 0} and result["imports"] == {"aws": 1, "gcp": 1}
    for name in ("aws", "gcp"):
        derived, imported = pair.derived(name, WEB), pair.imported(name, WEB)
        assert "selector" not in derived["spec"] and imported["spec"]["ips"] == derived["spec"]["clusterIPs"]
        assert imported["spec"]["ipFamilies"] == ["IPv4"] and imported["spec"]["type"] == "ClusterSetIP"
        assert imported["spec"]["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
        assert imported["status"]["clusters"] == [{"cluster": "aws"}, {"cluster": "gcp"}]
        found = pair.slices(name, WEB)
        assert {source: sorted(rows) for source, rows in found.items()} == {"aws": ["10.2.3.1", "10.2.3.2"], "gcp": ["10.4.3.1"]}
        assert pair.said(name, WEB) == {"Valid": ("True", "Valid"), "Ready": ("True", "Exported"), "Conflict": ("False", "NoConflicts")}

    mark = pair.mark()
    result = pair.run()
    assert not result["changed"] and pair.writes(mark) == {"aws": [], "gcp": []}
    for asked in pair.asked(mark).values():
        assert {verb for verb, path, status in asked} == {"list"} and len([row for row in asked if row[2] == 200]) == 5

    pair.unexport("aws", WEB)
    result = pair.run()
    assert result["failures"] == [] and {source: sorted(rows) for source, rows in pair.slices("aws", WEB).items()} == {"gcp": ["10.4.3.1"]}
    assert pair.imported("aws", WEB)["status"]["clusters"] == [{"cluster": "gcp"}]
    pair.unexport("gcp", WEB)
    assert reasons(pair.run()) == [] and all(pair.imported(name, WEB) is pair.derived(name, WEB) is None for name in ("aws", "gcp"))
    assert pair.slices("aws", WEB) == {}
    assert not pair.run()["changed"]
