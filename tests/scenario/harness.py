# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios are made of: a lab, playbooks over it, and witnesses that see writes from outside."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
LAB = REPO / "tests" / "lab" / "lab.py"
STATE = pathlib.Path(os.environ.get("MCN_LAB_STATE", "/var/lib/multicluster-network-lab"))
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


class Run:
    """One finished ansible-playbook."""

    def __init__(self, done):
        self.rc, self.out = done.returncode, done.stdout
        self.recap = {
            row[0]: dict(zip(("ok", "changed", "unreachable", "failed"), map(int, row[1:])))
            for row in _RECAP.findall(done.stdout)
        }

    @property
    def changed(self):
        return {host: row["changed"] for host, row in self.recap.items() if row["changed"]}

    def ok(self):
        failures = "\n".join(line for line in self.out.splitlines() if line.startswith(("fatal:", "failed:")))
        assert self.rc == 0, f"{failures[:6000]}\n{self.out[-6000:]}"
        assert self.recap, "the playbook matched no host:\n" + self.out[-3000:]
        return self


class Echoes:
    """What came of echoes that were sent for a while."""

    sent = lost = None
    text = ""

    def count(self, output):
        """Take what ping wrote. Each number without an answer is lost; after the last answer one echo may still be under way."""
        self.text = output[-2000:]
        found = re.search(r"(\d+) packets transmitted", self.text)
        assert found, self.text
        self.sent = int(found[1])
        answered = {int(number) for number in re.findall(r"^\d+ bytes from .*?icmp_seq=(\d+) ", output, re.MULTILINE)}
        last = max(answered, default=0)
        self.lost = last - len(answered) + max(0, self.sent - last - 1)

    def __repr__(self):
        return f"{self.sent} sent, {self.lost} lost: {self.text}"


