# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/adopt.yml as a user runs it: looked at, planned, taken, run again, changed, and given back, each with one command.

Every original of which a cluster's API holds something has been there: Semaphore's mirrors, global services and sets and the cloud controller as recorded,
Kilo's operator, the control plane's Service and apinetlet's twins as computed (docs/specs). Nodes of the mesh are taken over in tests/scenario/test_adopt.py.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pathlib
import subprocess
import sys

import pytest
import test_clustermesh
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import released as tenants_released
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from api_server import minor_version
from balancer_life import FINALIZER, MODES, NODES, SETTINGS, Balanced, different, said as balanced
from equinix_cloud import PROJECT, TOKEN, double
from mirror_clusters import NAMESPACE, namespace, other, two  # pylint: disable=unused-import
from mirror_life import ROUTING, mirrored, put_sources, said as mirrors_of
from set_kinds import serve, withdraw
from sets_life import KIND, put_pods, said as sets_of, sets, take_pods
from tenant_servers import NAMESPACE as TWINS_IN
from test_clustermesh import FILES, PEERS, node, peers_of, put_nodes, wait_for_kinds
from test_originals_equinix import Recorded as RecordedController
from test_originals_kilo import Operator
from test_originals_mirrors import Recorded as RecordedMirrors
from test_originals_sets import Recorded as RecordedSets
from test_released import TWINS

__all__ = ["double", "other", "two"]
US, SERVICES = "multicluster.network/t", {"aws": "10.102.0.0/16", "gcp": "10.104.0.0/16"}
CONTROLLER = "cloud-provider-equinix-metal"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHARED = minor_version() >= 21
CAPABILITIES = ["clustermesh", "service_mirror", "network_sets", "load_balancers"]
#: As upstream does where we would do otherwise by ourselves; the guide "Coming from ..." has each.
THEIRS = {
    "service_mirror_as": "endpoints",
    "service_mirror_endpoint_fields": "all",
    "service_mirror_session_affinity": False,
    "control_plane_address_endpoints_as": "endpoints",
    "load_balancers_gc_orphans": True,
}
GLOBAL = {
    "service_mirror_global_selector": "mirror.semaphore.uw.io/global-service=true",
    "service_mirror_routing_selector": ROUTING,
}
#: The address of the control plane is one at which this API server answers.
TAG, EIP, IDENT = "control-plane-of-aws", "127.0.0.1", "00000000-0000-4000-8000-00000000000e"
EXTERNAL, SOURCE_ENDPOINTS = CONTROLLER + "-kubernetes-external", "/api/v1/namespaces/default/endpoints/kubernetes"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system/"
POOL = "metallb.universe.tf/address-pool"
WORKLOAD = "/apis/apps/v1/namespaces/kube-system/deployments/" + CONTROLLER
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + CONTROLLER
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
BACK = ("semaphore.release", "kilo.teardown", "load_balancers", "ccm.control_plane_address", "ccm.nodes")
RELEASED = (
    "-e",
    "clustermesh_release=true",
    "-e",
    "load_balancers_state=released",
    "-e",
    "control_plane_address_state=released",
    "-e",
    "ccm_nodes_state=released",
)


def play(folder, books, *arguments, code=0):
    """What playbooks print, one after the other in one run. code None: however it ends."""
    environment = dict(
        os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(folder / "ansible")
    )
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    names = ["multicluster.network." + book for book in books]
    command = ["ansible-playbook", "-i", str(folder / "hosts.yml"), *names, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=str(folder), capture_output=True, text=True, timeout=600, check=False
    )
    assert code is None or done.returncode == code, (done.stdout + done.stderr)[-8000:]
    return done.stdout + done.stderr


def adopt(folder, step, *arguments, code=0):
    return play(folder, ["adopt"], "-e", "adopt_step=" + step, *arguments, code=code)


def without_locks(writes):
    """Writes by cluster but those of the run's own locks."""
    return {name: [write for write in rows if "/leases" not in write[1]] for name, rows in writes.items()}


