# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The message where the kernel does not let us: the variable of the inventory that fixes it."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import os_reason
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink.messages import NetlinkRefused
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import table as nft
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard import netlink as wg_netlink

MESSAGES = {
    "a file": lambda number: os_reason(OSError(number, "")),
    "a rule, a route, a link": lambda number: str(NetlinkRefused(number)),
    "nftables": lambda number: nft._reason(NetlinkRefused(number)),
}


@pytest.mark.parametrize("what", sorted(MESSAGES))
def test_who_is_not_root_gets_the_variable(what):
    assert "ansible_become: true" in MESSAGES[what](errno.EPERM)
    assert "ansible_become" not in MESSAGES[what](errno.ENOENT)


def test_a_folder_of_root_is_named_with_it_too():
    assert os_reason(OSError(errno.EACCES, "")).startswith(
        "Permission denied (this needs root: set ansible_become: true"
    )


def test_a_wireguard_device_too():
    device = wg_netlink.KernelDevice.__new__(wg_netlink.KernelDevice)
    device.name = "wg0"
    assert "ansible_become: true" in device._failed("configure", NetlinkRefused(errno.EPERM)).message
