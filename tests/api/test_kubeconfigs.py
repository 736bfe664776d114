# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubeconfigs as they are found in the wild: our reader answers as kubectl does, or the difference is documented (decision 67).

Each shape is asked of a real API server by kubectl, by the Python client kubernetes and by the collection; the server's audit log has the user.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import threading
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import (
    ALLOWABLE,
    AccessRefused,
    parse_access,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError, NotFound
from api_server import ApiServer, find_program, free_port, token_of
from kubeconfig_shapes import World, shapes

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst" / "guide_inventory.rst"
NO = "-"
USERS = ("other", "certified")


def certificate(name: str, organisation: str, issuer: t.Any = None) -> tuple[str, str, t.Any]:
    """A certificate and its key in PEM; without an issuer one that signs itself, and is a CA."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    start = datetime.datetime(2025, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0] if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        .sign(issuer[1] if issuer else key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode(), (subject, key)


def pump(one: socket.socket, other: socket.socket) -> None:
    """Bytes both ways until one of them ends."""
    with one, other:
        while True:
            for ready in select.select([one, other], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                (other if ready is one else one).sendall(data)


def relay(family: int, address: str, target: tuple[str, int], tunnel: bool) -> int:
    """The port of a listener that passes connections on to the target; ``tunnel``: as an HTTP proxy that is asked by CONNECT."""
    listener = socket.socket(family)
    listener.bind((address, 0))
    listener.listen(64)

    def one(connection: socket.socket) -> None:
        if tunnel:
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        pump(connection, socket.create_connection(target))

    def serve() -> None:
        while True:
            threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: t.Any) -> t.Iterator[dict[str, dict[str, str]]]:
    """Shape -> program (kubectl, python, collection, strict) -> who the server took it for, NO, or for the collection the reason of the refusal."""
    folder = tmp_path_factory.mktemp("kubeconfigs")
    authority = certificate("tests", "tests")
    (folder / "clients.crt").write_text(authority[0])
    server = ApiServer(
        tmp_path_factory.mktemp("apiserver"), users=USERS, more=["--client-ca-file", str(folder / "clients.crt")]
    )
    try:
        server.start()
        own = folder / "own.json"
        own.write_text(json.dumps(server.kubeconfig()))
        port = free_port()
        server.run(
            [find_program("kubectl"), "--kubeconfig", str(own), "proxy", "--port", str(port), "--api-prefix=/prefix/"],
            "proxy",
        )
        while socket.socket().connect_ex(("127.0.0.1", port)):
            server.check_alive()
        mine = certificate("certified", "system:masters", authority[2])
        target = ("127.0.0.1", server.port)
        world = World(
            folder=folder,
            url=server.url,
            ca=server.ca,
            token=token_of("tester"),
            other=token_of("other"),
            certificate=mine[0],
            key=mine[1],
            other_ca=authority[0],
            proxy=f"http://127.0.0.1:{relay(socket.AF_INET, '127.0.0.1', target, True)}",
            ipv6=f"https://[::1]:{relay(socket.AF_INET6, '::1', target, False)}",
            prefix=f"http://127.0.0.1:{port}",
        )
        yield ask_all(server, world)
    finally:
        server.stop()


def ask_all(server: ApiServer, world: World) -> dict[str, dict[str, str]]:
    """See answers. Every program asks for a namespace that carries its name and the shape's."""
    made = shapes(world)
    found: dict[str, dict[str, str]] = {}
    home = os.environ.get("HOME")
    os.environ["HOME"] = str(world.folder)  # for ~, and for kubectl's cache
    try:
        for name, content in made.items():
            (world.folder / (name + ".kubeconfig")).write_bytes(content)
        mark = server.mark()

        def one(name: str) -> dict[str, str]:
            path = str(world.folder / (name + ".kubeconfig"))
            kubectl(path, f"/api/v1/namespaces/{name}.kubectl")
            return {
                "python": python(path, f"/api/v1/namespaces/{name}.python"),
                "collection": owned(path, f"/api/v1/namespaces/{name}.collection", list(ALLOWABLE)),
                "strict": owned(path, f"/api/v1/namespaces/{name}.strict", []),
            }

        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            found = dict(zip(made, pool.map(one, made)))
        seen = audited(server, mark)
    finally:
        os.environ.pop("HOME")
        if home is not None:
            os.environ["HOME"] = home
    for name, row in found.items():
        for program in ("kubectl", "python", "collection", "strict"):
            user = seen.get(f"/api/v1/namespaces/{name}.{program}")
            row[program] = user if user is not None else row.get(program, NO)
    return found


def audited(server: ApiServer, mark: int) -> dict[str, str]:
    """Path -> the user that the server took the request from, with whom it acted as."""
    last = "/api/v1/namespaces/last-of-all"
    with pytest.raises(NotFound):
        server.client().get(last)
    while last not in {
        path for _verb, path, _status in server.audit(mark)
    }:  # entries are written in order, just after the answers
        server.check_alive()
    seen = {}
    with server.audit_file.open("rb") as stream:
        stream.seek(mark)
        for line in stream:
            entry = json.loads(line)
            acted = (entry.get("impersonatedUser") or {}).get("username")
            seen[entry["requestURI"].split("?")[0]] = entry["user"]["username"] + (" as " + acted if acted else "")
    return seen


def kubectl(path: str, url: str) -> None:
    """Its own answer is in the audit log."""
    what = (
        ["namespaces", url.rpartition("/")[2]]
        if "/prefix" in pathlib.Path(path).read_text(errors="replace")
        else ["--raw", url]
    )  # raw drops the prefix
    command = [find_program("kubectl"), "--kubeconfig", path, "--request-timeout=20s", "get", *what]
    subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def python(path: str, url: str) -> str:
    """NO, if the server never got a request that it took."""
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        config.load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
        client.CoreV1Api(client.ApiClient(configuration)).read_namespace(url.rpartition("/")[2], _request_timeout=20)
    except Exception:  # pylint: disable=broad-except
        return NO
    return NO


def owned(path: str, url: str, allow: list[str]) -> str:
    """NO, or the reason of the refusal."""
    try:
        Client(parse_access({"name": "aws", "kubeconfig": path, "allow": allow})).get(url)
    except NotFound:
        return NO
    except AccessRefused as refused:
        return refused.reason
    except KubeError as error:
        return error.reason
    return NO


#: Rows of the guide's table (title of the row -> its shapes): what we answer as kubectl does not.
DIFFERENT = {
    "JSON with escapes that YAML lacks": ("json-escapes",),
    "A ``%YAML`` directive": ("yaml-directive",),
    "A tab after a value": ("tab-at-the-end",),
    "Empty documents before the one": ("two-separators",),
    "Several documents": ("same-document-twice", "other-document-second"),
    "Anchors with aliases, merge keys": ("anchor-and-alias", "merge-key"),
    "Tags of types of one's own": ("tag-of-python", "tag-own"),
    "A name twice that the context does not use": ("duplicate-other-user",),
    "Names that YAML reads as numbers or booleans": ("number-as-name", "yes-as-name"),
    "A query in ``server``": ("server-with-query",),
    "An IPv6 zone in ``server``": ("server-ipv6-zone",),
    "``~`` for the home folder in names of files": ("ca-file-home", "token-file-home"),
    "Data and a file of the same name: the data counts": (
        "ca-data-and-file",
        "ca-data-and-missing-file",
        "certificate-data-and-file",
    ),
    "``insecure-skip-tls-verify`` with a CA: nothing is verified": ("insecure-and-ca",),
    "``as-user-extra``": ("impersonation-extra",),
}
#: Shapes that we answer as kubectl does and the Python client does not.
AS_KUBECTL = (
    "ca-trusted-certificate",
    "ca-with-blanks",
    "ca-wrapped-folded",
    "ca-wrapped-plain",
    "contexts-with-null-entry",
    "document-separator-and-comment",
    "document-separator-at-the-end",
    "duplicate-cluster",
    "duplicate-context",
    "duplicate-user",
    "duplicate-user-other-first",
    "file-token-blank-first",
    "file-token-blank-line",
    "file-token-crlf",
    "file-token-lf",
    "file-token-spaces",
    "impersonation",
    "impersonation-groups-alone",
    "insecure-null",
    "insecure-text",
    "json-tabs",
    "other-apiversion",
    "other-context-without-name",
    "other-kind",
    "password-and-token",
    "server-with-user",
    "token-and-file",
    "auth-provider-null",
    "upper-case-scheme",
    "utf16",
)


def user_of(answer: str) -> str:
    """Who the server took it for, or NO."""
    return answer if answer.startswith(("tester", *USERS)) else NO


def verdict(answer: str) -> str:
    """As in the guide's table."""
    return "takes" if user_of(answer) != NO else "refuses"


def documented() -> dict[str, list[str]]:
    """Title -> the other cells of its row in the guide's table of kubeconfigs."""
    table = (
        GUIDE.read_text()
        .partition("docsite.guide_inventory.kubeconfigs:")[2]
        .partition("\n   * - ")[2]
        .split("\n\n", 1)[0]
    )
    rows = [
        [re.sub(r"\s+", " ", cell).strip() for cell in re.split(r"\n     - ", row)] for row in table.split("\n   * - ")
    ]
    return {row[0]: row[1:] for row in rows[1:]}


def test_answers_are_those_of_kubectl_or_documented(answers: dict[str, dict[str, str]]) -> None:
    assert len(answers) >= 180
    known = {shape for group in DIFFERENT.values() for shape in group}
    different = {name for name, row in answers.items() if user_of(row["collection"]) != user_of(row["kubectl"])}
    assert {name: answers[name] for name in different ^ known} == {}
    alone = {
        name
        for name, row in answers.items()
        if name not in different and user_of(row["python"]) != user_of(row["kubectl"])
    }
    assert {name: answers[name] for name in alone ^ set(AS_KUBECTL)} == {}


def test_the_guide_has_each_difference(answers: dict[str, dict[str, str]]) -> None:
    rows = documented()
    assert list(rows) == list(DIFFERENT)
    for title, group in DIFFERENT.items():
        for shape in group:
            row = answers[shape]
            reason = "" if verdict(row["collection"]) == "takes" else f": ``{row['collection']}``"
            assert rows[title] == [
                verdict(row["kubectl"]),
                verdict(row["python"]),
                verdict(row["collection"]) + reason,
            ], (
                title,
                shape,
                row,
            )


def test_what_needs_an_allowance_is_refused_by_its_name(answers: dict[str, dict[str, str]]) -> None:
    """Whatever works with all of ``allow`` works without, or is refused with the option that allows it (threat T18)."""
    needed = {
        name: row["strict"]
        for name, row in answers.items()
        if user_of(row["collection"]) != NO and row["strict"] != row["collection"]
    }
    assert set(needed.values()) == set(ALLOWABLE) - {"auth_provider"}, "the provider's token is none of a real issuer"
    assert answers["auth-provider"]["strict"] == "auth_provider"
    words = {
        "exec": "exec",
        "file-token": "file_references",
        "ca-file": "file_references",
        "insecure": "insecure_tls",
        "proxy-url": "proxy",
        "tls-server-name": "tls_server_name",
        "impersonation": "impersonation",
        "plain-http": "plain_http",
    }
    assert {name: needed[name] for name in words} == words


def test_a_refusal_has_a_reason(answers: dict[str, dict[str, str]]) -> None:
    """Except where the server itself refuses the credential."""
    assert {name for name, row in answers.items() if row["collection"] == NO} == set()