def managers(objects):
    return {entry["manager"] for obj in objects for entry in obj["metadata"].get("managedFields") or ()}


class ControlPlane:
    """The address of the control plane: held by metal-1, with the Service and the Endpoints that the controller applies (ccm 11.4)."""

    def __init__(self, metal):
        self.metal, self.client, self.port = metal, metal.client, metal.server.port

    def begin(self):
        double, client = self.metal.double, self.client
        ident = next(row["id"] for row in double.ask("/state")["devices"] if row["hostname"] == "metal-1")
        double.ask("/reservations", tags=[TAG], address=EIP, id=IDENT)
        RecordedController(self.metal)._order(f"/devices/{ident}/ips", address=EIP)  # pylint: disable=protected-access
        client.merge_patch(
            NODES + "/metal-1", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "kubeadm"
        )
        # two of one type are more than the oldest servers can note writers of: nobody is on record for metal-1 there
        addresses = client.get(NODES + "/metal-1")["status"]["addresses"] + [{"type": "ExternalIP", "address": EIP}]
        client.merge_patch(NODES + "/metal-1/status", {"status": {"addresses": addresses}}, CONTROLLER)
        ports = [{"name": "https", "port": self.port, "protocol": "TCP"}]
        subsets = [{"addresses": [{"ip": "10.66.1.5"}], "ports": ports}]
        meta = {"name": EXTERNAL, "namespace": "kube-system"}
        # this API server advertises a loopback address, and makes no Endpoints of that
        own = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "kubernetes"}, "subsets": subsets}
        client.create(SOURCE_ENDPOINTS.rpartition("/")[0], own, "apiserver")
        annotations = {POOL: "disabled-metallb-do-not-use-any-address-pool"}
        spec = {"type": "LoadBalancer", "loadBalancerIP": EIP, "ports": [dict(ports[0], targetPort=self.port)]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": dict(meta, annotations=annotations), "spec": spec}
        client.apply(KUBE_SYSTEM + "services/" + EXTERNAL, service, CONTROLLER + "-auto", force=True)
        status = {"status": {"loadBalancer": {"ingress": [{"ip": EIP}]}}}
        client.merge_patch(KUBE_SYSTEM + "services/" + EXTERNAL + "/status", status, CONTROLLER)
        mirror = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}
        client.apply(KUBE_SYSTEM + "endpoints/" + EXTERNAL, mirror, CONTROLLER + "-auto", force=True)

    def objects(self):
        return [
            dict(self.client.get(f"{KUBE_SYSTEM}{plural}/{EXTERNAL}"), apiVersion="v1", kind=kind)
            for plural, kind in (("services", "Service"), ("endpoints", "Endpoints"))
        ]

    def end(self):
        for path in (KUBE_SYSTEM + "services/" + EXTERNAL, KUBE_SYSTEM + "endpoints/" + EXTERNAL, SOURCE_ENDPOINTS):
            with contextlib.suppress(NotFound):
                self.client.delete(path)


