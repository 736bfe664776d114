#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wireguard_device
version_added: 1.0.0
short_description: Manage a WireGuard device with its key, addresses and peers
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Converges one WireGuard device and the whole set of its peers in one call. Uses the kernel's WireGuard where there is
    one, and the program C(wireguard-go) where there is none.
  - Only peers that differ are sent, in an order in which an allowed IP that is desired before and after never has no
    owner. A peer that talks to us from a new address keeps it.
  - A link of this name that does not carry our mark (O(alias)) is left alone and refused, as C(adoptable) when it is a
    WireGuard device and as C(not_ours) when it is not.
  - One bad peer is refused by its key; its live peer stays as it is and the others are applied.
  - Changes the running host only; the device goes with a reboot.
extends_documentation_fragment:
  - multicluster.network._node
options:
  name:
    description:
      - The name of the link, at most 15 bytes.
    type: str
    required: true
  state:
    description:
      - V(absent) removes the device with its peers, if it is owned. The key file stays; see
        M(multicluster.network.wireguard_key).
    type: str
    choices: [present, absent]
    default: present
  alias:
    description:
      - The mark of an owned link. C(multicluster.network), or this with a slash and the name of a fabric,
        then perhaps a blank and any text.
    type: str
    default: multicluster.network
  adopt:
    description:
      - Take over a WireGuard device that does not carry our mark.
    type: bool
    default: false
  implementation:
    description:
      - Who implements a new device. V(auto) takes the kernel where it can. A device that exists is never replaced.
    type: str
    choices: [auto, kernel, userspace]
    default: auto
  mtu:
    description:
      - The MTU, 576 to 9216.
    type: int
    default: 1420
  txqueuelen:
    description:
      - The length of the transmit queue.
    type: int
    default: 1000
  listen_port:
    description:
      - The UDP port. Without it the port is left as it is, and a new device gets a random one.
    type: int
  fwmark:
    description:
      - The firewall mark of WireGuard's own packets; 0 is none.
    type: int
    default: 0
  private_key_file:
    description:
      - Absolute path of the private key's file. Without it the key is left as it is.
    type: path
  generate_key:
    description:
      - Make the key when the file does not exist, and see to its mode. A file that exists is never overwritten.
    type: bool
    default: true
  addresses:
    description:
      - All addresses of the device, with prefix lengths. Others of either family are removed. Without this option
        addresses are left as they are.
    type: list
    elements: str
  flush_ipv4:
    description:
      - Remove all IPv4 addresses and leave IPv6 alone. O(addresses) beats this.
    type: bool
    default: false
  up:
    description:
      - Whether the link is up.
    type: bool
    default: true
  peers:
    description:
      - The whole set of peers. Without this option peers are left as they are.
    type: list
    elements: dict
    suboptions:
      public_key:
        description:
          - The peer's public key.
        type: str
        required: true
      endpoint:
        description:
          - C(address:port), C([address]:port) or C(name:port). A name is resolved at every run, IPv4 first. Without it the
            peer has to find us.
        type: str
      allowed_ips:
        description:
          - Networks that are routed to the peer and that it may send from. Bits behind the prefix are masked off.
        type: list
        elements: str
        default: []
      persistent_keepalive:
        description:
          - Seconds between keepalives; 0 is none.
        type: int
        default: 0
      preshared_key_file:
        description:
          - Absolute path of a file on the host with the preshared key.
        type: path
  purge_peers:
    description:
      - Remove peers that are not in O(peers).
    type: bool
    default: true
  last_endpoints:
    description:
      - The endpoint that was configured last, by public key, where such a record is kept. With it an endpoint counts as
        changed when it differs from the record. Without it a peer with another address gets the desired one only when
        its last handshake is older than 180 seconds.
    type: dict
seealso:
  - module: multicluster.network.wireguard_key
  - module: multicluster.network.ip_routes
