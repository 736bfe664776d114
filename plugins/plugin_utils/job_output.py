# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What jobs of a workflow hand to the next ones, as variables: the next job has it as extra variables."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._values import packed

PLAN, NEWS, PROVEN = "__multicluster_workflow_plan", "__multicluster_workflow_news", "__multicluster_workflow_proven"
#: What the hosts of one job said of themselves; each job has a name of its own, made of its hosts.
REPORTED = "__multicluster_workflow_reported_"


def workflow_of(action: ActionBase, variables: t.Mapping[str, t.Any]) -> str:
    """The text that all jobs of a workflow have. AWX numbers its workflows; elsewhere every job gets the same. Raises ValueError."""
    given = variables.get("multicluster_workflow")
    if given is not None:
        return str(action._templar.template(given))
    number = variables.get("awx_workflow_job_id")
    if number is None:
        raise ValueError("give all jobs of this workflow the same text of its own as multicluster_workflow")
    return f"{os.environ.get('AWX_HOST', '')} {number}"


def reported_name(hosts: t.Iterable[str]) -> str:
    """The variable of a job over these hosts."""
    return REPORTED + hashlib.sha256("\0".join(sorted(hosts)).encode("utf-8")).hexdigest()[:12]


def reported(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """{host: what it said} of all jobs before this one. Raises ValueRefused."""
    found: dict[str, t.Any] = {}
    for name in sorted(name for name in variables if name.startswith(REPORTED)):
        found.update(packed.unpack(str(variables[name])))
    return found


def results(
    variables: t.Mapping[str, t.Any], hostvars: t.Any, hosts: t.Sequence[str]
) -> dict[str, t.Mapping[str, t.Any]]:
    """Host -> its result of node_dataplane, of this run or of a job before it."""
    found: dict[str, t.Mapping[str, t.Any]] = {
        host: said for host, said in reported(variables).items() if host in set(map(str, hosts))
    }
    found.update(collected.of_hosts(hostvars, hosts, kept.NODE))
    return found
