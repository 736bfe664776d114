# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the table of guide_trust.rst promises of API servers and kubeconfigs: each row has a test of its name, and its inputs as a fixture."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
import typing as t

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
HOSTILE = TESTS / "fixtures" / "hostile"
for _folder in (
    TESTS / "unit" / "plugins" / "module_utils" / "_kubernetes",
    TESTS / "unit" / "plugins" / "module_utils",
    TESTS / "browser",
):
    sys.path.insert(0, str(_folder))

from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import AccessRefused, parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client, Resource
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.objects import apply_writes
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
from ansible_collections.multicluster.network.plugins.module_utils._plan.budget import check_budget
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key, Write
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Change
from hostile_server import HostileServer, make_certificate


def fixture(name: str) -> t.Any:
    return json.loads((HOSTILE / name).read_text("utf-8"))


def test_nothing_left() -> None:
    for row in fixture("empty_sources.json")["rows"]:
        refusal = check_budget("gcp", "mirrors", row["owned"], row["deletes"], row["remaining"], row.get("max_deletes"))
        assert refusal is not None and refusal.reason == "delete_budget" and "nothing was deleted" in refusal.message
        assert "if that is right" in refusal.message.replace("\n", " ")


CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: t.Any) -> t.Any:
    return make_certificate(tmp_path_factory.mktemp("tls"), ["127.0.0.1"])


def _listed(certificate: t.Any, answer: t.Any, **limits: t.Any) -> str:
    server = HostileServer(certificate[0], answer)
    try:
        access = {"name": "gcp", "api_url": server.url, "token": "abcdef", "ca_data": certificate[1]}
        Client(parse_access(access), Limits(request_seconds=5, list_seconds=10, tries=1)._replace(**limits)).list(
            "/api/v1/nodes"
        )
    except errors.ListIncomplete as error:
        assert error.reason == "source_incomplete"
        return str(error.cause)
    finally:
        server.close()
    return "complete"


def test_endless_answers(certificate: t.Any) -> None:
    """Bytes and memory are measured in test_endless_lists."""
    for shape in fixture("endless_lists.json")["pages"]:
        body = json.dumps(
            {"metadata": {"continue": "CONTINUE"}, "items": [{"metadata": {}, "x": [shape["item"]] * 2000}]}
        )
        for limits in (
            {"list_bytes": 40_000},
            {"list_memory": 400_000},
            {"pages": 3},
            {"objects": 3},
            {"run_bytes": 40_000},
        ):
            reason = _listed(
                certificate,
                lambda handler, n, body=body: handler.send_json(body.replace("CONTINUE", str(n)).encode()),
                **limits,
            )
            assert reason == "answer_too_large", (shape["id"], limits)
    half = b'{"metadata":{},"items":[{"metadata":{"name":"a"}},'
    assert _listed(certificate, lambda handler, n: handler.send_json(half)) == "bad_answer"


def test_slow_writes(certificate: t.Any) -> None:
    row = fixture("other_servers.json")["slow_writes"]

    def answer(handler: t.Any, number: int) -> None:
        time.sleep(row["seconds"])
        handler.send_json({"metadata": {"resourceVersion": str(number)}})

    server = HostileServer(certificate[0], answer)
    try:
        access = parse_access({"name": "gcp", "api_url": server.url, "token": "abcdef", "ca_data": certificate[1]})
        evil = Client(access, Limits(write_seconds=row["write_seconds"]))
        keys_ = [Key("v1", "ConfigMap", "a", f"c{number}") for number in range(row["writes"])]
        evil._resources["v1"] = {"ConfigMap": Resource("v1", "ConfigMap", "configmaps", True, frozenset())}
        todo = [
            Write(
                Change("create", "ConfigMap", key.name, None, {}),
                key,
                {"metadata": {"name": key.name}},
                None,
                None,
                False,
            )
            for key in keys_
        ]
        done = apply_writes(evil, todo, "multicluster.network/t")
    finally:
        server.close()
    assert (
        0 < len(done.done) == len(server.requests) < row["writes"] / 2
        and len(done.done) + len(done.failed) == row["writes"]
    )
    assert all(
        isinstance(error, errors.KubeError) and "the option timeout allows" in error.message for error in done.failed
    )


