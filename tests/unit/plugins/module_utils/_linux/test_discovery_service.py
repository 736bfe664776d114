# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of the discovery service against a real gRPC server on loopback: what it sends, and what a bad service may do to it."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import discovery_service as ds
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

DOUBLE = pathlib.Path(__file__).resolve().parents[4] / "doubles" / "discovery_service" / "server.py"
MESH = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="


def load_double():
    spec = importlib.util.spec_from_file_location("discovery_double", DOUBLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="served")
def served_fixture(tmp_path):
    """(url, orders(**orders), the double)."""
    control = tmp_path / "control.json"
    server, port, double = load_double().serve(control=str(control))

    def orders(**given):
        control.with_suffix(".new").write_text(json.dumps(given), "utf-8")
        control.with_suffix(".new").rename(control)

    yield f"http://127.0.0.1:{port}", orders, double
    server.stop(0)


@pytest.fixture(name="connect")
def connect_fixture():
    opened = []

    def connect(*arguments, **options):
        opened.append(ds.Service(*arguments, **options))
        return opened[-1]

    yield connect
    for service in opened:
        service.close()


def reason_of(call, *arguments):
    with pytest.raises(ds.ServiceError) as caught:
        call(*arguments)
    return caught.value.reason


def test_announced_listed_and_taken_away(served, connect):
    url, _orders, double = served
    service = connect(url, MESH)
    assert service.hello() == "127.0.0.1" and service.rows() == []
    service.announce("one", b"data", [b"e" * 16], 1800)
    service.announce("one", None, [b"f" * 16], 1800)  # as others add endpoints that they saw
    assert service.rows() == [("one", b"data", [b"e" * 16, b"f" * 16])]
    assert connect(url, "another mesh").rows() == []
    service.leave("one")
    service.leave("one")
    assert service.rows() == [] and double.clusters[MESH] == {}


def test_a_watch_has_everything_first_and_then_each_change(served, connect):
    url, _orders, _double = served
    writer, reader = connect(url, MESH), connect(url, MESH)
    writer.announce("one", b"data", [], 1800)
    seen = []
    for rows, deleted in reader.watch(10):
        seen.append(([row[0] for row in rows], deleted))
        if len(seen) == 1:
            writer.announce("two", b"more", [], 1800)
        elif len(seen) == 2:
            writer.leave("one")
        else:
            reader.cancel()
    assert seen == [(["one"], False), (["two"], False), (["one"], True)]


def test_records_expire_by_the_service_s_clock(served, connect):
    url, orders, _double = served
    service = connect(url, MESH)
    service.announce("one", b"data", [b"e" * 16], 1800)
    orders(skew=1799)
    assert len(service.rows()) == 1
    orders(skew=1801)
    assert service.rows() == []


def test_a_watch_ends_when_its_time_is_over_and_not_before(served, connect):
    url, orders, _double = served
    assert len(list(connect(url, MESH).watch(1.5))) == 1
    watching = connect(url, MESH).watch(30)
    next(watching)
    orders(drop=True)
    assert reason_of(list, watching) == "service_away"


def test_a_service_that_does_not_answer_is_given_up(served, connect):
    url, orders, _double = served
    orders(hello_delay=5, list_delay=5)
    service = connect(url, MESH, seconds=0.3)
    assert reason_of(service.hello) == reason_of(service.rows) == "service_slow"


def test_nobody_there(connect):
    assert reason_of(connect("http://127.0.0.1:9", MESH, seconds=3).hello) == "service_away"


def test_redirects_are_followed_and_loops_are_not(served, connect, tmp_path):
    url, orders, _double = served
    other, port, _second = load_double().serve()
    try:
        orders(redirect=f"127.0.0.1:{port}")
        service = connect(url, MESH)
        assert service.hello() == "127.0.0.1" and service.address.port == port
        orders(redirect=url.partition("://")[2])
        assert reason_of(connect(url, MESH).hello) == "redirect_loop"
        for evil in ("file:///etc/shadow", "127.0.0.1:99999", "a b:1", "x" * 600, "unix:/run/x", ":0"):
            orders(redirect=evil)
            assert reason_of(connect(url, MESH, seconds=3).hello) == "redirect_loop", evil
    finally:
        other.stop(0)


