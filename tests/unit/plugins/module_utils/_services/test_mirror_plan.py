# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans for one cluster, over an object store in memory: forms, sweeps, unknown sources, global services."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.exports import (
    Listed,
    Options,
    read_exports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_writes import recreated
from ansible_collections.multicluster.network.plugins.module_utils._values.selectors import (
    matches,
    parse_selector,
    unmet,
)
from hypothesis import given, settings, strategies as st

MANAGER = field_manager("t")
NS = "sys-semaphore"
V1 = "discovery.k8s.io/v1"
GRANTS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16", "fd00:2::/48"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"]},
    "merit": {"pod_cidrs": ["10.6.0.0/16"]},
}
PORTS = [{"name": "http", "port": 80, "protocol": "TCP"}]


def options(**more):
    names = {name: name for name in GRANTS}
    given_options = Options(
        NS,
        parse_selector("mirror=yes"),
        parse_selector("global=yes"),
        parse_selector("first=local"),
        names,
        {"gcp": ["z1", "z2"]},
    )
    return given_options._replace(**more)


def service(name, labels=None, **spec):
    return {
        "metadata": {"namespace": "shop", "name": name, "labels": labels or {"mirror": "yes"}},
        "spec": dict({"ports": PORTS}, **spec),
    }


def endpoints(name, *ips):
    subset = {"addresses": [{"ip": ip} for ip in ips], "ports": PORTS}
    return {"metadata": {"namespace": "shop", "name": name, "labels": {"mirror": "yes"}}, "subsets": [subset]}


def piece(name, suffix, *ips, labels=None, family="IPv4", **more):
    labels = dict(labels or {"mirror": "yes"}, **{"kubernetes.io/service-name": name})
    return {
        "metadata": {"namespace": "shop", "name": name + suffix, "labels": labels},
        "addressType": family,
        "ports": PORTS,
        "endpoints": [dict({"addresses": [ip], "conditions": {"ready": True}, "zone": "eu-1"}, **more) for ip in ips],
    }


class Fabric:
    """Three clusters; one of them is written and remembers."""

    def __init__(self, form="endpoints"):
        self.form = dict.fromkeys(GRANTS, form)
        self.sources = {name: {"services": [], "endpoints": [], "slices": []} for name in GRANTS}
        self.stores = {name: {} for name in GRANTS}

    def listed(self, name):
        here = self.sources[name]
        store = self.stores[name]
        kinds = {
            kind: [obj for key, obj in store.items() if key.kind == kind]
            for kind in ("Service", "Endpoints", "EndpointSlice")
        }
        return Listed(
            here["services"] + kinds["Service"],
            here["endpoints"] + kinds["Endpoints"],
            here["slices"] + kinds["EndpointSlice"],
            self.form[name],
            V1,
        )

    def run(self, local="gcp", down=(), state="present", sources=None, **more):
        """(plan, actions) of one run, applied."""
        chosen = options(**more)
        guard = Guard(GRANTS)
        exports = {name: read_exports(name, self.listed(name), chosen, guard) for name in GRANTS if name not in down}
        plan, writes = plan_cluster(
            local, self.listed(local), {} if state == "absent" else exports, set(down), chosen, MANAGER, sources, state
        )
        for write in writes:
            if write.manifest is None:
                del self.stores[local][write.key]
                continue
            made = copy.deepcopy(write.manifest)
            fields = {"f:" + field: {} for field in made if field not in ("apiVersion", "kind", "metadata")}
            managed = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}]
            made["metadata"].update(uid="u", resourceVersion="1", managedFields=managed)
            self.stores[local][write.key] = made
        refused = [refusal for name in exports for refusal in exports[name].refused] + plan.refused
        return (
            [(write.change.action, write.key.kind, write.key.name) for write in writes],
            sorted({(r.object, r.reason) for r in refused}),
            writes,
        )

    def settled(self, **more):
        return self.run(**more)[0] == []


NAME = "aws-shop-73736d-web"


