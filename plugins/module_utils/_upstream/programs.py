# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the programs that the collection replaces, and what becomes of each key: the guide to settings has the same table."""

from __future__ import annotations

import typing as t

from .._values.text import lower

#: What becomes of a key: another variable has it; nothing needs it any more; nothing here does it.
MAPPED, NOT_NEEDED, LOST, UNKNOWN = "mapped", "not needed", "lost", "unknown"


class Key(t.NamedTuple):
    """One setting by all its names: flags with their dashes, variables of the environment, paths of a file (``remotes[].name``).

    ``owned``: variables of the inventory; ``remark``: what to know, or why there is none.
    """

    names: tuple[str, ...]
    fate: str
    owned: tuple[str, ...] = ()
    remark: str = ""


class Program(t.NamedTuple):
    """One upstream program. ``title``: its section in the guide; ``capability``: what takes its place, empty where it goes on running.

    ``images``: last parts of its images' names and of its commands.

    ``dash``: how its flags are written; ``switches``: flags that take no value behind a blank.
    """

    name: str
    title: str
    capability: str
    images: tuple[str, ...]
    dash: str
    switches: frozenset[str]
    keys: tuple[Key, ...]

    def key(self, name: str) -> Key | None:
        """The key of that name; case counts for none, as the upstream programs' readers of JSON have it."""
        return _by_name(self).get(lower(name))


_INDEX: dict[str, dict[str, Key]] = {}


def _by_name(program: Program) -> dict[str, Key]:
    if program.name not in _INDEX:
        _INDEX[program.name] = {lower(name): key for key in program.keys for name in key.names}
    return _INDEX[program.name]


def _mapped(names: str, owned: str, remark: str = "") -> Key:
    return Key(tuple(names.split()), MAPPED, tuple(owned.split()), remark)


def _not_needed(names: str, why: str) -> Key:
    return Key(tuple(names.split()), NOT_NEEDED, (), why)


def _lost(names: str, what: str) -> Key:
    return Key(tuple(names.split()), LOST, (), what)


_LOUD = "Ansible's -v, see below"
_PINNED = "over https and pinned only"

WIREGUARD = Program(
    "semaphore-wireguard",
    "semaphore-wireguard",
    "mesh",
    ("semaphore-wireguard",),
    "-",
    frozenset(),
    (
        _mapped("-node-name SWG_NODE_NAME", "node_name", "of a node; by default its inventory name"),
        _mapped(
            "-clusters-config SWG_CLUSTERS_CONFIG",
            "multicluster_clusters_group",
            "the hosts of that group are the clusters",
        ),
        _mapped("-wg-key-path SWG_WG_KEY_PATH", "key_dir", "of a cluster; keys that are there are kept"),
        _mapped(
            "-listen-address SWG_LISTEN_ADDRESS",
            "status_metrics status_page",
            "nothing listens; status is a page, a JSON and metrics as text",
        ),
        _not_needed("-log-level SWG_LOG_LEVEL", _LOUD),
        _mapped("local.name", "multicluster_cluster", "of a node, usually of a group"),
        _mapped("local.kubeConfigPath", "kubeconfig context", "of a cluster; only the controller has it"),
        _mapped(
            "remotes[].name",
            "device_alias",
            "a host of the clusters' group; the alias where its name is longer than five characters",
        ),
        _mapped("remotes[].kubeConfigPath", "kubeconfig context", "of the other cluster"),
        _mapped("remotes[].remoteAPIURL", "api_url"),
        _mapped("remotes[].remoteCAURL", "ca_url ca_sha256 ca_cert ca_data", _PINNED),
        _mapped("remotes[].remoteSATokenPath", "token_file token"),
        _mapped("remotes[].podSubnet", "pod_cidrs", "of the other cluster"),
        _mapped("remotes[].wgDeviceMTU", "wireguard_mtu wireguard_mtus"),
        _mapped("remotes[].wgListenPort", "wireguard_port wireguard_ports"),
        _mapped(
            "remotes[].resyncPeriod", "reconciler_period playbook_timer_interval", "how often a run comes by itself"
        ),
    ),
)

