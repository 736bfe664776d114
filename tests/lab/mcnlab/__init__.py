# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of real clusters on one Linux machine: etcd, API servers, nodes with systemd, pods, and an underlay between them.

Put ``tests/lab`` on ``sys.path`` and start with::

    from mcnlab.lab import Lab
    lab = Lab("demo")
    lab.up()
    lab.run_in_node("aws-node-1", ["ip", "route"])
"""
