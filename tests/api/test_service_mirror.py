# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_mirror between two real API servers. The audit logs say what was really asked and written (ruling 44)."""

from __future__ import annotations

import contextlib
import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows import service_mirror
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Invalid
from conftest import ApiServer, slices_version

LABEL = {"mirror.semaphore.uw.io/mirror-service": "true"}
SHARED = {"mirror.semaphore.uw.io/global-service": "true"}
NAMESPACE = "sys-semaphore"
BASE = "/api/v1/namespaces/"
DEFINITION = {"clusters": {
    "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
}}  # fmt: skip
PORTS = [{"name": "http", "protocol": "TCP", "port": 8888, "targetPort": 8888}, {"name": "forward", "protocol": "TCP", "port": 8889, "targetPort": 8889}]
PODS = ("10.2.3.19", "10.2.4.19", "10.2.7.18")
FLUENTD = "aws-sys-log-73736d-fluentd"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second API server: aws is the session's, gcp is this one."""
    one = ApiServer(tmp_path_factory.mktemp("apiserver-gcp"))
    try:
        one.start()
        yield one
    finally:
        one.stop()


class Two:
    """Both clusters, with what tests put there."""

    def __init__(self, aws, gcp):
        self.servers = {"aws": aws, "gcp": gcp}
        self.clients = {name: server.client() for name, server in self.servers.items()}

    def request(self, **more):
        clusters = [server.access(name) for name, server in sorted(self.servers.items())]
        return dict({"fabric": "t", "clusters": clusters, "definition": copy.deepcopy(DEFINITION), "timeout": 20,
                     "mirror_namespace": NAMESPACE, "create_namespace": True,
                     "mirror_selector": "mirror.semaphore.uw.io/mirror-service=true"}, **more)  # fmt: skip

    def run(self, check=False, **more):
        return service_mirror.run(self.request(**more), check=check)

    def mark(self):
        return {name: server.mark() for name, server in self.servers.items()}

    def writes(self, mark):
        return {name: server.writes(mark[name]) for name, server in self.servers.items()}

    def asked(self, mark):
        return {name: server.audit(mark[name]) for name, server in self.servers.items()}

    def put(self, cluster, *objects):
        for obj in objects:
            client = self.clients[cluster]
            resource = client.resource(obj["apiVersion"], obj["kind"])
            path = resource.path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
            client.apply(path, obj, "the-user", force=True)

    def drop(self, cluster, kind, namespace, name, api_version="v1"):
        self.clients[cluster].delete(self.clients[cluster].resource(api_version, kind).path(namespace, name))

    def get(self, cluster, kind, name, namespace=NAMESPACE, api_version="v1"):
        return self.clients[cluster].get(self.clients[cluster].resource(api_version, kind).path(namespace, name))

    def names(self, cluster, kind, namespace=NAMESPACE, api_version="v1"):
        found = self.clients[cluster].list(self.clients[cluster].resource(api_version, kind).path(namespace)).items
        return sorted(obj["metadata"]["name"] for obj in found)


def service(namespace, name, ports=None, labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace, "labels": dict(LABEL if labels is None else labels)},
            "spec": dict({"ports": ports or PORTS}, **spec)}  # fmt: skip


def endpoints(namespace, name, *ips, labels=None, not_ready=(), ports=None):
    ports = ports or [{key: port[key] for key in ("name", "protocol", "port")} for port in PORTS]
    addresses = [{"ip": ip, "nodeName": "n", "targetRef": {"kind": "Pod", "namespace": namespace, "name": "p-" + ip, "uid": "u" + ip}} for ip in ips]
    subset = {"ports": ports, "addresses": addresses}
    if not_ready:
        subset["notReadyAddresses"] = [{"ip": ip} for ip in not_ready]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace, "labels": dict(LABEL if labels is None else labels)},
            "subsets": [subset] if ips or not_ready else []}  # fmt: skip


