# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_dataplane with this node's part of the run's plan, within the time that a change may take.

A change is confirmed over a connection that was opened after it, since one that survived the change proves nothing. The task meta:
reset_connection would do it for one host at a time, with a banner and a warning for each. And where the module did not even start, Ansible
reports JSON that it missed.
"""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action.normal import ActionModule as Normal
from ansible.plugins.connection import ConnectionBase
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import Layout
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.preshared_keys import with_keys
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import node_part, preshared_secret as secrets
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars, skipped

#: What a shell answers for a program that is not there or cannot be run, and for one that SIGKILL ended.
_NOT_STARTED, _KILLED = (126, 127), (137, -9)
_GONE = ("absent", "released")
_SLOW = "Where the node or the controller is slow, raise node_dataplane_rollback_seconds"

Data = dict[str, t.Any]


class NodeDataplane(Normal):
    """The module over one node, see its DOCUMENTATION."""

    def run(self, tmp: t.Any = None, task_vars: Data | None = None) -> Data:
        """The module, with what the run knows of its node where the task leaves it to the run."""
        given, self.variables = self._task.args, task_vars or {}
        self.host = str(self.variables.get("inventory_hostname", "node"))
        self.hostvars = run_vars(self, task_vars)
        self.context = self.hostvars.context
        options = dict(given)
        try:
            self._task.args = options
            state = str(given.get("state") or "present")
            if state == "confirmed":
                return self._confirm(options)
            if state == "reverted":
                return self._revert(options)
            return self._converge(options, state in _GONE) if "mesh" in given else self._module()
        except ValueError as error:
            return {"failed": True, "msg": f"{self.host}: {error}"}
        finally:
            self._task.args = given  # a retry begins with what was written

    def _module(self) -> Data:
        result: Data = super().run(None, self.variables)
        if result.get("failed") and "module_stderr" in result:
            result["msg"] = f"{self.host}: {without_answer(result.get('rc'), str(result['module_stderr']))}"
        return result

    def _converge(self, options: Data, leaves: bool) -> Data:
        mesh = options.pop("mesh") or collected.mesh(self.hostvars, [self.host])
        checks = self._task.check_mode
        if checks and self._unread():
            return skipped("the node was not read")
        if not mesh and not leaves:
            if checks:
                return skipped("the mesh is not planned in this run")
            raise ValueError(
                "the mesh is not planned in this run; run the role mesh with tasks_from: plan before, or set node_dataplane_mesh"
            )
        plan = MeshPlan.from_json(mesh)
        node = plan.node(self.host)
        # it has no Node, and may be another host's machine; it may leave, though
        if node.refused and not leaves:
            return skipped(f"the plan refuses it: {node.refused}")
        layout = (options.get("kubespan") or {}).get("layout") or {}
        self._fill(options, plan, leaves)
        waits = {} if leaves or checks else self._waits(plan, str(layout.get("device") or ""))
        seconds = options["rollback_seconds"] = self._seconds(options)
        limit = int(options.pop("check_seconds", 0) or 0)
        if not checks:
            limit = seconds // 2
        if waits:
            options["waits"], limit = waits, limit and limit + int(waits["timeout"])
        try:
            # others of its batch wait, and their timers run too; comparing arms no timer
            with node_part.at_most(limit):
                result = self._module()
        except node_part.TooLong:
            return self._expired(limit, seconds)
        if result.get("missing") or result.get("busy"):
            result["msg"] = rotation_checks.missing_text(plan, self.host, result["missing"], result["busy"])
        return result

    def _waits(self, plan: MeshPlan, device: str) -> Data:
        """What a rotation of keys needs of the tunnels of the node before its step; empty for nothing. device: that of its KubeSpan mesh, if it has a name of
        its own."""
        tunnels, quiet = rotation_checks.awaited(plan, self.host) if self.host in plan.nodes else ([], False)
        if device:
            tunnels = [dict(row, device=device) if row["device"] == Layout().device else row for row in tunnels]
        asked = (self.context.get(kept.ROTATION) or {}).get("waits") or {}
        return {"tunnels": tunnels, "quiet": quiet, **asked} if tunnels else {}

    def _unread(self) -> bool:
        """Whether the run could not read the node at all: it is not compared then."""
        info = self.context.get(kept.NODE_INFO, self.host)
        return info is not None and info.get("node") is None

    def _fill(self, options: Data, mesh: MeshPlan, leaves: bool) -> None:
        """The options that the plan has."""
        settings = options.pop("kubespan", None) or {}
        probe = options.pop("probe", None) or {}
        devices = [] if leaves and self.host not in mesh.nodes else node_part.devices(mesh, self.host)
        options["hosts"] = list(mesh.nodes)
        options["key_files"] = [device["private_key_file"] for device in devices]
        own = options.pop("device_settings", None) or {}
        devices = [] if leaves else [{**device, **own} for device in node_part.bypass(mesh, devices, settings)]
        secret = secrets.of_host(self, self.variables, mesh, self.host) if devices else b""
        options["devices"], keys = with_keys(devices, mesh.fabric, secret)
        if keys:
            options["preshared_keys"] = keys
        options["unread_devices"] = [] if leaves else node_part.unread_devices(mesh, self.host)
        options["tables"] = [] if leaves else [*(options.get("tables") or ()), *node_part.tables(mesh, self.host)]
        spans = {} if leaves else node_part.kubespan_part(mesh, self.host, settings)
        if spans:
            options["kubespan"] = spans
        if probe and not leaves:
            asked = {name: value for name, value in probe.items() if name != "reach"}
            asked.update(node_part.ranges(self, self.variables, self.hostvars, mesh, self.host))
            if boolean(probe.get("reach", False)):
                pods = (self.context.get(kept.FOUND_PODS) or {}).get("pods") or {}
                asked.update(node_part.reach(mesh, self.host, pods, settings.get("layout") or {}))
            options["probe"] = asked

    def _seconds(self, options: Data) -> int:
        """How long the node waits: at least three times what this controller needed for an earlier change of the run."""
        seconds, most = int(options.get("rollback_seconds") or 0), int(options.pop("rollback_max_seconds", 0) or 0)
        earlier = self.context.get(kept.CONFIRMED, self.host) or {}
        needed = 3 * int(earlier.get("waited_seconds") or 0) + (30 if earlier.get("again") else 0)
        return max(seconds, min(needed, most)) if seconds else 0

    def _expired(self, limit: int, seconds: int) -> Data:
        result = {"failed": True, "changed": False, "timedout": {"period": limit}}
        if self._task.check_mode:
            text = (
                "{0}: comparing the node with the plan did not end within {1} s, so it is not known whether it differs. "
                "Where the node or the controller is slow, raise node_dataplane_check_seconds"
            )
            return dict(result, msg=text.format(self.host, limit))
        missed = f"converging it did not end within {limit} s, half of node_dataplane_rollback_seconds"
        return dict(result, **self._lost(missed, seconds))

    def _lost(self, missed: str, seconds: int) -> Data:
        """A node that gave no answer: why, and how long it may take until it does."""
        lost = {"missed": missed, "patience": seconds + 60}
        self.context.keep(kept.LOST, lost, self.host)
        return dict(lost, msg=f"{self.host}: {missed}")

    def _confirm(self, options: Data) -> Data:
        most, waits = int(options.pop("rollback_max_seconds", 0) or 0), boolean(options.pop("wait", False))
        change = (self.context.get(kept.NODE, self.host) or {}).get("transaction") or {}
        if "transaction" in options or not change:
            return self._anew()
        options["transaction"] = change["id"]
        seconds = int(change["seconds"])
        lost = (self.context.get(kept.LOST, self.host) or {}) if waits else {}
        if waits and not self._answers(lost):
            return self._gone(lost)
        reason = f"the confirmation of its change, for which it waits {seconds} s (node_dataplane_rollback_seconds), "
        try:
            # a controller that needs most of that time has done nothing wrong, and how late one is shall be known
            with node_part.at_most(0 if waits else seconds + 60):
                result = self._anew()
        except node_part.TooLong:
            missed = reason + "had no answer within that and a minute"
            return dict(
                {"failed": True, "changed": False, "timedout": {"period": seconds + 60}}, **self._lost(missed, seconds)
            )
        except AnsibleConnectionFailure as error:
            if waits:
                raise
            missed = f"{reason}did not reach it over a new connection: {str(error).strip() or 'no reason was given'}"
            return dict({"failed": True, "changed": False}, **self._lost(missed, seconds))
        if not result.get("failed"):
            return result
        if waits:
            text = "{0}: {1}. {2} {3}"
            how = "The change was rolled back:" if result.get("rolled_back") else "Asked again:"
            return dict(result, msg=text.format(self.host, lost.get("missed"), how, result.get("msg")))
        waited, before = result.get("waited_seconds"), self.context.get(kept.CONFIRMED, self.host) or {}
        again = waited is not None and not before.get("again") and most > int(waited)
        return dict(result, again=True) if again else result

    def _anew(self) -> Data:
        if type(self._connection).reset is not ConnectionBase.reset:
            self._connection.reset()
        return self._module()

    def _revert(self, options: Data) -> Data:
        """Take a change back. A task that knows ``wait`` ends as failed, since its host has lost the change."""
        if "wait" not in options:
            return self._module()
        waits, lost = boolean(options.pop("wait")), self.context.get(kept.LOST, self.host) or {}
        if waits and not self._answers(lost):
            return self._gone(lost)
        change = (self.context.get(kept.NODE, self.host) or {}).get("transaction") or {}
        if change and not waits:
            options["transaction"] = change["id"]
        result = self._module()
        if result.get("failed"):
            return result
        if not waits:
            return dict(result, failed=True, msg=lost.get("batch") or f"{self.host}: the change was taken back")
        said = f"{self.host} was rolled back: {lost.get('missed')}. {result.get('message') or ''}. {_SLOW}"
        return dict(result, failed=True, msg=said)

    def _answers(self, lost: t.Mapping[str, t.Any]) -> bool:
        """Wait until the node answers, at the latest when it has put back what it had."""
        task = self._task.copy()
        task.args = {"timeout": int(lost.get("patience") or 120), "connect_timeout": 5, "sleep": 1}
        action = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.wait_for_connection",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        if type(self._connection).reset is not ConnectionBase.reset:
            self._connection.reset()
        return not action.run(task_vars=self.variables).get("failed")

    def _gone(self, lost: t.Mapping[str, t.Any]) -> Data:
        text = (
            "{0}: {1}; nor did it answer for {2} s after that (node_dataplane_rollback_seconds and a minute). "
            "It takes its change back by itself; look at the machine"
        )
        return {
            "failed": True,
            "changed": False,
            "msg": text.format(self.host, lost.get("missed"), lost.get("patience")),
        }


class ActionModule(Kept, NodeDataplane):
    """See DOCUMENTATION of the module."""

    of_hosts = True

    def kept_as(self) -> str:
        """A change and its confirmation have names of their own."""
        state = str(self._task.args.get("state") or "present")
        return {"confirmed": kept.CONFIRMED, "reverted": ""}.get(state, kept.NODE)


def without_answer(status: t.Any, errors: str) -> str:
    """What is to be fixed on a node where the module ended without an answer. status: of its shell; errors: what that printed."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = lines[-1][:300] if lines else "it said nothing"
    if status in _NOT_STARTED:
        return f"Python does not start there ({said}); install Python 3.9 or newer, or set ansible_python_interpreter to where it is"
    if status in _KILLED or said == "MemoryError" or said.startswith("MemoryError:"):
        return f"the module was ended before its answer ({said}), as happens when memory runs out; look at free memory and limits there"
    return f"the module ended without an answer, exit status {status}: {said}"
