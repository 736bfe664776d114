# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH keys of the lab: one client key, one host key per node, and a known_hosts file."""

from __future__ import annotations

import pathlib

from . import process
from .topology import Topology


class SshKeys:
    def __init__(self, folder: pathlib.Path, underlay_namespace: pathlib.Path):
        self.folder = folder
        self.client_key = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self.control_paths = folder / "cp"
        # The controller is not on the underlay: each connection enters it by a relay of its own.
        self.proxy_command = f"nsenter --net={underlay_namespace} nc -q 1 %h %p"

    def ensure(self, topology: Topology) -> None:
        (self.folder / "hosts").mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._key(self.client_key, "lab")
        lines = []
        for node in topology.nodes:
            key = self.folder / "hosts" / node.name
            self._key(key, node.name)
            public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
            lines.append(f"{','.join([node.name, *node.addresses])} {public}\n")
        self.known_hosts.write_text("".join(lines))

    def options(self) -> list[str]:
        """The ssh options that reach a node and verify it."""
        return [
            "-o",
            f"ProxyCommand={self.proxy_command}",
            "-o",
            f"UserKnownHostsFile={self.known_hosts}",
            "-o",
            "StrictHostKeyChecking=yes",
            "-o",
            "ConnectTimeout=10",
        ]

    @staticmethod
    def _key(file: pathlib.Path, comment: str) -> None:
        if not file.exists():
            process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", file])
