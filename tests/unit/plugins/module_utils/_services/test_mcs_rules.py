# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of the Multi-Cluster Services API: names, exports, merge, conditions, slices, and what one cluster gets."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.endpoints import Endpoint, Group
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.conditions import Reach, conditions
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.definitions import definitions
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.exports import (
    Claim,
    Export,
    read_exports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.manifests import (
    derived_service,
    import_slices,
    port_names,
    service_import,
    slice_labels,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.merge import merge
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import VERSIONS, derived_name
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.plan import (
    Here,
    remove_all,
    source_of,
    unit_of,
)
from hypothesis import given, strategies as st
from mcs_world import MANAGER, OPTIONS, V1, ends, export, listed, planned, read, service

WEB = ("shop", "web")
HTTP, ALT, DNS = (
    {"name": name, "protocol": protocol, "port": port}
    for name, protocol, port in (("http", "TCP", 80), ("alt", "TCP", 80), ("dns", "UDP", 53))
)


def one(cluster, day=1, ports=(HTTP,), headless=False, **more):
    base = Export(
        cluster,
        cluster,
        f"2025-01-0{day}T00:00:00Z",
        "u",
        headless,
        tuple(dict(port) for port in ports),
        "None",
        None,
        "Cluster",
        None,
        ("IPv4",),
        {},
        {},
        (),
    )
    return base._replace(**more)


def test_names_are_short_and_never_words():
    found = {derived_name(space, name) for space in ("a", "a-b", "b") for name in ("c", "b-c", "web" * 21)}
    assert len(found) == 9 and all(re.match(r"derived-[0-9bcdfghjklmnpqrstvwxyz]{10}\Z", name) for name in found)
    assert derived_name("shop", "web") == "derived-q6841g8hxx", "names that change would change every address"


@pytest.mark.parametrize(
    "ports, expected",
    [
        ((HTTP,), None),
        (
            (ALT,),
            "; cluster gcp has no endpoints behind any port of the import: ports need the same name, protocol and number everywhere",
        ),
        ((ALT, DNS), "; cluster gcp has no endpoints behind its port 80/TCP 'alt': "),
        ((dict(ALT, name=""), DNS), "; cluster gcp has no endpoints behind its port 80/TCP without a name: "),
        ((HTTP, DNS), ""),
    ],
)
def test_a_port_conflict_names_clusters_with_endpoints_behind_nothing(ports, expected):
    conflict = merge(WEB, [one("aws"), one("gcp", 2, ports)]).conflict
    assert (conflict is None) == (expected is None)
    assert conflict is None or (expected in conflict.message if expected else "no endpoints" not in conflict.message)


# -- exports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (None, "NoService"),
        (service(WEB, type="ExternalName", externalName="example.org"), "InvalidServiceType"),
        (service(WEB, ports=[{"port": 0}]), "Refused"),
        (service(WEB, labels={"mirrored-svc": "true"}), "Refused"),
        (service(WEB, labels={"multicluster.kubernetes.io/service-name": "x"}), "Refused"),
        (service(WEB), "Valid"),
        (service(WEB, clusterIP="None", ports=None), "Valid"),
    ],
)
def test_what_an_export_is_worth(made, reason):
    claim = read({"aws": listed([export(WEB)], [made] if made else [])})["aws"].claims[WEB]
    assert claim.reason == reason and (claim.export is not None) == (reason == "Valid")


@pytest.mark.parametrize(
    ("grant", "spaces", "allowed"),
    [
        (None, {"shop": True, "kube-system": False, "default": False}, None),
        (["shop", "default"], {"shop": True, "default": True, "bank": False}, None),
        ("team=a", {"shop": False}, None),
        ([], {"shop": False}, None),
    ],
)
def test_who_may_export_from_where(grant, spaces, allowed):
    options = OPTIONS._replace(namespaces={"aws": grant})
    places = [(space, "web") for space in spaces]
    lists = listed([export(place) for place in places], [service(place) for place in places], spaces=tuple(spaces))
    claims = read({"aws": lists}, options)["aws"].claims
    assert {place[0]: claim.reason == "Valid" for place, claim in claims.items()} == spaces


def test_a_selector_of_namespaces():
    lists = listed([export(WEB)], [service(WEB)])
    lists.namespaces[0]["metadata"]["labels"] = {"team": "a"}
    assert read({"aws": lists}, OPTIONS._replace(namespaces={"aws": "team=a"}))["aws"].claims[WEB].reason == "Valid"


