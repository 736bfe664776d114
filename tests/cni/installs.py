# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network plugins as their manifests install them: objects, configuration, arguments and environment are the manifest's; no image is pulled."""

from __future__ import annotations

import ipaddress
import json
import shutil

from cni_fabric import WORKLOADS
from mcnlab.pod_runtime import INSIDE, OWN_CNI

FLANNEL = ("flannel", "flanneld", "kube-flannel.yml")


def of_kind(items, kind, name):
    return next(item for item in items if item["kind"] == kind and item["metadata"]["name"] == name)


def container(workload, name):
    (found,) = [one for one in workload["spec"]["template"]["spec"]["containers"] if one["name"] == name]
    return found


def environment(container, items, node):
    """The variables of a container on a node."""
    found = {}
    for one in container.get("env", []):
        source = one.get("valueFrom", {})
        if "fieldRef" in source:
            found[one["name"]] = node
        elif "configMapKeyRef" in source:
            key = source["configMapKeyRef"]
            found[one["name"]] = of_kind(items, "ConfigMap", key["name"])["data"][key["key"]]
        else:
            found[one["name"]] = one.get("value", "")
    return found


def flannel_settings(fabric):
    """The files of its ConfigMap, and the arguments of its daemon."""
    items = fabric.manifest("kube-flannel.yml")
    files = of_kind(items, "ConfigMap", "kube-flannel-cfg")["data"]
    return files, container(of_kind(items, "DaemonSet", "kube-flannel-ds"), "kube-flannel")["args"]


def install_flannel(fabric, cluster):
    """With its manifest; where nodes have both versions of IP, with the two lines of flannel's documents for that."""
    items = fabric.manifest("kube-flannel.yml")
    fabric.apply(cluster, *[item for item in items if item["kind"] not in WORKLOADS])
    settings, arguments = flannel_settings(fabric)
    if fabric.dual:
        network = fabric.machinery.topology.cluster(cluster).pod_cidrs[1]
        config = dict(json.loads(settings["net-conf.json"]), EnableIPv6=True, IPv6Network=network)
        settings = dict(settings, **{"net-conf.json": json.dumps(config)})
    for node in fabric.nodes_of(cluster):
        fabric.program(node, "flannel")
        start_flannel(fabric, node, settings, arguments)
        fabric.configure(node, "10-flannel.conflist", settings["cni-conf.json"])
    fabric.ready(cluster)
    fabric.ran(f"flannel in {cluster}")


def start_flannel(fabric, node, settings, arguments):
    config = fabric.write(node, "net-conf.json", settings["net-conf.json"])
    own = [f"--net-config-path={config}", f"--kubeconfig-file={fabric.access(node)}"]
    fabric.daemon(node, "flanneld", fabric.program(node, "flanneld"), *arguments, *own, NODE_NAME=node)


CALICO = ("calico", "calico-felix", "calico-node", "calico-vxlan.yaml")
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"


#: What Calico's documents have for both versions of IP: variables of its node, and of the runtime's configuration.
CALICO_DUAL = {"IP6": "autodetect", "FELIX_IPV6SUPPORT": "true", "CALICO_IPV6POOL_NAT_OUTGOING": "true"}
CALICO_DUAL_IPAM = {"assign_ipv4": "true", "assign_ipv6": "true"}


def install_calico(fabric, cluster):
    """With its manifest for clusters without BGP; what runs in its DaemonSet, and kube-controllers on the first node."""
    items = fabric.manifest("calico-vxlan.yaml")
    if fabric.dual:
        both_versions(fabric, cluster, items)
    fabric.apply(cluster, *[item for item in items if item["kind"] not in WORKLOADS])
    first, *dummy = nodes = fabric.nodes_of(cluster)
    for node in nodes:
        start_calico(fabric, node, items)
    controllers = container(of_kind(items, "Deployment", "calico-kube-controllers"), "calico-kube-controllers")
    given = environment(controllers, items, first)
    own = [fabric.program(first, "calico-node"), *controllers["args"]]
    fabric.daemon(first, "kube-controllers", *own, **given, KUBECONFIG=fabric.access(first))
    fabric.ready(cluster)
    fabric.ran(f"Calico in {cluster}")


def both_versions(fabric, cluster, items):
    """Change a manifest as Calico's documents have it, so that pods get addresses of both versions of IP."""
    own = dict(CALICO_DUAL, CALICO_IPV6POOL_CIDR=fabric.machinery.topology.cluster(cluster).pod_cidrs[1])
    agent = container(of_kind(items, "DaemonSet", "calico-node"), "calico-node")
    kept = [one for one in agent["env"] if one["name"] not in own]
    agent["env"] = kept + [{"name": name, "value": value} for name, value in own.items()]
    config = of_kind(items, "ConfigMap", "calico-config")["data"]
    before = '"type": "calico-ipam"'
    assert before in config["cni_network_config"]
    more = ", ".join(f'"{name}": "{value}"' for name, value in CALICO_DUAL_IPAM.items())
    config["cni_network_config"] = config["cni_network_config"].replace(before, f"{before}, {more}")


