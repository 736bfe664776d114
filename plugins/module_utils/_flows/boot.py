# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What the boot unit runs: apply the confirmed state of one fabric with the code that a play uses."""

from __future__ import annotations

import json
import sys
import time
import typing as t

from . import node_dataplane, persistence

#: At boot a device may need the driver of its uplink first; three tries, then the unit fails and says why.
TRIES, PAUSE_SECONDS = 3, 2


def main(arguments: t.Sequence[str]) -> int:
    """``arguments`` is one path of a state file; its folder names the fabric. Returns the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: dataplane.pyz STATE\n")
        return 2
    fabric = arguments[0].rstrip("/").split("/")[-2]
    state = persistence.load_state(fabric)
    if state is None:
        sys.stderr.write("{0} holds no state of {1}\n".format(arguments[0], fabric))
        return 2
    for attempt in range(1, TRIES + 1):
        try:
            result = node_dataplane.restore(state)
        except Exception as err:  # pylint: disable=broad-except  # a unit's last word must be a line, not a traceback
            sys.stderr.write("try {0}: {1}\n".format(attempt, err))
            time.sleep(PAUSE_SECONDS)
            continue
        sys.stdout.write(json.dumps({"plan": result["plan"], "refused": result["refused"]}, sort_keys=True) + "\n")
        return 0 if not result["refused"] else 1
    return 1
