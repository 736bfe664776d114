# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program of others, run as it is: in a network of its own, in which the test's API servers have the addresses that they have outside.

Several of these programs listen on a port that nobody can choose, so that two of them, or two tests, would meet in one network.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import time
import typing as t

from mcnlab import namespaces

RELAY = pathlib.Path(__file__).resolve().parents[1] / "lab" / "mcnlab" / "relay.py"
#: Whom the servers' audit log names for what such a program did.
USER = "original"
_numbers = itertools.count()


class Program:
    """One program of DIR. ``servers``: {name: ApiServer} that it may reach. ``addresses``: further ones at which the first of these answers in its network."""

    def __init__(
        self,
        path: pathlib.Path,
        folder: pathlib.Path,
        servers: t.Mapping[str, t.Any],
        user: str = USER,
        addresses: t.Sequence[str] = (),
    ) -> None:
        self.path, self.folder, self.servers, self.user, self.addresses = path, folder, dict(servers), user, addresses
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / (path.name + ".log")
        self.netns = f"mcn-original-{os.getpid()}-{next(_numbers)}"
        self.running: subprocess.Popen | None = None
        self.relays: list[subprocess.Popen] = []
        self.asked: list[int] = []

    def kubeconfig(self, name: str) -> str:
        """The path of a kubeconfig for one of the servers."""
        file = self.folder / (name + ".kubeconfig")
        file.write_text(json.dumps(self.servers[name].kubeconfig(self.user)))
        return str(file)

    def write(self, name: str, given: t.Any) -> str:
        """Write a file of its configuration; returns the path."""
        file = self.folder / name
        file.write_text(given if isinstance(given, str) else json.dumps(given))
        return str(file)

    def start(self, *arguments: str, **environment: str) -> None:
        """Start it; its output goes to a file in its folder."""
        namespaces.create(self.netns)
        namespaces.batch(self.netns, [f"address add {address}/32 dev lo" for address in self.addresses])
        places = [("127.0.0.1", server.port) for server in self.servers.values()]
        places += [(address, places[0][1]) for address in self.addresses]
        for address, port in places:
            command = ["/usr/bin/python3", "-B", str(RELAY), str(namespaces.path(self.netns)), address, str(port)]
            self.relays.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        self.asked = self._asked()
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                ["nsenter", f"--net={namespaces.path(self.netns)}", str(self.path), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=str(self.folder),
                env=dict(os.environ, **environment),
            )

    def stop(self) -> None:
        """End it and what is between it and the servers."""
        for one in [*([self.running] if self.running else []), *self.relays]:
            one.terminate()
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self.running, self.relays = None, []
        namespaces.delete(self.netns)

    def until(self, what: str, holds: t.Callable[[], t.Any], patience: float = 300.0) -> None:
        """Wait for something that the program does by itself, and then until it asks and writes nothing more for two seconds."""
        end = time.monotonic() + patience
        while not holds():
            assert self.running and self.running.poll() is None, f"{self.path.name} has ended:\n{self.tail()}"
            assert time.monotonic() < end, f"not in {patience:.0f} s: {what}\n{self.tail()}"
            time.sleep(0.2)
        self.quiet(end)

    def quiet(self, end: float) -> None:
        """Return when it has asked something since its start, and then nothing for two seconds."""
        before, since = self._asked(), time.monotonic()
        while before == self.asked or time.monotonic() - since < 2:
            time.sleep(0.3)
            now = self._asked()
            if now != before:
                before, since = now, time.monotonic()
            assert time.monotonic() < end, f"it does not come to rest:\n{self.tail()}"

    def _asked(self) -> list[int]:
        return [len(server.audit(0, self.user)) for server in self.servers.values()]

    def tail(self) -> str:
        """The end of what it said."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