def in_zone(zone):
    """How an endpoint of a slice says its zone."""
    return {"zone": zone} if slices_version().endswith("/v1") else {"topology": {"topology.kubernetes.io/zone": zone}}


def piece(namespace, service_name, suffix, *ips, labels=None, family="IPv4", zone="eu-1"):
    meta = {"name": service_name + suffix, "namespace": namespace,
            "labels": dict(SHARED if labels is None else labels, **{"kubernetes.io/service-name": service_name})}  # fmt: skip
    return {"apiVersion": slices_version(), "kind": "EndpointSlice", "metadata": meta, "addressType": family,
            "endpoints": [dict(in_zone(zone), addresses=[ip], conditions={"ready": True}) for ip in ips],
            "ports": [{"name": "http", "port": 8888, "protocol": "TCP"}]}  # fmt: skip


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"x": "y"}}}


def reasons(result):
    return [(row["object"], row["reason"]) for row in result["refused"]]


KINDS = (("v1", "Endpoints"), ("v1", "Service"), ("v1", "ConfigMap"), (None, "EndpointSlice"))


@pytest.fixture
def two(server, other):
    made = Two(server, other)
    for name in made.servers:
        made.put(name, namespace("sys-log"), namespace("shop"))
    yield made
    for name, client in made.clients.items():
        for api_version, kind in KINDS:
            api_version = api_version or slices_version()
            for obj in client.list(client.resource(api_version, kind).path()).items:
                meta = obj["metadata"]
                if meta["namespace"] in (NAMESPACE, "sys-log", "shop") and meta["name"] != "kube-root-ca.crt":
                    client.delete(client.resource(api_version, kind).path(meta["namespace"], meta["name"]))


@pytest.fixture
def fluentd(two):
    """The seed's example: sys-log/fluentd of aws."""
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
    return two