class Taken:
    """The fabric, what its objects say by system, and who is on record for them."""

    def __init__(self, folder, pair, metal, everything):
        self.folder, self.two, self.metal, self.everything, self.aws = (
            folder,
            pair,
            metal,
            everything,
            pair.servers["aws"],
        )
        self.plane = ControlPlane(metal)

    def objects(self):
        """What upstream wrote, by system."""
        found = {"load balancers": self.metal.objects(), "control plane": self.plane.objects()}
        if self.everything:
            found.update(
                {
                    "mirrors": mirrored(self.two, SHARED),
                    "sets": sets(self.aws),
                    "Peers": [peer for one in self.two.servers.values() for peer in peers_of(one).values()],
                }
            )
        return found

    def said(self):
        """{system: {object: its content}}. We add the name that MetalLB's annotation has today, which upstream does not know."""
        found = self.objects()
        plane = balanced(found["control plane"])
        for obj in plane.values():
            (obj["metadata"].get("annotations") or {}).pop("metallb.io/address-pool", None)
        said = {"load balancers": balanced(found["load balancers"]), "control plane": plane}
        if self.everything:
            said.update(
                {
                    "mirrors": mirrors_of(found["mirrors"]),
                    "sets": sets_of(found["sets"]),
                    "Peers": {peer["metadata"]["name"]: peer["spec"] for peer in found["Peers"]},
                }
            )
        return said

    def versions(self):
        return {
            system: sorted((obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) for obj in found)
            for system, found in self.objects().items()
        }

    def original_on_record(self):
        """{(kind, field)} for which the cloud controller is on record, but of status where that is not distinguished."""
        found = set()
        for obj in self.metal.objects():
            for entry in obj["metadata"].get("managedFields") or ():
                if entry["manager"] == CONTROLLER:
                    found |= {
                        (obj["kind"], part, name)
                        for part, inner in entry["fieldsV1"].items()
                        for name in inner
                        if name != "."
                    }
        return found

    def same(self, before, what):
        now = self.said()
        for system, objects in before.items():
            assert not different(objects, now[system]), f"{what}: {system}: {different(objects, now[system])}"

    def orders(self, since):
        """What the provider was asked to do."""
        return [call for call in self.metal.double.calls()[since:] if not call.startswith("GET ")]

    def untouched(self, work):
        """The work's result, after which nothing is written anywhere."""
        versions, mark, calls = self.versions(), self.two.mark(), len(self.metal.double.calls())
        result = work()
        assert without_locks(self.two.writes(mark)) == {"aws": [], "gcp": []} and self.versions() == versions, (
            "something was written"
        )
        assert self.orders(calls) == []
        return result


def hosts_of(folder, servers, **more):
    """The hosts of an inventory, each with a kubeconfig of its own."""
    for name, one in servers.items():
        (folder / name).write_text(yaml.safe_dump(one.kubeconfig()))
    return {name: dict({"kubeconfig": str(folder / name)}, **more.get(name, {})) for name in servers}


def write_inventory(folder, hosts, variables):
    tree = {
        "all": {
            "vars": dict({"multicluster_fabric": "t"}, **variables),
            "children": {"clusters": {"hosts": hosts, "vars": HERE}},
        }
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))


def put_kilo(servers):
    """Kilo's kinds, agents on the controller's nodes of aws and on two nodes of gcp, and the operator's Peers."""
    for one in servers.values():
        if one.client().resource("kilo.squat.ai/v1alpha1", "Peer", refresh=True) is None:
            for name in ("peers", "clustermeshes"):
                one.client().create(CRD, yaml.safe_load((FILES / (name + ".yml")).read_text()), "test")
            wait_for_kinds(one.client())
    for number in (1, 2):
        kilo, path = node("aws", number), f"{NODES}/metal-{number}"
        servers["aws"].client().merge_patch(path, {"spec": kilo["spec"]}, "kube-controller-manager")
        servers["aws"].client().merge_patch(
            path, {"metadata": {"annotations": kilo["metadata"]["annotations"]}}, "kilo"
        )
    put_nodes(servers["gcp"].client(), [node("gcp", number) for number in (1, 2)])
    Operator(servers).run()


