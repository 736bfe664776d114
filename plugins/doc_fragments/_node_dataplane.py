# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Options of node_dataplane for the tunnels of a node. Most of their values come from the plan of the mesh."""

from __future__ import annotations


class ModuleDocFragment:
    """The devices of a Semaphore mesh, and of bypass devices; KUBESPAN: the one mesh of a KubeSpan fabric."""

    DOCUMENTATION = r"""
options:
  devices:
    description: The node's WireGuard devices, one for each remote cluster.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the device, at most 15 bytes.
        type: str
        required: true
      remote:
        description: Remote cluster that the device leads to.
        type: str
        required: true
      mtu:
        description: MTU of the device.
        type: int
        default: 1420
      txqueuelen:
        description: Length of the transmit queue.
        type: int
        default: 1000
      listen_port:
        description: UDP port.
        type: int
        required: true
      listen_port_known:
        description: Without it, a device that the confirmed state has keeps its port there, and only a new one gets O(devices[].listen_port).
        type: bool
        default: true
      private_key_file:
        description: File of the private key; made on the node when it is not there, never read by anybody else.
        type: path
        required: true
      implementation:
        description: V(auto) uses the kernel's WireGuard when the kernel has it, else wireguard-go.
        type: str
        choices: [auto, kernel, userspace]
        default: auto
      addresses:
        description:
          - All addresses of the device, with prefix lengths.
          - Without it the device has no IPv4 address, and IPv6 addresses are left alone.
        type: list
        elements: str
      up:
        description: Whether the device is up.
        type: bool
        default: true
      routes:
        description: Networks that lead into the device.
        type: list
        elements: str
        default: []
      overlay:
        description: Pod, service and WireGuard ranges of the fabric, in which no name of an endpoint may resolve.
        type: list
        elements: str
        default: []
      peers:
        description:
          - All peers of the device, each with C(public_key), C(endpoint), C(allowed_ips), C(persistent_keepalive).
          - A public key may be a deferred value of M(multicluster.network.mesh_plan); such a peer waits for the next call.
        type: list
        elements: dict
        default: []
      contested:
        description:
          - Peers with a key or ranges that another node claims too, as M(multicluster.network.mesh_plan) found them. The node takes those
            that it knows from its last confirmed state, and refuses the others by name.
        type: list
        elements: dict
        default: []
      peers_known:
        description: V(false) when the peers' source could not be read completely. The device then keeps the peers it has.
        type: bool
        default: true
      turned_away:
        description: Which nodes were read and refused, as M(multicluster.network.mesh_plan) returns it. A C(delete_budget) refusal repeats it.
        type: str
        default: ""
      borrowed:
        description: Allowed IPs that lie inside those of another peer, as Calico gives a pod an address of another node's block. They contest nothing.
        type: list
        elements: str
        default: []
      ranges_known:
        description:
          - V(false) when what has the ranges of the remote cluster's nodes could not be listed. Peers that the confirmed state has keep their allowed IPs
            then, and only new ones get those of O(devices[].peers).
        type: bool
        default: true
      retired_key:
        description:
          - A public key. Where O(devices[].private_key_file) has the private key of it, the file gets the next one, as a step of rotate_keys asks for. Any
            other key stays.
        type: str
      next_key_for:
        description:
          - A public key. While O(devices[].private_key_file) has the private key of it, the key that is to replace it is made alongside, in a file
            with C(.next) after the name, and its public key is in RV(public_keys) with C(/next) after the remote cluster.
        type: str
      copied_from:
        description: The key file of another device of this node, which O(devices[].private_key_file) is a copy of, as that of a bypass device is.
        type: path
      copied_key:
        description: The public key of that file. Where it has another one, the device is refused as C(key_differs).
        type: str
      keep_peers:
        description: Whether no peer of the device is removed, as where two nodes claim one key while keys are rotated.
        type: bool
        default: false
      kept_only:
        description: Whether the device is about to go, so that it stays where it is there and is not made where it is not.
        type: bool
        default: false
      either_way:
        description:
          - Whether packets come in by the device also while their answers leave by another one, as during a rotation of keys. The device gets the address
            C(169.254.255.254/32) of scope host, without which the kernel's reverse-path filter is strict, and keeps it.
        type: bool
        default: false
      fwmark:
        description: The firewall mark of the device's own packets, 0 for none.
        type: int
        default: 0
"""

    KUBESPAN = r"""
options:
  kubespan:
    description:
      - The node's KubeSpan mesh, one full mesh over one device in which marked packets, and only they, go through the tunnel.
      - Without it objects of an earlier KubeSpan mesh of the fabric are removed.
    type: dict
    suboptions:
      mesh_id:
        description: Identity of the mesh, opaque text. The addresses in the mesh derive from it.
        type: str
        required: true
      mesh_secret:
        description: 32 bytes in base64, the preshared key between all nodes. It is stored in a root-only file on the node and nowhere else.
        type: str
      affiliates:
        description: What the nodes of the mesh announce, as M(multicluster.network.mesh_plan) found it to hold.
        type: list
        elements: dict
        default: []
      contested:
        description:
          - Nodes that share a key, a node id or an address with others. The node takes those that it knows from its last confirmed
            state, and refuses the others by name.
        type: list
        elements: dict
        default: []
      disputed:
        description: Addresses that several nodes announce.
        type: list
        elements: str
        default: []
      unread:
        description: Clusters that could not be read. Their nodes keep what they had.
        type: list
        elements: str
        default: []
      turned_away:
        description: Which nodes were read and refused, as M(multicluster.network.mesh_plan) returns it. A C(delete_budget) refusal repeats it.
        type: str
        default: ""
      complete:
        description: V(false) when a source of the mesh could not be read completely. The node then keeps the peers it has.
        type: bool
        default: true
      cluster:
        description: The node's own cluster.
        type: str
        required: true
      node_name:
        description: Name of the node's Node object.
        type: str
        required: true
      cluster_networks:
        description: Pod and service networks of the node's cluster. Their addresses are no node's.
        type: list
        elements: str
        default: []
      pod_cidrs:
        description: The node's own pod networks.
        type: list
        elements: str
        default: []
      networks:
        description: Further networks to announce.
        type: list
        elements: str
        default: []
      exclude_interfaces:
        description:
          - Devices with addresses that are not announced, by name, by a pattern such as C(tailscale*), or all of a kind of the kernel's, such as
            C(kind:tun).
        type: list
        elements: str
        default: []
      exclude_addresses:
        description: Networks of addresses that are not announced.
        type: list
        elements: str
        default: []
      balanced:
        description:
          - Networks of which load balancing hands out addresses. No node has such an address, whoever holds it at the moment. Neither are those
            announced that keepalived holds, nor single addresses without a lifetime on C(lo), or next to a network on their device, unless they are
            in O(kubespan.own_addresses).
        type: list
        elements: str
        default: []
      own_addresses:
        description: Addresses by which the cluster knows the node.
        type: list
        elements: str
        default: []
      config:
        description:
          - Options under their original names, C(advertiseKubernetesNetworks), C(allowDownPeerBypass), C(harvestExtraEndpoints), C(mtu),
            C(filters) and C(extraAnnouncedEndpoints).
        type: dict
        default: {}
      mac:
        description:
          - Hardware address from which the node's address in the mesh derives.
          - Without it that which was used before, else that of the first physical Ethernet link.
        type: str
      layout:
        description:
          - Names and numbers on the host where they are not Talos'; C(device), C(port), C(table_name), C(set_v4), C(set_v6),
            C(chain_prerouting), C(chain_output), C(mark_from_wireguard), C(mark_to_wireguard), C(route_table), C(rule_priority).
        type: dict
        default: {}
      generation:
        description: V(v1.3) has the rules of the release that many meshes began with.
        type: str
        choices: [current, v1.3]
        default: current
      fail_closed:
        description: Whether marked packets are refused while the device is away. Without it they are where routing is forced.
        type: bool
      watcher:
        description: Whether the node runs the service that watches peers, tries their endpoints in turn and repairs what others break.
        type: bool
        default: true
      implementation:
        description: V(auto) uses the kernel's WireGuard when the kernel has it, else wireguard-go.
        type: str
        choices: [auto, kernel, userspace]
        default: auto
      private_key_file:
        description: File of the private key; made on the node when it is not there.
        type: path
      rotation:
        description:
          - While keys are rotated C(device), the bypass device, which is one of O(devices); C(routes), networks that lead into it; and C(addresses), those of
            its peers in the mesh.
        type: dict
      rotation_unread:
        description: Whether O(kubespan.rotation) is not known, since a cluster could not be read. It stays as it was confirmed then.
        type: bool
        default: false
      retired_key:
        description: See O(devices[].retired_key).
        type: str
      next_key_for:
        description: See O(devices[].next_key_for).
        type: str
      discovery:
        description:
          - The discovery service through which the node finds members that no Node object has, such as the nodes of a Talos cluster. Its watcher
            announces the node there, and O(state=absent) takes the record away.
          - Needs the Python packages C(grpcio), C(protobuf) and C(cryptography) on the node, on Debian and Ubuntu C(python3-grpcio) and
            C(python3-cryptography).
        type: dict
        version_added: 1.0.0
        suboptions:
          url:
            description: Where it is, C(https://) with host and perhaps port; C(http://) is a service without TLS.
            type: str
            required: true
          ca:
            description: Certificates in PEM by which the service is known, in place of those that the host believes.
            type: str
            default: ""
          cluster:
            description: The cluster of the inventory that has the ranges which members may announce.
            type: str
          pod_cidrs:
            description: Networks that members may announce.
            type: list
            elements: str
            default: []
          node_cidrs:
            description: Networks in which their node addresses are.
            type: list
            elements: str
            default: []
          overlay:
            description: Networks of pods, Services and tunnels of the fabric, in which no endpoint is.
            type: list
            elements: str
            default: []
"""