def test_seed_example_again_and_one_change(fluentd):
    two = fluentd
    mark = two.mark()
    result = two.run(check=True, mirror_as="endpoints")
    assert result["changed"] and result["failures"] == [] and two.writes(mark) == {"aws": [], "gcp": []}
    assert "10.2.3.19" in result["diff"]["after"]

    result = two.run(mirror_as="endpoints")
    assert (result["refused"], result["failures"]) == ([], [])
    mirror = two.get("gcp", "Service", FLUENTD)
    assert mirror["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert "annotations" not in mirror["metadata"] and "selector" not in mirror["spec"]
    assert mirror["spec"]["type"] == "ClusterIP" and mirror["spec"]["clusterIP"].startswith("10.")
    assert [(port["name"], port["port"]) for port in mirror["spec"]["ports"]] == [("http", 8888), ("forward", 8889)]
    ends = two.get("gcp", "Endpoints", FLUENTD)
    assert ends["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert [address["ip"] for address in ends["subsets"][0]["addresses"]] == sorted(PODS)
    assert ends["subsets"][0]["addresses"][0]["targetRef"] == {"kind": "Pod", "name": "p-10.2.3.19"}
    assert "nodeName" not in ends["subsets"][0]["addresses"][0]
    assert two.names("aws", "Service") == []

    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert not result["changed"] and result["plan"]["unchanged"] == 2
    for name, asked in two.asked(mark).items():
        # one list of each kind; where there is no discovery.k8s.io/v1, that one is answered by 404
        assert [(verb, path) for verb, path, status in asked if status == 200] == [
            ("list", "/api/v1/services"), ("list", "/apis/{0}/namespaces/sys-semaphore/endpointslices".format(slices_version())),
            ("list", "/api/v1/endpoints"),
        ]
        assert {verb for verb, path, status in asked} == {"list"} and len(asked) == (3 if slices_version().endswith("/v1") else 4)

    two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.77", *PODS[1:]))
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert result["plan"]["update"] == 1
    assert two.writes(mark) == {"aws": [], "gcp": [("patch", BASE + NAMESPACE + "/endpoints/" + FLUENTD, 200)]}

    two.put("aws", service("sys-log", "fluentd", labels={}))
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("gcp: aws", "delete_budget"), ("gcp: aws", "delete_budget")]
    result = two.run(mirror_as="endpoints", confirm_empty=["aws"])
    assert result["plan"]["delete"] == 2 and two.names("gcp", "Service") == []
    assert not two.run(mirror_as="endpoints")["changed"]


def test_both_directions_and_empty_endpoints(two):
    two.put("aws", service("shop", "a"), endpoints("shop", "a"))
    two.put("gcp", service("shop", "b", clusterIP="None"), endpoints("shop", "b", "10.4.7.2", not_ready=["10.4.7.3"]))
    result = two.run(mirror_as="endpoints")
    assert result["refused"] == result["failures"] == []
    assert two.names("gcp", "Endpoints") == ["aws-shop-73736d-a"]
    assert two.get("aws", "Service", "gcp-shop-73736d-b")["spec"]["clusterIP"] == "None"
    subset = two.get("aws", "Endpoints", "gcp-shop-73736d-b")["subsets"][0]
    assert (subset["addresses"][0]["ip"], subset["notReadyAddresses"][0]["ip"]) == ("10.4.7.2", "10.4.7.3")
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    # an Endpoints object without any address is known again, too
    two.drop("aws", "Service", "shop", "a")
    two.drop("aws", "Endpoints", "shop", "a")
    assert two.run(mirror_as="endpoints", confirm_empty=["aws"])["plan"]["delete"] == 2
    assert two.names("gcp", "Endpoints") == [] and two.names("aws", "Endpoints") == ["gcp-shop-73736d-b"]


def test_service_changes_follow(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    before = two.get("gcp", "Service", FLUENTD)
    affinity = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}
    two.put("aws", service("sys-log", "fluentd", ports=PORTS[:1] + [{"name": "dns", "port": 53, "protocol": "UDP"}], type="NodePort", **affinity))
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1
    mirror = two.get("gcp", "Service", FLUENTD)
    assert [(port["name"], port["port"], port["protocol"], "nodePort" in port) for port in mirror["spec"]["ports"]] == [
        ("http", 8888, "TCP", False), ("dns", 53, "UDP", False),
    ]
    assert mirror["spec"]["sessionAffinity"] == "ClientIP" and mirror["spec"]["type"] == "ClusterIP"
    assert mirror["spec"]["clusterIP"] == before["spec"]["clusterIP"] and mirror["metadata"]["uid"] == before["metadata"]["uid"]
    two.drop("aws", "Service", "sys-log", "fluentd")
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1
    assert two.get("gcp", "Service", FLUENTD)["spec"]["sessionAffinity"] == "None"
    assert not two.run(mirror_as="endpoints")["changed"]
    # headless cannot be changed in place
    two.drop("aws", "Service", "sys-log", "fluentd")
    two.put("aws", service("sys-log", "fluentd", clusterIP="None"), endpoints("sys-log", "fluentd", *PODS))
    result = two.run(mirror_as="endpoints")
    assert (result["plan"]["create"], result["plan"]["delete"], result["failures"]) == (2, 2, [])
    assert two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"] == "None" and two.get("gcp", "Endpoints", FLUENTD)["subsets"]
    assert not two.run(mirror_as="endpoints")["changed"]


def test_hand_edits_are_repaired(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    changed = two.get("gcp", "Endpoints", FLUENTD)
    for obj in (dict(changed, subsets=[{"addresses": [{"ip": "10.4.7.9"}]}]),):
        obj["metadata"] = {"name": FLUENTD, "namespace": NAMESPACE}
        two.put("gcp", dict(obj, apiVersion="v1", kind="Endpoints"))
    patch = {"spec": {"selector": {"app": "mine"}, "sessionAffinity": "ClientIP"}, "metadata": {"labels": {"mirrored-svc": "no"}}}
    two.clients["gcp"].merge_patch(BASE + NAMESPACE + "/services/" + FLUENTD, patch, "somebody")
    two.run(mirror_as="endpoints")
    assert [a["ip"] for a in two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["addresses"]] == sorted(PODS)
    mirror = two.get("gcp", "Service", FLUENTD)
    assert mirror["metadata"]["labels"]["mirrored-svc"] == "true"
    assert "selector" not in mirror["spec"], "a selector would replace our endpoints"
    two.drop("gcp", "Service", NAMESPACE, FLUENTD)
    assert two.run(mirror_as="endpoints")["plan"]["create"] == 2, "the server took the Endpoints away with the Service"


def test_foreign_and_original_objects(fluentd):
    two = fluentd
    foreign = service(NAMESPACE, FLUENTD, labels={"team": "blue"}, selector={"app": "mine"})
    two.put("gcp", namespace(NAMESPACE), foreign)
    for adopt in (False, True):
        mark = two.mark()
        result = two.run(mirror_as="endpoints", adopt=adopt)
        assert reasons(result) == [("aws/sys-log/fluentd", "not_ours")] and two.writes(mark)["gcp"] == []
    two.drop("gcp", "Service", NAMESPACE, FLUENTD)

    labels = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    stale = "aws-sys-log-73736d-gone"
    for name in (FLUENTD, stale):
        two.put("gcp", service(NAMESPACE, name, labels=labels), endpoints(NAMESPACE, name, "10.2.3.1", labels=labels))
    address = two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("aws/sys-log/fluentd", "adoptable")] and two.writes(mark)["gcp"] == []
    assert two.run(mirror_as="endpoints", adopt=True, check=True)["plan"]["update"] == 2
    result = two.run(mirror_as="endpoints", adopt=True)
    assert (result["plan"]["update"], result["plan"]["delete"], result["refused"]) == (2, 2, [])
    assert two.names("gcp", "Service") == [FLUENTD]
    assert two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"] == address
    assert not two.run(mirror_as="endpoints")["changed"]


def test_hostile_sources(two):
    two.put("aws", service("shop", "good"), endpoints("shop", "good", "10.2.3.4"))
    # Endpoints take some of these, slices of old servers all of them; what the server refuses we need not refuse
    taken = set()
    for number, ip in enumerate(("239.1.1.1", "255.255.255.255", "240.0.0.1", "10.3.0.1", "10.5.0.9", "10.4.7.2", "10.22.22.27", "100.64.0.1",
                                 "127.0.0.1", "169.254.169.254", "::ffff:10.2.3.4", "64:ff9b::a9fe:a9fe", "10.6.0.1", "::1")):  # fmt: skip
        name = "evil-{0}".format(number)
        two.put("aws", service("shop", name))
        for form in (endpoints("shop", name, ip, "10.2.3.5"), piece("shop", name, "-x", ip, labels=LABEL, family="IPv6" if ":" in ip else "IPv4")):
            with contextlib.suppress(Invalid):
                two.put("aws", form)
                taken.add(ip)
                break
    assert taken >= {"255.255.255.255", "240.0.0.1", "10.3.0.1", "10.5.0.9", "10.4.7.2", "10.22.22.27", "100.64.0.1", "10.6.0.1"}
    two.put("aws", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "names", "namespace": "shop", "labels": LABEL},
                    "spec": {"type": "ExternalName", "externalName": "metadata.google.internal"}})  # fmt: skip
    two.put("aws", service("shop", "grabs", externalIPs=["10.22.22.27"], type="LoadBalancer", loadBalancerIP="10.5.0.1", selector={"a": "b"}))
    two.put("aws", service("shop", "s" * 60))
    for form in ("endpoints", "slices"):
        result = two.run(mirror_as=form, max_deletes=-1)
        words = dict(reasons(result))
        assert words["aws/shop/names"] == "unsupported_type" and words["aws/shop/" + "s" * 60] == "name_too_long"
        assert set(words.values()) <= {"special_address", "outside_grant", "unsupported_type", "name_too_long"}
        assert not result["failures"]
        api_version, kind = ("v1", "Endpoints") if form == "endpoints" else (slices_version(), "EndpointSlice")
        found = [two.get("gcp", kind, name, api_version=api_version) for name in two.names("gcp", kind, api_version=api_version)]
        ips = {a["ip"] for obj in found for subset in obj.get("subsets") or () for a in subset.get("addresses", ())}
        ips |= {ip for obj in found for one in obj.get("endpoints") or () for ip in one["addresses"]}
        assert ips <= {"10.2.3.4", "10.2.3.5"} and (form == "slices" or ips == {"10.2.3.4", "10.2.3.5"})
        grabs = two.get("gcp", "Service", "aws-shop-73736d-grabs")
        assert not {"externalIPs", "loadBalancerIP", "selector"} & set(grabs["spec"]) and grabs["spec"]["type"] == "ClusterIP"


