# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the option in fail_on_refused_spec of _module.py."""

from __future__ import annotations


class ModuleDocFragment:
    """Whether refusals fail the task."""

    DOCUMENTATION = r"""
options:
  fail_on_refused:
    description: Fail when anything was refused. Everything else is done first.
    type: bool
    default: false
"""
