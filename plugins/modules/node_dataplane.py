#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_dataplane
short_description: Manage the whole mesh dataplane of one node
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Brings keys, WireGuard devices with all their peers, routes and the boot unit of one node to the desired state, in one call.
  - Reads the kernel once, plans, writes only differences in an order in which no allowed IP is ever without an owner,
    reads back and fails when the kernel differs from what was applied.
  - Links of the same fabric that are not desired any more are removed with their routes.
  - Usually called by the role P(multicluster.network.node_dataplane#role) with what M(multicluster.network.mesh_plan) computed.
extends_documentation_fragment:
  - multicluster.network._attributes.node
requirements:
  - the kernel's WireGuard, or wireguard-go
options:
  fabric:
    description: Name of the fabric. It marks the links as owned by this fabric and names the state and the boot unit.
    type: str
    required: true
  state:
    description:
      - V(present) converges the node to O(devices).
      - V(absent) removes every link, route, file and unit of the fabric. Key files stay unless O(remove_keys=true).
      - V(released) leaves links, keys, peers and routes as they are for the upstream program to go on with, and takes away what makes them
        owned, which is the links' mark, the routes' protocol number, and the collection's files and unit.
      - V(confirmed) keeps the change O(transaction). It must arrive over a connection that was opened after the change; the
        module refuses one that is older. A change that the host has taken back meanwhile makes the task fail.
      - V(reverted) takes the change O(transaction) back at once.
    type: str
    choices: [present, absent, released, confirmed, reverted]
    default: present
  rollback_seconds:
    description:
      - After how many seconds the host takes a change back by itself, unless O(state=confirmed) arrived before. V(0) keeps
        every change without a confirmation.
      - Armed before the first write by a timer of systemd, or a waiting process where systemd does not run. It works when the
        controller, the network or this module dies at any point; a restart in between boots the confirmed state.
      - Nothing is armed when nothing is to be changed, nor where a rotation of keys only changes devices by which the node sends nothing, or moves routes from
        one device of a tunnel to the other and no TCP connection of the node goes to their ranges.
    type: int
    default: 0
  transaction:
    description:
      - The C(transaction.id) that the change returned, for V(confirmed) and V(reverted).
      - Without it V(reverted) takes back whatever change waits for its confirmation.
    type: str
  wait:
    description:
      - For V(confirmed) and V(reverted) of the role node_dataplane, after a change that was not answered. V(true) waits for the node first, at the
        latest until it has put back what it had.
      - With either value V(reverted) ends as failed, since the host has lost its change.
    type: bool
  rollback_max_seconds:
    description:
      - The longest that O(rollback_seconds) may become where the controller turned out to be slow in this run.
      - Only with O(mesh), and for O(state=confirmed).
    type: int
    default: 0
  check_seconds:
    description: After how many seconds comparing the node is given up in check mode; V(0) is never. Only with O(mesh).
    type: int
    default: 0
  waits:
    description:
      - What the node waits for before anything is read or written, and without which it changes nothing. In a rotation of keys the action plugin takes it
        from the plan of the run.
    type: dict
    suboptions:
      tunnels:
        description: Devices, each with C(device) and C(peers), the public keys of its peers.
        type: list
        elements: dict
        default: []
      quiet:
        description: Whether to wait until the devices receive nothing, in place of a handshake with each peer.
        type: bool
        default: false
      quiet_seconds:
        description: For how many seconds a device must have received nothing.
        type: float
        default: 50
      timeout:
        description: After how many seconds the module gives up.
        type: float
        default: 120
  mesh:
    description:
      - The topology that M(multicluster.network.mesh_plan) returned, out of which the host's O(devices), O(hosts), O(kubespan), O(tables) and O(key_files) are
        taken; an empty one is that of the same run.
      - O(kubespan) has the settings of the host itself then, O(tables) further tables, and O(probe) is completed. The change has to end within half of
        O(rollback_seconds).
    type: dict
  device_settings:
    description: Settings of each device in place of those of O(mesh), such as C(mtu).
    type: dict
    default: {}
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
  unread_devices:
    description:
      - Names of devices of which nothing is known, since a cluster could not be read. Those that the confirmed state has stay as they are in it, with their
        routes.
    type: list
    elements: str
    default: []
  preshared_keys:
    description:
      - Preshared keys of this node's own peers by the file in which the node keeps each, 32 bytes in base64.
      - With O(mesh) the action plugin derives them from the inventory variable C(preshared_secret), which no node gets.
    type: dict
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
  tables:
    description:
      - Further tables of nftables on the node, part of the same change. They are applied last, taken back first, restored at boot, and
        go when they are not given any more.
      - Each is a map of C(name), C(family), C(chains) and C(sets), as M(multicluster.network.nft_table) has them.
      - A table with C(before_routes) set to V(true) is applied before the routes, and is removed after them.
      - With C(optional) set to V(true) a node without the program C(nft), or with a kernel that refuses the rules, goes without the table, with a warning.
      - A change that is taken back leaves them as the confirmed state has them, so with O(persist=false) they then go.
    type: list
    elements: dict
    default: []
  node:
    description: Name of the node in the inventory, for messages and for O(hosts).
    type: str
  hosts:
    description:
      - Names of all nodes of the inventory. A machine that is another one of them already is refused as C(claimed_twice) and not written to.
    type: list
    elements: str
    default: []
  persist:
    description: Whether to record the state and install the boot unit that restores it after a reboot.
    type: bool
    default: true
  adopt:
    description: Take over a WireGuard device or route under a desired name that is not marked as owned.
    type: bool
    default: false
  remove_keys:
    description: Remove key files that no desired device uses.
    type: bool
    default: false
  key_files:
    description: Key files that belong to the fabric, for O(remove_keys) on a node without its state file.
    type: list
    elements: path
    default: []
  max_deletes:
    description:
      - How many peers of one source may be removed in one run. 0 means none, a negative number any.
      - The default is the larger of 5 and 20 % of the peers that the device has.
    type: int
  confirm_empty:
    description: Remote clusters of which it is right that no peer is left.
    type: list
    elements: str
    default: []
  accepted:
    description:
      - Drop-ins over our units, folders and settings of the kernel that others made and that are right as they are, by path or name.
      - Without it each is refused with who made it, since it can undo the mesh. What is owned is repaired.
    type: list
    elements: str
    default: []
  probe:
    description:
      - Also look at what M(multicluster.network.node_probe) looks at, after everything else, so that one call does everything on the node.
      - For O(state=present). What cannot be probed fails nothing else; the result has the reason.
    type: dict
    suboptions:
      pod_cidrs:
        description: The node's own pod ranges. An address inside them makes a namespace a pod. Required without O(mesh).
        type: list
        elements: str
      cluster_cidrs:
        description: The pod ranges of the node's whole cluster.
        type: list
        elements: str
        default: []
      max_pods:
        description: How many pods of the node take part.
        type: int
        default: 1
      reach:
        description:
          - Only with O(mesh). Whether pods of other nodes are reached as well, those that M(multicluster.network.run_pods) collected in the same run.
            O(probe.known), O(probe.targets), O(probe.host_targets), O(probe.devices) and O(probe.mark) follow from them.
        type: bool
        default: false
      known:
        description: Addresses of pods on this node that other nodes were asked to reach. They take part before others, as long as they are there.
        type: list
        elements: str
        default: []
      targets:
        description: Pods of other nodes to reach, each with C(node) and C(address). Without it pods are looked for and nothing else.
        type: list
        elements: dict
        suboptions:
          node:
            description: Name of the target's node, for the report.
            type: str
            required: true
          address:
            description: Address of the target.
            type: str
            required: true
      host_targets:
        description: What the host itself is to reach, besides its pods, such as a pod of each other cluster and the exported addresses of nodes.
        type: list
        elements: dict
        default: []
        suboptions:
          node:
            description: Name of the target's node, for the report.
            type: str
            required: true
          address:
            description: Address of the target.
            type: str
            required: true
      devices:
        description: WireGuard devices with peers and paths to report.
        type: list
        elements: str
        default: []
      mark:
        description: Firewall mark that packets for these devices carry, as with KubeSpan.
        type: int
        default: 0
      tries:
        description: How often an address is tried before it counts as not reached.
        type: int
        default: 3
      wait_seconds:
        description: How long one try waits.
        type: int
        default: 2
  fail_on_refused:
    description: Fail when anything was refused. Everything else is converged first.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads and plans like a real run, writes nothing. Values that exist only after an earlier step are shown as such.
    support: full
  diff_mode:
    description: Shows every changed link, peer, route, key and file. Secrets appear as fingerprints or not at all.
    support: full
  idempotent:
    description: The second run changes and writes nothing.
    support: full
seealso:
  - module: multicluster.network.mesh_plan
  - module: multicluster.network.nft_table
  - module: multicluster.network.wireguard_device
"""

EXAMPLES = r"""
- name: One node of the aws cluster, joined with gcp
  multicluster.network.node_dataplane:
    fabric: demo
    devices:
      - name: wireguard.gcp
        remote: gcp
        listen_port: 51821
        private_key_file: /var/lib/semaphore-wireguard/wireguard.gcp.key
        routes: [10.4.0.0/16]
        peers:
          - public_key: ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=
            endpoint: 10.22.22.27:51821
            allowed_ips: [10.4.7.0/24]
            persistent_keepalive: 25

- name: A change that the host takes back unless it is confirmed within a minute
  multicluster.network.node_dataplane:
    fabric: demo
    rollback_seconds: 60
    devices: "{{ demo_devices }}"
  register: change

- name: Let go of the connection, so that the next task proves that the host can be reached
  ansible.builtin.meta: reset_connection

- name: Keep the change
  multicluster.network.node_dataplane:
    fabric: demo
    state: confirmed
    transaction: "{{ change.transaction.id }}"
  when: change.transaction is defined  # there is none where nothing had to change

- name: The node leaves the fabric
  multicluster.network.node_dataplane:
    fabric: demo
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: success
  sample:
    create: 4
    update: 0
    delete: 0
    unchanged: 0
    changes:
      - {action: create, kind: link, id: wireguard.gcp, fields: []}
paths:
  description:
    - Devices, peers and routes that would change, without those of a device that would be created or deleted as a whole.
    - C(links) by name with C(before) and C(after), C(peers) by C(device) and C(key), and C(routes).
    - C(secrets), where there are any, names devices with a peer that stays and would get another preshared key.
  type: dict
  returned: in check mode, when one of them would change
  sample: {links: {}, peers: [], routes: [{action: delete, device: wireguard.gcp, dst: 10.4.0.0/16}]}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: []
missed:
  description: What the node did not answer.
  type: str
  returned: when it may be lost, without O(transaction)
  sample: converging it did not end within 30 s, half of node_dataplane_rollback_seconds
patience:
  description: Seconds until the node has put back what it had.
  type: int
  returned: with RV(missed)
  sample: 120
again:
  description: Whether the change only lacked time, and may be made once more with longer.
  type: bool
  returned: when a confirmation came too late
  sample: true
missing_package:
  description: Name of a package in Debian's spelling that the node lacks.
  type: str
  returned: when something is missing
  sample: wireguard-go
public_keys:
  description: The node's public key towards each remote cluster; deferred in check mode when it is not made yet. While keys are rotated, also the one that
    is to replace it, with C(/next) after the remote cluster.
  type: dict
  returned: success
  sample: {gcp: 20+DPsIsMA79+kkXNG1Raoe0hi0bnRf+xUJWhBtB6h8=}
transaction:
  description: The change that waits for its confirmation, and how the host waits.
  type: dict
  returned: when something was changed and O(rollback_seconds) is given
  sample: {id: 5f0c7d1be0a94c2d, seconds: 60, armed: systemd}
outcome:
  description: V(confirmed) or V(rolled_back); in a failure also V(unknown) or V(stale_connection).
  type: str
  returned: for O(state=confirmed) and O(state=reverted)
  sample: confirmed
rolled_back:
  description: Whether the host has put back what it had.
  type: bool
  returned: when a confirmation came too late
  sample: true
waited_seconds:
  description:
    - Seconds from the beginning of the change to the arrival of its confirmation, as the node measured them.
    - In a failure only where the confirmation came too late, and time was all that it lacked.
  type: int
  returned: for O(state=confirmed)
  sample: 4
kubespan:
  description: What the node announces in the KubeSpan mesh; deferred in check mode what is not made yet.
  type: dict
  returned: with O(kubespan)
  contains:
    address:
      description: The node's address in the mesh.
      type: str
      sample: fd7a:6197:edb7:2302:5054:ff:feaa:1
    annotations:
      description: The annotations of its Node; empty ones are to be removed.
      type: dict
      sample: {networking.talos.dev/kubespan-ip: "fd7a:6197:edb7:2302:5054:ff:feaa:1"}
    record:
      description: The same as plain data.
      type: dict
      sample: {node_id: 3alpha, addresses: [192.0.2.11]}
    peers:
      description: How many peers the node has.
      type: int
      sample: 3
    harvested:
      description: At which endpoints the watcher sees peers that are up; null without C(harvestExtraEndpoints).
      type: list
      elements: dict
      sample: [{affiliate_id: 9gamma, endpoint: "198.51.100.77:51999"}]
discovery:
  description: What was seen of the discovery service of a KubeSpan mesh, in check mode too.
  type: dict
  returned: where the mesh has a discovery service
  contains:
    url:
      description: The service.
      type: str
      sample: https://discovery.talos.dev/
    reached:
      description: Whether it answered.
      type: bool
      sample: true
    members:
      description: How many other members of the mesh it has.
      type: int
      sample: 3
    reason:
      description: The reason of what is wrong, empty where nothing is.
      type: str
      sample: service_away
    message:
      description: The same as a sentence.
      type: str
      sample: ""
probe:
  description:
    - What M(multicluster.network.node_probe) returns, without its C(changed) and C(refused); without O(probe.targets) only C(pods), C(strays)
      and C(others). Where it could not be had C(failed) and C(msg).
  type: dict
  returned: with O(probe), also where the task failed
  sample: {pods: [{addresses: [10.2.3.10], in_namespace: true}], strays: [], others: []}
stats:
  description: Messages to the kernel and seconds.
  type: dict
  returned: success
  sample: {netlink_messages: 3, seconds: 0.08}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import (
    dataplane as node_dataplane,
    node_agent,
)
from ansible_collections.multicluster.network.plugins.module_utils._module import (
    exit_with,
    fail_on_refused_spec,
    probe_spec,
)

DEVICE = {
    "name": {"type": "str", "required": True},
    "remote": {"type": "str", "required": True},
    "mtu": {"type": "int", "default": 1420},
    "txqueuelen": {"type": "int", "default": 1000},
    "listen_port": {"type": "int", "required": True},
    "listen_port_known": {"type": "bool", "default": True},
    "private_key_file": {"type": "path", "required": True, "no_log": False},
    "implementation": {"type": "str", "choices": ["auto", "kernel", "userspace"], "default": "auto"},
    "addresses": {"type": "list", "elements": "str"},
    "up": {"type": "bool", "default": True},
    "routes": {"type": "list", "elements": "str", "default": []},
    "overlay": {"type": "list", "elements": "str", "default": []},
    "peers": {"type": "list", "elements": "dict", "default": []},
    "contested": {"type": "list", "elements": "dict", "default": []},
    "peers_known": {"type": "bool", "default": True},
    "turned_away": {"type": "str", "default": ""},
    "borrowed": {"type": "list", "elements": "str", "default": []},
    "ranges_known": {"type": "bool", "default": True},
    "retired_key": {"type": "str", "no_log": False},
    "next_key_for": {"type": "str", "no_log": False},
    "copied_from": {"type": "path", "no_log": False},
    "copied_key": {"type": "str", "no_log": False},
    "keep_peers": {"type": "bool", "default": False},
    "kept_only": {"type": "bool", "default": False},
    "either_way": {"type": "bool", "default": False},
    "fwmark": {"type": "int", "default": 0},
}

KUBESPAN = {
    "mesh_id": {"type": "str", "required": True},
    "mesh_secret": {"type": "str", "no_log": True},
    "affiliates": {"type": "list", "elements": "dict", "default": []},
    "contested": {"type": "list", "elements": "dict", "default": []},
    "disputed": {"type": "list", "elements": "str", "default": []},
    "unread": {"type": "list", "elements": "str", "default": []},
    "turned_away": {"type": "str", "default": ""},
    "complete": {"type": "bool", "default": True},
    "cluster": {"type": "str", "required": True},
    "node_name": {"type": "str", "required": True},
    "cluster_networks": {"type": "list", "elements": "str", "default": []},
    "pod_cidrs": {"type": "list", "elements": "str", "default": []},
    "networks": {"type": "list", "elements": "str", "default": []},
    "exclude_interfaces": {"type": "list", "elements": "str", "default": []},
    "exclude_addresses": {"type": "list", "elements": "str", "default": []},
    "balanced": {"type": "list", "elements": "str", "default": []},
    "own_addresses": {"type": "list", "elements": "str", "default": []},
    "config": {"type": "dict", "default": {}},
    "mac": {"type": "str"},
    "layout": {"type": "dict", "default": {}},
    "generation": {"type": "str", "choices": ["current", "v1.3"], "default": "current"},
    "fail_closed": {"type": "bool"},
    "watcher": {"type": "bool", "default": True},
    "implementation": {"type": "str", "choices": ["auto", "kernel", "userspace"], "default": "auto"},
    "private_key_file": {"type": "path", "no_log": False},
    "rotation": {"type": "dict"},
    "rotation_unread": {"type": "bool", "default": False},
    "retired_key": {"type": "str", "no_log": False},
    "next_key_for": {"type": "str", "no_log": False},
    "discovery": {
        "type": "dict",
        "options": {
            "url": {"type": "str", "required": True},
            "ca": {"type": "str", "default": ""},
            "cluster": {"type": "str"},
            "pod_cidrs": {"type": "list", "elements": "str", "default": []},
            "node_cidrs": {"type": "list", "elements": "str", "default": []},
            "overlay": {"type": "list", "elements": "str", "default": []},
        },
    },
}

WAITS: dict[str, t.Any] = {
    "tunnels": {"type": "list", "elements": "dict", "default": []},
    "quiet": {"type": "bool", "default": False},
    "quiet_seconds": {"type": "float", "default": 50},
    "timeout": {"type": "float", "default": 120},
}

#: Options of which the action plugin makes others.
_OF_THE_RUN = ("wait", "rollback_max_seconds", "check_seconds", "mesh", "device_settings")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fabric": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["present", "absent", "released", "confirmed", "reverted"],
                "default": "present",
            },
            "rollback_seconds": {"type": "int", "default": 0},
            "transaction": {"type": "str"},
            "wait": {"type": "bool"},
            "rollback_max_seconds": {"type": "int", "default": 0},
            "check_seconds": {"type": "int", "default": 0},
            "waits": {"type": "dict", "options": WAITS},
            "mesh": {"type": "dict"},
            "device_settings": {"type": "dict", "default": {}},
            "devices": {"type": "list", "elements": "dict", "options": DEVICE, "default": []},
            "unread_devices": {"type": "list", "elements": "str", "default": []},
            "preshared_keys": {"type": "dict", "no_log": True},
            "kubespan": {"type": "dict", "options": KUBESPAN},
            "tables": {"type": "list", "elements": "dict", "default": []},
            "node": {"type": "str"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "persist": {"type": "bool", "default": True},
            "adopt": {"type": "bool", "default": False},
            "remove_keys": {"type": "bool", "default": False, "no_log": False},
            "key_files": {"type": "list", "elements": "path", "default": [], "no_log": False},
            "max_deletes": {"type": "int"},
            "confirm_empty": {"type": "list", "elements": "str", "default": []},
            "accepted": {"type": "list", "elements": "str", "default": []},
            "probe": {
                "type": "dict",
                "options": dict(
                    probe_spec(),
                    known={"type": "list", "elements": "str", "default": []},
                    reach={"type": "bool", "default": False},
                ),
            },
            **fail_on_refused_spec(),
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "confirmed" and not module.params["transaction"]:
        module.fail_json(msg="state is confirmed but all of the following are missing: transaction")
    if module.params["state"] in ("confirmed", "reverted"):
        decide(module)
    desired = {
        key: value
        for key, value in module.params.items()
        if key not in (*_OF_THE_RUN, "state", "fail_on_refused", "transaction", "probe", "waits")
    }
    if module.params["state"] in ("absent", "released"):
        desired.update(devices=[], kubespan=None, tables=[])
    if module.params["state"] == "released":
        if module.params["remove_keys"]:
            module.fail_json(
                msg="state is released and remove_keys is true: without its key the upstream program would not find its own"
            )
        desired["released"] = True
    for device in desired["devices"]:
        device["node"] = module.params["node"] or "this node"
    wait(module)
    try:
        result = node_dataplane.run(desired, check=module.check_mode)
    except node_dataplane.FAILURES as err:
        fail(module, err, **probed(module))
    exit_with(module, dict(result, **probed(module)))


def wait(module: AnsibleModule) -> None:
    """Leave where what the change needs did not come."""
    waits = module.params["waits"]
    if not waits or module.check_mode:
        return
    # A module comes as source text, every time: what is not asked for is not compiled.
    from ansible_collections.multicluster.network.plugins.module_utils._flows.node import handshakes

    try:
        found = handshakes.run(waits)
    except node_dataplane.FAILURES as err:
        fail(module, err)
    if found["missing"] or found["busy"]:
        module.fail_json(msg="the tunnels are not as the change needs them", **found)


def probed(module: AnsibleModule) -> dict[str, t.Any]:
    """The part of the result that the probe is."""
    asked = module.params["probe"]
    if not asked or module.params["state"] != "present":
        return {}
    # A module comes as source text, every time: what is not asked for is not compiled.
    from ansible_collections.multicluster.network.plugins.module_utils._flows.node import probe

    return {"probe": probe.probe_node(dict(asked, fabric=module.params["fabric"]))}


def decide(module: AnsibleModule) -> None:
    """Keep or take back a change; never returns."""
    if module.check_mode:
        module.exit_json(changed=False, refused=[])
    action = node_dataplane.confirm if module.params["state"] == "confirmed" else node_dataplane.revert
    try:
        result = action(module.params["fabric"], module.params["transaction"])
    except node_dataplane.FAILURES as err:
        fail(module, err)
    exit_with(module, result)


def fail(module: AnsibleModule, err: Exception, **more: t.Any) -> t.NoReturn:
    """Leave with an error and its details."""
    details = err.fields() if hasattr(err, "fields") else {}
    module.fail_json(msg=f"{module.params['node'] or 'node'}: {err}", **details, **more)
    raise AssertionError("fail_json returned")  # for type checkers


#: Not called here: the import brings the code of what runs without Ansible into what Ansible sends, from where it is installed.
AGENT = node_agent.main

if __name__ == "__main__":
    main()