MIRROR = Program(
    "semaphore-service-mirror",
    "semaphore-service-mirror",
    "service_mirror",
    ("semaphore-service-mirror",),
    "-",
    frozenset(),
    (
        _mapped("-config SSM_CONFIG", "multicluster_clusters_group", "the inventory"),
        _mapped("-kube-config SSM_KUBE_CONFIG", "kubeconfig context"),
        _mapped(
            "-mirror-svc-label-selector SSM_MIRROR_SVC_LABEL_SELECTOR global.mirrorSvcLabelSelector",
            "service_mirror_selector",
            "has a default",
        ),
        _mapped(
            "-global-svc-label-selector SSM_GLOBAL_SVC_LABEL_SELECTOR global.globalSvcLabelSelector",
            "service_mirror_global_selector",
            "empty: no global services",
        ),
        _mapped(
            "-global-svc-routing-strategy-label SSM_GLOBAL_SVC_TOPOLOGY_LABEL global.globalSvcRoutingStrategyLabel",
            "service_mirror_routing_selector",
        ),
        _mapped(
            "-mirror-ns SSM_MIRROR_NS global.mirrorNamespace",
            "service_mirror_namespace coredns_rewrite_mirror_namespace",
        ),
        _not_needed("-log-level SSM_LOG_LEVEL", _LOUD),
        _mapped("global.serviceSync", "service_mirror_service_sync", "true here, with a limit on deletions"),
        _mapped("global.endpointSliceSync", "service_mirror_endpoint_slice_sync", "true here"),
        _mapped("localCluster.name", "service_mirror_destinations", "one run serves every cluster"),
        _mapped("localCluster.kubeConfigPath", "kubeconfig context"),
        _mapped("localCluster.zones", "service_mirror_zones", "by cluster"),
        _mapped("remoteClusters[].name", "service_mirror_sources"),
        _mapped("remoteClusters[].kubeConfigPath", "kubeconfig context"),
        _mapped("remoteClusters[].remoteAPIURL", "api_url"),
        _mapped("remoteClusters[].remoteCAURL", "ca_url ca_sha256 ca_cert ca_data", _PINNED),
        _mapped("remoteClusters[].remoteSATokenPath", "token_file token"),
        _mapped("remoteClusters[].resyncPeriod", "reconciler_period playbook_timer_interval"),
        _mapped("remoteClusters[].servicePrefix", "service_mirror_prefixes", "by cluster; by default its name"),
    ),
)

POLICY = Program(
    "semaphore-policy",
    "semaphore-policy",
    "network_sets",
    ("semaphore-policy", "kube-policy-semaphore"),
    "-",
    frozenset(),
    (
        _mapped(
            "-target-cluster-name SP_TARGET_CLUSTER_NAME",
            "network_sets_sources",
            "the cluster with pods that become sets elsewhere; empty is all",
        ),
        _mapped("-target-kube-config SP_TARGET_KUBE_CONFIG", "kubeconfig context", "of that cluster"),
        _mapped("-remote-api-url SP_REMOTE_API_URL", "api_url"),
        _mapped("-remote-ca-url SP_REMOTE_CA_URL", "ca_url ca_sha256 ca_cert ca_data", _PINNED),
        _mapped("-remote-sa-token-path SP_REMOTE_SERVICE_ACCOUNT_TOKEN_PATH", "token_file"),
        _mapped("SP_REMOTE_SERVICE_ACCOUNT_TOKEN", "token", "from a vault"),
        _mapped("-local-kube-config SP_LOCAL_KUBE_CONFIG", "kubeconfig context", "of the clusters that get the sets"),
        _not_needed("-pod-resync-period", "had no effect"),
        _not_needed("-log-level SP_LOG_LEVEL", _LOUD),
    ),
)