@pytest.fixture
def fabric(request, two, double, monkeypatch, tmp_path):
    """What the programs left; request.param: (how MetalLB is configured, whether all of them have been there)."""
    mode, everything = request.param
    monkeypatch.setattr(test_clustermesh, "NUMBERS", {"aws": 2, "gcp": 4})
    aws, gcp = two.servers["aws"], two.servers["gcp"]
    metal = Balanced(aws, double, mode)
    made = Taken(tmp_path, two, metal, everything)
    try:
        metal.put()
        RecordedController(metal).begin()
        made.plane.begin()
        metal.reports()
        if everything:
            serve(aws.client(), KIND)
            put_sources(two, SHARED)
            put_pods(gcp)
            two.put("gcp", namespace(NAMESPACE))
            RecordedMirrors(two, SHARED).begin()
            RecordedSets(aws).begin()
            put_kilo(two.servers)
        settings = dict(
            SETTINGS,
            provider="equinix_metal",
            load_balancer=MODES[mode],
            base_url=double.root + "/metal/v1",
            allow_plain_http=True,
            api_key=TOKEN,
            project_id=PROJECT,
            metro="da",
            eip_tag=TAG,
            api_server_port=aws.port,
        )
        ranges = {
            name: {
                "pod_cidrs": ["10.%d.0.0/16" % number],
                "service_cidrs": [SERVICES[name]],
                "wireguard_cidrs": ["100.%d.0.0/24" % (number + 50)],
            }
            for name, number in test_clustermesh.NUMBERS.items()
        }
        ranges["aws"]["load_balancers_settings"] = settings
        variables = dict(
            THEIRS,
            multicluster_capabilities=CAPABILITIES if everything else ["load_balancers"],
            clustermesh_name="prod",
            service_mirror_destinations=["gcp"],
            network_sets_sources=["gcp"],
            network_sets_targets=["aws"],
        )
        write_inventory(
            tmp_path, hosts_of(tmp_path, two.servers, **ranges), dict(variables, **(GLOBAL if SHARED else {}))
        )
        yield made
    finally:
        made.plane.end()
        metal.clear()
        if everything:
            take_pods(gcp)
            withdraw(aws.client(), KIND)
            for one in two.servers.values():
                for path in (PEERS, NODES):
                    for obj in one.client().list(path).items:
                        one.client().delete(path + "/" + obj["metadata"]["name"])


def names_of(param):
    return param[0] + (", all of them" if param[1] else "")


FULL = pytest.mark.skipif(
    not os.environ.get("MCN_FULL"), reason="NOT RUN here: it takes minutes; `tests/run adopt_full` runs it"
)
LIVES = [
    pytest.param(("custom-resources", True), marks=FULL),
    pytest.param(("configmap", False), marks=FULL),
    ("kube-vip", False),
]