@pytest.mark.parametrize("form", ["endpoints", "slices"])
@pytest.mark.parametrize("source_form", ["endpoints", "slices"])
def test_every_pair_of_forms(form, source_form):
    """A cluster that has slices and one that does not mirror each other (decision 17)."""
    fabric = Fabric(form)
    fabric.form["aws"] = source_form
    here = fabric.sources["aws"]
    here["services"].append(service("web"))
    here["endpoints"].append(endpoints("web", "10.2.0.1", "10.2.0.2"))
    here["slices"] += [piece("web", "-a", "10.2.0.1", "10.2.0.2"), piece("web", "-b", "10.2.0.2")]
    actions, refused, unused = fabric.run()
    kind, name = ("Endpoints", NAME) if form == "endpoints" else ("EndpointSlice", NAME + "-4-0")
    assert actions == [("create", "Service", NAME), ("create", kind, name)] and refused == []
    made = next(obj for key, obj in fabric.stores["gcp"].items() if key.kind == kind)
    if form == "endpoints":
        assert [address["ip"] for address in made["subsets"][0]["addresses"]] == ["10.2.0.1", "10.2.0.2"]
    else:
        assert [one["addresses"] for one in made["endpoints"]] == [["10.2.0.1"], ["10.2.0.2"]]
        assert made["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == "multicluster.network"
    assert fabric.settled()


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_a_service_that_became_a_name_in_dns_keeps_its_mirror(form):
    """Skipped by name, as specified: its clients keep their address until somebody takes the label away."""
    fabric = Fabric(form)
    both = {"mirror": "yes", "global": "yes"}
    here = fabric.sources["aws"]
    here["services"], here["endpoints"] = [service("web", both)], [endpoints("web", "10.2.0.1")]
    here["slices"] = [piece("web", "-a", "10.2.0.1", labels=both)]
    fabric.run()
    before = dict(fabric.stores["gcp"])
    here["services"], here["endpoints"], here["slices"] = (
        [service("web", both, type="ExternalName", externalName="x.y", ports=None)],
        [],
        [],
    )
    actions, refused, unused = fabric.run(max_deletes=-1)
    assert refused == [("aws/shop/web", "unsupported_type")]
    assert {kind for unused, kind, name in actions if name == NAME or name.startswith(NAME + "-")} == set()
    assert {key: obj for key, obj in fabric.stores["gcp"].items() if "mirrored-svc" in obj["metadata"]["labels"]} == {
        key: obj for key, obj in before.items() if "mirrored-svc" in obj["metadata"]["labels"]
    }
    here["services"] = [service("web", {"other": "yes"}, type="ExternalName", externalName="x.y", ports=None)]
    assert {action for action, unused, unused_too in fabric.run(max_deletes=-1)[0]} == {"delete"} and fabric.stores[
        "gcp"
    ] == {}


def test_both_families_and_conditions_in_slices():
    fabric = Fabric("slices")
    fabric.sources["aws"]["services"].append(service("web"))
    conditions = {"ready": False, "serving": True, "terminating": True}
    fabric.sources["aws"]["slices"] += [
        piece(
            "web",
            "-4",
            "10.2.0.1",
            conditions=conditions,
            hostname="web-0",
            nodeName="n",
            targetRef={"kind": "Pod", "name": "web-0", "uid": "u", "namespace": "shop"},
        ),
        piece("web", "-6", "fd00:2::1", family="IPv6"),
        piece("web", "-n", "example.org", family="FQDN"),
    ]
    actions, refused, unused = fabric.run()
    assert [name for unused, kind, name in actions if kind == "EndpointSlice"] == [NAME + "-4-0", NAME + "-6-0"]
    assert refused == [("slice aws/shop/web-n", "unsupported_type")]
    made = next(obj for key, obj in fabric.stores["gcp"].items() if key.name == NAME + "-4-0")
    assert made["endpoints"] == [
        {
            "addresses": ["10.2.0.1"],
            "conditions": conditions,
            "hostname": "web-0",
            "zone": "eu-1",
            "targetRef": {"kind": "Pod", "name": "web-0"},
        }
    ]
    assert fabric.settled()
    fabric.run(fields="all")
    made = next(obj for key, obj in fabric.stores["gcp"].items() if key.name == NAME + "-4-0")
    assert made["endpoints"][0]["nodeName"] == "n" and made["endpoints"][0]["targetRef"]["uid"] == "u"


def test_changing_the_form_writes_before_it_deletes():
    fabric = Fabric("endpoints")
    for number in range(20):
        fabric.sources["aws"]["services"].append(service(f"s{number}"))
        fabric.sources["aws"]["endpoints"].append(endpoints(f"s{number}", "10.2.0.1"))
        fabric.sources["aws"]["slices"].append(piece(f"s{number}", "-a", "10.2.0.1"))
    fabric.run()
    for form, old, new in (("slices", "Endpoints", "EndpointSlice"), ("endpoints", "EndpointSlice", "Endpoints")):
        fabric.form = dict.fromkeys(GRANTS, form)
        actions, refused, unused = fabric.run()
        assert [(action, kind) for action, kind, unused in actions] == [("create", new)] * 20 + [("delete", old)] * 20
        assert refused == [] and fabric.settled()


def test_one_more_endpoint_is_one_write_however_many_there_are():
    fabric = Fabric("slices")
    ips = [f"10.2.{i // 250 + 1}.{i % 250 + 1}" for i in range(2500)]
    fabric.sources["aws"]["services"].append(service("web"))
    fabric.sources["aws"]["slices"] = [piece("web", "-" + str(i), *ips[i : i + 100]) for i in range(0, 2500, 100)]
    actions, dummy, unused = fabric.run()
    assert [name for unused, kind, name in actions if kind == "EndpointSlice"] == [
        NAME + "-4-0",
        NAME + "-4-1",
        NAME + "-4-2",
    ]
    assert fabric.settled()
    fabric.sources["aws"]["slices"].append(piece("web", "-x", "10.2.0.1"))
    assert fabric.run()[0] == [("update", "EndpointSlice", NAME + "-4-2")]
    fabric.sources["aws"]["slices"][0] = piece("web", "-0", *ips[1:100])
    assert fabric.run()[0] == [("update", "EndpointSlice", NAME + "-4-0")]
    fabric.sources["aws"]["slices"].append(piece("web", "-y", "10.2.200.1"))
    assert fabric.run()[0] == [("update", "EndpointSlice", NAME + "-4-0")], "a free place is used first"
    assert fabric.settled()


def test_two_port_sets_get_slices_of_their_own():
    fabric = Fabric("slices")
    fabric.sources["aws"]["services"].append(service("web"))
    other = dict(piece("web", "-b", "10.2.0.2"), ports=[{"name": "http", "port": 81, "protocol": "TCP"}])
    fabric.sources["aws"]["slices"] = [piece("web", "-a", "10.2.0.1"), other]
    assert len(fabric.run()[0]) == 3 and fabric.settled()


def test_an_unknown_source_keeps_everything():
    fabric = Fabric()
    fabric.sources["aws"]["services"].append(service("web"))
    fabric.sources["aws"]["endpoints"].append(endpoints("web", "10.2.0.1"))
    fabric.run()
    assert fabric.run(down=("aws",), max_deletes=-1, confirm_empty=("aws",))[0] == []
    assert fabric.run(down=("aws",), on_unreachable="empty", sources=["merit"])[0] == [], "nobody spoke of aws"
    assert fabric.run(down=("aws", "merit"), on_unreachable="empty")[0] == [("update", "Endpoints", NAME)]
    assert fabric.settled(down=("aws",), on_unreachable="empty")
    assert fabric.run()[0] == [("update", "Endpoints", NAME)]
    fabric.sources["aws"]["services"].clear()
    actions, refused, unused = fabric.run()
    assert actions == [] and refused == [("gcp: aws", "delete_budget")]
    # kind by kind: the Endpoints have lost their Service, and not their source
    actions, refused, unused = fabric.run(confirm_empty=("aws",))
    assert actions == [("delete", "Endpoints", NAME), ("delete", "Service", NAME)]


def test_a_limit_of_zero_deletes_nothing():
    fabric = Fabric()
    fabric.sources["aws"]["services"] += [service("web"), service("api")]
    fabric.run()
    fabric.sources["aws"]["services"].pop()
    assert fabric.run(max_deletes=0)[:2] == ([], [("gcp: aws", "delete_budget")])
    fabric.sources["aws"]["services"].clear()
    assert fabric.run(max_deletes=0, confirm_empty=("aws",))[:2] == ([], [("gcp: aws", "delete_budget")])
    assert len(fabric.run(max_deletes=2, confirm_empty=("aws",))[0]) == 2


def test_a_prefix_that_the_inventory_does_not_know_any_more():
    fabric = Fabric()
    fabric.sources["aws"]["services"].append(service("web"))
    names = {"aws": "old", "gcp": "gcp", "merit": "merit"}
    fabric.run(prefixes=names)
    actions, refused, unused = fabric.run()
    assert actions == [("create", "Service", NAME)] and refused == [("gcp: old", "delete_budget")]
    assert fabric.run(confirm_empty=("old",))[0] == [("delete", "Service", "old-shop-73736d-web")]
    assert fabric.run(sources=["merit"])[0] == []
    assert fabric.run(state="absent", sources=["merit"])[0] == []
    assert fabric.run(state="absent", sources=["aws"])[0] == [("delete", "Service", NAME)]


def test_sharing_a_name_the_live_holder_keeps_it():
    fabric = Fabric()
    prefixes = {"aws": "p", "merit": "p-x", "gcp": "gcp"}
    late = {"metadata": {"namespace": "x-shop", "name": "web", "labels": {"mirror": "yes"}}, "spec": {"ports": PORTS}}
    fabric.sources["merit"]["services"].append(service("web"))
    assert fabric.run(prefixes=prefixes)[0] == [("create", "Service", "p-x-shop-73736d-web")]
    fabric.sources["aws"]["services"].append(late)
    actions, refused, unused = fabric.run(prefixes=prefixes)
    assert actions == [] and refused == [("aws/x-shop/web", "claimed_twice")]
    fresh = Fabric()
    fresh.sources["merit"]["services"].append(service("web"))
    fresh.sources["aws"]["services"].append(late)
    actions, refused, unused = fresh.run(prefixes=prefixes)
    assert refused == [("merit/shop/web", "claimed_twice")], "the first in order, where nobody holds it"


def test_headless_is_made_anew_with_its_endpoints():
    fabric = Fabric()
    here = fabric.sources["aws"]
    here["services"].append(service("web"))
    here["endpoints"].append(endpoints("web", "10.2.0.1"))
    fabric.run()
    here["services"][0] = service("web", clusterIP="None")
    actions, refused, writes = fabric.run()
    assert actions == [
        ("delete", "Endpoints", NAME),
        ("delete", "Service", NAME),
        ("create", "Service", NAME),
        ("create", "Endpoints", NAME),
    ]
    assert recreated(writes) == {NAME} and refused == [] and fabric.settled()


SHARED = {"global": "yes"}


def shared(*clusters, labels=None, **spec):
    fabric = Fabric("slices")
    for name in clusters:
        fabric.sources[name]["services"].append(service("web", labels or SHARED, **spec))
        ip = {"aws": "10.2.0.1", "gcp": "10.4.0.1", "merit": "10.6.0.1"}[name]
        fabric.sources[name]["slices"].append(piece("web", "-" + name, ip, labels=labels or SHARED))
    return fabric


def test_global_services_without_and_with_local_first():
    fabric = shared("aws", "gcp")
    assert sorted(fabric.run()[0]) == [
        ("create", "EndpointSlice", "gl-web-aws"),
        ("create", "EndpointSlice", "gl-web-gcp"),
        ("create", "Service", "gl-shop-73736d-web"),
    ]
    found = {key.name: obj for key, obj in fabric.stores["gcp"].items()}
    assert found["gl-shop-73736d-web"]["metadata"]["annotations"] == {"global-svc-clusters": "aws,gcp"}
    assert [found[name]["endpoints"][0].get("hints") for name in ("gl-web-aws", "gl-web-gcp")] == [None, None]
    assert found["gl-web-aws"]["endpoints"][0]["zone"] == "eu-1"
    fabric = shared("aws", "gcp", labels={"global": "yes", "first": "local"})
    fabric.run(topology_mode=True)
    found = {key.name: obj for key, obj in fabric.stores["gcp"].items()}
    assert found["gl-shop-73736d-web"]["metadata"]["annotations"] == {
        "global-svc-clusters": "aws,gcp",
        "service.kubernetes.io/topology-aware-hints": "auto",
        "service.kubernetes.io/topology-mode": "Auto",
    }
    remote, local = (found[name]["endpoints"][0] for name in ("gl-web-aws", "gl-web-gcp"))
    assert (remote["zone"], remote["hints"]) == ("remote", {"forZones": [{"name": "remote"}]})
    assert (local["zone"], local["hints"]) == ("eu-1", {"forZones": [{"name": "z1"}, {"name": "z2"}]})


def test_conflicts_are_shown_and_settled_by_precedence():
    fabric = shared("aws", "gcp", "merit")
    fabric.sources["merit"]["services"][0]["spec"]["clusterIP"] = "None"
    fabric.sources["aws"]["services"][0]["spec"]["ports"] = [{"name": "http", "port": 81}]
    actions, refused, unused = fabric.run()
    assert refused == [("aws/shop/web", "ports_conflict"), ("merit/shop/web", "headless_mismatch")]
    assert ("create", "EndpointSlice", "gl-web-merit") not in actions, "held back"
    found = next(obj for key, obj in fabric.stores["gcp"].items() if key.kind == "Service")
    assert found["spec"]["ports"] == PORTS and found["metadata"]["annotations"] == {"global-svc-clusters": "aws,gcp"}
    fabric.run(local="merit")
    found = next(obj for key, obj in fabric.stores["merit"].items() if key.kind == "Service")
    assert found["spec"]["clusterIP"] == "None", "a cluster's own Service decides there"


def test_global_services_go_only_when_everybody_was_heard():
    fabric = shared("aws", "gcp")
    fabric.run()
    fabric.sources["aws"]["services"].clear()
    fabric.sources["aws"]["slices"].clear()
    more = {"confirm_empty": ("aws", "gcp", "global services")}
    assert fabric.run(down=("aws",), **more)[0] == []
    assert fabric.run(**more)[0] == [
        ("update", "Service", "gl-shop-73736d-web"),
        ("delete", "EndpointSlice", "gl-web-aws"),
    ]
    fabric.sources["gcp"]["services"].clear()
    fabric.sources["gcp"]["slices"].clear()
    assert fabric.run(down=("merit",), **more)[0] == [("delete", "EndpointSlice", "gl-web-gcp")]
    assert fabric.run(**more)[0] == [("delete", "Service", "gl-shop-73736d-web")]


def test_slices_of_one_name():
    fabric = shared("aws", "merit")
    for name in ("aws", "merit"):
        fabric.sources[name]["slices"][0]["metadata"]["name"] = "same"
    actions, refused, unused = fabric.run()
    assert refused == [("slice merit/shop/same", "claimed_twice")] and len(actions) == 2 and fabric.run()[0] == []


def test_an_address_type_cannot_be_changed_in_place():
    fabric = shared("aws")
    fabric.run()
    fabric.sources["aws"]["slices"][0] = piece("web", "-aws", "fd00:2::9", labels=SHARED, family="IPv6")
    assert fabric.run()[0] == [("delete", "EndpointSlice", "gl-web-aws"), ("create", "EndpointSlice", "gl-web-aws")]
    assert fabric.settled()


def test_a_mirror_is_never_mirrored():
    fabric = Fabric()
    fabric.sources["aws"]["services"].append(service("web", {"mirror": "yes", "global": "yes", "mirrored-svc": "true"}))
    assert fabric.run()[0] == []


STEP = st.tuples(
    st.sampled_from(["aws", "merit"]), st.sampled_from("abc"), st.sets(st.integers(1, 4), max_size=3), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=6), st.sampled_from(["endpoints", "slices"]), st.randoms())