_STAYS = "Kilo's agent goes on running, with it"
KILO = Program(
    "kilo",
    "Kilo's agent (kg)",
    "",
    ("kilo", "kg"),
    "--",
    frozenset(
        (
            "clean-up",
            "clean-up-interface",
            "create-interface",
            "cni",
            "local",
            "iptables-forward-rules",
            "prioritise-private-addresses",
            "version",
        )
    ),
    (
        _mapped("--subnet", "wireguard_cidrs", "of the cluster"),
        _mapped("--service-cidr", "service_cidrs", "of the cluster"),
        _mapped("--port", "wireguard_port", "of the cluster"),
        _mapped(
            "--mesh-granularity",
            "clustermesh_group_locations",
            "full needs nothing; with location the leaders carry theirs",
        ),
        _not_needed(
            "--backend --clean-up-interface --cni --cni-path --compatibility --create-interface --encapsulate --hostname "
            "--interface --internal-cidr --iptables-forward-rules --kubeconfig --listen --local --log-level --master --mtu "
            "--prioritise-private-addresses --resync-period --topology-label --version",
            _STAYS,
        ),
        _not_needed("--clean-up", "while the agent restarts, Peers stay: clustermesh_keep_transient"),
    ),
)

_NO_SERVICE = "nothing listens here"
CLUSTERMESH = Program(
    "kilo-clustermesh",
    "Kilo cluster mesh",
    "clustermesh",
    ("kilo-clustermesh-operator", "clustermesh-operator"),
    "--",
    frozenset(("leader-elect", "metrics-secure", "enable-http2", "zap-devel")),
    (
        _mapped(
            "spec.clusters[].name", "clustermesh_name", "a host of the clusters' group; the variable names the mesh"
        ),
        _mapped(
            "spec.clusters[].local",
            "clustermesh_management",
            "no cluster is special; with ClusterMesh objects the one that has them",
        ),
        _mapped(
            "spec.clusters[].kubeconfigSecretRef.name",
            "kubeconfig clustermesh_secrets_name",
            "of a cluster; the role clustermesh_secrets makes the operator's Secrets",
        ),
        _mapped("spec.clusters[].kubeconfigSecretRef.key", "clustermesh_secrets_key"),
        _mapped("spec.clusters[].wireguardPort", "wireguard_port"),
        _mapped(
            "spec.clusters[].persistentKeepalive",
            "clustermesh_keepalive clustermesh_node_keepalive",
            "of a cluster; Kilo sends that of its own Node",
        ),
        _mapped("spec.clusters[].allowedNetworks", "clustermesh_allowed_networks", "the flat form"),
        _mapped("spec.clusters[].podCIDRs", "pod_cidrs"),
        _mapped("spec.clusters[].wireguardCIDR", "wireguard_cidrs"),
        _mapped("spec.clusters[].serviceCIDR", "service_cidrs"),
        _mapped("spec.clusters[].additionalCIDRs", "clustermesh_additional_cidrs"),
        _not_needed("POD_NAMESPACE", "no pod"),
        _not_needed("reconcile-trigger", "run the playbook"),
        _not_needed("--leader-elect", "one run at a time holds a lease of its own"),
        _not_needed("--kubeconfig", "the inventory has the access"),
        _not_needed(
            "--health-probe-bind-address --metrics-bind-address --metrics-secure --metrics-cert-path --metrics-cert-name --metrics-cert-key",
            _NO_SERVICE,
        ),
        _not_needed("--webhook-cert-path --webhook-cert-name --webhook-cert-key --enable-http2", _NO_SERVICE),
        _not_needed("--zap-devel --zap-encoder --zap-log-level --zap-stacktrace-level --zap-time-encoding", _LOUD),
    ),
)