"""

EXAMPLES = r"""
- name: Join a node of aws with the nodes of gcp
  multicluster.network.wireguard_device:
    name: wireguard.gcp
    listen_port: 51821
    private_key_file: /var/lib/semaphore-wireguard/wireguard.gcp.key
    flush_ipv4: true
    peers:
      - public_key: HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=
        endpoint: 10.22.22.27:51821
        allowed_ips:
          - 10.4.7.0/24
        persistent_keepalive: 25

- name: Remove the device
  multicluster.network.wireguard_device:
    name: wireguard.gcp
    state: absent
"""

RETURN = r"""
device:
  description: The device as it is after the run, in check mode as it would be; null when it is absent.
  type: dict
  returned: success
  sample: {"name": "wireguard.gcp", "implementation": "kernel", "mtu": 1420, "txqueuelen": 1000, "listen_port": 51821,
    "fwmark": 0, "alias": "multicluster.network", "up": true, "addresses": [],
    "public_key": "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="}
public_key:
  description: The device's public key. In check mode, before the key exists, C({"__pending__"}) with a text.
  type: raw
  returned: success
  sample: xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
peers:
  description: The peers as they are after the run, in check mode as they would be. A preshared key shows as fingerprint.
  type: list
  elements: dict
  returned: success
  sample: [{"public_key": "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=", "endpoint": "10.22.22.27:51821",
    "allowed_ips": ["10.4.7.0/24"], "persistent_keepalive": 25, "preshared_key": null}]
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 2, "update": 0, "delete": 0, "unchanged": 0, "changes": [{"action": "create", "kind": "link",
    "id": "wireguard.gcp", "fields": []}]}
refused:
  description: The device or peers that were left alone, with a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: [{"object": "wireguard.gcp HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=", "reason": "bad_endpoint",
    "message": "'gone.example.com' does not resolve to a usable address"}]
stats:
  description: Reads (dumps, runs of C(ip)), messages that change something, and seconds.
  type: dict
  returned: success
  sample: {"reads": 4, "wireguard_writes": 2, "netlink_writes": 3, "file_writes": 1, "seconds": 0.35}
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import wireguard_device
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    peer = {
        "public_key": {"type": "str", "required": True, "no_log": False},
        "endpoint": {"type": "str"},
        "allowed_ips": {"type": "list", "elements": "str", "default": []},
        "persistent_keepalive": {"type": "int", "default": 0},
        "preshared_key_file": {"type": "path", "no_log": False},
    }
    return dict(
        fail_on_refused_spec(),
        name={"type": "str", "required": True},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        alias={"type": "str", "default": "multicluster.network"},
        adopt={"type": "bool", "default": False},
        implementation={"type": "str", "choices": ["auto", "kernel", "userspace"], "default": "auto"},
        mtu={"type": "int", "default": 1420},
        txqueuelen={"type": "int", "default": 1000},
        listen_port={"type": "int"},
        fwmark={"type": "int", "default": 0},
        private_key_file={"type": "path", "no_log": False},
        generate_key={"type": "bool", "default": True, "no_log": False},
        addresses={"type": "list", "elements": "str"},
        flush_ipv4={"type": "bool", "default": False},
        up={"type": "bool", "default": True},
        peers={"type": "list", "elements": "dict", "options": peer},
        purge_peers={"type": "bool", "default": True},
        last_endpoints={"type": "dict"},
    )


def desired(params: Mapping[str, Any]) -> dict[str, Any]:
    """The flow's input from the module's parameters: a preshared key travels as the name of its file."""
    request = {name: value for name, value in params.items() if name not in ("peers", "last_endpoints")}
    if params["peers"] is not None:
        request["peers"] = []
        for peer in params["peers"]:
            file = peer["preshared_key_file"]
            rest = {name: value for name, value in peer.items() if name != "preshared_key_file"}
            request["peers"].append(dict(rest, preshared_key={"file": file} if file else None))
    return request


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = wireguard_device.run(desired(module.params), module.check_mode, module.params["last_endpoints"])
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
