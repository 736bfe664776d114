# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock of a run: it outlives every task, so it is held by a process that watches ansible-playbook."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import pathlib
import socket
import typing as t

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import access_spec
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import check_names
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory, job_output
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import check_choice, renamed, shown
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables

display = Display()


def argument_spec() -> dict[str, t.Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "clusters": {"type": "list", "elements": "dict", "options": access_spec()},
        "clusters_group": {"type": "str", "default": "clusters"},
        "scope": {"type": "str", "choices": ["controller", "fabric", "none"], "default": "controller"},
        "lock_wait": {"type": "float", "default": 600.0},
        "namespace": {"type": "str", "default": "kube-system"},
        "workflow": {"type": "str", "default": ""},
        "of_workflow": {"type": "bool", "default": False},
        "between": {"type": "float", "default": run_lock.BETWEEN},
        "give_back": {"type": "bool", "default": False},
    }


def holder() -> str:
    """Who runs this, for the one who has to wait: user, machine, playbook, and AWX's number of the job."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may know no name for its user
        user = str(os.getuid())
    words = [f"{user}@{socket.gethostname()}"]
    words += [shown_book(str(book)) for book in (context.CLIARGS.get("args") or ())][:3]
    if os.environ.get("JOB_ID"):
        words.append("job " + os.environ["JOB_ID"])
    return " ".join(words)[:120]


def shown_book(book: str) -> str:
    """A playbook as it was written, without the folders in which all of them are: ``awx/mesh.yml`` of ``/srv/fabric/playbooks/awx/mesh.yml``."""
    parts = pathlib.PurePath(book).parts
    return "/".join(parts[-2:] if parts[-3:-2] == ("playbooks",) else parts[-1:])


def the_run() -> tuple[int, str]:
    """The process of ansible-playbook and when it began. A worker runs this, and only its parent is meant.

    A worker outlives an ansible-playbook that is killed, and is then a child of init: no lock is taken for init, which never ends.
    """
    parent = multiprocessing.parent_process()
    pid = os.getppid()
    if (parent is None and pid == 1) or (parent is not None and parent.pid != pid):
        raise AnsibleActionFail(
            "ansible-playbook was ended while it took its lock, so there is nobody to hold it for [lock_orphan]"
        )
    born = processes.birth(pid)
    if os.getppid() != pid:
        raise AnsibleActionFail(
            "ansible-playbook was ended while it took its lock, so there is nobody to hold it for [lock_orphan]"
        )
    return pid, born


class ActionModule(ActionBase):
    """Runs once for a play, on the controller, without a connection."""

    BYPASS_HOST_LOOP = True
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            check_choice(
                self, "multicluster_lock", "run_lock_scope", self._task.args.get("scope", "controller"), variables
            )
            # a typo would leave privileged pods where none are to be
            pods = self._templar.template(variables.get("node_pods", "always"))
            check_choice(self, "node_pods", "node_pods", pods, variables)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        unused, options = self.validate_argument_spec(argument_spec())
        if options.pop("of_workflow") and not options["workflow"]:
            try:
                options["workflow"] = job_output.workflow_of(self, variables)
            except ValueError as error:
                raise AnsibleActionFail(str(error)) from None
        if options["clusters"] is None:
            options["clusters"] = self._clusters(variables, options["clusters_group"])
        wrong = self._misspelt(variables)
        if wrong:
            raise AnsibleActionFail(wrong)
        if self._task.check_mode or options["scope"] == "none":
            return dict(result, changed=False, held=False, leases=[], unlocked=[])
        if options["workflow"]:
            options["scope"] = "fabric"  # its jobs run anywhere
        pid, born = the_run()
        request = dict(options, pid=pid, born=born, holder=holder())
        try:
            run_lock.check_request(request)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        key = run_lock.key_of(options["fabric"], options["clusters"], options["workflow"], pid)
        row = run_lock.held_by(key, request["pid"])
        if row is None:
            row = self._take(request)
        if row.get("lost"):
            raise AnsibleActionFail(f"fabric {options['fabric']}: {row['lost']} [lease_lost]")
        for failure in row.get("unlocked", []):
            display.warning("no lock in {cluster}: cannot {operation}: {message} [{reason}]".format(**failure))
        return dict(result, changed=False, held=True, leases=row.get("leases", []), unlocked=row.get("unlocked", []))

    def _clusters(self, variables: t.Mapping[str, t.Any], group: str) -> list[dict[str, t.Any]]:
        try:
            return inventory.cluster_access(variables.get("hostvars") or {}, variables.get("groups") or {}, group)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None

    def _misspelt(self, task_vars: t.Mapping[str, t.Any]) -> str:
        """What is wrong with names that were given on the command line, and which of the inventory's have changed.

        A single playbook validates nothing, and a name that nothing reads would leave out what it should have said: a limit, a state.
        All else in the inventory is the business of ``validate``.
        """
        given, found = load_extra_vars(self._loader), []
        names = {str(name): ["command line"] for name in given if not str(name).startswith(("ansible_", "__"))}
        if names:
            spared = task_vars.get("multicluster_foreign_variables") or ()
            spared = [spared] if isinstance(spared, str) else [str(name) for name in spared]
            found = check_names(names, known_variables(), lambda unused: "command line", frozenset(names), spared)
        found += [
            row
            for row in renamed(self, task_vars)
            if row.variable not in names or row.variable in known_variables().words_in
        ]
        return shown(row for row in found if row.level == "error")

    def _take(self, request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        last: dict[str, t.Any] = {}

        def on_row(row: dict[str, t.Any]) -> bool:
            last.clear()
            last.update(row)
            if "waiting" in row:
                display.display(
                    f"fabric {request['fabric']}: waiting up to {request['lock_wait']:g} s for {row['waiting']}"
                )
            return "waiting" not in row

        run_lock.take(request, on_row)
        if last.get("error"):
            raise AnsibleActionFail(
                f"fabric {request['fabric']}: cannot keep the lock of this run: {last['error']} [lock_failed]"
            )
        if not last.get("held"):
            who = last.get("who") or "the process that holds the lock ended"
            raise AnsibleActionFail(
                f"fabric {request['fabric']}: another run is at work, waited {request['lock_wait']:g} s for it: {who} [lock_held]"
            )
        return last