def test_colliding_names(two):
    definition = copy.deepcopy(DEFINITION)
    two.put("aws", namespace("2-web"))
    two.put("aws", service("shop", "x-73736d-y"), service("2-web", "api"))
    result = two.run(prefixes={"aws": "p", "gcp": "p-2"}, definition=definition)
    assert reasons(result) == []
    two.put("gcp", service("shop", "z"))
    with pytest.raises(ValueError, match="duplicate_service_prefix"):
        two.run(prefixes={"aws": "p", "gcp": "p"})
    two.drop("aws", "Service", "2-web", "api")


def test_budget_and_sweeps(two):
    for number in range(12):
        two.put("aws", service("shop", "s{0}".format(number)), endpoints("shop", "s{0}".format(number), "10.2.3.4"))
    assert not two.run(mirror_as="endpoints")["failures"]
    for number in range(6):
        two.drop("aws", "Service", "shop", "s{0}".format(number))
        two.drop("aws", "Endpoints", "shop", "s{0}".format(number))
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("gcp: aws", "delete_budget")] * 2 and two.writes(mark)["gcp"] == []
    assert not two.run(mirror_as="endpoints", service_sync=False, max_deletes=-1)["changed"]
    result = two.run(mirror_as="endpoints", max_deletes=6)
    assert result["plan"]["delete"] == 12 and len(two.names("gcp", "Service")) == 6
    mark = two.mark()
    assert not two.run(mirror_as="endpoints", sources=["gcp"])["changed"], "sources that a run does not speak of are left alone"
    result = two.run(state="absent", sources=["aws"], mirror_as="endpoints")
    assert result["plan"]["delete"] == 12 and two.names("gcp", "Service") == two.names("gcp", "Endpoints") == []
    assert two.writes(mark)["aws"] == []