class LeaseServer:
    """An API server with one Lease, which states what its cluster wants."""

    def __init__(self, certificate: t.Any, mood: str) -> None:
        self.mood, self.lease, self.number = mood, t.cast(t.Any, None), 0
        if mood == "held":
            self.lease = {
                "metadata": {"resourceVersion": "0", "uid": "u"},
                "spec": {"holderIdentity": "evil", "acquireTime": "now"},
            }
        self.server = HostileServer(certificate[0], self.answer)
        self.access = {"api_url": self.server.url, "token": "abcdef", "ca_data": certificate[1]}

    def answer(self, handler: t.Any, unused: int) -> None:
        self.number += 1
        if self.mood == "removed" and handler.command == "PATCH":
            self.lease = None
        if self.mood == "held":
            self.lease["metadata"]["resourceVersion"] = str(self.number)  # renewed, whenever somebody looks
        if handler.command == "POST" and self.lease is None and self.mood != "strange":
            self.lease = {
                "metadata": {"resourceVersion": str(self.number), "uid": "u"},
                "spec": {"holderIdentity": "owned"},
            }
            handler.send_json(self.lease, 201)
        elif (
            handler.command == "GET"
            and self.lease is not None
            or handler.command == "PATCH"
            and self.mood not in ("stolen", "removed")
        ):
            handler.send_json(self.lease)
        else:
            handler.send_json({"message": "no"}, 404 if handler.command == "GET" else 409)


@pytest.mark.parametrize("row", fixture("locks.json")["rows"], ids=lambda row: row["why"])
def test_lone_locks(row: t.Any, certificate: t.Any, monkeypatch: t.Any) -> None:
    assert len(fixture("locks.json")["rows"]) > 5
    monkeypatch.setattr(run_lock, "LONE_SECONDS", 0.2)
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 1.5)
    servers = {name: LeaseServer(certificate, mood) for name, mood in row["clusters"].items()}
    rows: list[t.Any] = []
    request = {
        "fabric": "t",
        "scope": "fabric",
        "lock_wait": 0.6,
        "holder": "ops",
        "pid": os.getpid(),
        "born": "",
        "namespace": "kube-system",
        "clusters": [dict(one.access, name=name) for name, one in servers.items()],
    }
    stop = threading.Event()
    holder = run_lock.LockHolder(request, lambda reported: rows.append(reported) or True, stop)
    holding = threading.Thread(target=holder.hold, daemon=True)
    try:
        assert holder.in_clusters() == row["held"]
        if not row["held"]:
            assert "another run is at work: 'evil'" in rows[-1]["who"]
            return
        assert sorted(holder.leases) == row["leases"] and [one["reason"] for one in holder.unlocked] == row["unlocked"]
        if "lost" in row:
            holding.start()
            deadline = time.monotonic() + (20 if row["lost"] else 4)
            while not holder._info["lost"] and time.monotonic() < deadline:
                time.sleep(0.05)
            assert bool(holder._info["lost"]) == row["lost"]
    finally:
        stop.set()
        holder.release()
        for one in servers.values():
            one.server.close()


def test_other_servers(certificate: t.Any) -> None:
    table = fixture("other_servers.json")
    for place in table["redirects"]:
        assert (
            _listed(certificate, lambda handler, n, place=place: handler.send_json(b"", 302, Location=place))
            == "redirect_refused"
        )
    for row in table["accesses"]:
        with pytest.raises(AccessRefused) as refused:
            access = dict({"name": "gcp"}, **row["access"])
            parse_access(access if "ca_url" in access else dict(access, ca_data=CA))
        assert refused.value.reason == row["word"], row
    stranger = HostileServer(certificate[0], lambda handler, n: handler.send_json({"metadata": {}, "items": []}))
    try:
        client = Client(parse_access({"name": "gcp", "api_url": stranger.url, "token": "abcdef"}), Limits(tries=1))
        with pytest.raises(errors.ListIncomplete) as unknown:
            client.list("/api/v1/nodes")
        assert unknown.value.cause == "tls_untrusted" and not stranger.requests
    finally:
        stranger.close()


def test_kubeconfigs_that_reach_out(tmp_path: t.Any) -> None:
    ca = __import__("base64").b64encode(CA.encode()).decode()
    for row in fixture("kubeconfigs.json")["rows"]:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {
                    "name": "c",
                    "cluster": dict(
                        {"server": "https://10.0.0.1", "certificate-authority-data": ca}, **row.get("cluster", {})
                    ),
                }
            ],
            "users": [
                {
                    "name": "u",
                    "user": dict(
                        {"token": "abcdef"} if "user" not in row or "as" in row["user"] else {}, **row.get("user", {})
                    ),
                }
            ],
        }
        if "certificate-authority" in row.get("cluster", {}):
            del config["clusters"][0]["cluster"]["certificate-authority-data"]  # type: ignore[index]
        with pytest.raises(AccessRefused) as refused:
            parse_access({"name": "gcp", "kubeconfig": config})
        assert refused.value.reason == row["word"] and "allow list" in str(refused.value), row
    assert not pathlib.Path("/tmp/mcn-pwned").exists()
