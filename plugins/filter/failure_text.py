# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster's failure as one line."""

from __future__ import annotations

DOCUMENTATION = r"""
name: failure_text
short_description: A row of failures as one line for people
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Names the cluster, what failed and the reason word.
options:
  _input:
    description: One row of the return value C(failures) of a module of this collection.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say what failed
  ansible.builtin.debug:
    msg: "{{ plan.failures | map('multicluster.network.failure_text') | list }}"
"""

RETURN = r"""
_value:
  description: The line.
  type: str
"""

import typing as t


def failure_text(failure: t.Mapping[str, t.Any]) -> str:
    """See DOCUMENTATION."""
    return "cluster {0}: {1} [{2}]".format(failure["cluster"], failure["message"], failure["reason"])


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"failure_text": failure_text}
