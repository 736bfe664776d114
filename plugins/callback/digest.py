# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A screen that a person can read: a line for each step of a run, one for each error, and what changed in numbers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: digest
type: stdout
short_description: One line for each step of a run, and one for each error
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Shows each play as one line with the number of hosts on which it ran and what it changed, in numbers of objects. What is off, was skipped
    or had nothing to do is not shown.
  - Errors, refusals and warnings are always shown, each as one line, at the time when they happen. Of warnings that differ only in the name of
    their host the first is shown, of all of them 30, and the rest is counted. Tables that a run shows although
    nothing is wrong in them are left out; C(-v) shows them, and what was changed object by object, C(-vvv) also the whole results.
  - It is offered and not forced. Any playbook may use it, and any other callback shows the playbooks of this collection.
options:
  details_file:
    description: A file that gets, anew in each run, what C(-v) would show.
    type: path
    env:
      - name: MULTICLUSTER_DIGEST_DETAILS
    ini:
      - section: callback_multicluster_digest
        key: details_file
  diff_lines:
    description:
      - With C(--diff), so many lines of differences are shown in a run; V(0) shows all. What is left out is counted at the end.
        C(-v) shows all, O(details_file) gets all.
    type: int
    default: 80
    version_added: 1.0.0
    env:
      - name: MULTICLUSTER_DIGEST_DIFF_LINES
    ini:
      - section: callback_multicluster_digest
        key: diff_lines
  diff_lines_of_host:
    description: So many of them of one host; V(0) sets no bound of its own.
    type: int
    default: 20
    version_added: 1.0.0
    env:
      - name: MULTICLUSTER_DIGEST_DIFF_LINES_OF_HOST
    ini:
      - section: callback_multicluster_digest
        key: diff_lines_of_host
  progress_seconds:
    description: A step that takes longer reports how far it is after so many seconds, then after twice as many, and so on. V(0) never does.
    type: float
    default: 15
    env:
      - name: MULTICLUSTER_DIGEST_PROGRESS
    ini:
      - section: callback_multicluster_digest
        key: progress_seconds
requirements:
  - set as the callback of standard output, by C(ANSIBLE_STDOUT_CALLBACK=multicluster.network.digest) or C(stdout_callback) in ansible.cfg
