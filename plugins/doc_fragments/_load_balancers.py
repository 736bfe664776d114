# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the options in _flows/load_balancers/arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    """What the inventory has for each cluster's load balancing."""

    DOCUMENTATION = r"""
requirements:
  - netaddr (Python library, 0.8 or newer)
options:
  use_environment:
    description: Whether the variables C(METAL_*) of the environment count for every cluster, below options and above files.
    type: bool
    default: false
  cluster:
    description: The one cluster that is meant, where the inventory has O(settings). One without any is skipped. The default is all.
    type: str
  settings:
    description:
      - Each cluster's load balancing. Clusters that are not named here are left alone.
      - The default is what the inventory has, C(load_balancers_settings) of the clusters' hosts, with the BGP facts of the nodes and what no
        Service may name.
      - An option wins over the environment (O(use_environment)), that over O(settings[].config_file), and that over the default.
    type: list
    elements: dict
    suboptions:
      cluster:
        description: Name of the cluster in O(clusters).
        type: str
        required: true
      wrong:
        description:
          - What the user has to fix in the cluster's variables, as a sentence. Nothing is done for such a cluster, and its failure is reported once
            the others are done. The inventory's settings are checked on their way here, and have it.
        type: str
      provider:
        description:
          - Where addresses come from. V(static) takes them from O(settings[].pool) and O(settings[].pools), V(equinix_metal) from an API of that shape at
            O(settings[].base_url). Equinix Metal itself ended on 30 June 2026.
        type: str
        choices: [static, equinix_metal]
        default: static
      load_balancer:
        description:
          - What announces the addresses. C(empty://) leaves that to M(multicluster.network.bgp_speaker), C(kube-vip://) to kube-vip,
            C(metallb:///NAMESPACE/CONFIGMAP) to MetalLB up to 0.12, and C(metallb:///NAMESPACE?crdConfiguration=true) to later ones.
          - Empty switches load balancing off, and nothing is done for the cluster.
        type: str
      load_balancer_class:
        description: Class of the Services that count, alongside those without any.
        type: str
      load_balancer_classes:
        description:
          - Further classes of Services that count, such as those of a controller that these Services are taken over from (C(io.cilium/bgp-control-plane),
            C(kube-vip.io/kube-vip-class)). The class of a Service cannot be changed while it has one.
        type: list
        elements: str
        default: []
      identity:
        description: The name in tags and owned objects.
        type: str
        choices: [cloud-provider-equinix-metal, metal-ccm, packet-ccm]
        default: metal-ccm
      adopt_identities:
        description: Names with reservations that count as owned too. The default is all three.
        type: list
        elements: str
        choices: [cloud-provider-equinix-metal, metal-ccm, packet-ccm]
      pool:
        description:
          - Networks and ranges (C(FIRST-LAST)) of addresses, for O(settings[].provider=static). The lowest free one is given first.
          - A Service of both families gets an address of each of which there are ranges.
          - Pools of several clusters must not overlap.
          - Alongside O(settings[].pools) it is the pool C(default), which is for all.
        type: list
        elements: str
        default: []
      pools:
        description:
          - Named pools, for O(settings[].provider=static). A Service gets an address of the first one that is for it and has one left. Those
            that are for some namespaces or Services come first, then by O(settings[].pools[].priority), then in their order.
          - What a Service asks for by an annotation (C(metallb.io/loadBalancerIPs), C(metallb.io/address-pool), C(kube-vip.io/loadbalancerIPs),
            C(lbipam.cilium.io/ips)) or in C(spec.loadBalancerIP) is a claim. Where it is in no pool that is for the Service, the Service is
            refused. Addresses that are in use stay, whatever becomes of pools.
        type: list
        elements: dict
        suboptions:
          name:
            description: What C(metallb.io/address-pool) of a Service names.
            type: str
            required: true
          addresses:
            description: Networks, ranges (C(FIRST-LAST)) and addresses, of either family or both.
            type: list
            elements: str
            required: true
          reserved:
            description: Those of them that no Service gets.
            type: list
            elements: str
            default: []
          auto_assign:
            description: Whether Services that ask for nothing get addresses of it.
            type: bool
            default: true
          priority:
            description: As with MetalLB, 1 comes before 2, and 0 last.
            type: int
            default: 0
          avoid_buggy_ips:
            description: Leave IPv4 addresses that end in 0 or 255 alone.
            type: bool
            default: false
          namespaces:
            description: Namespaces that it is for. Without these and O(settings[].pools[].namespace_selector) it is for all.
            type: list
            elements: str
            default: []
          namespace_selector:
            description: Label selector of further namespaces that it is for.
            type: str
          service_selector:
            description: Label selector of the Services that it is for. Who writes Services writes their labels; it keeps nobody away.
            type: str
          max_per_namespace:
            description: How many of its addresses of each family one namespace gets.
            type: int
          tenants:
            description: Namespaces that together get a number of its addresses of each family.
            type: list
            elements: dict
            default: []
            suboptions:
              name:
                description: For messages.
                type: str
                required: true
              namespaces:
                description: The tenant's namespaces.
                type: list
                elements: str
                required: true
              max_addresses:
                description: How many addresses they get.
                type: int
                required: true
      cluster_uid:
        description:
          - UID of the namespace C(kube-system) of the cluster, as C(kubectl get namespace kube-system -o yaml) shows it.
          - Reservations at a provider are tagged with it, and a cluster reports its own. A cluster that reports another one is refused. Without
            it, clusters that report the same one are all refused, and nothing is released while one of them cannot be asked.
        type: str
      reserved_ranges:
        description:
          - What is for something else than Services. Keys say what it is in words, such as C(pod_cidrs of cluster gcp), and values are lists of
            networks, ranges and addresses. A Service, a record or a provider that names such an address is refused.
          - An address of O(settings[].pool) is refused only where it is here as a single address.
        type: dict
        default: {}
      config_file:
        description: A JSON file with the settings of the upstream cloud controller, on the host that runs the module.
        type: path
      config_secret:
        description:
          - Name of a Secret in C(kube-system) with such settings in its key C(cloud-sa.json), C(metal-cloud-config) upstream.
            O(settings[].config_file) wins over it.
          - Where O(settings[].api_key) is not the Secret's, the Secret gives neither O(settings[].base_url) nor O(settings[].project_id)
            nor O(settings[].eip_tag).
        type: str
      api_key:
        description: Token of the provider's API.
        type: str
      project_id:
        description: Project at the provider.
        type: str
      base_url:
        description: URL of the provider's API.
        type: str
      allow_plain_http:
        description: Allow a O(settings[].base_url) that sends the token in clear text.
        type: bool
        default: false
      metro:
        description: Where addresses are ordered. An annotation of the Service wins.
        type: str
      facility:
        description: As O(settings[].metro), for a single data centre. The provider refused these from 2023 on.
        type: str
      metadata_url:
        description:
          - URL of the provider's metadata service, C(https://metadata.platformequinix.com) upstream. Its answer to C(/metadata), which is about
            the host that runs the module, names the facility where nothing else names a place. Without it nobody is asked.
        type: str
      eip_tag:
        description: Tag of the control plane's address, which no Service may use.
        type: str
      api_server_port:
        description: Port of the control plane's address. The default is that of the API servers.
        type: int
      eip_health_check_use_host_ip:
        description: Ask the holder itself whether it is healthy, and not the control plane's address.
        type: bool
      local_asn:
        description: Autonomous system of the nodes.
        type: int
      peer_asn:
        description: Autonomous system of the routers.
        type: int
      bgp_pass:
        description: Password of BGP sessions.
        type: str
      bgp_node_selector:
        description: Label selector of the nodes that speak BGP. The default is all of them.
        type: str
      bgp_nodes:
        description: BGP facts of nodes, for O(settings[].provider=static). Other providers know them themselves.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the Node.
            type: str
            required: true
          source_ip:
            description: Address from which the node connects.
            type: str
            required: true
          peers:
            description: Addresses of the routers.
            type: list
            elements: str
            required: true
          local_asn:
            description: The default is O(settings[].local_asn), or 65000.
            type: int
          peer_asn:
            description: The default is O(settings[].peer_asn), or 65530.
            type: int
          password:
            description: The default is O(settings[].bgp_pass).
            type: str
          multihop:
            description: Whether the routers are further away than one hop.
            type: bool
            default: false
      bgp_speakers:
        description:
          - Nodes that announce by M(multicluster.network.bgp_speaker) or M(multicluster.network.layer2_speaker). Where it is an empty list and
            O(settings[].load_balancer) is C(empty://), the return value C(unannounced) names every address. Without the option nothing is said of them.
        type: list
        elements: str
      bgp_families:
        description:
          - Families, 4 and 6, of the networks that the sessions and segments of O(settings[].bgp_speakers) carry. Addresses of another one are named in the
            return value C(unannounced). Without the option nothing is said of families.
        type: list
        elements: int
      layer2_nodes:
        description: Nodes that hold addresses without a router, by M(multicluster.network.layer2_speaker).
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: The node.
            type: str
            required: true
          segment:
            description: A name for the network segment that it is on. Nodes of one cluster on one segment replace each other.
            type: str
            required: true
          addresses:
            description: Its address on the segment, one of each family at most.
            type: list
            elements: str
            required: true
      layer2_reserved_vrids:
        description:
          - Virtual router identifiers that a keepalived of the nodes' own has. Addresses are in groups with the others, of 255 in all.
          - Advertisements go from node to node, so those of routers and of other clusters on the segment are in nobody's way.
        type: list
        elements: int
        default: []
      announced_by:
        description:
          - Who announces addresses where O(settings[].load_balancer) is C(empty://). With V(other) it is a speaker of yours, and nobody looks
            for nodes that do it.
        type: str
        choices: [bgp_speaker, other]
        default: bgp_speaker
      exclude_cordoned:
        description:
          - Whether a cordoned node announces nothing, so that it can be emptied without new connections. Nodes with the label
            C(node.kubernetes.io/exclude-from-external-load-balancers) never announce anything.
        type: bool
        default: false
      not_ready_seconds:
        description:
          - After how many seconds a node that is not ready announces nothing, seen by the next run. V(0) is never.
          - While no node at all is ready, none is left out for it.
        type: int
        default: 60
      bgp_grants:
        description: What a provider may say of BGP. Nodes with other facts are refused. An empty list grants every usual value.
        type: dict
        suboptions:
          local_asns:
            description: Autonomous systems of nodes.
            type: list
            elements: int
            default: []
          peer_asns:
            description: Autonomous systems of routers.
            type: list
            elements: int
            default: []
          peers:
            description: Ranges of the routers' addresses.
            type: list
            elements: str
            default: []
          sources:
            description: Ranges of the nodes' addresses.
            type: list
            elements: str
            default: []
      max_prefixes:
        description: How many addresses may be announced. A provider can lower this and never raise it.
        type: int
      reclaim_policy:
        description: Whether a reservation outlives its Service. The annotation C(metal.equinix.com/eip-reclaim=retain) sets it for one.
        type: str
        choices: [delete, retain]
        default: delete
      gc_orphans:
        description: Release recorded reservations of this cluster without their Service. The default is no, or the task's value for all clusters.
        type: bool
      release_unrecorded:
        description: Also release reservations that carry our tags and are not in our record.
        type: bool
        default: false
      on_duplicate_reservation:
        description: What to do with two reservations of the same tags. V(first) takes the first one, as the upstream program does.
        type: str
        choices: [refuse, first]
        default: refuse
      service_ip_field:
        description: Whether the address goes into C(spec.loadBalancerIP) or into the load balancer's annotation.
        type: str
        choices: [spec, annotation]
        default: spec
      annotation_domain:
        description: Domain of annotations and labels. The default is C(metal.equinix.com).
        type: str
      annotation_scheme:
        description: Spelling of the nodes' annotations, the older (V(legacy)), the newer (V(indexed)) or both.
        type: str
        choices: [both, legacy, indexed]
        default: both
      annotation_legacy_singular:
        description: With O(settings[].annotation_scheme=legacy), also write the names that kube-vip reads.
        type: bool
        default: true
      publish_bgp_password:
        description:
          - Write BGP passwords where the upstream program does, into annotations and MetalLB's ConfigMap. Everybody who may read nodes or
            ConfigMaps can read them there.
        type: bool
        default: false
      metallb_mode:
        description: Wins over the mode in O(settings[].load_balancer). V(auto) asks the API server.
        type: str
        choices: [auto, configmap, crd]
      metallb_peer_tracking:
        description: Whether MetalLB's peers represent nodes, or go with the last Service.
        type: str
        choices: [node, service]
        default: node
      metallb_peer_mode:
        description: One peer for each node and router, one for each router (which MetalLB with FRR wants before 0.16), or none of the collection.
        type: str
        choices: [native, frr, none]
        default: native
      metallb_advertise:
        description:
          - How MetalLB's custom resources announce the pools, C(bgp) by a BGPAdvertisement, C(layer2) by an owned L2Advertisement, or both. Left out it is
            BGP, and no L2Advertisement is looked at; to go back to BGP alone write C(bgp).
        type: str
        choices: [bgp, layer2, both]
      metallb_layer2:
        description: From where MetalLB announces with O(settings[].metallb_advertise=layer2); from all interfaces of all nodes without it.
        type: dict
        suboptions:
          interfaces:
            description: Names of interfaces of the nodes.
            type: list
            elements: str
            default: []
          node_selectors:
            description: Labels that a node has to have, all of one entry.
            type: list
            elements: dict
            default: []
      metallb_source_address:
        description: Whether peers in the ConfigMap say their source address, which MetalLB knows since 0.11.
        type: bool
      crd_label:
        description: Label C(KEY=VALUE) of our custom resources. The default is C(cloud-provider=equinix-metal).
        type: str
      advertisement:
        description: Name of our BGPAdvertisement. The default is C(equinix-metal-bgp-adv).
        type: str
"""

    DEVICES = r"""
options:
  region_from:
    description: Whether a region is a metro, or a facility.
    type: str
    choices: [metro, facility]
    default: metro
  zone_from:
    description: Whether nodes get zones, which are facilities.
    type: str
    choices: [none, facility]
    default: none
  node_devices:
    description: Name of a Node to the id of its device, where the names differ.
    type: dict
    default: {}
"""

    WRITER = r"""
options:
  fabric:
    description: Name of the fabric. Everything is written by the field manager C(multicluster.network/FABRIC).
    type: str
    required: true
  fail_on_failures:
    description: Whether the task fails when a cluster could not be read or written. The other clusters are always finished first.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads, probes and plans like a real run, and writes nothing.
    support: full
  diff_mode:
    description: Shows the changed fields of every changed object.
    support: full
"""
