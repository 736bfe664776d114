# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that passes the kinds of others on to an API server of theirs, as in an APIService."""

from __future__ import annotations

import base64
import pathlib
import subprocess
import time
import typing as t

import yaml
from api_server import ApiServer, free_port

#: The account of the API servers of others.
ACCOUNT = "aggregated"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICES = "/api/v1/namespaces/default/services"


class Aggregator(ApiServer):
    """A server with what it needs to vouch for its users elsewhere."""

    def __init__(self, folder: pathlib.Path, users: t.Sequence[str] = ()) -> None:
        self.front = folder / "front.crt"
        key = folder / "front.key"
        subject = ["-subj", "/CN=front-proxy-client", "-days", "30", "-keyout", str(key), "-out", str(self.front)]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, capture_output=True
        )
        given = {
            "proxy-client-cert-file": self.front,
            "proxy-client-key-file": key,
            "requestheader-client-ca-file": self.front,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        }
        super().__init__(folder, more=["--{0}={1}".format(*one) for one in given.items()], users=[*users, ACCOUNT])

    def add(self, program: pathlib.Path, name: str, versions: t.Sequence[str], *arguments: str) -> None:
        """Start an API server of others, over the same etcd, and name it as the one of these GROUP/VERSIONs; returns when it answers."""
        kubeconfig, port = self.folder / f"{name}.kubeconfig", free_port()
        kubeconfig.write_text(yaml.safe_dump(self.kubeconfig(ACCOUNT)))
        certificate = self.folder / (name + ".crt")
        subject = [
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            f"subjectAltName=DNS:localhost,DNS:{name}.default.svc,IP:127.0.0.1",
            "-days",
            "30",
        ]
        made = ["-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *made],
            check=True,
            capture_output=True,
        )
        self.run(
            [
                str(program),
                "--etcd-servers=" + self.etcd_url,
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={certificate.with_suffix('.key')}",
                *(
                    f"--{flag}={kubeconfig}"
                    for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
                ),
                "--feature-gates=APIPriorityAndFairness=false",
                *arguments,
            ],
            name,
        )
        client = self.client()
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        client.create(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}, "test"
        )
        for version in versions:
            group, dummy, number = version.partition("/")
            spec = {
                "group": group,
                "version": number,
                "groupPriorityMinimum": 2000,
                "versionPriority": 100,
                "service": {"namespace": "default", "name": name, "port": port},
                "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
            }
            meta = {"name": f"{number}.{group}"}
            client.create(
                APISERVICES,
                {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta, "spec": spec},
                "test",
            )
        end = time.monotonic() + 300
        while not all(self._available(client, version) for version in versions):
            self.check_alive()
            assert time.monotonic() < end, f"{name} is not available; see {self.folder}"
            time.sleep(0.2)

    @staticmethod
    def _available(client: t.Any, version: str) -> bool:
        group, dummy, number = version.partition("/")
        conditions = client.get(f"{APISERVICES}/{number}.{group}").get("status", {}).get("conditions") or []
        return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)
