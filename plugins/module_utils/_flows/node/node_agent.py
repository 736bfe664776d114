# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node without a play: the boot unit, which applies the confirmed state, the watcher and the dead-man.

dataplane.pyz STATE                           apply the confirmed state of the fabric that the file's folder names
dataplane.pyz watch FABRIC                    the watcher of a KubeSpan node
dataplane.pyz pod FABRIC [boot]               in a node pod: apply the confirmed state when the container begins, then what else runs on a node
dataplane.pyz rollback FABRIC ID [--after S]  put back what the transaction ID changed, unless it was confirmed
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t

from ..._linux import files, programs
from . import dataplane as node_dataplane, persistence, transaction

#: At boot a device may need the driver of its uplink first; three tries, then the unit fails with the reason.
TRIES, PAUSE_SECONDS = 3, 2
#: In a node pod: how often the agent looks for another program, and when a watcher that ended is started again (5 s, as its unit has it).
LOOK_SECONDS, AGAIN_SECONDS = 1.0, 5.0


def main(arguments: t.Sequence[str]) -> int:
    """Returns the exit status."""
    words = list(arguments)
    if words[:1] == ["rollback"] and len(words) in (3, 5):
        fabric = words[1]
        try:
            record = transaction.dead_man(fabric, words[2], float(words[4]) if len(words) == 5 else 0.0)
        except transaction.JournalInvalid as error:
            record = node_dataplane.recover(fabric, error)
        sys.stdout.write(json.dumps(record, sort_keys=True) + "\n")
        return 0
    if words[:1] == ["watch"] and len(words) == 2:
        from .kubespan import (
            watch as kubespan_watch,  # the module brings this file along, and most runs of it need no watcher
        )

        kubespan_watch.watch(words[1])
    if words[:1] == ["pod"] and len(words) in (2, 3) and words[2:] in ([], ["boot"]):
        if words[2:]:
            _boot(persistence.state_path(words[1]))
        return stay(words[1])
    if len(words) != 1:
        sys.stderr.write(
            "usage: dataplane.pyz STATE | watch FABRIC | pod FABRIC [boot] | rollback FABRIC ID [--after SECONDS]\n"
        )
        return 2
    return _boot(words[0])


def _boot(path: str) -> int:
    fabric = path.rstrip("/").split("/")[-2]
    try:
        # A reboot while a change waited for its confirmation: nobody will confirm it any more.
        node_dataplane.settle(fabric, "the host was restarted before the change was confirmed")
    except node_dataplane.FAILURES as err:
        sys.stderr.write(f"an interrupted change could not be taken back: {err}\n")
    state = persistence.load_state(fabric)
    if state is None:
        sys.stdout.write(f"there is no confirmed state of {fabric}\n")
        return 0
    for attempt in range(1, TRIES + 1):
        try:
            result = node_dataplane.restore(state)
        except Exception as err:  # pylint: disable=broad-except  # a unit must end with a line, not a traceback
            sys.stderr.write(f"try {attempt}: {err}\n")
            time.sleep(PAUSE_SECONDS)
            continue
        sys.stdout.write(json.dumps({"plan": result["plan"], "refused": result["refused"]}, sort_keys=True) + "\n")
        return 0 if not result["refused"] else 1
    return 1


def stay(fabric: str) -> int:
    """In a node pod, where systemd would keep the watcher of a KubeSpan mesh: keep it until the link ``agent`` leads to another program.

    That of a new release, or none. The container's command then starts what the link leads to. Returns the exit status.
    """
    from .kubespan import watch as kubespan_watch

    link = persistence.agent_link(fabric)
    begun = _leads_to(link)
    watcher: t.Any = None
    started: float | None = None
    stamp: t.Any = ()
    desired = False
    try:
        while begun is not None and _leads_to(link) == begun:
            found = files.stamp(persistence.state_path(fabric))
            if found != stamp:
                stamp, desired = found, bool((kubespan_watch.desired_state(fabric) or {}).get("watcher"))
            if watcher is not None and (watcher.poll() is not None or not desired):
                programs.stop(watcher)
                watcher = None
            now = time.monotonic()
            if desired and watcher is None and (started is None or now - started > AGAIN_SECONDS):
                started = now
                # the program that runs now, and not whatever the link leads to by then
                watcher = programs.start([sys.executable, begun, "watch", fabric])
            time.sleep(LOOK_SECONDS)
    finally:
        if watcher is not None:
            programs.stop(watcher)
    return 0


def _leads_to(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None