def test_namespace(fluentd):
    two = fluentd
    result = two.run(mirror_namespace="not-there", create_namespace=False, mirror_as="endpoints")
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("gcp", "mirror_namespace_missing")]
    assert not result["changed"]
    result = two.run(mirror_namespace="made-by-us", mirror_as="endpoints", check=True)
    assert [change["kind"] for change in result["plan"]["changes"]] == ["Namespace", "Service", "Endpoints"]
    result = two.run(mirror_namespace="made-by-us", mirror_as="endpoints")
    assert result["plan"]["create"] == 3 and not result["failures"]
    assert not two.run(mirror_namespace="made-by-us", mirror_as="endpoints")["changed"]
    two.run(mirror_namespace="made-by-us", mirror_as="endpoints", state="absent")
    assert two.names("gcp", "Service", "made-by-us") == []


def dead(request):
    """The same with an API server of aws that does not answer."""
    request["clusters"][0] = {"name": "aws", "api_url": "https://127.0.0.1:1", "token": "x" * 20, "ca_data": request["clusters"][0]["ca_data"]}
    return request


def test_unreachable_sources(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    mark = two.mark()
    result = service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="keep", max_deletes=-1)))
    assert not result["changed"] and result["failures"][0]["cause"] == "unreachable" and two.writes(mark)["gcp"] == []
    assert result["sources"]["aws"] == {"listed": False, "mirrors": 0, "global": 0}

    result = service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="not_ready")))
    subset = two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]
    assert "addresses" not in subset and [a["ip"] for a in subset["notReadyAddresses"]] == sorted(PODS)
    mark = two.mark()
    assert not service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="not_ready")))["changed"]
    assert two.writes(mark)["gcp"] == []
    assert two.run(mirror_as="endpoints", on_unreachable="not_ready")["plan"]["update"] == 1
    assert len(two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["addresses"]) == 3
    service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="empty")))
    assert not two.get("gcp", "Endpoints", FLUENTD).get("subsets")
    assert not service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="empty")))["changed"]
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1