_S = "load_balancers_settings."
EQUINIX = Program(
    "equinix",
    "Cloud controller (packet-ccm, metal-ccm, cloud-provider-equinix-metal)",
    "load_balancers",
    ("cloud-provider-equinix-metal", "packet-ccm", "packet-cloud-controller-manager", "cloud-provider-packet"),
    "--",
    frozenset(
        (
            "leader-elect",
            "authentication-skip-lookup",
            "allow-untagged-cloud",
            "use-service-account-credentials",
            "configure-cloud-routes",
            "allocate-node-cidrs",
            "profiling",
            "logtostderr",
        )
    ),
    (
        _mapped(
            "--cloud-config --provider-config",
            _S + "config_file " + _S + "config_secret",
            "the file or the Secret of the upstream program",
        ),
        _mapped("METAL_API_KEY apiKey", _S + "api_key"),
        _mapped("METAL_PROJECT_ID projectID", _S + "project_id"),
        _mapped("base-url", _S + "base_url"),
        _mapped(
            "METAL_FACILITY_NAME facility",
            _S + "facility " + _S + "metadata_url",
            "the second for the host's own, the upstream program's last resort",
        ),
        _mapped("METAL_METRO_NAME metro", _S + "metro"),
        _mapped("METAL_LOAD_BALANCER METAL_LB loadbalancer metalLB", _S + "load_balancer"),
        _mapped("METAL_LOCAL_ASN localASN", _S + "local_asn bgp_speaker_asn"),
        _mapped("METAL_PEER_ASN peerASN", _S + "peer_asn bgp_speaker_neighbors"),
        _mapped("METAL_BGP_PASS bgpPass", _S + "bgp_pass bgp_speaker_neighbors"),
        _lost("METAL_ANNOTATION_LOCAL_ASN annotationLocalASN", "in the file, the Secret or the environment"),
        _lost("METAL_ANNOTATION_PEER_ASN METAL_ANNOTATION_PEER_ASNS annotationPeerASN annotationPeerASNs", "as above"),
        _lost("METAL_ANNOTATION_PEER_IP METAL_ANNOTATION_PEER_IPS annotationPeerIP annotationPeerIPs", "as above"),
        _lost("METAL_ANNOTATION_SRC_IP annotationSrcIP", "as above"),
        _mapped(
            "METAL_ANNOTATION_BGP_PASS annotationBGPPass",
            _S + "publish_bgp_password",
            "as above; written only where that is true",
        ),
        _mapped(
            "METAL_ANNOTATION_NETWORK_IPV4_PRIVATE annotationNetworkIPv4Private", _S + "annotation_domain", "as above"
        ),
        _lost("METAL_ANNOTATION_EIP_METRO annotationEIPMetro", "as above"),
        _lost("METAL_ANNOTATION_EIP_FACILITY annotationEIPFacility", "as above"),
        _mapped("METAL_EIP_TAG eipTag", _S + "eip_tag", "the playbook ccm.control_plane_address"),
        _mapped("METAL_API_SERVER_PORT apiServerPort", _S + "api_server_port"),
        _mapped("METAL_EIP_HEALTH_CHECK_USE_HOST_IP eipHealthCheckUseHostIP", _S + "eip_health_check_use_host_ip"),
        _mapped("METAL_BGP_NODE_SELECTOR bgpNodeSelector", _S + "bgp_node_selector"),
        _not_needed("METAL_LOAD_BALANCER_ID loadBalancerID", "of a product that is gone; ignored with a warning"),
        _not_needed("--v --logtostderr", _LOUD),
        _not_needed(
            "--kubeconfig --master --cloud-provider --use-service-account-credentials --authentication-skip-lookup",
            "the inventory has the access",
        ),
        _not_needed("--leader-elect", "one run at a time holds a lease of its own"),
        _not_needed("--bind-address --secure-port --profiling", _NO_SERVICE),
        _not_needed(
            "--allow-untagged-cloud --allocate-node-cidrs --configure-cloud-routes --cluster-cidr",
            "this controller makes no routes",
        ),
        _not_needed(
            "--node-status-update-frequency --route-reconciliation-period --concurrent-service-syncs",
            "every run reads everything once",
        ),
    ),
)

