# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node without a play: the boot unit, which applies the confirmed state, the watcher and the dead-man.

dataplane.pyz STATE                           apply the confirmed state of the fabric that the file's folder names
dataplane.pyz watch FABRIC                    the watcher of a KubeSpan node
dataplane.pyz rollback FABRIC ID [--after S]  put back what the transaction ID changed, unless it was confirmed
"""

from __future__ import annotations

import json
import sys
import time
import typing as t

from . import dataplane as node_dataplane, persistence, transaction

#: At boot a device may need the driver of its uplink first; three tries, then the unit fails and says why.
TRIES, PAUSE_SECONDS = 3, 2


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
    if len(words) != 1:
        sys.stderr.write("usage: dataplane.pyz STATE | watch FABRIC | rollback FABRIC ID [--after SECONDS]\n")
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
        except Exception as err:  # pylint: disable=broad-except  # a unit's last word must be a line, not a traceback
            sys.stderr.write(f"try {attempt}: {err}\n")
            time.sleep(PAUSE_SECONDS)
            continue
        sys.stdout.write(json.dumps({"plan": result["plan"], "refused": result["refused"]}, sort_keys=True) + "\n")
        return 0 if not result["refused"] else 1
    return 1