def start_calico(fabric, node, items):
    """The node's part: start-up, services, felix, and the configuration of the runtime."""
    agent = container(of_kind(items, "DaemonSet", "calico-node"), "calico-node")
    access, program = fabric.access(node), fabric.program(node, "calico-node")
    given = dict(environment(agent, items, node), KUBECONFIG=access)
    for name in ("calico", "calico-ipam"):
        fabric.program(node, "calico", name)
    token = fabric.write(node, "token", fabric.machinery.control_plane(fabric.cluster_of(node)).token)
    text = f"mkdir -p {ACCOUNT} /run/calico && cp {token} {ACCOUNT}/token && echo kube-system > {ACCOUNT}/namespace"
    fabric.in_runtime(node, "sh", "-c", text)
    fabric.in_runtime(node, program, "component", "node", "startup", **given)
    fabric.in_runtime(node, program, "component", "node", "allocate-tunnel-addrs", "--run-once", **given)
    fabric.daemon(
        node, "node-services", program, "component", "node", "node-services", CALICO_MANAGE_CNI="false", **given
    )
    own = {"FELIX_FELIXHOSTNAME": node, "FELIX_DATASTORETYPE": given["DATASTORE_TYPE"]}
    fabric.daemon(node, "felix", fabric.program(node, "calico-felix"), **given, **own)
    fabric.configure(node, "10-calico.conflist", calico_network(items, node, access))


def calico_network(items, node, access):
    """The configuration of the runtime, as Calico's installer fills it in."""
    config = of_kind(items, "ConfigMap", "calico-config")["data"]
    text = config["cni_network_config"].replace("__KUBERNETES_NODE_NAME__", node)
    return text.replace("__CNI_MTU__", config["veth_mtu"]).replace("__KUBECONFIG_FILEPATH__", access)


def install_plain(fabric, cluster):
    """A network without objects of its own: all nodes take addresses of one range, of which each has its part by a file that no API server has."""
    network = fabric.machinery.topology.cluster(cluster).pod_cidrs[0]
    parts = dict(zip(fabric.nodes_of(cluster), ipaddress.ip_network(network).subnets(new_prefix=26)))
    for node, part in parts.items():
        for other, cidr in parts.items():
            if other != node:
                fabric.sh(
                    node, "ip", "route", "replace", str(cidr), "via", fabric.machinery.machine(other).node.address
                )
        own = {"subnet": network, "rangeStart": str(part[10]), "rangeEnd": str(part[60])}
        ipam = {"type": "host-local", "ranges": [[own]], "routes": [{"dst": "0.0.0.0/0"}]}
        plugins = [{"type": "ptp", "ipMasq": True, "mtu": 1500, "ipam": dict(ipam, dataDir="/var/lib/cni/networks")}]
        text = json.dumps({"cniVersion": "1.0.0", "name": "plain", "plugins": plugins})
        fabric.configure(node, "10-plain.conflist", text)
    fabric.ready(cluster)
    fabric.ran(f"{cluster}: {', '.join(f'{node} {part}' for node, part in parts.items())}")


CILIUM = ("cilium-operator",)
#: What the chart's default values tell the operator.
OPERATOR = ("--ipam=cluster-pool", "--cluster-pool-ipv4-cidr=10.0.0.0/8", "--cluster-pool-ipv4-mask-size=24")


def install_cilium_operator(fabric, cluster):
    """The operator alone, which hands out ranges. What agents do is done here: their objects, and pods with addresses of their ranges."""
    first, *dummy = nodes = fabric.nodes_of(cluster)
    own = [fabric.program(first, "cilium-operator"), *OPERATOR, "--enable-ipv4=true", "--enable-ipv6=false"]
    access = fabric.access(first)
    fabric.daemon(
        first, "cilium-operator", *own, f"--k8s-kubeconfig-path={access}", "--operator-api-serve-addr=127.0.0.1:9234"
    )
    fabric.until(
        "the operator's definitions",
        lambda: "ciliumnodes.cilium.io" in fabric.kubectl(cluster, "get", "crd", "-o", "name"),
    )
    for node in nodes:
        fabric.apply(cluster, cilium_node(fabric, node))
    ranges = fabric.until("ranges of all nodes", lambda: cilium_ranges(fabric, cluster, len(nodes)))
    for node in nodes:
        plain_network(fabric, node, ranges)
    fabric.ready(cluster)
    fabric.ran(f"Cilium's operator in {cluster}: {ranges}")


