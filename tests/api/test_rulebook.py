# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source in the real engine: ansible-rulebook, our rulebook by its name, a real API server, playbooks that run."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time

import pytest
import yaml

EDA = pathlib.Path(os.environ.get("MCN_EDA", "/nonexistent"))
pytestmark = pytest.mark.skipif(
    not (EDA / "bin" / "ansible-rulebook").exists() or not shutil.which("java"),
    reason="ansible-rulebook and Java 17 come with `tests/run continuous`",
)
REPO = pathlib.Path(__file__).resolve().parents[2]
LABEL = {"mirror.semaphore.uw.io/mirror-service": "true"}


def until(condition, seconds=180.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds} s"
        time.sleep(0.2)


def test_a_changed_service_runs_the_playbook(tmp_path, server):
    """The rulebook that ships; its playbooks mirror a Service into the second cluster of the inventory, which is the same server."""
    import base64

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": server.url,
                    "certificate-authority-data": base64.b64encode(server.ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": "u", "user": {"token": server.access()["token"]}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    hosts = {
        name: {
            "kubeconfig": str(tmp_path / "kubeconfig"),
            "pod_cidrs": [f"10.{number}.0.0/16"],
            "service_cidrs": [f"10.{number + 1}.0.0/16"],
            "node_cidrs": [f"10.{number + 60}.0.0/24"],
        }
        for name, number in (("aws", 2), ("gcp", 4))
    }
    shared = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "multicluster_fabric": "eda",
        "service_mirror_namespace": "eda-mirrors",
        "service_mirror_create_namespace": True,
        "service_mirror_sources": ["aws"],
        "service_mirror_destinations": ["gcp"],
        "service_mirror_as": "endpoints",
    }
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"children": {"clusters": {"hosts": hosts}}, "vars": shared}})
    )
    clusters = [{"name": "aws", "kubeconfig": str(tmp_path / "kubeconfig")}]
    (tmp_path / "vars.yml").write_text(yaml.safe_dump({"multicluster_eda_clusters": clusters}))
    log = (tmp_path / "log").open("w", encoding="utf-8")
    words = [
        str(EDA / "bin" / "ansible-rulebook"),
        "-r",
        "multicluster.network.continuous",
        "-v",
        "-i",
        str(tmp_path / "hosts.yml"),
        "--vars",
        str(tmp_path / "vars.yml"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{EDA}/bin:{environment['PATH']}"
    process = subprocess.Popen(
        words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True, cwd=tmp_path
    )

    def said(text):
        if process.poll() is not None:
            raise AssertionError("the engine ended:\n" + (tmp_path / "log").read_text()[-4000:])
        return text in (tmp_path / "log").read_text()

    try:
        until(lambda: said("What happened while nobody listened") or said("PLAY ["))
        api = server.client()
        api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eda"}}, "tests"
        )
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "eda", "labels": LABEL},
            "spec": {"ports": [{"port": 80}]},
        }
        begun = time.monotonic()
        api.create("/api/v1/namespaces/eda/services", body, "tests")

        def mirrored():
            said("")
            return [
                one["metadata"]["name"]
                for one in api.list("/api/v1/namespaces/eda-mirrors/services").items
                if "web" in one["metadata"]["name"]
            ]

        until(mirrored)
        print(f"a new Service, through ansible-rulebook: {time.monotonic() - begun:.1f} s")
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(10)
        log.close()
