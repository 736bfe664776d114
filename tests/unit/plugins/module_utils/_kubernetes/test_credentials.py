# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Credentials that an allowed program or auth-provider of a kubeconfig gives: real programs, and servers that want what they gave."""

from __future__ import annotations

import base64
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
from hostile_server import HostileServer, make_certificate

TOKEN = "t0ken-of-the-program"
API_VERSION = "client.authentication.k8s.io/v1"
#: Seconds that a busy machine does not reach; a test about a deadline has its own.
QUICK = Limits(connect_seconds=20, request_seconds=20, list_seconds=30, tries=1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    return make_certificate(tmp_path_factory.mktemp("tls"), ["127.0.0.1"])


@pytest.fixture
def server(certificate: tuple[pathlib.Path, str]) -> t.Iterator[HostileServer]:
    double = HostileServer(certificate[0], lambda handler, number: handler.send_json({"a": 1}))
    yield double
    double.close()


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where temporary files of this process go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def program(folder: pathlib.Path, *lines: str) -> dict[str, t.Any]:
    """A credential plugin of these lines of Python."""
    path = folder / "plugin.py"
    path.write_text("import json, os, sys\n" + "\n".join(lines) + "\n", "utf-8")
    return {"apiVersion": API_VERSION, "command": sys.executable, "args": [str(path)], "interactiveMode": "Never"}


def answer(status: t.Mapping[str, t.Any]) -> str:
    return "print(json.dumps({0!r}))".format(
        {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": dict(status)}
    )


def client(server: HostileServer, ca: str, user: t.Mapping[str, t.Any], **cluster: t.Any) -> Client:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": dict(
                    {"server": server.url, "certificate-authority-data": base64.b64encode(ca.encode()).decode()},
                    **cluster,
                ),
            }
        ],
        "users": [{"name": "u", "user": user}],
    }
    return Client(parse_access({"name": "aws", "kubeconfig": config, "allow": ["exec", "auth_provider"]}), QUICK)


def failure(one: Client) -> str:
    with pytest.raises(errors.CredentialFailed) as caught:
        one.get("/x")
    return caught.value.message


def test_a_programs_token_is_sent(
    server: HostileServer, certificate: t.Any, tmp_path: pathlib.Path, temporary: pathlib.Path
) -> None:
    client(server, certificate[1], {"exec": program(tmp_path, answer({"token": TOKEN}))}).get("/x")
    assert server.requests[0][2]["Authorization"] == "Bearer " + TOKEN and list(temporary.iterdir()) == []


def test_a_programs_certificate_is_shown_and_left_in_no_file(
    server: HostileServer, certificate: t.Any, tmp_path: pathlib.Path, temporary: pathlib.Path
) -> None:
    path, public = make_certificate(tmp_path, ["client.example.org"])
    desired = server.server.socket.context
    desired.load_verify_locations(cadata=public)
    desired.verify_mode = ssl.CERT_REQUIRED
    status = {"clientCertificateData": public, "clientKeyData": path.read_text("utf-8").replace(public, "")}
    for dummy in range(2):  # a watch that begins again asks for the same credential
        client(server, certificate[1], {"exec": program(tmp_path, answer(status))}).get("/x")
    assert len(server.requests) == 2 and "Authorization" not in server.requests[0][2]
    assert list(temporary.iterdir()) == []


def test_what_a_program_prints_is_reported(server: HostileServer, certificate: t.Any, tmp_path: pathlib.Path) -> None:
    text = failure(
        client(server, certificate[1], {"exec": program(tmp_path, "sys.exit('run aws sso login\\x1b[2J first')")})
    )
    assert "run aws sso login" in text and "\x1b" not in text
    missing = dict(program(tmp_path), command="/nowhere/gke-gcloud-auth-plugin")
    assert "'/nowhere/gke-gcloud-auth-plugin'" in failure(client(server, certificate[1], {"exec": missing}))
    assert server.requests == []


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"token": ""},
        {"token": "two words"},
        {"token": "x\r\nHost: evil"},
        {"token": 5},
        {"clientCertificateData": "PEM"},
        {"clientKeyData": "PEM"},
    ],
)
def test_what_is_no_credential_is_not_sent(
    status: t.Any, server: HostileServer, certificate: t.Any, tmp_path: pathlib.Path
) -> None:
    failure(client(server, certificate[1], {"exec": program(tmp_path, answer(status))}))
    assert server.requests == []


def test_a_program_that_asks_for_the_cluster_gets_it(
    server: HostileServer, certificate: t.Any, tmp_path: pathlib.Path
) -> None:
    reported = tmp_path / "noted"
    plugin = program(
        tmp_path, f"open({str(reported)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])", answer({"token": TOKEN})
    )
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    client(server, certificate[1], {"exec": dict(plugin, provideClusterInfo=True)}, extensions=[extension]).get("/x")
    cluster = json.loads(reported.read_text("utf-8"))["spec"]["cluster"]
    assert (cluster["server"], cluster["config"]) == (server.url, {"audience": "me"})
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == certificate[1]


def part(value: t.Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def provider(url: str, expires: int, **more: t.Any) -> dict[str, t.Any]:
    """An OpenID Connect provider at this URL, with a token that expires then."""
    token = ".".join((part({"alg": "none", "typ": "JWT"}), part({"exp": expires, "a": 1234}), "c2ln"))
    config = {"id-token": token, "refresh-token": "r", "client-id": "i", "client-secret": "s", "idp-issuer-url": url}
    return {"auth-provider": {"name": "oidc", "config": dict(config, **more)}}


def test_a_providers_token_is_sent_while_it_is_good(server: HostileServer, certificate: t.Any) -> None:
    user = provider("https://127.0.0.1:1", 4102444800)
    client(server, certificate[1], user).get("/x")
    assert server.requests[0][2]["Authorization"] == "Bearer " + user["auth-provider"]["config"]["id-token"]


def test_a_provider_that_nobody_vouches_for_is_not_asked(server: HostileServer, certificate: t.Any) -> None:
    """Whoever answered in its place would name the address that the refresh token and the client's secret are sent to."""
    failure(client(server, certificate[1], provider(server.url, 1000000000)))
    assert server.requests == []


def test_a_token_needs_no_more_than_the_pool() -> None:
    """What the library's client takes to load is as long as a fifth of an empty play."""
    code = (
        "import sys\n"
        "from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import access, client, errors\n"
        "try:\n"
        "    client.Client(access.parse_access({'name': 'a', 'api_url': 'https://127.0.0.1:1', 'token': 'x'})).get('/version')\n"
        "except errors.Unreachable:\n"
        "    print('urllib3' in sys.modules, 'kubernetes' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split() == [
        "True",
        "False",
    ]