def cilium_node(fabric, node):
    address = fabric.machinery.machine(node).node.address
    spec = {"addresses": [{"type": "InternalIP", "ip": address}], "ipam": {}}
    return {"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": node}, "spec": spec}


def cilium_ranges(fabric, cluster, count):
    """{node: its range} as soon as that many nodes have one."""
    found = {
        item["metadata"]["name"]: item["spec"]["ipam"].get("podCIDRs")
        for item in fabric.objects(cluster, "ciliumnodes")
    }
    ranges = {node: cidrs[0] for node, cidrs in found.items() if cidrs}
    return ranges if len(ranges) == count else None


def plain_network(fabric, node, ranges):
    """Pods with addresses of the node's range, plain routes to the other nodes, and a masquerade as the agent writes it for native routing."""
    for other, cidr in ranges.items():
        if other != node:
            address = fabric.machinery.machine(other).node.address
            fabric.sh(node, "ip", "route", "replace", cidr, "via", address)
    rule = [
        "-s",
        ranges[node],
        "!",
        "-d",
        fabric.machinery.topology.cluster("cilium").pod_cidrs[0],
        "!",
        "-o",
        "cilium_+",
        "-j",
        "MASQUERADE",
    ]
    for words in (
        ["-N", "CILIUM_POST_nat"],
        ["-A", "CILIUM_POST_nat", *rule],
        ["-A", "POSTROUTING", "-j", "CILIUM_POST_nat"],
    ):
        fabric.sh(node, "iptables", "-t", "nat", *words)
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": ranges[node]}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/var/lib/cni/networks",
    }
    plugins = [{"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": ipam}]
    fabric.configure(
        node, "05-cilium.conflist", json.dumps({"cniVersion": "1.0.0", "name": "cilium", "plugins": plugins})
    )


CILIUM_AGENT = (
    "cilium.yaml",
    "cilium-operator",
    "cilium-agent",
    "cilium-cni",
    "cilium-health-responder",
    "cilium-dbg",
    "cilium-bpf",
    "clang",
)
BPF_FILES, SETTINGS = "cilium/lib/bpf", "cilium/config"


def install_cilium(fabric, cluster):
    """With its chart's manifest: the operator on the first node, an agent on each, which compiles its programs and configures the runtime."""
    items = fabric.manifest("cilium.yaml")
    objects = [item for item in items if item["kind"] not in WORKLOADS]
    fabric.apply(cluster, *sorted(objects, key=lambda item: item["kind"] != "Namespace"))
    # Its container has the node's /proc elsewhere.
    settings = dict(of_kind(items, "ConfigMap", "cilium-config")["data"], procfs="/proc")
    first, *dummy = nodes = fabric.nodes_of(cluster)
    for node in nodes:
        for name, text in settings.items():
            fabric.write(node, f"{SETTINGS}/{name}", text)
    own = [f"--config-dir={INSIDE}/{SETTINGS}", f"--k8s-kubeconfig-path={fabric.access(first)}"]
    fabric.daemon(
        first,
        "cilium-operator",
        fabric.program(first, "cilium-operator"),
        *own,
        K8S_NODE_NAME=first,
        CILIUM_K8S_NAMESPACE="kube-system",
    )
    for node in nodes:
        start_cilium(fabric, node)
    fabric.ready(cluster)
    fabric.ran(f"Cilium's agents in {cluster}: {cilium_ranges(fabric, cluster, len(nodes))}")


def start_cilium(fabric, node):
    """What its DaemonSet does before, file systems above all, and the agent."""
    for name in ("cilium-cni", "cilium-health-responder", "cilium-dbg", "clang"):
        fabric.program(node, name)
    shutil.copytree(fabric.programs / "cilium-bpf", fabric.folder(node) / BPF_FILES, dirs_exist_ok=True)
    fabric.in_runtime(node, "mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
    own = [
        f"--config-dir={INSIDE}/{SETTINGS}",
        f"--k8s-kubeconfig-path={fabric.access(node)}",
        f"--lib-dir={INSIDE}/cilium/lib",
        f"--write-cni-conf-when-ready={INSIDE}/net.d/05-cilium.conflist",
    ]
    path = f"PATH={INSIDE}/{OWN_CNI}:/usr/sbin:/usr/bin:/sbin:/bin"
    command = ["env", path, fabric.program(node, "cilium-agent"), *own]
    fabric.daemon(node, "cilium-agent", *command, K8S_NODE_NAME=node, CILIUM_K8S_NAMESPACE="kube-system")