@pytest.mark.takes_long
@pytest.mark.parametrize("fabric", LIVES, ids=names_of, indirect=True)
def test_looked_at_planned_taken_and_given_back(fabric):
    folder, before, calls = fabric.folder, fabric.said(), len(fabric.metal.double.calls())
    assert all(before.values())
    shown = fabric.untouched(lambda: adopt(folder, "look"))
    assert f"1 Node of {CONTROLLER}" in shown or f"2 Node of {CONTROLLER}" in shown
    assert (f"1 ConfigMap of {CONTROLLER}" in shown) == (fabric.metal.mode == "configmap")
    if fabric.everything:
        assert "Endpoints of semaphore-service-mirror" in shown and "Peer of manager" in shown
    assert "runs in check mode only" in " ".join(fabric.untouched(lambda: adopt(folder, "plan", code=2)).split())
    planned = fabric.untouched(lambda: adopt(folder, "plan", "--check", "--diff")).lower()
    kinds = {"custom-resources": ["bgppeer", "ipaddresspool"], "configmap": ["configmap"], "kube-vip": []}[
        fabric.metal.mode
    ]
    for kind in [
        "node aws/metal-2",
        EXTERNAL,
        *kinds,
        *(["peer", "endpoints", "globalnetworkset"] if fabric.everything else []),
    ]:
        assert kind in planned, kind

    adopt(folder, "take")
    fabric.same(before, "taking over has changed something")
    assert fabric.orders(calls) == []
    found = fabric.objects()
    for system in ("mirrors", "sets", "Peers"):
        assert managers(found.get(system, ())) <= {US}, system
    assert not [
        name for name in managers(found["control plane"]) if name.startswith(CONTROLLER + "-auto")
    ] and US in managers(found["control plane"])
    # of what it wrote only taints, which belong to whoever changed any of them last, finalizers, which both have, and status are not solely owned
    left = {
        row
        for row in fabric.original_on_record()
        if row[1] != "f:status" and row[1:] not in (("f:spec", "f:taints"), ("f:metadata", "f:finalizers"))
    }
    assert left == set(), left

    shown = fabric.untouched(lambda: adopt(folder, "take"))
    assert "changed=0" in shown and not [
        line for line in shown.splitlines() if "changed=" in line and "changed=0" not in line
    ], shown
    records = [
        entry
        for obj in fabric.metal.objects()
        if obj["kind"] == "Node"
        for entry in obj["metadata"].get("managedFields") or ()
    ]
    tainted = sum(
        1 for entry in records if entry["manager"] == CONTROLLER and "f:taints" in entry["fieldsV1"].get("f:spec", {})
    )
    said = f"{CONTROLLER} is still on record for spec.taints of {tainted} Node, which nothing needs"
    assert tainted and said in " ".join(shown.split()), shown

    if fabric.everything:  # without a variable of adopt it is owned from then on
        fabric.two.drop("aws", "Service", "shop", "idle")
        assert "aws-shop-73736d-idle" in fabric.two.names("gcp", "Service")
        play(folder, ["service_mirror"])
        assert "aws-shop-73736d-idle" not in fabric.two.names("gcp", "Service")

    before, calls = fabric.said(), len(fabric.metal.double.calls())
    back = BACK if fabric.everything else BACK[2:]
    play(folder, back, *RELEASED)
    for (kind, dummy), obj in before["load balancers"].items():  # what a cloud controller would write anyway
        if kind == "Service":
            obj["metadata"]["finalizers"] = [FINALIZER]
    fabric.same(before, "releasing has changed something")
    assert fabric.orders(calls) == []
    for system, objects in fabric.objects().items():
        assert US not in managers(objects), system
    fabric.untouched(lambda: play(folder, back, *RELEASED))
    if fabric.everything:
        assert Operator(fabric.two.servers).differences() == [], "the operator, started again, finds its own"
    # and a run of the collection leaves it alone
    fabric.untouched(lambda: play(folder, ["site", "ccm.control_plane_address", "ccm.nodes"], code=None))


@FULL
@pytest.mark.parametrize("fabric", [("kube-vip", False)], ids=names_of, indirect=True)
def test_not_while_the_original_runs_and_what_is_left_of_it(fabric):
    """One that runs is named; one that exists is taken over; its workload, its account and its rights are what nothing needs afterwards."""
    client, folder = fabric.metal.client, fabric.folder
    pod = {
        "serviceAccountName": CONTROLLER,
        "containers": [{"name": "ccm", "image": "quay.io/equinix/" + CONTROLLER + ":v3"}],
    }
    labels = {"app": CONTROLLER}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": CONTROLLER}, "spec": spec}
    subject = {"kind": "ServiceAccount", "namespace": "kube-system", "name": CONTROLLER}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": CONTROLLER},
        "roleRef": role,
        "subjects": [subject],
    }
    client.create(WORKLOAD.rpartition("/")[0], workload, "kubectl")
    client.create(BINDING.rpartition("/")[0], binding, "kubectl")
    try:
        shown = " ".join(fabric.untouched(lambda: adopt(folder, "take", code=2)).split())
        assert f"Deployment kube-system/{CONTROLLER} of cluster aws: still running" in shown
        client.merge_patch(WORKLOAD, {"spec": {"replicas": 0}}, "kubectl")
        planned = fabric.untouched(
            lambda: adopt(folder, "plan", "--check", "--diff", "--skip-tags", "control_plane_address")
        )
        assert EXTERNAL not in planned and "node aws/metal-2" in planned.lower()
        shown = " ".join(adopt(folder, "take").split())
        for line in (
            "Deployment kube-system/" + CONTROLLER,
            "ServiceAccount kube-system/" + CONTROLLER,
            "ClusterRoleBinding " + CONTROLLER,
        ):
            assert f"not needed once taken over: {line} of equinix in cluster aws; kubectl " in shown, shown
        assert "ClusterRole cluster-admin" not in shown and client.find(WORKLOAD) and client.find(BINDING)
    finally:
        client.delete(WORKLOAD)
        client.delete(BINDING)


