# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler as systemd runs it, for tests and benchmarks: a process with an inventory, its notifications, pages and log."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import yaml
from api_server import free_port
from mirror_clusters import DEFINITION

MODULE = "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program"


class Service:
    """The process, with an inventory of its own, over ``servers`` {cluster: ApiServer}."""

    def __init__(self, servers, folder, name="one"):
        self.servers, self.folder = servers, folder / name
        self.folder.mkdir()
        self.inventory, self.log = folder / "hosts.yml", self.folder / "log"
        self.port, self.process, self.environment = free_port(), None, {}
        if not self.inventory.exists():
            self.write()

    def write(self, urls=(), **variables):
        """The inventory; ``urls`` {cluster: URL}, where a server is reached in another way."""
        hosts = {}
        for name, server in self.servers.items():
            access = server.access(name, **({"api_url": urls[name]} if name in urls else {}))
            hosts[name] = dict(
                DEFINITION["clusters"][name],
                api_url=access["api_url"],
                token=access["token"],
                ca_data=access["ca_data"],
            )
        own = {
            "multicluster_fabric": "t",
            "multicluster_capabilities": ["service_mirror"],
            "service_mirror_as": "endpoints",
            "service_mirror_create_namespace": True,
            "service_mirror_timeout": 20,
            "ansible_python_interpreter": sys.executable,
        }
        tree = {"all": {"children": {"clusters": {"hosts": hosts}}, "vars": dict(own, **variables)}}
        fresh = self.inventory.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(tree), "utf-8")
        fresh.replace(self.inventory)

    def start(self, **more):
        config = {
            "fabric": "t",
            "inventory": str(self.inventory),
            "capabilities": ["service_mirror"],
            "clusters": [],
            "watch": [],
            "command": [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.inventory)],
            "listen": f"127.0.0.1:{self.port}",
        }
        path = self.folder / "config.json"
        path.write_text(json.dumps(dict(config, **more)), "utf-8")
        (self.folder / "notify").unlink(missing_ok=True)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(self.folder / "notify"))
        self.notified.settimeout(90)
        reported = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "2000000"}
        environment = dict(
            os.environ,
            PYTHONFAULTHANDLER="1",
            ANSIBLE_HOME=str(self.folder / "ansible"),
            **reported,
            **self.environment,
        )
        environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(path)],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        return self

    def reported(self, state):
        """Wait for systemd to be notified of a state."""
        while True:
            try:
                text = self.notified.recv(4096).decode()
            except TimeoutError:
                raise AssertionError(f"{state} was not reported\n{self.lines()}") from None
            if state in text:
                return text

    def lines(self):
        return self.log.read_text("utf-8", "replace")

    def page(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self, number=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # prints where its threads are
            self.process.wait(30)
            raise AssertionError("it did not end\n" + self.lines()) from None
        finally:
            self.notified.close()
