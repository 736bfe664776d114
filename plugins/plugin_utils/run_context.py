# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The run context: what a run of ansible-playbook knows, kept on the controller by action plugins and read by them alone.

Each task runs in a process of its own, so results are files of the folder that ansible-playbook makes for itself and removes at its end. Only its
user can enter that folder. A result belongs to one host, or to the run where the task ran once for all; a later result replaces it. A second
fabric in the same run of ansible-playbook has a context of its own.
"""

from __future__ import annotations

import collections.abc
import hashlib
import json
import os
import pathlib
import shutil
import typing as t
import urllib.parse

from ansible import constants
from ansible.errors import AnsibleActionSkip, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes
from ansible_collections.multicluster.network.plugins.module_utils._status import results

Result = dict[str, t.Any]

#: Of the play that notes options for the reconciler: a folder that only its user can enter. Nothing runs there, so nothing is kept.
OPTIONS_TO = "__multicluster_options_to"

_FOLDER = "multicluster"
#: Of a file that belongs to the run and to no host. A host's name is quoted, so that none has a sign of this kind.
_ONCE = "=once"


class RunContext:
    """The results of one run. folder: where they are; made with the first of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._read: dict[pathlib.Path, Result | None] = {}

    def keep(self, name: str, result: t.Mapping[str, t.Any], host: str = "") -> None:
        """Keep a result of a host, or of the run. Readers see the former one or this one, and no part of it."""
        path = self._path(name, host)
        for folder in (self._folder.parent, self._folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(result, default=str), encoding="utf-8")
        new.replace(path)
        self._read.pop(path, None)

    def add(self, name: str, more: t.Mapping[str, t.Any], host: str) -> None:
        """Keep entries of a host in addition to those that are kept under the name."""
        self.keep(name, {**(self._load(self._path(name, host)) or {}), **more}, host)

    def get(self, name: str, host: str = "") -> Result | None:
        """The result of a host, else that of the run, else None."""
        found = self._load(self._path(name, host)) if host else None
        return found if found is not None else self._load(self._path(name, ""))

    def names(self) -> list[str]:
        """Names of all results."""
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir())

    def _path(self, name: str, host: str) -> pathlib.Path:
        return self._folder / name / ("@" + urllib.parse.quote(host, safe="") if host else _ONCE)

    def _load(self, path: pathlib.Path) -> Result | None:
        if path not in self._read:
            try:
                self._read[path] = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                self._read[path] = None
        return self._read[path]


class OfHost(collections.abc.Mapping[str, t.Any]):
    """The variables of one host, and the results of the run as if they were some of them. Ansible is asked where a variable is."""

    def __init__(self, hostvars: t.Any, host: str, context: RunContext) -> None:
        self._hostvars, self._host, self._context = hostvars, host, context
        self._found: t.Mapping[str, t.Any] | None = None

    @property
    def _given(self) -> t.Mapping[str, t.Any]:
        if self._found is None:
            found = self._hostvars[self._host]
            if not isinstance(found, collections.abc.Mapping):
                raise KeyError(self._host)
            self._found = found
        return self._found

    def __getitem__(self, name: str) -> t.Any:
        if not name.startswith(results.PREFIX):
            return self._given[name]
        result = self._context.get(name, self._host)
        if result is None:
            raise KeyError(name)
        return result

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name.startswith(results.PREFIX):
            return self._context.get(name, self._host) is not None
        return name in self._given

    def __iter__(self) -> t.Iterator[str]:
        yield from self._given
        yield from (name for name in self._context.names() if name in self)

    def __len__(self) -> int:
        return sum(1 for _name in self)


class RunVars:
    """``hostvars`` of a task with the results of the run: each host is looked at once, since Ansible merges its variables at each look."""

    def __init__(self, hostvars: t.Any, context: RunContext) -> None:
        self._hostvars, self.context = hostvars, context
        self._seen: dict[str, OfHost] = {}

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._hostvars, name)

    def __getitem__(self, host: str) -> OfHost:
        if host not in self._seen:
            self._seen[host] = OfHost(self._hostvars, host, self.context)
        return self._seen[host]

    def __contains__(self, host: object) -> bool:
        return host in self._hostvars

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)


def skipped(reason: str) -> Result:
    """The result of a task that has nothing to do."""
    return {"changed": False, "skipped": True, "skip_reason": reason}


def write_text(path: str, text: str) -> None:
    """Write a report, which is different at every run and so no change of the fabric, to a file of the controller that all may read."""
    new = pathlib.Path(f"{path}.new")
    new.write_text(text, encoding="utf-8")
    new.chmod(0o644)
    new.replace(path)


def context_of(action: ActionBase, variables: t.Mapping[str, t.Any] | None) -> RunContext:
    """The context of the run that a task belongs to."""
    fabric = str(action._templar.template((variables or {}).get("multicluster_fabric") or "default"))
    digest = hashlib.sha256(fabric.encode("utf-8")).hexdigest()[:16]
    return RunContext(folder_of(pathlib.Path(constants.DEFAULT_LOCAL_TMP), os.getppid()) / digest)


def folder_of(base: pathlib.Path, pid: int) -> pathlib.Path:
    """The folder of the run of a process, the parent of its workers.

    A process that holds Ansible ready for many runs has one ``base`` for all of them, so a number alone may come again: what processes kept that
    have ended is removed.
    """
    own = base / f"{_FOLDER}-{pid}-{processes.birth(pid)}"
    if not own.exists():
        for former in base.glob(_FOLDER + "-*-*"):
            _name, number, born = former.name.rsplit("-", 2)
            if born and not processes.lives(int(number), born):
                shutil.rmtree(former, ignore_errors=True)
    return own


def run_vars(action: ActionBase, variables: t.Mapping[str, t.Any] | None) -> RunVars:
    """``hostvars`` of the task, with the results of its run."""
    return RunVars((variables or {}).get("hostvars") or {}, context_of(action, variables))


class Kept(ActionBase):
    """The first base of an action plugin that keeps its result, also where the task fails or does not reach its host."""

    #: Whether each host has its own.
    of_hosts = False
    #: Cleared where a result is nothing new.
    keeps = True

    def kept_as(self) -> str:
        """Name of the result; empty where it is not kept."""
        return results.PREFIX + str(self._task.action).rpartition(".")[2]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        try:
            result: dict[str, t.Any] = super().run(tmp, task_vars)
        except AnsibleActionSkip:
            raise
        except BaseException as error:
            self._keep(_failure(error), task_vars)
            raise
        self._keep(result, task_vars)
        return result

    def _keep(self, result: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any] | None) -> None:
        name = self.kept_as() if self.keeps else ""
        if name and OPTIONS_TO not in (task_vars or {}):
            host = str((task_vars or {}).get("inventory_hostname", "")) if self.of_hosts else ""
            context_of(self, task_vars).keep(name, result, host)


def _failure(error: BaseException) -> Result:
    """What Ansible makes of an exception of a task."""
    if isinstance(error, AnsibleConnectionFailure):
        return {"unreachable": True, "msg": str(error), "changed": False}
    found = getattr(error, "result", None)
    return {**(found if isinstance(found, dict) else {}), "failed": True, "msg": str(error) or type(error).__name__}