def test_what_goes_exports_nothing():
    going = listed([export(WEB, deletionTimestamp="2026-01-01T00:00:00Z")], [service(WEB)])
    assert read({"aws": going})["aws"].claims == {}
    lists = listed([export(WEB)], [service(WEB)])
    lists.namespaces[0]["status"] = {"phase": "Terminating"}
    assert read({"aws": lists})["aws"].claims == {}


KEYS = st.text(alphabet="abkz./-_A\u212a\x00 ", max_size=80) | st.sampled_from(
    ["app", "kubernetes.io/x", "a.k8s.io/b", "x" * 64, "a/" + "b" * 63, "a..b/c"]
)


@given(st.dictionaries(KEYS, st.text(max_size=70) | st.sampled_from(["v" * 63, "v" * 64]), max_size=6))
def test_labels_that_imports_carry_are_labels(given_labels):
    claim = read({"aws": listed([export(WEB, exportedLabels=given_labels)], [service(WEB)])})["aws"].claims[WEB]
    for key, value in claim.export.labels.items():
        prefix, slash, name = key.rpartition("/")
        assert re.match(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z", name) and not prefix.endswith(
            ("kubernetes.io", "k8s.io")
        )
        assert not slash or re.match(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z", prefix)
        assert re.match(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z", value)
    assert bool(set(given_labels) - set(claim.export.labels)) == ("left out" in claim.message)


@pytest.mark.parametrize("protocol", ["a b", "x" * 64, "/a", "A/../b"])
def test_protocols_and_names_that_no_server_takes(protocol):
    port = {"name": "http", "port": 80, "protocol": "TCP"}
    slices = [ends(WEB, "10.2.0.1", ports=[dict(port, appProtocol=protocol)])]
    claim = read({"aws": listed([export(WEB)], [service(WEB, [dict(port, appProtocol=protocol)])], slices)})[
        "aws"
    ].claims[WEB]
    merged = merge(WEB, [claim.export])
    assert "appProtocol" not in merged.shape.ports[0]
    assert import_slices(merged, claim.export, "u", V1, VERSIONS[0], (), 100)[0]["ports"] == [port]
    for name in ("../web", "Web", "w" * 64, "a b"):
        place = ("shop", name)
        assert read({"aws": listed([export(place)], [service(place)])})["aws"].claims[place].reason == "Refused"


def test_huge_labels_are_not_carried():
    many = {f"key{number}": "v" * 63 for number in range(1000)}
    found = read(
        {"aws": listed([export(WEB, exportedLabels=many, exportedAnnotations={"a": "x" * 40_000})], [service(WEB)])}
    )["aws"]
    assert found.claims[WEB].export.labels == found.claims[WEB].export.annotations == {} and len(found.refused) == 1
    assert len(found.claims[WEB].message) < 1000


def test_endpoints_of_others_and_of_the_fabric_are_none():
    mine = ends(
        WEB,
        "10.2.0.1",
        "10.4.0.1",
        "10.3.0.1",
        "127.0.0.1",
        hints={"forZones": [{"name": "z"}]},
        targetRef={"kind": "Pod", "name": "p"},
        zone="z1",
        hostname="h-0",
        nodeName="n",
    )
    copied = ends(WEB, "10.2.0.2", name="derived-x", labels={"multicluster.kubernetes.io/source-cluster": "gcp"})
    found = read({"aws": listed([export(WEB)], [service(WEB)], [mine, copied])})["aws"]
    (group,) = found.claims[WEB].export.groups
    assert group.endpoints == (Endpoint(("10.2.0.1",), {"ready": True}, "h-0", "z1", None, None),)
    assert sorted(row.reason for row in found.refused) == ["outside_grant", "special_address"]


# -- merge ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "ports", "reasons"),
    [
        ([[HTTP]], ["http80"], ()),
        ([[HTTP, DNS]], ["http80", "dns53"], ("PortConflict",)),
        ([[dict(HTTP, port=81)]], ["http80"], ("PortConflict",)),
        ([[ALT]], ["http80"], ("PortConflict",)),
        ([[dict(HTTP, protocol="UDP")]], ["http80"], ("PortConflict",)),
        ([[dict(HTTP, appProtocol="grpc")]], ["http80"], ("PortConflict",)),
        ([[DNS, dict(HTTP, port=81)], [dict(ALT, port=81)]], ["http80", "dns53", "alt81"], ("PortConflict",)),
    ],
)
def test_ports(others, ports, reasons):
    exports = [one("aws"), *(one(f"c{index}", 2 + index, found) for index, found in enumerate(others))]
    for order in itertools.permutations(exports):
        merged = merge(WEB, order)
        assert [port["name"] + str(port["port"]) for port in merged.shape.ports] == ports
        assert (merged.conflict.reasons if merged.conflict else ()) == reasons


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"affinity": "ClientIP"}, "SessionAffinityConflict"),
        ({"affinity_config": {"clientIP": {"timeoutSeconds": 1}}}, "SessionAffinityConfigConflict"),
        ({"policy": "Local"}, "InternalTrafficPolicyConflict"),
        ({"distribution": "PreferClose"}, "TrafficDistributionConflict"),
        ({"labels": {"a": "b"}}, "LabelsConflict"),
        ({"annotations": {"a": "b"}}, "AnnotationsConflict"),
        ({"headless": True}, "TypeConflict"),
    ],
)
def test_the_oldest_decides(more, reason):
    field, value = next(iter(more.items()))
    for first, second, desired in (({}, more, getattr(one("x"), field)), (more, {}, value)):
        merged = merge(WEB, [one("gcp", 2, **second), one("aws", 1, **first)])
        assert (
            getattr(merged.shape, field) == desired and merged.conflict.reasons == (reason,) and merged.winner == "aws"
        )
        assert merged.conflict.message.endswith(
            "(1 of 2 clusters differs); cluster aws decides: its export is the oldest"
        )
    kept = merge(WEB, [one("gcp", 2, **more), one("aws")], first="gcp")
    assert getattr(kept.shape, field) == value and kept.conflict.message.endswith(
        "cluster gcp decides: its export came first"
    )