def test_any_history_ends_in_what_a_fresh_start_gives(steps, form, order):
    fabric = Fabric(form)
    for cluster, name, hosts, there in steps:
        here = fabric.sources[cluster]
        for kind in here:
            here[kind] = [obj for obj in here[kind] if not obj["metadata"]["name"].startswith(name)]
        if there:
            number = {"aws": 2, "merit": 6}[cluster]
            ips = [f"10.{number}.0.{host}" for host in sorted(hosts)]
            here["services"].append(service(name))
            here["endpoints"].append(endpoints(name, *ips))
            here["slices"].append(piece(name, "-s", *ips))
        for kind in here:
            order.shuffle(here[kind])
        fabric.run(max_deletes=-1, down=("aws",) if order.random() < 0.3 else ())
    fabric.run(max_deletes=-1)
    assert fabric.settled(max_deletes=-1)
    fresh = Fabric(form)
    fresh.sources = fabric.sources
    fresh.run()
    assert fresh.stores == fabric.stores


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_a_selector_goes_with_the_endpoints_that_it_brought(form):
    """Kubernetes leaves what it made for a selector when that goes, and local pods would go on answering for the other cluster's."""
    fabric = Fabric(form)
    here = fabric.sources["aws"]
    here["services"].append(service("web"))
    here["endpoints"].append(endpoints("web", "10.2.0.1"))
    here["slices"].append(piece("web", "-a", "10.2.0.1"))
    fabric.run()
    store = fabric.stores["gcp"]
    mirror = next(key for key in store if key.kind == "Service")
    store[mirror]["spec"] = dict(store[mirror]["spec"], selector={"app": "mine"}, clusterIP="10.5.0.9")
    meta = {
        "namespace": NS,
        "labels": {
            "kubernetes.io/service-name": NAME,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
    }
    local = {"metadata": dict(meta, name=NAME + "-abcde"), "addressType": "IPv4", "endpoints": [], "ports": []}
    store[Key(V1, "EndpointSlice", NS, NAME + "-abcde")] = local
    other = {
        "metadata": dict(
            meta, name="other-abcde", labels=dict(meta["labels"], **{"kubernetes.io/service-name": "other"})
        ),
        **{name: local[name] for name in ("addressType", "endpoints", "ports")},
    }
    store[Key(V1, "EndpointSlice", NS, "other-abcde")] = other
    gone = [("delete", "EndpointSlice", NAME + "-abcde")]
    if form == "slices":
        store[Key("v1", "Endpoints", NS, NAME)] = {
            "metadata": {"namespace": NS, "name": NAME, "labels": {}},
            "subsets": [],
        }
        gone.append(("delete", "Endpoints", NAME))
    actions, refused, unused = fabric.run()
    assert actions[0] == ("update", "Service", NAME) and sorted(actions[1:]) == sorted(gone) and refused == []
    assert fabric.settled()


def refusals(fabric, **more):
    chosen = options(**more)
    return [
        (row.object, row.reason, row.message)
        for row in read_exports("aws", fabric.listed("aws"), chosen, Guard(GRANTS)).refused
    ]


def test_endpoints_without_the_label_are_named_with_it():
    for form in ("endpoints", "slices"):
        fabric = Fabric(form)
        here = fabric.sources["aws"]
        here["services"] = [service("pg", {"mirror": "yes", "global": "yes"})]
        here["endpoints"] = [
            dict(
                endpoints("pg", "10.2.3.61"), metadata={"namespace": "shop", "name": "pg", "labels": {"role": "master"}}
            )
        ]
        made = {"role": "master", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}
        here["slices"] = [
            piece("pg", "-x", "10.2.3.61", labels=made),
            piece("pg", "-empty", labels=made),
            piece("other", "-x", "10.2.3.1", labels={"a": "b"}),
        ]
        kinds = {
            text.split(" ")[0]: text
            for dummy, reason, text in refusals(fabric, global_selector=None)
            if reason == "label_missing"
        }
        (text,) = kinds.values()
        assert "has not the label 'mirror=yes', so 1 endpoint is left out" in text
        assert ("slice 'pg-x', which is made of Endpoints 'pg'," in text) == (form == "slices")
        rows = refusals(fabric)
        assert {(where, reason) for where, reason, dummy in rows} == {("aws/shop/pg", "label_missing")} and len(
            rows
        ) == 2
        assert any("'global=yes'" in text for dummy, dummy, text in rows)


def test_partly_labelled_endpoints_are_named_and_the_others_mirrored():
    fabric = Fabric("slices")
    fabric.sources["aws"]["services"] = [service("web")]
    fabric.sources["aws"]["slices"] = [
        piece("web", "-a", "10.2.3.1"),
        *(piece("web", "-" + one, "10.2.4.1", "10.2.4.2", labels={"by": "hand"}) for one in ("b", "c", "d", "e")),
    ]
    ((where, reason, text),) = refusals(fabric)
    assert (where, reason) == ("aws/shop/web", "label_missing")
    assert text.startswith(
        "slice 'web-b', slice 'web-c', slice 'web-d' and 1 more have not the label 'mirror=yes', so 8 endpoints are left out"
    )
    fabric.run()
    (made,) = (obj for key, obj in fabric.stores["gcp"].items() if key.kind == "EndpointSlice")
    assert [one["addresses"] for one in made["endpoints"]] == [["10.2.3.1"]]
    fabric.sources["aws"]["slices"] = fabric.sources["aws"]["slices"][:1]
    assert refusals(fabric) == []


TERMS = ["a=b", "a!=b", "a in (b,c)", "a notin (b,c)", "a", "!a", "a>4", "a<4"]


@given(st.lists(st.sampled_from(TERMS), max_size=4), st.dictionaries(st.just("a"), st.sampled_from("bcd5")))
def test_what_is_unmet_is_a_selector_that_does_not_match(terms, labels):
    requirements = parse_selector(",".join(terms))
    text = unmet(requirements, labels)
    assert (text == "") == matches(requirements, labels)
    assert not text or not matches(parse_selector(text), labels)
    assert all(term in requirements for term in parse_selector(text))
