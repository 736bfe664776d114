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
  - multicluster.network._node_dataplane
  - multicluster.network._node_dataplane.kubespan
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
from ansible_collections.multicluster.network.plugins.module_utils._module_dataplane import (
    device_spec,
    kubespan_spec,
    waits_spec,
)

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
            "waits": {"type": "dict", "options": waits_spec()},
            "mesh": {"type": "dict"},
            "device_settings": {"type": "dict", "default": {}},
            "devices": {"type": "list", "elements": "dict", "options": device_spec(), "default": []},
            "unread_devices": {"type": "list", "elements": "str", "default": []},
            "preshared_keys": {"type": "dict", "no_log": True},
            "kubespan": {"type": "dict", "options": kubespan_spec()},
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