def test_equal_stamps_go_by_id_and_then_by_uid():
    assert merge(WEB, [one("b"), one("a")]).winner == "a"
    assert merge(WEB, [one("a", uid="2", labels={"x": "2"}), one("a", uid="1", labels={"x": "1"})]).shape.labels == {
        "x": "1"
    }


def test_types_that_differ_keep_their_clusters_and_lose_their_endpoints():
    merged = merge(WEB, [one("aws"), one("gcp", 2, headless=True), one("merit", 3, headless=True)])
    assert [member.cluster for member in merged.members] == ["aws"] and merged.clusters == ("aws", "gcp", "merit")
    assert merged.conflict.reasons == ("TypeConflict",) and "2 of 3 clusters differ" in merged.conflict.message


def test_a_winner_that_cannot_be_read_goes_on_to_decide():
    standing = merge(WEB, [one("aws", ports=[HTTP], affinity="ClientIP")]).shape
    merged = merge(WEB, [one("gcp", 2, ports=[dict(HTTP, port=81), DNS])], standing=standing, held=["aws"])
    assert [port["port"] for port in merged.shape.ports] == [80, 53] and merged.shape.affinity == "ClientIP"
    assert merged.clusters == ("aws", "gcp") and merged.conflict is None and merged.held == {"aws"}


