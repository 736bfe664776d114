# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs flows in forked processes of one warm interpreter: where a fresh one takes ten seconds (an emulated machine).

Reads one question a line from standard input, answers with one line. What a flow imports is loaded beforehand.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pathlib
import sys
import time
import traceback

FLOWS = (
    "wireguard_device",
    "wireguard_key",
    "ip_routes",
    "ip_rules",
    "nft_table",
    "status",
    "kubespan.watch",
    "dataplane",
    "peer_ranges",
)


def enter(pid):
    """Join the network and mount namespaces of a process (os.setns came with Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt")]
    for file in opened:
        if libc.setns(file, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(file)
    os.chdir("/")


def run(flow, *arguments):
    """What a module calls; of the watcher, which runs for ever, one pass from what it remembers, and what it shows then."""
    if hasattr(flow, "run"):
        return flow.run(*arguments)
    fabric = arguments[0]
    flow.one_pass(fabric, flow.load_memory(fabric), *arguments[1:])
    with pathlib.Path(flow.status_path(fabric)).open(encoding="utf-8") as stream:
        return json.load(stream)


def answer(ask):
    """What the fresh interpreter of conftest answers, too."""
    started = time.monotonic()
    try:
        found = {"result": run(importlib.import_module(ask["flow"]), *ask["arguments"])}
    except Exception as error:  # a test asks for it by class and text
        found = {"error": str(error), "kind": type(error).__name__, "package": getattr(error, "package", None)}
        found["fields"] = getattr(error, "fields", dict)()
        found["traceback"] = traceback.format_exc()
    found.update(seconds=time.monotonic() - started)
    return found


def main(prefix):
    for flow in FLOWS:
        importlib.import_module(prefix + flow)
    for line in sys.stdin:
        ask = json.loads(line)
        child = os.fork()
        if not child:
            enter(ask["pid"])
            print(json.dumps(answer(ask)), flush=True)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        if status:
            print(
                json.dumps({"error": f"the process ended with status {status}", "kind": "Died", "package": None}),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