def test_grace_time(fluentd, monkeypatch):
    two = fluentd
    two.run(mirror_as="endpoints")
    now = [1000000]
    monkeypatch.setattr(service_mirror.time, "time", lambda: now[0])
    more = {"mirror_as": "endpoints", "on_unreachable": "empty", "unreachable_grace": 300}
    assert service_mirror.run(dead(two.request(**more)))["plan"]["create"] == 1
    assert two.get("gcp", "ConfigMap", "service-mirror-outages-t")["data"] == {"aws": "1000000"}
    now[0] += 299
    mark = two.mark()
    assert not service_mirror.run(dead(two.request(**more)))["changed"] and two.writes(mark)["gcp"] == []
    now[0] += 1
    assert service_mirror.run(dead(two.request(**more)))["plan"]["update"] == 1
    assert not two.get("gcp", "Endpoints", FLUENTD).get("subsets")
    result = two.run(**more)
    assert (result["plan"]["update"], result["plan"]["delete"]) == (1, 1)
    assert not two.run(**more)["changed"]


def test_a_refused_list_never_deletes(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}]
    two.put("aws", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "half"}, "rules": rules})
    two.put("aws", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "half"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"},
                    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "half"}]})  # fmt: skip
    request = two.request(mirror_as="endpoints", max_deletes=-1, on_unreachable="empty", confirm_empty=["aws"])
    request["clusters"][0].update(impersonate_user="half", allow=["impersonation"])
    mark = two.mark()
    result = service_mirror.run(request)
    assert [row["cause"] for row in result["failures"]] == ["forbidden"] and not result["changed"] and two.writes(mark)["gcp"] == []


def test_auto_means_slices_where_v1_is_served(fluentd):
    """Ruling 17: EndpointSlices where discovery.k8s.io/v1 is served, Endpoints elsewhere."""
    two = fluentd
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels=LABEL))
    assert not two.run()["failures"]
    found = two.names("gcp", "Endpoints"), two.names("gcp", "EndpointSlice", api_version=slices_version())
    assert found == (([], [FLUENTD + "-4-0"]) if slices_version().endswith("/v1") else ([FLUENTD], []))
    mark = two.mark()
    assert not two.run()["changed"] and two.writes(mark) == {"aws": [], "gcp": []}