exports = st.lists(
    st.builds(
        lambda cluster, day, ports, headless, families: one(cluster, day, ports, headless, families=families),
        st.sampled_from(["aws", "gcp", "merit", "ibm"]),
        st.integers(1, 3),
        st.lists(
            st.sampled_from([HTTP, ALT, DNS, dict(HTTP, port=81), dict(DNS, name="")]),
            max_size=3,
            unique_by=lambda port: port["name"],
        ),
        st.booleans(),
        st.sampled_from([("IPv4",), ("IPv6",), ("IPv4", "IPv6")]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda found: found.cluster,
)


@given(exports, st.randoms(use_true_random=False))
def test_order_means_nothing_and_ports_never_clash(found, chance):
    merged, shuffled = merge(WEB, found), list(found)
    chance.shuffle(shuffled)
    assert merge(WEB, shuffled) == merged
    ports = merged.shape.ports
    assert (
        len({port["name"] for port in ports}) == len(ports) == len({(port["protocol"], port["port"]) for port in ports})
    )
    if not merged.shape.headless:
        names = [port.get("name", "") for port in derived_service(merged, ["IPv4"], None, None)["spec"]["ports"]]
        assert len(set(names)) == len(names) and (len(names) == 1 or all(names)), "as a Service wants them"


# -- conditions -------------------------------------------------------------------------------------------------------


def test_conditions_of_every_state():
    claim = Claim(export(WEB), one("aws"), "Valid", "the Service is exported")
    merged = merge(WEB, [one("aws")])

    def said(reach, claim=claim, merged=merged):
        return {
            row["type"]: (row["status"], row["reason"])
            for row in conditions(claim, merged, reach, "2026-01-01T00:00:00Z")
        }

    assert said(Reach()) == {
        "Valid": ("True", "Valid"),
        "Ready": ("True", "Exported"),
        "Conflict": ("False", "NoConflicts"),
    }
    assert said(Reach(pending=frozenset(["gcp"])))["Ready"] == ("False", "Pending")
    assert said(Reach(frozenset(["gcp"]), frozenset(["ibm"])))["Ready"] == ("False", "Failed")
    assert said(Reach(unknown=frozenset(["gcp"])))["Ready"] == ("False", "Pending")
    assert said(Reach(), claim._replace(export=None, reason="NoService"), None) == {
        "Valid": ("False", "NoService"),
        "Ready": ("False", "Pending"),
    }
    old = dict(
        claim.object,
        status={
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
                {"type": "Theirs", "status": "True"},
            ]
        },
    )
    rows = {
        row["type"]: row
        for row in conditions(
            claim._replace(object=old), merged, Reach(unknown=frozenset(["gcp"])), "2026-01-01T00:00:00Z"
        )
    }
    assert (
        rows["Ready"]["status"] == "True"
        and rows["Ready"]["lastTransitionTime"].startswith("2020")
        and "Theirs" not in rows
    )
    assert rows["Valid"]["lastTransitionTime"].startswith("2026") and rows["Valid"]["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("addresses", "status", "reason", "expected"),
    [
        (["10.66.23.31"], "False", "Failed", "no endpoint is left"),
        (["10.66.23.31", "10.2.3.1"], "True", "Exported", "imported without some endpoints"),
        (["10.2.3.1"], "True", "Exported", "every cluster that has the namespace imports it"),
    ],
)
def test_an_export_reports_which_endpoints_were_refused(addresses, status, reason, expected):
    """One with all endpoints refused is not ready, whatever was written for it."""
    guard = Guard({"aws": {"pod_cidrs": ["10.2.0.0/16"], "node_cidrs": ["10.66.23.0/24"]}}, allow_host_network=False)
    found = read_exports("aws", listed([export(WEB)], [service(WEB)], [ends(WEB, *addresses)]), OPTIONS, guard).claims[
        WEB
    ]
    rows = {row["type"]: row for row in conditions(found, merge(WEB, [found.export]), Reach(), "2026-01-01T00:00:00Z")}
    assert (rows["Valid"]["status"], rows["Ready"]["status"], rows["Ready"]["reason"]) == ("True", status, reason)
    assert expected in rows["Ready"]["message"] and ("host_network_in_clear" in rows["Ready"]["message"]) == (
        addresses[0] == "10.66.23.31"
    )


def test_what_was_said_of_conflicts_stays_while_not_all_can_be_asked():
    old = dict(
        export(WEB),
        status={"conditions": [{"type": "Conflict", "status": "True", "reason": "PortConflict", "message": "m"}]},
    )
    merged = merge(WEB, [one("aws")], held=["gcp"])
    rows = {
        row["type"]: row
        for row in conditions(Claim(old, one("aws"), "Valid", ""), merged, Reach(), "2026-01-01T00:00:00Z")
    }
    assert (rows["Conflict"]["status"], rows["Conflict"]["reason"]) == ("True", "PortConflict")


# -- what a cluster gets ----------------------------------------------------------------------------------------------


def group(*ips, ports=None, family="IPv4"):
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}] if ports is None else ports
    return Group(family, tuple(ports), tuple(Endpoint((ip,), {"ready": True}) for ip in ips))


