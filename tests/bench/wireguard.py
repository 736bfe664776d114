# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers of one WireGuard device: the device flow compared with wireguard-tools, on two devices of the same kind.

Run by `tests/run bench`. Every round does the same change on both devices, the collection's first in one round and theirs first in
the next; both devices must show the same peers before a round counts. The collection is timed in a fresh interpreter as the
module runs in one, from its first read to its last write (the start of Python and the imports are shown by
themselves: Ansible pays them whatever a module does); theirs is the whole command.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OWN, THEIRS = "wgours", "wgtheirs"
PORTS = {OWN: 51821, THEIRS: 51822}
FLOW = "ansible_collections.multicluster.network.plugins.module_utils._flows.node.wireguard_device"

DRIVER = f"""
import importlib, json, sys, time
ask = json.load(sys.stdin)
flow = importlib.import_module({FLOW!r})
clock = time.perf_counter
started = clock()
ask = flow.parse_device(ask)
actual = flow.gather(ask)
read = clock()
todo = flow.plan(ask, actual)
planned = clock()
stats = flow.apply(ask, actual, todo) if todo.changed else {{}}
written = clock()
print(json.dumps({{"read": read - started, "plan": planned - read, "write": written - planned, "whole": written - started, "stats": stats}}))
"""


def command(*words, stdin=None):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def peers_of(count, changed=0):
    """The desired peers; those before ``changed`` have another range."""
    return [
        {
            "public_key": base64.b64encode(b"bench" * 6 + number.to_bytes(2, "little")).decode(),
            "endpoint": f"198.51.{100 + number // 250}.{number % 250 + 1}:51820",
            "allowed_ips": [
                ("172.16.{1}.0/24" if number < changed else "10.{0}.{1}.0/24").format(number // 256, number % 256)
            ],
            "persistent_keepalive": 25,
        }
        for number in range(count)
    ]


class Bench:
    def __init__(self, folder, implementation):
        self.folder, self.implementation = folder, implementation
        self.keys = {}

    def desired(self, name, peers, **change):
        path = f"{self.folder}/{name}.key"
        return dict(
            {
                "name": name,
                "private_key_file": path,
                "generate_key": True,
                "listen_port": PORTS[name],
                "peers": peers,
                "implementation": self.implementation,
            },
            **change,
        )

    def flow(self, desired):
        """(times of one run in seconds, the wall clock of its whole process)"""
        started = time.perf_counter()
        answer = json.loads(command(sys.executable, "-B", "-c", DRIVER, stdin=json.dumps(desired)))
        answer["process"] = time.perf_counter() - started
        return answer

    def configuration(self, peers):
        """The same for wireguard-tools, as a file."""
        key = pathlib.Path(self.folder, f"{THEIRS}.key").read_text(encoding="ascii").strip()
        lines = ["[Interface]", f"PrivateKey = {key}", f"ListenPort = {PORTS[THEIRS]}"]
        for peer in peers:
            lines += ["[Peer]", "PublicKey = " + peer["public_key"], "Endpoint = " + peer["endpoint"]]
            lines += ["AllowedIPs = " + ", ".join(peer["allowed_ips"]), "PersistentKeepalive = 25"]
        path = pathlib.Path(self.folder) / "peers.conf"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return str(path)

    def tool(self, verb, peers):
        path = self.configuration(peers)
        started = time.perf_counter()
        command("wg", verb, THEIRS, path)
        return {"whole": time.perf_counter() - started}

    def state(self, name):
        rows = [line.split("\t") for line in command("wg", "show", name, "dump").splitlines()[1:]]
        return sorted((row[0], row[1], row[2], row[3], row[7]) for row in rows)

    def round(self, number, verb, peers):
        """One change on both devices; their times, once both show the same."""
        sides = {OWN: lambda: self.flow(self.desired(OWN, peers)), THEIRS: lambda: self.tool(verb, peers)}
        order = (OWN, THEIRS) if number % 2 else (THEIRS, OWN)
        times = {name: sides[name]() for name in order}
        owned = self.state(OWN)
        if owned != self.state(THEIRS) or len(owned) != len(peers):
            raise SystemExit(f"the two devices do not show the same {len(peers)} peers: no time counts")
        return times

    def fresh(self):
        for name in (OWN, THEIRS):
            self.flow(self.desired(name, [], state="absent"))
            self.flow(self.desired(name, []))

    def rows(self, count, rounds):
        cold, one, none, floor = [], [], [], []
        for number in range(rounds):
            self.fresh()
            cold.append(self.round(number, "setconf", peers_of(count)))
        for number in range(rounds):
            one.append(self.round(number, "syncconf", peers_of(count, number + 1)))
            assert one[-1][OWN]["stats"]["wireguard_writes"] == 1
        for number in range(rounds):
            none.append(self.round(number, "syncconf", peers_of(count, rounds)))
            assert not one[-1][OWN]["stats"].get("netlink_writes") and not none[-1][OWN]["stats"]
            started = time.perf_counter()
            command("wg", "show", OWN, "dump")
            floor.append(time.perf_counter() - started)
        yield "cold, apply of a known delta", "setconf", cold, "write"
        yield "cold, whole reconcile", "setconf", cold, "whole"
        yield "one changed, apply of a known delta", "syncconf", one, "write"
        yield "one changed, whole reconcile", "syncconf", one, "whole"
        yield "none changed, whole reconcile", "syncconf", none, "whole"
        self.floor = statistics.median(floor)


def median(rounds, side, key):
    return statistics.median(times[side][key] for times in rounds) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--implementation", default="auto")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, asked.implementation)
        bench.fresh()
        kind = json.loads(command("ip", "-j", "-d", "link", "show", "dev", OWN))[0]["linkinfo"]["info_kind"]
        words = {"wireguard": "the kernel's WireGuard", "tun": "wireguard-go"}
        print(
            f"WireGuard peers on {words[kind]}, Linux {os.uname().release}; medians of {asked.rounds} interleaved runs, ms"
        )
        print(
            "collection: read, plan and write of the flow behind wireguard_device; theirs: `wg setconf|syncconf DEVICE FILE`\n"
        )
        print("| peers | change | theirs | collection | read + plan + write | theirs | ratio to theirs |")
        print("|---|---|---|---|---|---|---|")
        for count in asked.peers:
            for what, verb, rounds, key in bench.rows(count, asked.rounds):
                owned, theirs = median(rounds, OWN, key), median(rounds, THEIRS, "whole")
                parts = " + ".join(f"{median(rounds, OWN, part):.1f}" for part in ("read", "plan", "write"))
                shown = parts if key == "whole" else "-"
                row = "| {0} | {1} | `wg {2}` | {3:.1f} | {4} | {5:.1f} | {6:.2f} |"
                print(row.format(count, what, verb, owned, shown, theirs, owned / theirs), flush=True)
                last = rounds
            extra = median(last, OWN, "process") - median(last, OWN, "whole")
            row = "| {0} | for comparison | `wg show dump` alone {1:.1f} | start of Python and imports {2:.1f} | | | |"
            print(row.format(count, bench.floor * 1000, extra), flush=True)
        for name in (OWN, THEIRS):
            bench.flow(bench.desired(name, [], state="absent"))


if __name__ == "__main__":
    main()