APINETLET = Program(
    "apinetlet",
    "apinetlet",
    "tenants",
    ("apinetlet", "onmetal-api-net-apinetlet", "ironcore-net-apinetlet"),
    "--",
    frozenset(("leader-elect", "zap-devel")),
    (
        _mapped(
            "--kubeconfig --kubeconfig-secret-name --kubeconfig-secret-namespace --bootstrap-kubeconfig",
            "tenants_source kubeconfig",
            "the source connection: a host of the clusters' group",
        ),
        _mapped(
            "--api-net-kubeconfig --api-net-kubeconfig-secret-name --api-net-kubeconfig-secret-namespace --api-net-bootstrap-kubeconfig",
            "tenants_apinet kubeconfig",
            "the other connection: a host of the clusters' group, it may be the same",
        ),
        _mapped("--api-net-namespace", "tenants_apinet_namespace"),
        _mapped("--namespace", "tenants_watch_namespace"),
        _mapped("--watch-filter", "tenants_watch_filter"),
        Key(
            ("min VNI", "max VNI"),
            MAPPED,
            ("tenants_min_id", "tenants_max_id"),
            "of the other API server; with tenants_network_side",
        ),
        _not_needed(
            "--rotate-certificates --api-net-rotate-certificates --egress-selector-config --api-net-egress-selector-config",
            "the inventory has the access",
        ),
        _not_needed("--qps --burst --api-net-qps --api-net-burst", "every kind is listed once a run"),
        _not_needed("--leader-elect", "one run at a time holds a lease of its own"),
        _not_needed("--health-probe-bind-address --metrics-bind-address", _NO_SERVICE),
        _not_needed("--zap-devel --zap-encoder --zap-log-level --zap-stacktrace-level --zap-time-encoding", _LOUD),
    ),
)

KUBESPAN = Program(
    "kubespan",
    "KubeSpan",
    "mesh",
    (),
    "",
    frozenset(),
    (
        _mapped("enabled", "multicluster_mesh"),
        _mapped(
            "advertiseKubernetesNetworks", "kubespan_config", "true here: pods of several clusters are the purpose"
        ),
        _mapped("allowDownPeerBypass", "kubespan_config kubespan_fail_closed"),
        _mapped("harvestExtraEndpoints", "kubespan_config kubespan_watcher", "the watcher sees them"),
        _mapped("mtu", "kubespan_config"),
        _mapped("filters.endpoints", "kubespan_config"),
        _mapped("filters.excludeAdvertisedNetworks", "kubespan_config"),
        _mapped("filters.peerEndpoints", "kubespan_config"),
        _mapped("extraAnnouncedEndpoints", "kubespan_config"),
        _mapped("cluster.id", "mesh_id", "one for the whole fabric"),
        _mapped("cluster.secret", "mesh_secret", "from a vault"),
        _mapped("discovery.enabled", "kubespan_registries"),
        _not_needed(
            "discovery.registries.kubernetes.disabled", "nodes are known from the inventory and from what they publish"
        ),
        _mapped("discovery.registries.service.disabled", "kubespan_registries"),
        _mapped("discovery.registries.service.endpoint", "kubespan_discovery_url"),
        _mapped("DiscoveryIdentityConfig.clusterID", "mesh_id", "one for the whole fabric"),
        _mapped("DiscoveryIdentityConfig.clusterSecret", "mesh_secret", "from a vault"),
        _not_needed("DiscoveryServiceConfig.name", "a name among the services"),
        _mapped("DiscoveryServiceConfig.endpoint", "kubespan_discovery_url"),
    ),
)

PROGRAMS: dict[str, Program] = {
    one.name: one for one in (WIREGUARD, MIRROR, POLICY, KILO, CLUSTERMESH, EQUINIX, APINETLET, KUBESPAN)
}