"""

import collections
import contextlib
import json
import os
import sys
import time
import typing as t

from ansible import constants as C, context
from ansible.plugins.callback import CallbackBase
from ansible_collections.multicluster.network.plugins.plugin_utils import digest_diff, digest_space, digest_text

#: Warnings beyond these are counted.
WARNINGS = 30
#: The hosts of a play that another play has left nothing to do.
NO_HOSTS = ["!all"]
#: What the first character of a line of a diff means; the display leaves colours out where there are none.
#: Of lines that say what a change does to pairs of nodes, Services and addresses.
_LOSS_COLORS = {"lost": C.COLOR_ERROR, "risked": C.COLOR_CHANGED, "gained": C.COLOR_OK}
_DIFF_COLORS = {"+": C.COLOR_DIFF_ADD, "-": C.COLOR_DIFF_REMOVE, "@": C.COLOR_DIFF_LINES}


class Step:
    """What one play has done so far."""

    def __init__(self, name: str, pattern: t.Any = None) -> None:
        self.name = name
        self.pattern = pattern
        self.begun = time.monotonic()
        self.hosts: dict[str, str] = {}
        self.counts: t.Counter[tuple[str, str]] = collections.Counter()
        self.reported = ""
        self.task = ""
        self.heard = 0
        self.errors: set[tuple[str, str]] = set()
        self.worked = False
        self.wrote = False
        self.next_progress = 0.0

    def saw(self, host: str, state: str) -> None:
        """The worst that happened to a host counts."""
        order = ("ok", "changed", "failed", "unreachable")
        if order.index(state) >= order.index(self.hosts.get(host, "ok")):
            self.hosts[host] = state


class CallbackModule(CallbackBase):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "multicluster.network.digest"

    def __init__(self) -> None:
        super().__init__()
        self._step: Step | None = None
        self._begun = time.monotonic()
        self._details: t.TextIO | None = None
        self._opened = False
        self._reported: set[str] = set()
        self._said = digest_space.Said()
        self._repeats = digest_space.Repeats()
        self._refused = False
        self._limited = False
        self._next = ""  # what a report asks for comes last
        self._items: set[tuple[str, str]] = set()
        #: Who was at fault in each failure of a host, in their order; None is the host itself.
        self._at_fault: dict[str, list[list[str] | None]] = {}
        self._diffs: digest_space.Room | None = None
        self._warned = digest_space.Alike(WARNINGS)
        self._refusals = digest_space.Held(WARNINGS)
        self._planned: set[str] = set()
        self._wrote: set[str] = set()

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _say(self, text: str, color: str | None = None) -> None:
        """A line, on a terminal as many lines as its width asks for: a log is to be searched, a screen to be read."""
        columns = getattr(self._display, "columns", 0) if sys.stdout.isatty() else 0
        self._display.display(
            "\n".join(row for line in text.split("\n") for row in digest_space.fitted(line, columns)), color=color
        )

    def _detail(self, text: str) -> None:
        """What ``-v`` shows, and a file gets."""
        if self._display.verbosity > 0:
            self._say(text)
        self._keep(text)

    def _keep(self, text: str) -> None:
        if not self._opened:
            self._opened = True
            path = self.get_option("details_file")
            if path:
                try:
                    # without a wait for the reader of a pipe
                    handle = os.open(
                        os.path.expanduser(path),
                        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK,
                        0o600,
                    )
                    os.set_blocking(handle, True)
                    self._details = os.fdopen(handle, "w", encoding="utf-8", errors="replace")
                except OSError as error:
                    self._display.warning(f"no details are kept: {path}: {error.strerror}")
        if self._details is not None:
            try:
                self._details.write(text + "\n")
                self._details.flush()
            except OSError as error:
                # Ansible would give up the whole event, with what was still to be shown
                self._display.warning(
                    f"no further details are kept: {self.get_option('details_file')}: {error.strerror}"
                )
                self._close()

    def _close(self) -> None:
        details, self._details = self._details, None
        if details is not None:
            with contextlib.suppress(OSError):  # what could not be written is tried once more here
                details.close()

    def _finish(self) -> None:
        """The line of a step that is over; none where nothing happened."""
        step, self._step = self._step, None
        for text in self._repeats.lines():
            self._say(text, C.COLOR_ERROR)
        if step is None or not step.hosts:
            return
        states = collections.Counter(step.hosts.values())
        if not step.worked and set(states) == {"ok"}:
            return  # the playbook only talked to itself
        color = (
            C.COLOR_ERROR
            if states["failed"] or states["unreachable"]
            else C.COLOR_CHANGED
            if states["changed"]
            else C.COLOR_OK
        )
        line = digest_text.step_line(
            step.name, states, step.counts, step.reported, time.monotonic() - step.begun, planned=not step.wrote
        )
        self._say(line, color)
        self._keep(line)

    def _progress(self) -> None:
        step, first = self._step, float(self.get_option("progress_seconds"))
        now = time.monotonic()
        if step is None or first <= 0:
            return
        step.next_progress = step.next_progress or step.begun + first
        if now >= step.next_progress:
            step.next_progress = now + 2 * (now - step.begun)
            self._say(f"  ... {step.name}: {step.task}, {step.heard} answers after {now - step.begun:.0f} s")

    # --- what happens -------------------------------------------------------------------------------------------------

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._finish()
        self._step = Step(play.get_name().strip() or "unnamed play", getattr(play, "hosts", None))

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        if self._step is not None:
            self._step.task, self._step.heard = task.name or task.action, 0
        self._keep(f"task {task.get_name()}")

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_ok(self, result: t.Any) -> None:
        host, task, data = _parts(result)
        self._warn(host, data)
        self._hear(host, "changed" if data.get("changed") else "ok")
        self._count(host, task, data)
        if self._step is not None and not digest_text.is_housekeeping(task.action):
            self._step.worked = True
            self._step.reported = digest_text.topology(data) or self._step.reported
        if task.action in C._ACTION_DEBUG or (task.action in _SHOWS and "msg" in data):
            self._debug(data)
        for line in digest_text.detail_lines(host, data):
            self._detail("  " + line)
        if self._display.verbosity > 2:
            self._say(self._dump_results(data, indent=2))

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        host, task, data = _parts(result)
        self._warn(host, data)
        who, at_fault = _at_fault(host, task, data)
        if not ignore_errors:
            self._hear(host, "failed")
            self._at_fault.setdefault(host, []).append(at_fault)
        reported = (host, str(getattr(task, "_uuid", ""))) in self._items
        lines = digest_text.error_lines(data)
        if not reported or not digest_text.is_of_items(data):
            for line in lines:
                if ignore_errors and line in self._reported:
                    continue  # a report has just shown it
                if not ignore_errors and self._step is not None:
                    if (who, line) in self._step.errors:
                        continue  # reported by the task that failed, and again by the one that ends the host
                    self._step.errors.add((who, line))
                self._keep(f"FAILED {who}: {task.get_name()}: {line}")
                how = "failed, goes on:" if ignore_errors else "FAILED"
                if not self._repeats.is_news(how, who, _name(task), line):
                    continue
                shown = self._said.shortened(line[len(who) + 2 :] if line.startswith(who + ": ") else line)
                self._said.add([line])
                self._say(f"{how} {who}: {_name(task)}: {shown}", C.COLOR_ERROR)
        self._count(host, task, data)  # what fails for one cluster is done for the others
        if getattr(task, "diff", False):
            self.v2_on_file_diff(result)
        if data.get("exception") and self._display.verbosity > 1:
            self._say(str(data["exception"]), C.COLOR_ERROR)
        if self._display.verbosity > 2:
            self._say(self._dump_results(data, indent=2))

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        host, task, data = _parts(result)
        self._warn(host, data)
        self._hear(host, "unreachable")
        for line in digest_text.error_lines(data):
            self._keep(f"UNREACHABLE {host}: {line}")
            if self._repeats.is_news("UNREACHABLE", host, _name(task), line):
                self._said.add([line])
                self._say(f"UNREACHABLE {host}: {_name(task)}: {line}", C.COLOR_UNREACHABLE)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        host, dummy, data = _parts(result)
        self._warn(host, data)

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        self._warn(_parts(result)[0], _parts(result)[2])

    def v2_runner_item_on_skipped(self, result: t.Any) -> None:
        self._warn(_parts(result)[0], _parts(result)[2])

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        host, task, data = _parts(result)
        self._warn(host, data)
        self._items.add((host, str(getattr(task, "_uuid", ""))))
        who, unused = _at_fault(host, task, data)
        for line in digest_text.error_lines(data):
            text = f"FAILED {who}: {_name(task)}: item {digest_text.one_line(self._get_item_label(data))}: {line}"
            self._say(text, C.COLOR_ERROR)
            self._keep(text)

    def v2_runner_retry(self, result: t.Any) -> None:
        host, task, data = _parts(result)
        self._detail(
            f"  {host}: {task.get_name()}: again, {data.get('retries', 0) - data.get('attempts', 0)} tries left"
        )

    def v2_on_file_diff(self, result: t.Any) -> None:
        host, task, data = _parts(result)
        found = (
            [row.get("diff") for row in data["results"] if isinstance(row, dict)]
            if isinstance(data.get("results"), list)
            else [data.get("diff")]
        )
        for diff in found:
            text = digest_diff.uncoloured(self._get_diff(diff)) if diff else ""
            if text.strip():
                who = task.get_name() if getattr(task, "run_once", False) else host  # one host represents all of them
                sides = (diff.get("before"), diff.get("after")) if isinstance(diff, dict) else ()
                for line in self._room().take(who, digest_diff.short_diff(text, self._display.verbosity > 0, *sides)):
                    self._say(line, _DIFF_COLORS.get(line.strip()[:1]))
                self._keep(f"{who}:\n{text}")

    def v2_playbook_on_no_hosts_matched(self) -> None:
        if self._step is not None and self._step.pattern != NO_HOSTS:
            self._say(f"{self._step.name}: the run has no host for it", C.COLOR_SKIP)

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._say("no host is left: the run ends here", C.COLOR_ERROR)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._finish()
        for text in self._refusals.rest():
            self._say("[WARNING]: " + text, C.COLOR_WARN)
        rows = {host: stats.summarize(host) for host in sorted(stats.processed)}
        for line in [*self._room().left_out(self.get_option("details_file")), *self._warned.left_out()]:
            self._say(line, C.COLOR_VERBOSE)
        planned = self._planned - self._wrote
        open_ends = [
            part
            for part, there in (("warnings", len(self._warned) or len(self._refusals)), ("refusals", self._refused))
            if there
        ]
        color = C.COLOR_ERROR if any(row["failures"] or row["unreachable"] for row in rows.values()) else C.COLOR_OK
        for line in (
            digest_text.end_line(rows, time.monotonic() - self._begun, planned, self._at_fault),
            self._next
            or digest_text.next_line(rows, planned, bool(context.CLIARGS.get("check")), open_ends, self._limited),
        ):
            self._say(line, color)
            self._keep(line)
        if stats.custom and C.SHOW_CUSTOM_STATS:
            self._say("custom stats: " + json.dumps(stats.custom, sort_keys=True, default=str))
        self._close()

    def _room(self) -> digest_space.Room:
        """What the screen has left for diffs; -v has no end."""
        if self._diffs is None:
            bounds = (
                [0, 0]
                if self._display.verbosity > 0
                else [int(self.get_option(name) or 0) for name in ("diff_lines_of_host", "diff_lines")]
            )
            self._diffs = digest_space.Room(*bounds)
        return self._diffs

    def _warn(self, host: str, data: dict[str, t.Any]) -> None:
        """Show what a result warns of; hundreds of hosts say the same."""
        given = data.get("warnings")
        if isinstance(given, list) and self._display.verbosity == 0:
            for text in given:
                self._keep(f"warning of {host}: {text}")
            rest = [text for text in given if not self._refusals.take(host, str(text))]
            data["warnings"] = [text for text in rest if self._warned.is_news(host, str(text))]
        self._handle_warnings(data)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _hear(self, host: str, state: str) -> None:
        if self._step is not None:
            self._step.saw(host, state)
            self._step.heard += 1
        self._progress()

    def _count(self, host: str, task: t.Any, data: t.Mapping[str, t.Any]) -> None:
        """What a task wrote, or in check mode would write."""
        planned = getattr(task, "check_mode", False) is True
        if data.get("changed"):
            (self._planned if planned else self._wrote).add(host)
        if self._step is None:
            return
        self._step.wrote = self._step.wrote or bool(data.get("changed")) and not planned
        if not digest_text.is_housekeeping(task.action):
            counts = digest_text.counts(data)
            self._step.counts.update(counts)
            self._refused = self._refused or ("refused", "") in counts

    def _debug(self, data: t.Mapping[str, t.Any]) -> None:
        lines = digest_text.debug_lines(data)
        self._refusals.shown(digest_text.one_line(line) for line in lines)
        for line in lines:
            self._keep("  " + line)
        self._next = next((line for line in reversed(lines) if line.startswith(digest_text.NEXT)), self._next)
        lines = [line for line in lines if not line.startswith(digest_text.NEXT)]
        lines = lines if self._display.verbosity > 0 else self._said.news(lines)
        shown, left_out = (lines, 0) if self._display.verbosity > 0 else digest_text.without_tables(lines)
        for line in shown:
            self._say("  " + line, _LOSS_COLORS.get(digest_text.loss(line)))
        self._reported.update(digest_text.one_line(line) for line in shown)
        self._limited = self._limited or any(digest_text.LIMITED in line for line in lines)
        if left_out:
            self._say(f"  ({left_out} lines of tables in which nothing is wrong: -v shows them)", C.COLOR_VERBOSE)


#: Print what the run keeps, as a debug task would.
_SHOWS = ("multicluster.network.run_show", "multicluster.network.mesh_changes")


def _name(task: t.Any) -> str:
    """A task's own name, without that of its role."""
    return str(task.get_name()).rsplit(" : ", maxsplit=1)[-1]


def _at_fault(host: str, task: t.Any, data: t.Mapping[str, t.Any]) -> tuple[str, list[str] | None]:
    """(who is shown, the clusters at fault): a task that one host does for all is no result of this host."""
    if not getattr(task, "run_once", False):
        return host, None
    clusters = digest_text.clusters_at_fault(data)
    return digest_space.some(clusters) or "run", clusters


def _parts(result: t.Any) -> tuple[str, t.Any, dict[str, t.Any]]:
    """(host, task, result), by the names that ansible-core 2.17 and 2.21 both have."""
    return result._host.get_name(), result._task, result._result  # pylint: disable=protected-access