class Fabric:
    """A lab by name with its inventory."""

    def __init__(self, name, topology="two"):
        self.name, self.topology = name, topology
        #: whether every node runs kube-proxy, after a rebuild too
        self.proxied = False
        self.state = STATE / name
        self._started = time.monotonic()

    def ran(self, what):
        """Progress for people who watch."""
        sys.stderr.write(f"\n[{time.monotonic() - self._started:6.1f} s] {what}")

    # --- the lab ------------------------------------------------------------------------------------------------

    def lab(self, command, *arguments, check=True, text=True):
        done = subprocess.run(
            ["/usr/bin/python3", str(LAB), command, "--name", self.name, *map(str, arguments)],
            capture_output=True,
            text=text,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if check:
            assert done.returncode == 0, f"lab {command} {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        if command == "node-rebuild" and self.proxied:
            self.lab("kube-proxy-start", *arguments)
        return done

    def start_proxies(self):
        """kube-proxy on every node from now on, as in a cluster with Services."""
        self.proxied = True
        for node in self.nodes:
            self.lab("kube-proxy-start", node)

    def namespace(self, thing):
        """The name of the network namespace of a node, a pod or the underlay."""
        return json.loads(self.lab("status", check=False).stdout)["namespaces"] + thing

    def sh(self, node, *command, check=True):
        """What a command prints inside a node."""
        return self.lab("exec", node, "--", *command, check=check).stdout

    def snapshot(self, *names):
        return {name: json.loads(self.lab("snapshot", name).stdout) for name in names}

    def everything(self):
        return self.snapshot(*self.nodes, *self.clusters)

    @property
    def inventory(self):
        return self.state / "inventory" / "hosts.yml"

    @property
    def tree(self):
        return yaml.safe_load(self.inventory.read_text())["all"]["children"]

    @property
    def clusters(self):
        return sorted(self.tree["clusters"]["hosts"])

    @property
    def nodes(self):
        return sorted(host for group, body in self.tree.items() if group != "clusters" for host in body["hosts"])

    def reaches(self):
        """One echo from every pod to every address of every other pod, as the rows of the lab's matrix."""
        done = self.lab("ping-matrix", "--json", check=False)
        return json.loads(done.stdout)

    lab_program = LAB

    def all_reach(self, within=60.0):
        """The rows of a matrix in which everybody answers; fails with the names when that does not come within the seconds.

        One lost echo is no broken mesh: a tunnel may be in the middle of a handshake, which WireGuard repeats after 5 s.
        """
        end = time.monotonic() + within
        while True:
            rows = self.reaches()
            unreachable = ["{source} -> {address} of {target}: {error}".format(**row) for row in rows if not row["ok"]]
            if rows and not unreachable:
                return rows
            assert time.monotonic() < end, "no answer within {0} s:\n{1}".format(within, "\n".join(unreachable))
            self.ran("unreachable: " + "; ".join(unreachable))
            time.sleep(1)

    @contextlib.contextmanager
    def pinging(self, source, address, inside="exec", every=0.2):
        """Echoes from a node to an address meanwhile, one in so many seconds. The Echoes that it gives are counted when the block ends.

        ``inside``: ``pod-exec`` where the source is a pod.
        """
        echoes = Echoes()
        words = ["/usr/bin/python3", str(LAB), inside, "--name", self.name, source, "--"]
        words += ["ping", "-n", "-i", str(every), "-W", "5", address]
        with tempfile.TemporaryFile("w+") as answers:  # a pipe would be full after some hundred answers
            running = subprocess.Popen(
                words, stdout=answers, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
            try:
                yield echoes
            finally:
                os.killpg(running.pid, signal.SIGINT)
                running.wait(timeout=30)
            answers.seek(0)
            echoes.count(answers.read())

    # --- playbooks ----------------------------------------------------------------------------------------------

    def play(self, book, *arguments, inventory=None, variables=None, collections=None):
        """``collections``: the folder of another revision of the collection than this clone's."""
        environment = dict(os.environ, ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
        if collections:
            environment["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
            del environment["PYTHONPATH"]
        extra = ["-e", json.dumps(variables)] if variables else []
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                str(inventory or self.inventory),
                "multicluster.network." + book,
                *arguments,
                *extra,
            ],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=str(REPO),
            env=environment,
        )
        done.stdout += done.stderr
        self.ran(f"{book} {' '.join(arguments)} -> {done.returncode}")
        return Run(done)

    # --- the clusters -------------------------------------------------------------------------------------------

    def kubectl(self, cluster, *arguments, check=True):
        program = pathlib.Path((self.state / "kubernetes").read_text().strip()) / "kubectl"
        # what a server serves is remembered by its port, which may have been that of another lab's Kubernetes before
        own = [
            "--kubeconfig",
            str(self.state / cluster / "kubeconfig"),
            "--cache-dir",
            str(self.state / "kubectl-cache"),
        ]
        done = subprocess.run(
            [str(program), *own, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout

    def annotations(self, cluster, node):
        return json.loads(self.kubectl(cluster, "get", "node", node, "-o", "json"))["metadata"].get("annotations", {})

    def annotate(self, cluster, node, **values):
        pairs = [f"{key.replace('__', '/')}={value}" for key, value in values.items()]
        self.kubectl(cluster, "annotate", "--overwrite", "node", node, *pairs)

    # --- witnesses ----------------------------------------------------------------------------------------------

    def wireguard(self, node):
        """device -> {public_key, port, peers: {key: {endpoint, allowed_ips, handshake, rx, tx, keepalive}}} by wg itself."""
        devices = {}
        for line in self.sh(node, "wg", "show", "all", "dump").splitlines():
            cells = line.split("\t")
            if len(cells) == 5:
                devices[cells[0]] = {"public_key": cells[2], "port": cells[3], "peers": {}}
            else:
                devices[cells[0]]["peers"][cells[1]] = {
                    "endpoint": cells[3],
                    "allowed_ips": sorted(cells[4].split(",")),
                    "handshake": int(cells[5]),
                    "rx": int(cells[6]),
                    "tx": int(cells[7]),
                    "keepalive": cells[8],
                }
        return devices

    @contextlib.contextmanager
    def witness(self):
        """Watch the kernels of all nodes and the audit logs of all clusters; yields the list that receives every write."""
        writes = []
        watchers = []
        for node in self.nodes:
            for name, command in (
                ("ip", ["ip", "-ts", "monitor", "link", "address", "route", "rule"]),
                ("nft", ["nft", "monitor"]),
            ):
                file = (self.state / f"witness-{node}-{name}").open("w+b")
                process = subprocess.Popen(
                    ["/usr/bin/python3", str(LAB), "exec", "--name", self.name, node, "--", *command],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                watchers.append((node, name, file, process))
        offsets = {cluster: self._audit(cluster).stat().st_size for cluster in self.clusters}
        before = {node: self.wireguard(node) for node in self.nodes}
        time.sleep(1)
        for node, name, unused, process in watchers:
            assert process.poll() is None, f"the witness {name} on {node} did not start"
        try:
            yield writes
        finally:
            time.sleep(0.5)
            for node, name, file, process in watchers:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=10)
                file.seek(0)
                lines = _events(file.read().decode("utf-8", "replace"))
                writes.extend(f"{node} {name}: {line}" for line in without_kube_proxy(lines))
                file.close()
        for cluster, offset in offsets.items():
            with self._audit(cluster).open(encoding="utf-8") as log:
                log.seek(offset)
                for entry in map(json.loads, log):
                    if entry["verb"] not in ("get", "list", "watch"):
                        writes.append(
                            f"{cluster} api: {entry['verb']} {entry['requestURI']} by {entry['user']['username']}"
                        )
        for node in self.nodes:
            writes.extend(f"{node} wg: {text}" for text in _wireguard_writes(before[node], self.wireguard(node)))

    def _audit(self, cluster):
        return self.state / cluster / "log" / "audit.log"


def _events(text):
    """Lines of a monitor that tell of a write; neighbours and counters are not writes."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith(("Timestamp", "[20"))] + [
        line for line in text.splitlines() if line.startswith("[20") and line.split("] ", 1)[-1].strip()
    ]


def without_kube_proxy(lines):
    """Lines of nft's monitor without the transactions of kube-proxy, which writes its own chains when it comes to it.

    A transaction ends with the line of its process; of one that has not ended, lines of its chains are left out.
    """
    kept, transaction = [], []
    for line in lines:
        if not line.startswith("# new generation"):
            transaction.append(line)
            continue
        if "tables-" not in line or not all(" KUBE-" in one for one in transaction):
            kept.extend([*transaction, line])
        transaction = []
    return kept + [line for line in transaction if " KUBE-" not in line]


def _wireguard_writes(before, after):
    """Differences that only a write can make: settings, a handshake or a counter that goes back."""
    if set(before) != set(after):
        yield f"devices {sorted(before)} became {sorted(after)}"
        return
    for name, device in before.items():
        now = after[name]
        if (device["public_key"], device["port"], set(device["peers"])) != (
            now["public_key"],
            now["port"],
            set(now["peers"]),
        ):
            yield f"{name} has other settings or peers"
            continue
        for key, peer in device["peers"].items():
            other = now["peers"][key]
            for field in ("endpoint", "allowed_ips", "keepalive"):
                if peer[field] != other[field]:
                    yield f"{name} {key}: {field} {peer[field]} became {other[field]}"
            for field in ("handshake", "rx", "tx"):
                if other[field] < peer[field]:
                    yield f"{name} {key}: {field} went back"