def test_slices_by_cluster_family_and_size():
    found = one(
        "aws",
        groups=[
            group(*("10.2.{0}.{1}".format(*divmod(number, 250)) for number in range(250))),
            group("fd00::1", family="IPv6"),
        ],
    )
    merged = merge(WEB, [found])
    made = import_slices(merged, found, "uid", V1, VERSIONS[0], (), 100)
    base = derived_name(*WEB) + "-aws-"
    assert [(obj["metadata"]["name"][len(base) :], len(obj["endpoints"])) for obj in made] == [
        ("4-0", 100),
        ("4-1", 100),
        ("4-2", 50),
        ("6-0", 1),
    ]
    assert made[0]["metadata"]["labels"] == {
        "multicluster.kubernetes.io/service-name": "web",
        "multicluster.kubernetes.io/source-cluster": "aws",
        "endpointslice.kubernetes.io/managed-by": "multicluster-mcs.multicluster.network",
        "kubernetes.io/service-name": derived_name(*WEB),
    }
    assert made[0]["metadata"]["ownerReferences"] == [
        {"apiVersion": VERSIONS[0], "kind": "ServiceImport", "name": "web", "uid": "uid", "controller": False}
    ]
    # one endpoint less is one slice that changes
    fewer = found._replace(groups=[found.groups[0]._replace(endpoints=found.groups[0].endpoints[1:]), found.groups[1]])
    again = import_slices(merge(WEB, [fewer]), fewer, "uid", V1, VERSIONS[0], made, 100)
    assert [len(obj["endpoints"]) for obj in again] == [99, 100, 50, 1] and again[1:] == made[1:]


def test_slices_carry_the_ports_that_are_their_clusters_own():
    ports = [
        {"name": name, "port": 9000 + index, "protocol": "TCP"} for index, name in enumerate(("http", "more", "alt"))
    ]
    first = one("aws", ports=[HTTP])
    second = one(
        "gcp",
        2,
        ports=[dict(HTTP, port=81), dict(ALT, name="more", port=7), ALT],
        groups=[group("10.4.0.1", ports=ports)],
    )
    merged = merge(WEB, [first, second])
    (made,) = import_slices(merged, second, "uid", V1, VERSIONS[0], (), 100)
    assert made["ports"] == [ports[1]], "81 is not the number of http, and the number of alt is that of http"
    only = one("gcp", 2, ports=[dict(HTTP, port=81)], groups=[group("10.4.0.1")])
    assert import_slices(merge(WEB, [first, only]), only, "uid", V1, VERSIONS[0], (), 100) == []


def test_a_port_without_a_name_gets_one_alongside_others():
    first = one(
        "aws",
        ports=[dict(HTTP, name="")],
        groups=[group("10.2.0.1", ports=[{"name": "", "port": 8080, "protocol": "TCP"}])],
    )
    merged = merge(WEB, [first, one("gcp", 2, [DNS])])
    assert port_names(merged.shape) == {"": "tcp-80", "dns": "dns"}
    assert [
        port.get("name") for port in service_import(merged, ["IPv4"], None, VERSIONS[0], False)["spec"]["ports"]
    ] == [None, "dns"]
    assert [port["name"] for port in derived_service(merged, ["IPv4"], None, None)["spec"]["ports"]] == [
        "tcp-80",
        "dns",
    ]
    assert import_slices(merged, first, "u", V1, VERSIONS[0], (), 100)[0]["ports"] == [
        {"name": "tcp-80", "port": 8080, "protocol": "TCP"}
    ]


def test_headless_slices_are_nothing_for_kube_proxy():
    merged = merge(WEB, [one("aws", headless=True, families=("IPv6", "IPv4"))])
    assert "kubernetes.io/service-name" not in slice_labels(merged, "aws")
    assert service_import(merged, ["IPv4"], None, VERSIONS[0], False)["spec"]["ipFamilies"] == ["IPv4"]
    assert service_import(merged, [], None, VERSIONS[0], False)["spec"]["ipFamilies"] == ["IPv4", "IPv6"]


@pytest.mark.parametrize(
    ("families", "own", "asked"),
    [
        (("IPv4",), ["IPv4"], False),
        (("IPv4", "IPv6"), ["IPv4"], True),
        (("IPv6",), ["IPv4", "IPv6"], True),
        (("IPv4",), ["IPv6"], True),
        (("IPv4",), [], False),
    ],
)
def test_dual_stack_is_asked_for_where_it_helps(families, own, asked):
    merged = merge(WEB, [one("aws", families=families)])
    assert ("ipFamilyPolicy" in derived_service(merged, own, None, None)["spec"]) == asked
    both = {"spec": {"clusterIPs": ["10.3.0.1", "fd00::1"]}}
    assert derived_service(merged, own, both, None)["spec"]["ipFamilyPolicy"] == "PreferDualStack", (
        "an address that was given stays"
    )
    assert "ipFamilyPolicy" not in derived_service(merged, None, None, None)["spec"], (
        "a server that knows no families drops it again and again"
    )


