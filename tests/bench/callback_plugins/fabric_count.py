# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Alongside whatever is on the screen: how many modules ran on each host, and what the run spent in each task.

Processor seconds are those of ansible-playbook itself, and of all processes that it waited for: workers, and the modules that they started.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_count
type: notification
short_description: Counts modules by host and seconds by task
description:
  - Writes a file of JSON at the end of a run.
options:
  file:
    description: The file.
    type: path
    required: true
    env:
      - name: FABRIC_COUNT
"""

import collections
import json
import os
import pathlib
import resource
import time

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "fabric_count"

    def __init__(self):
        super().__init__()
        self.modules, self.results, self.tasks = collections.Counter(), collections.Counter(), []
        self.play, self.changed = "", 0

    def v2_playbook_on_play_start(self, play):
        self.play = play.get_name()

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.tasks.append([self.play, task.get_name(), self._now(), 0])

    @staticmethod
    def _now():
        rows = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return [time.monotonic()] + [row.ru_utime + row.ru_stime for row in rows]

    def _saw(self, result, ran):
        self.results[result._host.get_name()] += 1
        self.changed += bool(result._result.get("changed"))
        if self.tasks:
            self.tasks[-1][3] += 1
        delegated = (result._result.get("_ansible_delegated_vars") or {}).get(
            "ansible_host"
        ) or result._task.delegate_to
        if (
            ran
            and not delegated
            and not result._task.action.rpartition(".")[2].startswith(
                ("include", "import", "set_fact", "debug", "fail")
            )
        ):
            self.modules[result._host.get_name()] += 1

    def v2_runner_on_ok(self, result):
        self._saw(result, True)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._saw(result, True)

    def v2_runner_on_skipped(self, result):
        self._saw(result, False)

    def v2_playbook_on_stats(self, stats):
        ends = [row[2] for row in self.tasks[1:]] + [self._now()]
        rows = [
            [play, name, *(round(now - then, 2) for now, then in zip(end, begun)), count]
            for (play, name, begun, count), end in zip(self.tasks, ends)
        ]
        with pathlib.Path(os.environ["FABRIC_COUNT"]).open("w", encoding="utf-8") as target:
            counted = {"modules": self.modules, "results": self.results, "changed": self.changed, "tasks": rows}
            json.dump(counted, target)
