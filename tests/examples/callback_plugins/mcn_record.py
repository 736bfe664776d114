# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every task of a run came to, as lines of JSON in the file MCN_RECORD. Ansible itself has no such output to read."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mcn_record
type: aggregate
short_description: Record results of tasks for a test
description: Appends a line of JSON for every result to the file that the variable MCN_RECORD of the environment names.
"""

import json
import os
import pathlib

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """Play, task and result of everything that ran."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "mcn_record"

    def __init__(self):
        super().__init__()
        self._play = ""

    def v2_playbook_on_play_start(self, play):
        self._play = play.get_name()

    def _record(self, status, result):
        row = {"play": self._play, "task": result._task.name, "status": status, "result": result._result}  # pylint: disable=protected-access
        with pathlib.Path(os.environ["MCN_RECORD"]).open("a") as stream:
            stream.write(json.dumps(row, cls=AnsibleJSONEncoder) + "\n")

    def v2_runner_on_ok(self, result):
        self._record("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._record("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._record("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._record("skipped", result)
