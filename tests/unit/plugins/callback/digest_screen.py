# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the callback digest and the screen that it writes to."""

from __future__ import annotations

import types

from ansible_collections.multicluster.network.plugins.callback.digest import CallbackModule


class Screen:
    """Replaces ansible.utils.display.Display."""

    def __init__(self, verbosity=0):
        self.verbosity, self.lines = verbosity, []

    def display(self, text, color=None, **unused):
        self.lines += str(text).splitlines() or [""]

    def warning(self, text, **unused):
        self.lines.append("[WARNING]: " + str(text))

    _warning = warning
    deprecated = _deprecated = warning


class Run:
    """Feeds a callback as Ansible would."""

    def __init__(self, verbosity=0, **options):
        self.callback = CallbackModule()
        self.screen = self.callback._display = Screen(verbosity)
        options = dict(
            {"details_file": None, "progress_seconds": 15.0, "diff_lines": 80, "diff_lines_of_host": 20}, **options
        )
        self.callback.get_option = options.get
        self.callback._handle_warnings = lambda data: [self.screen.warning(text) for text in data.pop("warnings", ())]
        self.stats = {}

    def play(self, name):
        self.callback.v2_playbook_on_play_start(types.SimpleNamespace(get_name=lambda: name))
        return self

    def task(self, name, action="multicluster.network.node_dataplane", check_mode=False, run_once=False):
        self.now = types.SimpleNamespace(
            name=name,
            action=action,
            get_name=lambda: name,
            _uuid=name,
            loop=None,
            check_mode=check_mode,
            run_once=run_once,
        )
        self.callback.v2_playbook_on_task_start(self.now, False)
        return self

    def result(self, host, how="ok", ignored=None, **data):
        row = self.stats.setdefault(host, {"ok": 0, "changed": 0, "failures": 0, "unreachable": 0})
        row["changed"] += bool(data.get("changed"))
        if how in ("failed", "unreachable") and not ignored:
            row["failures" if how == "failed" else how] += 1
        given = types.SimpleNamespace(_host=types.SimpleNamespace(get_name=lambda: host), _task=self.now, _result=data)
        more = {} if ignored is None else {"ignore_errors": ignored}
        getattr(
            self.callback, "v2_runner_" + ("item_" if how.startswith("item") else "") + "on_" + how.replace("item_", "")
        )(given, **more)
        return self

    def end(self):
        """The screen without its last line, which always shows what to do: ``next``."""
        stats = types.SimpleNamespace(processed=self.stats, summarize=self.stats.get, custom={})
        self.callback.v2_playbook_on_stats(stats)
        self.next = self.screen.lines[-1]
        assert self.next.startswith("next: "), self.next
        return self.screen.lines[:-1]
