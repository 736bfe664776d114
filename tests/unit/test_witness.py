# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios' witness of kernels leaves out: kube-proxy's own transactions, and nothing else."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "scenario"))

from harness import without_kube_proxy

PROXY = ["delete rule ip nat KUBE-SERVICES handle 74", "# new generation 9 by process 40 (iptables-restor)"]
OWNED = ["add table inet multicluster-network-default", "# new generation 10 by process 41 (python3)"]


def test_transactions_of_kube_proxy_are_left_out_and_others_are_not():
    assert without_kube_proxy([*PROXY, *OWNED, *PROXY]) == OWNED


def test_one_that_touches_another_chain_too_is_a_write():
    mixed = ["add rule ip nat POSTROUTING masquerade", *PROXY]
    assert without_kube_proxy(mixed) == mixed


def test_one_that_another_program_makes_in_its_chains_is_a_write():
    unowned = [PROXY[0], "# new generation 9 by process 40 (nft)"]
    assert without_kube_proxy(unowned) == unowned


def test_of_one_that_has_not_ended_lines_of_other_chains_are_kept():
    assert without_kube_proxy([PROXY[0], OWNED[0]]) == [OWNED[0]]