@pytest.mark.parametrize("fabric", [("kube-vip", False)], ids=names_of, indirect=True)
def test_what_fails_of_nodes_is_reported_at_the_end_and_keeps_nothing_out(fabric):
    """The provider refuses its list of devices: nodes are not taken over, the Services' addresses and the control plane's are."""
    fabric.metal.double.ask("/faults", method="GET", path="/devices$", status=403, body={"error": "no"}, times=1)
    shown = adopt(fabric.folder, "take", code=2)
    table = shown.rpartition("CLUSTER")[2]
    assert "ccm_nodes, cluster aws: " in table and "[auth]" in table, shown[-3000:]
    assert "CCM_NODES" in shown and US in managers(fabric.plane.objects())
    assert US in managers([obj for obj in fabric.metal.objects() if obj["kind"] == "Node"])


def twins(tenant):
    """What every twin has, and {(kind, manager that applied it)}; owner references are everybody's."""
    found, appliers = {}, set()
    for kind in TWINS:
        for obj in tenant.list(APINET, kind):
            meta = {
                key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "resourceVersion")
            }
            found[kind, meta["name"]] = copy.deepcopy(dict(obj, metadata=meta))
            for entry in obj["metadata"]["managedFields"]:
                fields = set(entry["fieldsV1"].get("f:metadata", {})) | set(entry["fieldsV1"])
                if entry["operation"] == "Apply" and fields != {"f:metadata", "f:ownerReferences"}:
                    appliers.add((kind, entry["manager"]))
    return json.loads(json.dumps(sorted(found.items()))), appliers


@FULL
def test_tenants_looked_at_planned_taken_and_given_back(tenant, tmp_path):
    """Twins that are on record as applied by apinetlet, which does not run here: they say what it would say, since the mapping is the same (apinet 4)."""
    tenant.settle()
    tenants_released.run(tenant.request())
    before, appliers = twins(tenant)
    assert {manager for dummy, manager in appliers} == {ONMETAL.field_manager} and {
        kind for kind, dummy in appliers
    } == set(TWINS)
    ranges = {"east": {"pod_cidrs": ["10.2.0.0/16"]}, "fabric": {"pod_cidrs": ["10.4.0.0/16"], "device_alias": "fab"}}
    hosts = hosts_of(tmp_path, {"east": tenant.servers[SOURCE], "fabric": tenant.servers[APINET]}, **ranges)
    write_inventory(
        tmp_path,
        hosts,
        {
            "multicluster_capabilities": ["tenants"],
            "tenants_source": "east",
            "tenants_apinet": "fabric",
            "tenants_apinet_namespace": TWINS_IN,
        },
    )

    def untouched(work):
        mark = tenant.mark()
        shown = work()
        assert without_locks(tenant.writes(mark)) == {SOURCE: [], APINET: []}
        return shown

    shown = untouched(lambda: adopt(tmp_path, "look"))
    assert "Network of " + ONMETAL.field_manager in shown and "still on record" not in shown
    assert "changed=1" in untouched(lambda: adopt(tmp_path, "plan", "--check", "--diff"))
    adopt(tmp_path, "take")
    assert twins(tenant) == (before, {(kind, US) for kind in TWINS})
    untouched(lambda: adopt(tmp_path, "take"))
    play(tmp_path, ["tenant.teardown"], "-e", "tenants_release=true")
    assert twins(tenant) == (before, appliers)
    untouched(lambda: play(tmp_path, ["tenant.teardown"], "-e", "tenants_release=true"))
    untouched(lambda: play(tmp_path, ["tenants"], code=None))