def test_answers_beyond_all_bounds(served, connect):
    url, orders, _double = served
    orders(flood=10_000, flood_bytes=100)
    assert len(connect(url, MESH).rows()) == 10_000
    orders(flood=20_000, flood_bytes=100)
    assert reason_of(connect(url, MESH).rows) == "service_answer"
    orders(flood=10_000, flood_bytes=1000)
    assert reason_of(connect(url, MESH).rows) == "service_answer"
    orders(refuse=True)
    assert reason_of(connect(url, MESH).rows) == "service_refuses"


def test_another_thread_ends_a_watch(served, connect):
    service = connect(served[0], MESH)
    threading.Timer(0.3, service.cancel).start()
    list(service.watch(60))


def make_certificate(folder, name):
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    done = [*words.split(), "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(done, check=True, capture_output=True)
    return paths


def test_a_certificate_is_verified_by_the_authority_that_is_given(tmp_path, connect):
    certificate, key = make_certificate(tmp_path, "service")
    other, _key = make_certificate(tmp_path, "other")
    server, port, _double = load_double().serve(certificate=str(certificate), key=str(key))
    try:
        url = f"https://127.0.0.1:{port}"
        assert connect(url, MESH, ca=certificate.read_text("ascii")).hello() == "127.0.0.1"
        assert reason_of(connect(url, MESH, ca=other.read_text("ascii"), seconds=5).hello) == "service_away"
        assert reason_of(connect(url, MESH, seconds=5).hello) == "service_away"  # the host's own do not have it
        assert reason_of(connect(f"http://127.0.0.1:{port}", MESH, seconds=5).hello) in ("service_away", "service_slow")
    finally:
        server.stop(0)


@pytest.mark.parametrize(
    "text",
    [
        "discovery.talos.dev",
        "ftp://a",
        "https://",
        "https://a/path",
        "https://u:p@a",
        "https://a:0",
        "https://a:x",
        "https://a b",
        None,
        "https://a?q",
    ],
)
def test_urls_that_are_none(text):
    with pytest.raises(ValueRefused) as caught:
        ds.parse_url(text)
    assert caught.value.reason == "bad_url"


def test_urls():
    assert ds.parse_url("https://discovery.talos.dev/") == ds.Address("discovery.talos.dev", 443, True)
    assert ds.parse_url("http://[2001:db8::1]:3000").target == "[2001:db8::1]:3000"
    assert ds.parse_url("http://10.0.0.1") == ds.Address("10.0.0.1", 80, False)


def test_hosts_without_a_discovery_service_need_no_package():
    names = (
        "node_agent",
        "dataplane",
        "kubespan.node",
        "kubespan.dataplane",
        "kubespan.watch",
        "kubespan.discovery",
        "status",
        "probe",
    )
    base = ds.__name__.partition("._linux")[0] + "._flows.node."
    script = (
        "import importlib, sys; sys.modules.update({'grpc': None, 'google.protobuf': None, 'cryptography': None}); "
    )
    script += f"[importlib.import_module({base!r} + name) for name in {names!r}]"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_packages_that_a_host_lacks_are_named_at_once():
    script = (
        "import sys; sys.modules.update({'grpc': None, 'google.protobuf': None}); "
        f"from {ds.__name__} import Service\ntry: Service('http://127.0.0.1:1', 'm')\nexcept Exception as e: print(type(e).__name__, e)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "PackagesMissing" in done.stdout and "apt install python3-grpcio python3-protobuf" in done.stdout
    assert "pip install grpcio protobuf" in done.stdout