def test_slices_where_they_are_forced(fluentd):
    """Also where only discovery.k8s.io/v1beta1 is served: then in that version."""
    two = fluentd
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", "10.2.4.19", labels=LABEL))
    hostile = ["fd00:2::1"]  # outside of what aws is granted
    if slices_version().endswith("beta1"):
        hostile.append("fe80::1")  # later servers refuse it themselves
    two.put("aws", piece("sys-log", "fluentd", "-def", *hostile, labels=LABEL, family="IPv6"))
    assert not two.run(mirror_as="endpoints")["failures"] and two.names("gcp", "Endpoints") == [FLUENTD]
    result = two.run(mirror_as="slices")
    kinds = [(change["action"], change["kind"]) for change in result["plan"]["changes"]]
    assert kinds == [("create", "EndpointSlice"), ("delete", "Endpoints")], "the new form before the old one goes"
    made = two.get("gcp", "EndpointSlice", FLUENTD + "-4-0", api_version=slices_version())
    assert made["metadata"]["labels"] == {
        "mirrored-svc": "true", "mirror-svc-prefix-sync": "aws", "kubernetes.io/service-name": FLUENTD,
        "endpointslice.kubernetes.io/managed-by": "multicluster.network",
    }
    assert [one["addresses"] for one in made["endpoints"]] == [["10.2.3.19"], ["10.2.4.19"]]
    assert in_zone("eu-1").items() <= made["endpoints"][0].items()
    assert set(reasons(result)) == {("aws/sys-log/fluentd", "special_address" if ip == "fe80::1" else "outside_grant") for ip in hostile}
    mark = two.mark()
    assert not two.run(mirror_as="slices")["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels=LABEL))
    assert two.run(mirror_as="slices")["plan"]["update"] == 1
    result = two.run(mirror_as="endpoints")
    assert [(change["action"], change["kind"]) for change in result["plan"]["changes"]] == [("create", "Endpoints"), ("delete", "EndpointSlice")]
    assert not two.run(mirror_as="endpoints")["changed"]


def test_global_services(two):
    more = {"global_selector": "mirror.semaphore.uw.io/global-service=true", "mirror_selector": None}
    two.put("aws", service("shop", "cart", ports=PORTS[:1], labels=SHARED), piece("shop", "cart", "-a1", "10.2.3.4"))
    two.put("gcp", service("shop", "cart", ports=PORTS[:1], labels=SHARED), piece("shop", "cart", "-g1", "10.4.7.4", "10.4.7.5"))
    result = two.run(**more)
    assert (result["refused"], result["failures"]) == ([], [])
    for cluster in ("aws", "gcp"):
        made = two.get(cluster, "Service", "gl-shop-73736d-cart")
        assert made["metadata"]["labels"] == {"global-svc": "true"}
        assert made["metadata"]["annotations"] == {"global-svc-clusters": "aws,gcp"}
        assert two.names(cluster, "EndpointSlice", api_version=slices_version()) == ["gl-cart-a1", "gl-cart-g1"]
    one = two.get("gcp", "EndpointSlice", "gl-cart-a1", api_version=slices_version())
    assert one["metadata"]["labels"] == {
        "mirrored-endpoint-slice": "true", "mirror-endpointslice-sync-name": "aws", "kubernetes.io/service-name": "gl-shop-73736d-cart",
        "endpointslice.kubernetes.io/managed-by": "semaphore-service-mirror",
    }
    mark = two.mark()
    assert not two.run(**more)["changed"] and two.writes(mark) == {"aws": [], "gcp": []}

    two.put("gcp", service("shop", "cart", ports=PORTS, labels=SHARED))
    result = two.run(**more)
    assert set(reasons(result)) == {("gcp/shop/cart", "ports_conflict"), ("aws/shop/cart", "ports_conflict")}
    assert len(two.get("gcp", "Service", "gl-shop-73736d-cart")["spec"]["ports"]) == 2, "a cluster's own Service decides there"
    assert len(two.get("aws", "Service", "gl-shop-73736d-cart")["spec"]["ports"]) == 1

    mark = two.mark()
    result = service_mirror.run(dead(two.request(max_deletes=-1, **more)))
    assert not result["changed"] and two.writes(mark)["gcp"] == [], "a cluster that cannot be listed stays in"

    two.drop("aws", "Service", "shop", "cart")
    two.drop("aws", "EndpointSlice", "shop", "cart-a1", slices_version())
    assert ("gcp: aws", "delete_budget") in reasons(two.run(**more))
    two.run(confirm_empty=["aws"], **more)
    for cluster in ("aws", "gcp"):
        assert two.get(cluster, "Service", "gl-shop-73736d-cart")["metadata"]["annotations"] == {"global-svc-clusters": "gcp"}
        assert two.names(cluster, "EndpointSlice", api_version=slices_version()) == ["gl-cart-g1"]
    two.drop("gcp", "Service", "shop", "cart")
    result = two.run(confirm_empty=["aws", "gcp", "global services"], **more)
    assert two.names("gcp", "Service") == two.names("aws", "Service") == []
    assert not two.run(**more)["changed"]
