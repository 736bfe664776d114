# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elements of one interval set: the table flow compared with `nft -f`, on two tables of the same form.

Run by `tests/run bench`. Every round does the same change to both tables, the collection's first in one round and theirs first in the
next; `nft list set` must show the same elements of both before a round counts. The collection is timed in a fresh interpreter as a
module runs in one, from its first read to its last write (the start of Python and the imports are shown by themselves:
Ansible pays them whatever a module does); theirs is the whole command, which reads the set itself before it changes it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OWN, THEIRS = "bench_owned", "bench_theirs"
SET = "targets"
CHANGES = 10
PACKAGE = "ansible_collections.multicluster.network.plugins.module_utils."


def elements(count, changed, changes=CHANGES):
    """Pairs of (first, last) as numbers; ``changed`` of them, spread over the set, are one address shorter."""
    step = max(count // changes, 1)
    shorter = {(number % changes) * step + number // changes for number in range(changed)}
    return [(0x0A000000 + index * 4, 0x0A000000 + index * 4 + (0 if index in shorter else 1)) for index in range(count)]


DRIVER = (
    inspect.getsource(elements).replace("=CHANGES", "")
    + f"""
import importlib, json, sys, time
ask = json.load(sys.stdin)
flow = importlib.import_module({PACKAGE!r} + "_flows.node.nft_table")
spans = elements(ask["count"], ask["changed"], {CHANGES})
chain = {{"name": "out", "type": "filter", "hook": "output", "priority": 0, "policy": "accept", "rules": [
    [{{"match": "daddr", "family": 4, "set": {SET!r}}}, {{"verdict": "accept"}}]]}}
members = {{"name": {SET!r}, "type": "ipv4_addr", "flags": ["interval"], "elements": spans}}
desired = {{"owner": "multicluster.network", "state": ask["state"], "table": {{
    "family": "inet", "name": ask["table"], "sets": [members], "chains": [chain]}}}}
clock = time.perf_counter
started = clock()
actual = flow.gather(desired)
read = clock()
todo = flow.plan(desired, actual)
planned = clock()
stats = flow.apply(desired, actual, todo) if todo.changed else {{}}
written = clock()
print(json.dumps({{"read": read - started, "plan": planned - read, "write": written - planned, "whole": written - started,
    "messages": stats.get("netlink_writes", 0)}}))
"""
)


def command(*words, stdin=None):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def owned(count, changed, state="present"):
    """Times of one run in seconds; ``process`` is the wall clock of its whole interpreter."""
    ask = json.dumps({"table": OWN, "count": count, "changed": changed, "state": state})
    started = time.perf_counter()
    answer = json.loads(command(sys.executable, "-B", "-c", DRIVER, stdin=ask))
    answer["process"] = time.perf_counter() - started
    return answer


def text(span):
    first, last = (".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)) for value in span)
    return first if first == last else first + "/31"


def listed(spans):
    return "{ " + ", ".join(text(span) for span in spans) + " }"


class Theirs:
    """What somebody writes into files for nft."""

    def __init__(self, folder):
        self.folder = folder

    def _apply(self, lines):
        path = pathlib.Path(self.folder) / "change.nft"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        started = time.perf_counter()
        command("nft", "-f", str(path))
        return {"whole": time.perf_counter() - started}

    def load(self, spans, flush=False):
        """The whole table; flush: onto one that is there."""
        head = [f"flush set inet {THEIRS} {SET}", f"flush chain inet {THEIRS} out"] if flush else []
        return self._apply(
            head
            + [
                f"table inet {THEIRS} {{",
                f"set {SET} {{ type ipv4_addr; flags interval; elements = {listed(spans)} }}",
                f"chain out {{ type filter hook output priority filter; policy accept; ip daddr @{SET} accept; }}",
                "}",
            ]
        )

    def change(self, before, after):
        """What differs, in one transaction."""
        where = f"element inet {THEIRS} {SET} "
        gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
        return self._apply(["delete " + where + listed(gone), "add " + where + listed(new)])

    def remove(self):
        command("nft", f"add table inet {THEIRS}; delete table inet {THEIRS}")


def check(count):
    shown = [
        command("nft", "list", "set", "inet", table, SET).split("elements", maxsplit=1)[1] for table in (OWN, THEIRS)
    ]
    if shown[0] != shown[1] or shown[0].count(",") != count - 1:
        raise SystemExit(f"the two sets do not show the same {count} elements: no time counts")


def both(number, mine, other, count):
    """One change on both tables; their times, once both show the same."""
    sides = {OWN: mine, THEIRS: other}
    order = (OWN, THEIRS) if number % 2 else (THEIRS, OWN)
    times = {name: sides[name]() for name in order}
    check(count)
    return times


def rows(count, rounds, theirs):
    cold, ten, none = [], [], []
    plain = elements(count, 0)
    for number in range(rounds):
        owned(count, 0, "absent")
        theirs.remove()
        cold.append(both(number, lambda: owned(count, 0), lambda: theirs.load(plain), count))
    before = plain
    for number in range(rounds):
        changed = (number + 1) * CHANGES
        after = elements(count, changed)
        ten.append(
            both(
                number,
                lambda skip=changed: owned(count, skip),
                lambda old=before, new=after: theirs.change(old, new),
                count,
            )
        )
        before = after
    for number in range(rounds):
        none.append(
            both(number, lambda: owned(count, rounds * CHANGES), lambda: theirs.load(before, flush=True), count)
        )
        if none[-1][OWN]["messages"]:
            raise SystemExit("nothing differed, and yet something was written")
    yield "cold, apply of a known delta", "the whole table", cold, "write"
    yield "cold, whole reconcile", "the whole table", cold, "whole"
    yield f"{CHANGES} changed, apply of a known delta", f"the {CHANGES} elements", ten, "write"
    yield f"{CHANGES} changed, whole reconcile", f"the {CHANGES} elements", ten, "whole"
    yield "none changed, whole reconcile", "flush and add", none, "whole"


def median(rounds, side, key):
    return statistics.median(times[side][key] for times in rounds) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(
        "elements of an interval set, Linux {0}, {1}; medians of {2} interleaved runs, ms".format(
            os.uname().release, command("nft", "--version").split(" (")[0], asked.rounds
        )
    )
    print("collection: read, plan and write of the flow behind nft_table; theirs: `nft -f FILE`\n")
    print("| elements | change | theirs: nft -f of | collection | read + plan + write | theirs | ratio to theirs |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(folder)
        for count in asked.elements:
            for what, file, rounds, key in rows(count, asked.rounds, theirs):
                mine, other = median(rounds, OWN, key), median(rounds, THEIRS, "whole")
                parts = " + ".join(f"{median(rounds, OWN, part):.1f}" for part in ("read", "plan", "write"))
                shown = parts if key == "whole" else "-"
                row = "| {0} | {1} | {2} | {3:.1f} | {4} | {5:.1f} | {6:.3f} |"
                print(row.format(count, what, file, mine, shown, other, mine / other), flush=True)
            started = time.perf_counter()
            command("nft", "list", "set", "inet", OWN, SET)
            floor = (time.perf_counter() - started) * 1000
            extra = median(rounds, OWN, "process") - median(rounds, OWN, "whole")
            print(
                f"| {count} | for comparison | `nft list set` alone {floor:.1f} | start of Python and imports {extra:.1f} | | | |",
                flush=True,
            )
            owned(count, 0, "absent")
            theirs.remove()


if __name__ == "__main__":
    main()
