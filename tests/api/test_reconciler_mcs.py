# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Multi-Cluster Services API, kept by the reconciler's process over real API servers."""

from __future__ import annotations

import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import service_imports
from faulty_server import revive
from mcs_clusters import VERSIONS, derived_name, ends_of, gone, namespace, other, pair, service, wait_for
from test_reconciler import quiet, until
from test_reconciler_capabilities import besides_leases, kept
from test_reconciler_faults import Wire

__all__ = ["other", "pair"]
WEB = ("shop", "web")


def nothing_to_do(pair):
    result = service_imports.run(pair.request(), check=True)
    return not result["changed"] and result["failures"] == []


def test_exports_come_and_go(pair):
    pair.export("aws", ("bank", "till"), "10.2.3.9")
    with kept(mcs=pair.request()) as control_loop:
        assert pair.imported("gcp", ("bank", "till")) is not None
        pair.export("aws", WEB, "10.2.3.1")
        until(lambda: all(pair.said("aws", WEB).get(kind, ("",))[0] == "True" for kind in ("Valid", "Ready")))
        until(lambda: pair.slices("gcp", WEB).get("aws") and pair.slices("aws", WEB).get("aws"))
        assert pair.imported("gcp", WEB)["spec"]["ips"] == [pair.derived("gcp", WEB)["spec"]["clusterIP"]]
        pair.export("gcp", WEB, "10.4.3.1", ports=[{"name": "other", "port": 8080}])
        until(
            lambda: [pair.said(name, WEB).get("Conflict") for name in ("aws", "gcp")] == [("True", "PortConflict")] * 2
        )
        until(lambda: len(pair.imported("aws", WEB)["spec"]["ports"]) == 2)

        quiet(control_loop)
        mark = pair.mark()
        pair.put("aws", ends_of(*WEB, "10.2.3.1", "10.2.3.2"))
        until(lambda: len(pair.slices("gcp", WEB)["aws"]) == len(pair.slices("aws", WEB)["aws"]) == 2)
        quiet(control_loop)
        writes = {name: besides_leases(rows) for name, rows in pair.writes(mark).items()}
        base = "/apis/discovery.k8s.io/v1{0}/namespaces/shop/endpointslices/"
        assert [len(writes[name]) for name in ("aws", "gcp")] == [2, 1], (writes, base)

        for name in ("aws", "gcp"):
            pair.unexport(name, WEB)
        until(lambda: all(pair.imported(name, WEB) is pair.derived(name, WEB) is None for name in ("aws", "gcp")))
        until(lambda: all(pair.slices(name, WEB) == {} for name in ("aws", "gcp")))
        assert pair.imported("gcp", ("bank", "till")) is not None
        assert not any("event=failed" in line for line in control_loop.lines), control_loop.lines
    assert nothing_to_do(pair)


def test_edits_are_put_right_and_late_things_count(pair):
    with kept(mcs=pair.request()) as control_loop:
        pair.claim("aws", WEB)
        until(lambda: pair.said("aws", WEB).get("Valid") == ("False", "NoService"))
        pair.put("aws", service(*WEB, [{"name": "http", "protocol": "TCP", "port": 80}], {}), ends_of(*WEB, "10.2.3.1"))
        until(lambda: pair.slices("gcp", WEB).get("aws"))
        pair.drop("gcp", "Service", WEB[0], derived_name(*WEB))
        until(lambda: pair.derived("gcp", WEB) is not None)
        until(lambda: pair.imported("gcp", WEB)["spec"]["ips"] == [pair.derived("gcp", WEB)["spec"]["clusterIP"]])
        pair.put("aws", namespace("late"))
        pair.export("aws", ("late", "web"), "10.2.3.4")
        until(lambda: pair.imported("aws", ("late", "web")) is not None)
        assert pair.imported("gcp", ("late", "web")) is None
        pair.put("gcp", namespace("late"))
        until(lambda: pair.imported("gcp", ("late", "web")) is not None)
        pair.unexport("aws", ("late", "web"))
        until(lambda: pair.imported("gcp", ("late", "web")) is None)
        assert not any("event=failed" in line for line in control_loop.lines), control_loop.lines
        pair.drop("aws", "Service", *WEB)
        until(lambda: pair.imported("gcp", WEB) is None and pair.said("aws", WEB)["Valid"] == ("False", "NoService"))


def test_the_api_may_come_later(pair):
    gone(pair.clients["gcp"])
    pair.export("aws", WEB, "10.2.3.1")
    with kept(mcs=dict(pair.request(), install_crds=False)) as control_loop:
        until(lambda: sorted(pair.slices("aws", WEB)) == ["aws"])
        pair.put("aws", ends_of(*WEB, "10.2.3.1", "10.2.3.2"))
        until(lambda: len(pair.slices("aws", WEB)["aws"]) == 2)  # the others go on without it
        pair.run()
        wait_for(pair.clients["gcp"], VERSIONS[0], "ServiceExport")
        pair.export("gcp", WEB, "10.4.3.1")
        until(lambda: sorted(pair.slices("aws", WEB)) == sorted(pair.slices("gcp", WEB)) == ["aws", "gcp"], 40)
        until(lambda: pair.said("gcp", WEB).get("Ready") == ("True", "Exported"))
        assert not any("event=failed" in line for line in control_loop.lines), control_loop.lines
    assert nothing_to_do(pair)


@pytest.mark.parametrize("fault", ["unreachable", "cut", pytest.param("killed", marks=pytest.mark.takes_long)])
def test_a_cluster_that_goes_away_and_comes_back(pair, fault):
    for number in range(7):
        pair.export("aws", ("shop", f"s{number}"), f"10.2.3.{1 + number}")
    wire = Wire(pair.servers["aws"])
    request = pair.request(timeout=3)
    request["clusters"][0]["api_url"] = wire.url
    try:
        with kept(mcs=request):
            until(lambda: all(sorted(pair.slices("gcp", ("shop", f"s{number}"))) == ["aws"] for number in range(7)))
            mark = pair.servers["gcp"].mark()
            if fault == "killed":
                pair.servers["aws"].processes[-1].kill()
                pair.servers["aws"].processes[-1].wait(10)
            else:
                wire.set(fault)
                for number in range(7):
                    pair.unexport("aws", ("shop", f"s{number}"))
                    pair.export("aws", ("shop", f"s{number}"), f"10.2.4.{1 + number}")
            pair.export("gcp", WEB, "10.4.3.1")
            until(lambda: sorted(pair.slices("gcp", WEB)) == ["gcp"], 40)
            time.sleep(2)
            seen = besides_leases(pair.servers["gcp"].writes(mark))
            assert not [row for row in seen if row[0] == "delete"] and len(seen) < 20, seen
            revive(pair.servers["aws"])
            wire.set("pass")
            subnet = "10.2.3." if fault == "killed" else "10.2.4."
            until(
                lambda: all(
                    sorted(pair.slices("gcp", ("shop", f"s{number}"))["aws"]) == [subnet + str(1 + number)]
                    for number in range(7)
                ),
                40,
            )
            until(
                lambda: (
                    sorted(pair.slices("aws", WEB)) == ["gcp"]
                    and pair.said("gcp", WEB)["Ready"] == ("True", "Exported")
                ),
                40,
            )
            until(
                lambda: nothing_to_do(pair), 40
            )  # its status of the exports that were made anew comes after their slices
    finally:
        revive(pair.servers["aws"])
        wire.close()
    assert nothing_to_do(pair)
