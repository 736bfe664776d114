# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole life of mirrors and global services that another program made: taken over, changed in every way, and given back.

``original`` is that program, or a record of what it wrote: begin() makes its objects for what the sources hold now, again() is its next
start, after which everything has to be as it was.
"""

from __future__ import annotations

from api_server import slices_version
from mirror_clusters import NAMESPACE, PODS, PORTS, SHARED, Two, endpoints, piece, service
from recorded import content

US = "multicluster.network/t"
MIRROR = "aws-sys-log-73736d-fluentd"
GLOBAL = "gl-shop-73736d-cart"
#: What a mirror is in upstream's own form, which is what makes a way back; see the guide "From Semaphore".
THEIRS = {"mirror_as": "endpoints", "endpoint_fields": "all", "session_affinity": False}
#: It asks for local-first routing as well. Without that upstream writes hints all the same, and we do not (semaphore 4.7).
ROUTING = "mirror.semaphore.uw.io/global-service-routing-strategy=local-first"
ROUTED = dict(SHARED, **dict([ROUTING.split("=")]))
MORE = {"name": "more", "protocol": "TCP", "port": 9999, "targetPort": 9999}


def put_sources(two: Two, shared: bool) -> None:
    """What the clusters hold before anything is mirrored: a Service with three pods, a headless one, one without pods, and a global one."""
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
    two.put(
        "aws", service("shop", "each", clusterIP="None"), endpoints("shop", "each", "10.2.1.1", not_ready=["10.2.1.2"])
    )
    two.put("aws", service("shop", "idle"))
    if shared:
        two.put("aws", service("shop", "cart", labels=ROUTED), piece("shop", "cart", "-aws01", "10.2.5.1", "10.2.5.2"))
        two.put("gcp", service("shop", "cart", labels=ROUTED), piece("shop", "cart", "-gcp01", "10.4.5.1"))


def kinds(shared: bool):
    """(apiVersion, kind) of what is mirrored."""
    return [("v1", "Service"), ("v1", "Endpoints")] + ([(slices_version(), "EndpointSlice")] if shared else [])


def mirrored(two: Two, shared: bool):
    """Every object of the mirror namespace of gcp, but what the cluster itself puts there."""
    client = two.clients["gcp"]
    found = []
    for version, kind in kinds(shared):
        for obj in client.list(client.resource(version, kind).path(NAMESPACE)).items:
            found.append(dict(obj, apiVersion=version, kind=kind))
    return found


def said(objects):
    """What the objects have, by kind and name. Upstream names the clusters of a global Service in the order in which it heard of them."""
    found = {}
    for obj in map(content, objects):
        annotations = obj["metadata"].get("annotations") or {}
        if "global-svc-clusters" in annotations:
            annotations["global-svc-clusters"] = ",".join(sorted(annotations["global-svc-clusters"].split(",")))
        found[obj["kind"], obj["metadata"]["name"]] = obj
    return found


def managers(obj):
    """Who is on record for anything of it."""
    return {entry["manager"] for entry in obj["metadata"].get("managedFields") or []}


def run(two: Two, shared: bool, **more):
    options = dict(THEIRS, destinations=["gcp"], **more)  # upstream runs there alone
    if shared:
        options.update(global_selector="mirror.semaphore.uw.io/global-service=true", routing_selector=ROUTING)
    return two.run(**options)


def nothing_to_do(two: Two, shared: bool, **more) -> None:
    """A second run writes nothing, and reports so."""
    mark = two.mark()
    result = run(two, shared, **more)
    assert not result["changed"] and not result["failures"], result["plan"]
    assert two.writes(mark) == {"aws": [], "gcp": []}


def settle(two: Two, shared: bool, **more):
    """A run that changes something, without refusals; then one that does not."""
    result = run(two, shared, **more)
    assert result["changed"] and not result["failures"] and not result["refused"], result
    nothing_to_do(two, shared)
    for obj in mirrored(two, shared):
        assert managers(obj) <= {US}, obj["metadata"]
    return result


def live(two: Two, original, shared: bool) -> None:
    """From upstream to us, every later change, and back."""
    put_sources(two, shared)
    original.begin()
    before = said(mirrored(two, shared))
    assert (
        ("Service", MIRROR) in before
        and ("Endpoints", MIRROR) in before
        and ((("Service", GLOBAL) in before) == shared)
    )
    taken_over(two, shared, before)
    changes(two, shared)
    given_back(two, original, shared)


def taken_over(two: Two, shared: bool, before) -> None:
    """Without being asked nothing is written; when asked nothing but who is on record changes."""
    mark = two.mark()
    result = run(two, shared)
    assert {row["reason"] for row in result["refused"]} == {"adoptable"} and len(result["refused"]) == len(
        {name for dummy, name in before}
    ), result["refused"]
    assert not result["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    result = settle(two, shared, adopt=True)
    assert (result["plan"]["create"], result["plan"]["update"], result["plan"]["delete"]) == (0, len(before), 0)
    now = said(mirrored(two, shared))
    assert now == before, (
        f"taking over has changed what these say: {[(before[key], now.get(key)) for key in before if now.get(key) != before[key]]}"
    )
    assert all(managers(obj) == {US} for obj in mirrored(two, shared))


def ports_of(two: Two, name: str = MIRROR):
    return [port["name"] for port in two.get("gcp", "Service", name)["spec"]["ports"]]


def addresses_of(two: Two, name: str = MIRROR):
    subsets = two.get("gcp", "Endpoints", name).get("subsets") or []
    return sorted(entry["ip"] for subset in subsets for entry in subset.get("addresses") or [])


def changes(two: Two, shared: bool) -> None:
    """Every kind of later change arrives: ports and pods come, change and go, and so do Services."""
    # a port more, another number, one less
    two.put("aws", service("sys-log", "fluentd", ports=PORTS + [MORE]))
    settle(two, shared)
    assert ports_of(two) == ["http", "forward", "more"]
    two.put("aws", service("sys-log", "fluentd", ports=PORTS + [dict(MORE, port=9998, targetPort=7)]))
    settle(two, shared)
    assert [(port["port"], port["targetPort"]) for port in two.get("gcp", "Service", MIRROR)["spec"]["ports"]][2] == (
        9998,
        7,
    )
    two.put("aws", service("sys-log", "fluentd", ports=PORTS[:1]))
    settle(two, shared)
    assert ports_of(two) == ["http"]
    # a pod more, another in its place, one less, none, all again
    for pods in ((*PODS, "10.2.9.1"), (*PODS[:2], "10.2.9.1"), PODS[:1], (), PODS):
        two.put("aws", endpoints("sys-log", "fluentd", *pods))
        settle(two, shared)
        assert addresses_of(two) == sorted(pods)
    two.put("aws", endpoints("shop", "each", "10.2.1.1", "10.2.1.2"))
    settle(two, shared)
    assert addresses_of(two, "aws-shop-73736d-each") == ["10.2.1.1", "10.2.1.2"]
    # a Service comes, loses its label, and another goes
    two.put("aws", service("shop", "new"), endpoints("shop", "new", "10.2.6.1"))
    settle(two, shared)
    assert "aws-shop-73736d-new" in two.names("gcp", "Service") and "aws-shop-73736d-new" in two.names(
        "gcp", "Endpoints"
    )
    two.put("aws", service("shop", "new", labels={}), endpoints("shop", "new", "10.2.6.1", labels={}))
    two.drop("aws", "Service", "shop", "idle")
    settle(two, shared)
    assert not {"aws-shop-73736d-new", "aws-shop-73736d-idle"} & set(two.names("gcp", "Service"))
    assert "aws-shop-73736d-new" not in two.names("gcp", "Endpoints")
    if shared:
        changes_of_global_services(two)


def slices_of(two: Two):
    found = {}
    for obj in mirrored(two, True):
        if obj["kind"] == "EndpointSlice" and obj["metadata"]["labels"].get("kubernetes.io/service-name") == GLOBAL:
            found[obj["metadata"]["name"]] = sorted(
                address for end in obj["endpoints"] or () for address in end["addresses"]
            )
    return found


def changes_of_global_services(two: Two) -> None:
    """Pods and clusters of a global service come and go."""
    assert slices_of(two) == {"gl-cart-aws01": ["10.2.5.1", "10.2.5.2"], "gl-cart-gcp01": ["10.4.5.1"]}
    two.put("aws", piece("shop", "cart", "-aws01", "10.2.5.2", "10.2.5.3"))
    settle(two, True)
    assert slices_of(two)["gl-cart-aws01"] == ["10.2.5.2", "10.2.5.3"]
    two.put("aws", piece("shop", "cart", "-aws02", "10.2.5.9"))
    settle(two, True)
    assert slices_of(two)["gl-cart-aws02"] == ["10.2.5.9"]
    two.drop("aws", "EndpointSlice", "shop", "cart-aws02", slices_version())
    settle(two, True)
    assert set(slices_of(two)) == {"gl-cart-aws01", "gl-cart-gcp01"}
    more = PORTS + [MORE]
    two.put("aws", service("shop", "cart", labels=ROUTED, ports=more))
    two.put("gcp", service("shop", "cart", labels=ROUTED, ports=more))
    settle(two, True)
    assert ports_of(two, GLOBAL) == ["http", "forward", "more"]
    two.put("aws", service("shop", "cart", labels=ROUTED))
    two.put("gcp", service("shop", "cart", labels=ROUTED))
    settle(two, True)
    assert ports_of(two, GLOBAL) == ["http", "forward"]
    # a cluster leaves, and comes back
    two.put("aws", service("shop", "cart", labels={}), piece("shop", "cart", "-aws01", "10.2.5.3", labels={}))
    settle(two, True, confirm_empty=["aws"])  # nothing of aws is left, which somebody has to confirm
    assert set(slices_of(two)) == {"gl-cart-gcp01"}
    two.put("aws", service("shop", "cart", labels=ROUTED), piece("shop", "cart", "-aws01", "10.2.5.3"))
    settle(two, True)
    assert set(slices_of(two)) == {"gl-cart-aws01", "gl-cart-gcp01"}


def given_back(two: Two, original, shared: bool) -> None:
    """Nothing of the content changes when we let go, nor when upstream starts again."""
    before = said(mirrored(two, shared))
    result = run(two, shared, state="released")
    assert result["changed"] and not result["failures"] and not result["refused"]
    after = mirrored(two, shared)
    assert said(after) == before and not any(US in managers(obj) for obj in after)
    nothing_to_do(two, shared, state="released")
    original.again()
    assert said(mirrored(two, shared)) == before, "upstream found something to change"
    # and to us they are again what somebody may ask us to take over
    mark = two.mark()
    result = run(two, shared)
    assert {row["reason"] for row in result["refused"]} == {"adoptable"} and two.writes(mark)["gcp"] == []