@pytest.mark.parametrize(
    ("more", "version", "spec"),
    [
        ({"policy": "Local"}, (1, 30), {"internalTrafficPolicy": "Local"}),
        ({"policy": "Local"}, (1, 20), {}),
        ({"policy": "Local"}, None, {}),
        ({"distribution": "PreferClose"}, (1, 31), {"trafficDistribution": "PreferClose"}),
        ({"distribution": "PreferClose"}, (1, 30), {}),
        ({"distribution": "PreferSameNode"}, (1, 33), {}),
        ({"distribution": "Whatever"}, (9, 9), {}),
    ],
)
def test_fields_that_only_newer_servers_know(more, version, spec):
    merged = merge(WEB, [one("aws", **more)])
    made = derived_service(merged, ["IPv4"], None, version)["spec"]
    assert {key: value for key, value in made.items() if key != "ports"} == spec
    imported = service_import(merged, ["IPv4"], None, VERSIONS[0], False)["spec"]
    assert imported["internalTrafficPolicy"] == merged.shape.policy and imported.get("trafficDistribution") == more.get(
        "distribution"
    )


def test_the_older_version_has_less():
    merged = merge(WEB, [one("aws", distribution="PreferClose")])
    both = {"spec": {"clusterIPs": ["10.3.0.1", "fd00::1"]}}
    assert service_import(merged, ["IPv4"], both, VERSIONS[1], False)["spec"] == {
        "type": "ClusterSetIP",
        "ports": [HTTP],
        "sessionAffinity": "None",
        "ips": ["10.3.0.1"],
    }
    assert service_import(merged, ["IPv4"], both, VERSIONS[0], False)["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert isinstance(service_import(merged, ["IPv4"], None, VERSIONS[0], False)["spec"]["ips"], Pending)


def test_clusters_without_the_namespace_get_nothing():
    lists = {
        "aws": listed([export(WEB)], [service(WEB)], [ends(WEB, "10.2.0.1")]),
        "gcp": listed(spaces=("bank",)),
        "merit": listed(),
    }
    plans, joined, dummy = planned(lists)
    assert {name: len(one.writes) for name, one in plans.items()} == {"aws": 3, "gcp": 0, "merit": 3} and list(
        joined.merged
    ) == [WEB]


def test_the_owner_of_a_slice_is_in_its_name_alone():
    for cluster in ("a", "a-4", "a-4-0", "4-4-4"):
        found = one(cluster, id=cluster, groups=[group("10.2.0.1"), group("fd00::1", family="IPv6")])
        for obj in import_slices(merge(WEB, [found]), found, "u", V1, VERSIONS[0], (), 100):
            key = Here("aws", listed(slices=[dict(obj, metadata=dict(obj["metadata"], labels={}))]), MANAGER).slices[
                unit_of(WEB)
            ][0]
            assert source_of(key) == cluster


def test_definitions_are_whole():
    made = {one["metadata"]["name"]: one for one in definitions()}
    assert sorted(made) == ["serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"]
    for one_definition in made.values():
        versions = {version["name"]: version for version in one_definition["spec"]["versions"]}
        assert {name: (row["served"], row["storage"]) for name, row in versions.items()} == {
            "v1alpha1": (True, False),
            "v1beta1": (True, True),
        }
        assert (
            versions["v1alpha1"]["schema"] == versions["v1beta1"]["schema"]
            and yaml.safe_load(json.dumps(one_definition)) == one_definition
        )


def test_nothing_of_others_is_taken_away():
    strange = ends(
        WEB,
        "10.4.0.1",
        name=derived_name(*WEB) + "-gcp-4-0",
        labels={"multicluster.kubernetes.io/source-cluster": "gcp"},
    )
    imports = [{"metadata": {"namespace": "shop", "name": "web"}}]
    here = Here(
        "aws", listed(services=[service(("shop", derived_name(*WEB)))], slices=[strange], imports=imports), MANAGER
    )
    assert remove_all(here, MANAGER).writes == []
    plans, dummy, unused = planned({"aws": here.listed, "gcp": listed(), "merit": listed()})
    assert plans["aws"].writes == []
