# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Beside whatever is on the screen: how many modules ran on each host, and how long the run was in each task."""

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
import time

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "fabric_count"

    def __init__(self):
        super().__init__()
        self.modules, self.results, self.tasks = collections.Counter(), collections.Counter(), []
        self.play = ""

    def v2_playbook_on_play_start(self, play):
        self.play = play.get_name()

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.tasks.append([self.play, task.get_name(), time.monotonic(), 0])

    def _saw(self, result, ran):
        self.results[result._host.get_name()] += 1
        if self.tasks:
            self.tasks[-1][3] += 1
        delegated = (result._result.get("_ansible_delegated_vars") or {}).get("ansible_host") or result._task.delegate_to
        if ran and not delegated and not result._task.action.rpartition(".")[2].startswith(("include", "import", "set_fact", "debug", "fail")):
            self.modules[result._host.get_name()] += 1

    def v2_runner_on_ok(self, result):
        self._saw(result, True)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._saw(result, True)

    def v2_runner_on_skipped(self, result):
        self._saw(result, False)

    def v2_playbook_on_stats(self, stats):
        ends = [row[2] for row in self.tasks[1:]] + [time.monotonic()]
        rows = [[play, name, round(end - begun, 2), count] for (play, name, begun, count), end in zip(self.tasks, ends)]
        with open(os.environ["FABRIC_COUNT"], "w", encoding="utf-8") as target:
            json.dump({"modules": self.modules, "results": self.results, "tasks": rows}, target)
