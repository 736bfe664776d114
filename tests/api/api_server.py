# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real API server: etcd and kube-apiserver on free loopback ports, ended by process id.

KUBERNETES chooses the release, as for the lab; the programs come from the cache that tests/lab/build-kubernetes fills. Where
there are none, the tests fail: a skipped test would look like a passed one.
"""

from __future__ import annotations

import base64
import bisect
import functools
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time
import typing as t

import urllib3
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

TOKEN = "admin-token-of-the-tests"
WRITES = ("create", "update", "patch", "delete", "deletecollection")


BUILD = pathlib.Path(__file__).resolve().parents[1] / "lab" / "build-kubernetes"


@functools.cache
def programs() -> pathlib.Path:
    """The folder of the Kubernetes programs, chosen as for the lab (KUBERNETES), not built. Raises RuntimeError that explains how to get it."""
    done = subprocess.run([str(BUILD), "--cached"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return pathlib.Path(done.stdout.split()[-1])


def find_program(name: str) -> str:
    """Path of a program of that Kubernetes, or of the machine's."""
    path = programs() / name
    found = str(path) if os.access(path, os.X_OK) else shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} was found neither in {programs()} nor on PATH")
    return found


@functools.cache
def minor_version() -> int:
    """The second number of this Kubernetes' release."""
    said = subprocess.run(
        [find_program("kube-apiserver"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return int(said.split("v1.")[1].split(".")[0])


def slices_version() -> str:
    """The newest apiVersion of EndpointSlices that this Kubernetes serves; up to 1.20 that is v1beta1."""
    return "discovery.k8s.io/v1beta1" if minor_version() < 21 else "discovery.k8s.io/v1"


def token_of(user: str) -> str:
    """The token of one of a server's users."""
    return TOKEN if user == "tester" else f"{user}-token-of-the-tests"


def free_port() -> int:
    """Free for TCP and UDP, and below the ports that the kernel hands out by itself to whoever asks next."""
    while True:
        port = random.randrange(10240, 20480)
        with socket.socket() as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            try:
                stream.bind(("127.0.0.1", port))
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ApiServer:
    """One running API server: access for the collection, and its audit log as the outside witness (decision 44)."""

    def __init__(
        self,
        folder: pathlib.Path,
        services: str = "10.3.0.0/16",
        more: t.Sequence[str] = (),
        users: t.Sequence[str] = (),
    ) -> None:
        """``users``: further accounts that may do everything, each with a token of its own (token_of), and distinguished in the audit log."""
        self.folder = folder
        self.services, self.more = services, list(more)
        self.users = ("tester", *users)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.audit_file = folder / "audit.log"
        self.etcd_url = ""
        self.processes: list[subprocess.Popen] = []
        #: What was read of the audit log: (place, user, entry), and the place up to which it was read.
        self._audited: list[tuple[int, str, tuple[str, str, int]]] = []
        self._read_to = 0

    def start(self) -> None:
        """Start etcd and the API server; returns when it is ready. About four seconds."""
        etcd_port, peer_port = free_port(), free_port()
        etcd_url, peer_url = (f"http://127.0.0.1:{port}" for port in (etcd_port, peer_port))
        self.etcd_url = etcd_url
        self.run(
            [
                find_program("etcd"),
                "--data-dir",
                str(self.folder / "etcd"),
                "--listen-client-urls",
                etcd_url,
                "--advertise-client-urls",
                etcd_url,
                "--listen-peer-urls",
                peer_url,
                "--initial-advertise-peer-urls",
                peer_url,
                "--initial-cluster",
                "default=" + peer_url,
                "--unsafe-no-fsync",
            ],
            "etcd",
        )
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        lines = [f'{token_of(user)},{user},{user},"system:masters"\n' for user in self.users]
        (self.folder / "tokens.csv").write_text("".join(lines))
        rules = [{"level": "Metadata", "users": list(self.users)}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(policy))
        self.run(
            [
                find_program("kube-apiserver"),
                "--etcd-servers",
                etcd_url,
                "--etcd-prefix",
                "/tests",
                "--secure-port",
                str(self.port),
                "--bind-address",
                "127.0.0.1",
                "--advertise-address",
                "127.0.0.1",
                "--cert-dir",
                str(self.folder / "certs"),
                "--service-cluster-ip-range",
                self.services,
                *self.more,
                "--service-account-issuer",
                self.url,
                "--service-account-key-file",
                str(key),
                "--service-account-signing-key-file",
                str(key),
                "--token-auth-file",
                str(self.folder / "tokens.csv"),
                "--allow-privileged=true",  # as every distribution sets it
                "--authorization-mode",
                "RBAC",
                "--disable-admission-plugins",
                "ServiceAccount",
                "--audit-log-path",
                str(self.audit_file),
                "--audit-policy-file",
                str(self.folder / "audit.yaml"),
            ],
            "apiserver",
        )
        pool = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=2)
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        deadline = time.monotonic() + 600  # seconds on a quiet machine, minutes on a crowded one
        while True:
            try:
                answer = pool.request("GET", self.url + "/readyz", headers={"Authorization": "Bearer " + TOKEN})
                if answer.status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            self.check_alive()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the API server did not get ready; see {self.folder}")
            time.sleep(0.1)

    def check_alive(self) -> None:
        """Raises RuntimeError if a program of it has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise RuntimeError(f"{process.args[0]} ended; see {self.folder}")

    def run(self, command: list[str], name: str) -> None:
        """Start a program that ends with the server; its output goes to NAME.log."""
        log = (self.folder / (name + ".log")).open("wb")  # closed with the process
        # 200 MB more for a fourth less of the processor, which start after start needs
        environment = {"GOGC": "400", **os.environ}
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment))

    def stop(self) -> None:
        """Kill what start() started, the API server first: asked to end, it would wait for open watches, and its data is not read again."""
        for process in reversed(self.processes):
            process.kill()
            process.wait(120)  # on a crowded machine even that takes its time

    @property
    def ca(self) -> str:
        """The server's certificate, which it signed itself."""
        return (self.folder / "certs" / "apiserver.crt").read_text()

    def access(self, name: str = "aws", token: str = TOKEN, **more: t.Any) -> dict[str, t.Any]:
        """An entry of ``clusters``."""
        return dict({"name": name, "api_url": self.url, "token": token, "ca_data": self.ca}, **more)

    def client(self, token: str = TOKEN) -> Client:
        """A client of the collection."""
        return Client(parse_access(self.access(token=token)))

    def mark(self) -> int:
        """The place in the audit log now."""
        return self.audit_file.stat().st_size if self.audit_file.exists() else 0

    def audit(self, mark: int, user: str = "tester") -> list[tuple[str, str, int]]:
        """(verb, path, status) of the requests since the mark, of the tests unless another user is named."""
        time.sleep(0.05)  # entries are written just after the answers
        if not self.audit_file.exists():
            return []
        with self.audit_file.open("rb") as stream:
            stream.seek(self._read_to)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # it is being written
                e = json.loads(line)
                row = e["verb"], e["requestURI"].split("?")[0], e["responseStatus"]["code"]
                self._audited.append((self._read_to, e["user"]["username"], row))
                self._read_to += len(line)
        first = bisect.bisect_left(self._audited, (mark,))
        return [row for dummy, name, row in self._audited[first:] if name == user]

    def writes(self, mark: int, user: str = "tester") -> list[tuple[str, str, int]]:
        """The writes among audit(). What may be done is asked with a POST that leaves nothing behind."""
        asks = "/apis/authorization.k8s.io/"
        return [one for one in self.audit(mark, user) if one[0] in WRITES and not one[1].startswith(asks)]

    def kubeconfig(self, user: str = "tester") -> dict[str, t.Any]:
        """What kubectl and other programs read, for one of the users."""
        ca = base64.b64encode(self.ca.encode()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": token_of(user)}}],
        }
