# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two lab hosts as execution nodes of ansible-runner, and the private data directory of the jobs that run there over SSH.

The execution nodes are nodes of a cluster that is no part of the fabric. They share no file with the controller: of the lab's state they see nothing,
and what a job needs comes with it. Programs and the collection are installed there, as in an execution environment.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import yaml
from harness import REPO

GUIDE = REPO / "docs" / "docsite" / "rst" / "guide_awx.rst"
RUNNERS = "runners"
#: The paths of files that ansible-runner gives a job; relative names do not do, since the process that keeps the lock changes its folder.
HOME = "{{ lookup('ansible.builtin.env', 'AWX_ISOLATED_DATA_DIR') | dirname | dirname }}"
PROGRAMS = ("ansible-runner", "ansible", "ansible-playbook", "ansible-inventory")


def guide_line(containing):
    """The one line of the guide's consoles with this text, as it is written."""
    found = [
        line for line in re.findall(r"^    \$ (.*)$", GUIDE.read_text("utf-8"), re.MULTILINE) if containing in line
    ]
    assert len(found) == 1, found
    return found[0]


class Controller:
    """The machine that has the private data directory "fabric", and reaches two execution nodes by ssh."""

    def __init__(self, fabric, folder):
        self.fabric, self.folder = fabric, folder
        self.venv = pathlib.Path(os.environ["MCN_RUNNER"])
        self.hosts = sorted(fabric.tree[RUNNERS + "_nodes"]["hosts"])
        self.clusters = [name for name in fabric.clusters if name != RUNNERS]
        self.nodes = sorted(host for name in self.clusters for host in fabric.tree[name + "_nodes"]["hosts"])
        self.data = folder / "fabric"
        for host in self.hosts:
            for program in PROGRAMS:
                fabric.sh(host, "ln", "-sfn", str(self.venv / "bin" / program), "/usr/local/bin/" + program)
        self._ssh()
        self._collection()
        self._private_data()

    def _ssh(self):
        """``ssh exec-1`` by name, as a user's configuration would have it."""
        given = yaml.safe_load((self.fabric.state / "inventory-ssh" / "hosts.yml").read_text())["all"]["children"]
        self.ssh_tree = given
        words = given[RUNNERS + "_nodes"]["vars"]["ansible_ssh_common_args"]
        proxy = re.search(r"ProxyCommand=([^']*)'", words).group(1)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        lines = [
            "Host *",
            f"  ProxyCommand {proxy}",
            f"  UserKnownHostsFile {self.fabric.state / 'ssh' / 'known_hosts'}",
            "  StrictHostKeyChecking yes",
            f"  IdentityFile {self.fabric.state / 'ssh' / 'id_ed25519'}",
            "  User root",
        ]
        for host in self.hosts:
            lines += [f"Host {host}", f"  HostName {given[RUNNERS + '_nodes']['hosts'][host]['ansible_host']}"]
        (self.folder / "ssh_config").write_text("\n".join(lines) + "\n")
        self.program("ssh", f'exec /usr/bin/ssh -F {self.folder / "ssh_config"} "$@"')

    def program(self, name, text):
        """A program of this name before all others."""
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
        return file

    def _collection(self):
        home = self.folder / "home" / ".ansible" / "collections"
        home.parent.mkdir(parents=True)
        self.collections = pathlib.Path(os.environ["ANSIBLE_COLLECTIONS_PATH"])
        home.symlink_to(self.collections)

    def _private_data(self):
        lab = self.fabric.state
        clusters, groups = {}, {}
        for name in self.clusters:
            own = self.fabric.tree["clusters"]["hosts"][name]
            kept = {key: value for key, value in own.items() if key != "kubeconfig"}
            clusters[name] = dict(kept, kubeconfig=HOME + "/project/kubeconfig", context=name)
            groups[name + "_nodes"] = {
                "hosts": self.ssh_tree[name + "_nodes"]["hosts"],
                "vars": {"multicluster_cluster": name, "ansible_python_interpreter": "/usr/bin/python3"},
            }
        args = f"-o UserKnownHostsFile={HOME}/project/known_hosts -o StrictHostKeyChecking=yes"
        tree = {
            "all": {
                "vars": {
                    "multicluster_fabric": "slices",
                    "multicluster_fabric_clusters": clusters,
                    "ansible_user": "root",
                    "ansible_ssh_common_args": args,
                },
                "children": dict(groups, clusters={"hosts": {}}),
            }
        }
        for name in ("inventory", "project", "env"):
            (self.data / name).mkdir(parents=True)
        (self.data / "inventory" / "hosts.yml").write_text(json.dumps(tree, indent=1))
        (self.data / "project" / "known_hosts").write_text((lab / "ssh" / "known_hosts").read_text())
        (self.data / "project" / "kubeconfig").write_text(self._kubeconfig())
        (self.data / "env" / "ssh_key").write_text((lab / "ssh" / "id_ed25519").read_text())
        (self.data / "env" / "envvars").write_text(
            json.dumps({"ANSIBLE_COLLECTIONS_PATH": str(self.collections), "ANSIBLE_NOCOLOR": "1"})
        )
        for name in ("project/kubeconfig", "env/ssh_key"):
            (self.data / name).chmod(0o600)

    def _kubeconfig(self):
        """The lab's, with the addresses that the execution nodes can reach: the gateway of each cluster's nodes."""
        found = yaml.safe_load((self.fabric.state / "kubeconfig").read_text())
        for row in found["clusters"]:
            gateway = self.fabric.tree["clusters"]["hosts"][row["name"]]["node_cidrs"][0].rsplit(".", 1)[0] + ".1"
            row["cluster"]["server"] = row["cluster"]["server"].replace("127.0.0.1", gateway)
        return yaml.safe_dump(found)

    def extra(self, **variables):
        """Extra variables of every job, as a user gives them."""
        (self.data / "env" / "extravars").write_text(json.dumps(variables))

    @property
    def environment(self):
        path = f"{self.folder / 'bin'}:{self.venv}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"PATH": path, "HOME": str(self.folder / "home"), "LANG": "C.UTF-8"}

    def start(self, line, log):
        """The line in a shell of its own, in the folder that has "fabric"."""
        with (self.folder / log).open("w", encoding="utf-8") as out:
            return subprocess.Popen(
                ["bash", "-c", "exec " + line if "|" not in line else line],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def run(self, line, good=True, log="log"):
        """What the line printed, after its end."""
        code = self.start(line, log).wait(1800)
        text = (self.folder / log).read_text()
        self.fabric.ran(f"{line.rsplit('/', 1)[-1][:100]} -> {code}")
        if good is not None:
            assert (code == 0) == good, text[-6000:]
        return text

    def workflow(self, *more, good=True, log="log"):
        return self.run(" ".join([guide_line("slices.py"), *more]), good, log)

    def one_run(self, book):
        """The playbook as one job on one execution node."""
        return self.run("set -o pipefail; " + guide_line("validate |").replace("network.validate", "network." + book))

    def events(self, label):
        """Events of the last job of this label, in their order."""
        folders = sorted(self.data.glob(f"artifacts/*.{label}/job_events"), key=lambda folder: folder.stat().st_mtime)
        rows = [json.loads(file.read_text()) for file in folders[-1].glob("*.json")] if folders else []
        return sorted(rows, key=lambda row: row["counter"])

    def visited(self, label):
        """Hosts on which a job ran the module that converges a node."""
        return sorted(
            {
                row["event_data"]["host"]
                for row in self.events(label)
                if row["event"].startswith("runner_on_")
                and row["event_data"].get("task_action", "").endswith("node_dataplane")
                and row["event"] in ("runner_on_ok", "runner_on_failed", "runner_on_unreachable")
            }
        )

    def leases(self):
        """Whoever holds the fabric, by cluster."""
        found = {}
        for name in self.clusters:
            for row in json.loads(self.fabric.kubectl(name, "-n", "kube-system", "get", "leases", "-o", "json"))[
                "items"
            ]:
                if row["metadata"]["name"] == "multicluster-run-slices":
                    found[name] = row["spec"]
        return found

    def state(self):
        """Everything that nodes and clusters of the fabric have, but not which units run: after a restart the boot unit does."""
        shown = self.fabric.snapshot(*self.nodes, *self.clusters)
        for node in self.nodes:
            shown[node].pop("units")
            # names, keys, allowed addresses, keepalives, endpoints: what wg itself shows, without what traffic changes
            shown[node]["wireguard"] = {
                device: dict(
                    row,
                    peers={
                        key: {name: peer[name] for name in ("endpoint", "allowed_ips", "keepalive")}
                        for key, peer in row["peers"].items()
                    },
                )
                for device, row in self.fabric.wireguard(node).items()
            }
        return shown


class DoubleOfAwx:
    """The double of AWX's API in a process of its own, on the underlay of the lab, with a project of the fabric's inventory and the playbooks."""

    TOKEN = "token-of-the-double"

    def __init__(self, controller, folder):
        self.controller, self.folder = controller, folder
        (folder / "home").mkdir()
        self.repository = self._repository()
        underlay = "--net=/run/netns/" + controller.fabric.namespace("underlay")
        double = REPO / "tests" / "doubles" / "awx" / "server.py"
        words = ["nsenter", underlay]
        environment = dict(os.environ, HOME=str(folder / "home"), ANSIBLE_COLLECTIONS_PATH=str(controller.collections))
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-B",
                str(double),
                str(folder / "port"),
                self.TOKEN,
                str(folder / "work"),
                str(controller.venv / "bin"),
                *words,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not (folder / "port").exists():
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.1)
        self.url = "http://127.0.0.1:" + (folder / "port").read_text()

    def _repository(self):
        """The project as the guide describes it: the inventory, and a copy of the collection's playbooks."""
        place = self.folder / "repository"
        (place / "inventory").mkdir(parents=True)
        shutil.copytree(REPO / "playbooks", place / "playbooks")
        tree = json.loads((self.controller.data / "inventory" / "hosts.yml").read_text())["all"]
        env = "{{{{ lookup('ansible.builtin.env', '{0}') }}}}".format
        for cluster in tree["vars"]["multicluster_fabric_clusters"].values():
            cluster["kubeconfig"] = env("MULTICLUSTER_KUBECONFIG")
        tree["vars"].update(
            ansible_user=env("MULTICLUSTER_NODE_USER"),
            ansible_ssh_private_key_file=env("MULTICLUSTER_NODE_KEY"),
            ansible_ssh_common_args="-o UserKnownHostsFile=" + env("MULTICLUSTER_NODE_KNOWN_HOSTS"),
        )
        tree["children"]["clusters"] = {
            "hosts": {name: {} for name in self.controller.clusters}
        }  # they count where AWX cuts hosts
        (place / "inventory" / "hosts.yml").write_text(json.dumps({"all": tree}, indent=1))
        git = ["git", "-C", str(place), "-c", "user.name=t", "-c", "user.email=t@example.com"]
        for words in (
            ["init", "--quiet", "--initial-branch", "main"],
            ["add", "."],
            ["commit", "--quiet", "-m", "Fabric"],
        ):
            subprocess.run([*git, *words], check=True, stdin=subprocess.DEVNULL)
        return f"file://{place}"

    def check(self):
        """``tests/run awx`` as somebody with a running AWX types it."""
        project, lab = self.controller.data / "project", self.controller.fabric.state
        given = {
            "URL": self.url,
            "TOKEN": self.TOKEN,
            "SCM": self.repository,
            "KUBECONFIG": project / "kubeconfig",
            "KEY": lab / "ssh" / "id_ed25519",
            "KNOWN_HOSTS": project / "known_hosts",
        }
        words = [f"{name}={value}" for name, value in given.items()]
        done = subprocess.run(
            [str(REPO / "tests" / "run"), "awx", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout + done.stderr

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
