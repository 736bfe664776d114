# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Routes of one table: the flow behind ip_routes compared with `ip -batch`, in two tables of one kernel.

Run by `tests/run bench routes`. Every round makes the same change in both tables, the collection's first in one round and theirs
first in the next; both must show the same routes before a round counts. `ip -batch` gets the difference, which
somebody has to know; our whole reconcile reads the table and finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TABLES = {"owned": 1001, "theirs": 1002}
FLOW = "ansible_collections.multicluster.network.plugins.module_utils._flows.node.ip_routes"
DRIVER = f"""
import importlib, json, sys, time
ask = json.load(sys.stdin)
flow = importlib.import_module({FLOW!r})
clock = time.perf_counter
started = clock()
ask = flow.parse_routes(ask)
actual = flow.gather(ask)
read = clock()
todo = flow.plan_routes(ask, actual, need_devices=True)
planned = clock()
stats = flow.apply(ask, todo)
written = clock()
print(json.dumps({{"read": read - started, "plan": planned - read, "write": written - planned, "whole": written - started, "stats": stats}}))
"""


def command(*words, stdin=None):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def prefixes(count, moved=0):
    """The first ``moved`` are others than before."""
    return [f"10.{(120 if number < moved else 0) + number // 256}.{number % 256}.0/24" for number in range(count)]


def owned(desired):
    ask = {
        "table": TABLES["owned"],
        "devices": ["bench0"],
        "routes": [{"dst": dst, "dev": "bench0"} for dst in desired],
    }
    started = time.perf_counter()
    answer = json.loads(command(sys.executable, "-B", "-c", DRIVER, stdin=json.dumps(ask)))
    answer["process"] = time.perf_counter() - started
    return answer


def theirs(folder, before, desired):
    lines = [
        f"route replace {dst} dev bench0 proto 109 table {TABLES['theirs']}"
        for dst in desired
        if dst not in set(before)
    ]
    gone = set(before) - set(desired)
    lines += [f"route del {dst} dev bench0 table {TABLES['theirs']}" for dst in before if dst in gone]
    path = pathlib.Path(folder) / "batch"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    started = time.perf_counter()
    command("ip", "-batch", str(path))
    return {"whole": time.perf_counter() - started}


def state(side):
    return sorted(command("ip", "-N", "route", "show", "table", str(TABLES[side])).splitlines())


def flush():
    for table in TABLES.values():
        subprocess.run(["ip", "route", "flush", "table", str(table)], capture_output=True, check=False)


def rounds_of(asked, folder, count, churn):
    """``churn`` 0: cold, from an empty table; else that many routes go and as many come."""
    before = []
    for number in range(asked.rounds):
        if churn:
            if not before:
                flush()
                before = prefixes(count)
                owned(before)
                theirs(folder, [], before)
            desired = prefixes(count, (number + 1) * churn)
        else:
            flush()
            before, desired = [], prefixes(count)
        sides = {"owned": lambda: owned(desired), "theirs": lambda: theirs(folder, before, desired)}  # noqa: B023
        times = {side: sides[side]() for side in (("owned", "theirs") if number % 2 else ("theirs", "owned"))}
        shown = state("owned")
        if shown != state("theirs") or len(shown) != count:
            raise SystemExit(f"the two tables do not show the same {count} routes: no time counts")
        before = desired if churn else []
        yield times


def median(rounds, side, key):
    return statistics.median(times[side][key] for times in rounds) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--routes", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    command("ip", "link", "add", "bench0", "type", "veth", "peer", "name", "bench1")
    command("ip", "link", "set", "bench0", "up")
    command("ip", "link", "set", "bench1", "up")
    print(f"Routes of a table, Linux {os.uname().release}; medians of {asked.rounds} interleaved runs, ms")
    print(
        "collection: read, plan and write of the flow behind ip_routes; theirs: `ip -batch FILE`, the file holding the difference\n"
    )
    print("| routes | change | collection | read + plan + write | theirs | ratio to theirs |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in asked.routes:
            for name, churn in (("cold", 0), ("1 % of them change", count // 100)):
                rounds = list(rounds_of(asked, folder, count, churn))
                other = median(rounds, "theirs", "whole")
                for what, key in (("apply of a known delta", "write"), ("whole reconcile", "whole")):
                    mine = median(rounds, "owned", key)
                    parts = " + ".join(f"{median(rounds, 'owned', part):.1f}" for part in ("read", "plan", "write"))
                    row = "| {0} | {1}, {2} | {3:.1f} | {4} | {5:.1f} | {6:.2f} |"
                    print(
                        row.format(count, name, what, mine, parts if key == "whole" else "-", other, mine / other),
                        flush=True,
                    )
            extra = median(rounds, "owned", "process") - median(rounds, "owned", "whole")
            print(f"| {count} | for comparison | start of Python and imports {extra:.1f} | | | |", flush=True)
    command("ip", "link", "del", "bench0")


if __name__ == "__main__":
    main()
