# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client against hostile servers: doubles that speak real TLS and HTTP, each misbehaving in one way (T14, T21, T22)."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import http.server
import json
import socket
import threading
import time
import weakref

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors, session
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import at_once, fan_out
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
from hostile_server import HostileServer, make_certificate

TOKEN = "s3cret-token-of-the-double"
#: Seconds that a busy machine does not reach; a test about a deadline has its own.
QUICK = Limits(connect_seconds=20, request_seconds=20, list_seconds=30, tries=3, retry_seconds=0.05)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), ["127.0.0.1", "api.example.org"])


@pytest.fixture
def hostile(certificate):
    """hostile(answer, limits) -> (client, server)."""
    servers = []

    def start(answer, limits=QUICK, **more):
        server = HostileServer(certificate[0], answer)
        servers.append(server)
        access = dict({"name": "gcp", "api_url": server.url, "token": TOKEN, "ca_data": certificate[1]}, **more)
        return Client(parse_access(access), limits), server

    yield start
    for server in servers:
        server.close()


def page(items, token="", **meta):
    return {"kind": "NodeList", "metadata": dict({"resourceVersion": "7", "continue": token}, **meta), "items": items}


def node(name):
    return {"metadata": {"name": name}}


def test_good_server_and_what_is_sent(hostile):
    client, server = hostile(lambda handler, n: handler.send_json(page([node("a")], "t1" if n == 1 else "")))
    listing = client.list("/api/v1/nodes", label_selector="a=b", page=1)
    assert (len(listing.items), listing.resource_version, listing.complete) == (2, "7", True)
    assert client.stats == {"list": 2}
    method, path, headers = server.requests[1]
    assert path == "/api/v1/nodes?limit=1&labelSelector=a%3Db&continue=t1"
    assert headers["Authorization"] == "Bearer " + TOKEN and headers["User-Agent"].startswith("multicluster.network/")


def nested(depth):
    return b'{"metadata":{},"items":[' + b'{"metadata":{},"x":' + b"[" * depth + b"]" * depth + b"}]}"


def hidden_nesting(depth):
    """Deep, and dressed so that counting brackets with those inside texts finds nothing."""
    return b'{"metadata":{},"items":[{"metadata":{},"x":' + b'{"}":' * depth + b"1" + b',"{":1}' * depth + b"}]}"


HOSTILE_LISTS = [
    (
        "redirect elsewhere",
        "redirect_refused",
        lambda h, n: h.send_json(b"", 302, Location="https://evil.example/api/v1/nodes"),
    ),
    ("redirect to http", "redirect_refused", lambda h, n: h.send_json(b"", 307, Location="http://127.0.0.1:1/")),
    ("endless continue", "answer_too_large", lambda h, n: h.send_json(page([node("n%d" % n)], "t%d" % n))),
    ("repeated continue", "bad_answer", lambda h, n: h.send_json(page([node("n")], "same"))),
    ("continue is no text", "bad_answer", lambda h, n: h.send_json(page([], {"a": 1}))),
    ("objects remain, no token", "bad_answer", lambda h, n: h.send_json(page([node("n")], remainingItemCount=5))),
    ("huge answer", "answer_too_large", lambda h, n: h.send_json(page([{"metadata": {"name": "x" * 10_000_000}}]))),
    ("many objects", "answer_too_large", lambda h, n: h.send_json(page([node("n")] * 600, "t%d" % n))),
    ("deep", "bad_answer", lambda h, n: h.send_json(nested(5000))),
    ("very deep", "bad_answer", lambda h, n: h.send_json(nested(400_000))),
    ("deep in disguise", "bad_answer", lambda h, n: h.send_json(hidden_nesting(100))),
    ("truncated JSON", "bad_answer", lambda h, n: h.send_json(json.dumps(page([node("n")])).encode()[:-9])),
    ("not JSON", "bad_answer", lambda h, n: h.send_json(b"<html>")),
    ("not UTF-8", "bad_answer", lambda h, n: h.send_json(b'{"metadata":{},"items":["\xff"]}')),
    ("NaN", "bad_answer", lambda h, n: h.send_json(b'{"metadata":{},"items":[{"metadata":{"a":NaN}}]}')),
    ("a list", "bad_answer", lambda h, n: h.send_json([])),
    ("no items", "bad_answer", lambda h, n: h.send_json({"metadata": {}})),
    ("items of text", "bad_answer", lambda h, n: h.send_json({"metadata": {}, "items": ["x"]})),
    ("compressed", "bad_answer", lambda h, n: h.send_json(b"\x1f\x8b" + b"0" * 50, Content_Encoding="gzip")),
    ("401", "unauthorized", lambda h, n: h.send_json({"message": "no"}, 401)),
    ("403", "forbidden", lambda h, n: h.send_json({"message": "nodes is forbidden"}, 403)),
    ("403 on page 2", "forbidden", lambda h, n: h.send_json(*((page([node("a")], "t"),) if n == 1 else ({}, 403)))),
    ("410 again and again", "expired", lambda h, n: h.send_json(*((page([node("a")], "t"),) if n % 2 else ({}, 410)))),
    ("500 for ever", "server_busy", lambda h, n: h.send_json({"message": "etcd"}, 500)),
]


@pytest.mark.parametrize("reason, answer", [row[1:] for row in HOSTILE_LISTS], ids=[row[0] for row in HOSTILE_LISTS])
def test_hostile_list_is_never_taken_for_complete(hostile, reason, answer):
    client, server = hostile(answer, QUICK._replace(answer_bytes=2_000_000, objects=1000, pages=50))
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert (error.value.reason, error.value.cause) == ("source_incomplete", reason)
    assert TOKEN not in str(error.value) and len(str(error.value)) < 600
    assert error.value.failure()["cluster"] == "gcp"


def test_an_expired_credential_is_named_with_its_variable(hostile, tmp_path):
    """401 alone states neither the owner of the credential nor what to renew."""
    client, server = hostile(lambda handler, number: handler.send_json({"message": "Unauthorized"}, 401))
    (tmp_path / "token").write_text(TOKEN)
    given = {
        "name": "gcp",
        "api_url": client.access.server,
        "ca_data": client.access.ca_pem,
        "token_file": str(tmp_path / "token"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": client.access.server}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    with_config = {
        "name": "gcp",
        "kubeconfig": str(tmp_path / "kubeconfig"),
        "context": "c",
        "ca_data": client.access.ca_pem,
    }
    for options, words in (
        (given, [str(tmp_path / "token"), "variable token_file"]),
        (with_config, [str(tmp_path / "kubeconfig"), "variable kubeconfig", "context 'c'"]),
        (dict(with_config, kubeconfig=config), ["variable kubeconfig"]),
        (dict(with_config, token=TOKEN), ["the variable token"]),
    ):
        with pytest.raises(errors.Unauthorized) as error:
            Client(parse_access(options), client.limits).get("/version")
        assert all(text in str(error.value) for text in words + ["HTTP 401", "expired"]), str(error.value)
        assert TOKEN not in str(error.value)


def test_410_restarts_the_list_once(hostile):
    def answer(handler, number):
        if number == 2:
            handler.send_json({"reason": "Expired"}, 410)
        else:
            handler.send_json(page([node("n%d" % number)], "t" if number in (1, 3) else ""))

    client, server = hostile(answer)
    assert [item["metadata"]["name"] for item in client.list("/api/v1/nodes").items] == ["n3", "n4"]
    assert client.stats == {"list": 4}


def test_429_is_retried_and_retry_after_is_capped(hostile):
    def answer(handler, number):
        handler.send_json(*((page([]),) if number == 3 else ({}, 429)), Retry_After="3600")

    client, server = hostile(answer)
    started = time.monotonic()
    assert client.list("/api/v1/nodes").items == [] and len(server.requests) == 3
    assert time.monotonic() - started < 25, "an hour was asked for"


def test_post_is_repeated_after_429_only(hostile):
    client, server = hostile(lambda h, n: h.send_json({}, 429 if n == 1 else 503))
    with pytest.raises(errors.Busy):
        client.create("/api/v1/nodes", {}, "m")
    assert [row[0] for row in server.requests] == ["POST", "POST"]


def drip(body):
    def answer(handler, number):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        for byte in body:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.1)

    return answer


def drip_headers(handler, number):
    for byte in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 500:
        handler.connection.send(bytes([byte]))
        time.sleep(0.1)


def unreachable(handler, number):
    time.sleep(5)


@pytest.mark.parametrize(
    "answer", [drip(b" " * 500), drip_headers, unreachable], ids=["body", "headers", "unreachable"]
)
def test_slow_drip_ends_at_the_deadline(hostile, answer):
    client, server = hostile(answer, QUICK._replace(request_seconds=0.6))
    started = time.monotonic()
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert error.value.cause == "timed_out" and time.monotonic() - started < 25, "all of its bytes take 50 s"


PLAIN = {"api_url": "http://api.example.org:8080", "allow": ["plain_http"]}


@pytest.mark.parametrize(
    "way, answer",
    [
        ({**PLAIN, "api_url": ...}, drip(b" " * 500)),
        ({**PLAIN, "api_url": ...}, drip_headers),
        ({**PLAIN, "proxy_url": ...}, drip(b" " * 500)),
        ({**PLAIN, "proxy_url": ...}, drip_headers),
        ({"api_url": "https://api.example.org", "proxy_url": ...}, drip_headers),
    ],
    ids=["http, body", "http, headers", "http by proxy, body", "http by proxy, headers", "https by proxy"],
)
def test_the_deadline_is_one_for_every_byte_of_every_transport(way, answer, certificate):
    """Each of the 500 bytes comes in time, all of them after 50 s; the last way is a proxy that drips its answer to CONNECT."""
    server = HostileServer(None, answer)
    try:
        access = {
            "name": "gcp",
            "token": TOKEN,
            **{key: server.url if value is ... else value for key, value in way.items()},
        }
        started = time.monotonic()
        with pytest.raises(errors.TimedOut) as error:
            Client(parse_access(access), QUICK._replace(request_seconds=0.6, tries=1)).get("/api/v1/nodes/a")
        assert "no answer within 0." in str(error.value) and len(server.requests) == 1
        assert time.monotonic() - started < 25
    finally:
        server.close()


@pytest.mark.parametrize(
    "limits, most, words",
    [
        ({"request_seconds": 0.6, "list_seconds": 0.6}, 30.0, " s, which the option timeout allows ["),
        ({"request_seconds": 0.6, "list_seconds": 9}, 0.6, " s, the most that one request may take"),
        (
            {"request_seconds": 2, "list_seconds": 0.6},
            30.0,
            " s, which was left of the 0.6 s that the option timeout allows for a list",
        ),
    ],
    ids=["the user's", "built in", "what was left"],
)
def test_a_time_that_passed_names_the_owner_of_the_limit(hostile, monkeypatch, limits, most, words):
    monkeypatch.setattr(session, "BUILT_IN_SECONDS", most)
    client, server = hostile(unreachable, QUICK._replace(**limits))
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert "no answer within 0." in str(error.value) and words in str(error.value)


def test_answer_cut_off_is_no_answer(hostile):
    def answer(handler, number):
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(b'{"metadata":{},"items":[]}')
        handler.close_connection = True

    client, server = hostile(answer)
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert error.value.cause == "unreachable" and len(server.requests) == 3


def test_wrong_certificate_and_wrong_name(hostile, certificate, tmp_path):
    other = make_certificate(tmp_path, ["127.0.0.1"])[1]
    client, server = hostile(lambda h, n: h.send_json(page([])), ca_data=other)
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert error.value.cause == "tls_untrusted" and server.requests == []
    client, server = hostile(lambda h, n: h.send_json(page([])), tls_server_name="evil.example.org")
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert error.value.cause == "tls_untrusted" and server.requests == []
    client, server = hostile(lambda h, n: h.send_json(page([])), tls_server_name="api.example.org")
    assert client.list("/api/v1/nodes").items == []
    client, server = hostile(
        lambda h, n: h.send_json(page([])), ca_data=other, validate_certs=False, allow=["insecure_tls"]
    )
    assert client.list("/api/v1/nodes").items == []


def test_server_text_is_printable_and_cut(hostile):
    client, server = hostile(lambda h, n: h.send_json({"message": "\x1b[31m" + "x" * 9000}, 422))
    with pytest.raises(errors.Invalid) as error:
        client.get("/api/v1/nodes/a")
    assert str(error.value).isprintable() and len(str(error.value)) < 400


def test_environment_proxies_are_not_used(hostile, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    client, server = hostile(lambda h, n: h.send_json(page([])))
    assert client.list("/api/v1/nodes").complete


def test_impersonation_headers(hostile):
    client, server = hostile(lambda h, n: h.send_json({"a": 1}), impersonate_user="viewer")
    client.get("/x")
    assert server.requests[0][2]["Impersonate-User"] == "viewer"


def test_pinned_ca_by_url(hostile, certificate):
    bundle = certificate[1].encode()
    dummy, source = hostile(lambda h, n: h.send_json(bundle))
    pin = hashlib.sha256(bundle).hexdigest()
    client, server = hostile(lambda h, n: h.send_json(page([])), ca_data=None, ca_url=source.url + "/ca", ca_sha256=pin)
    assert client.list("/api/v1/nodes").complete
    client, server = hostile(lambda h, n: h.send_json(page([])), ca_data=None, ca_url=source.url, ca_sha256="0" * 64)
    with pytest.raises(errors.ListIncomplete) as error:
        client.list("/api/v1/nodes")
    assert error.value.cause == "tls_untrusted" and server.requests == []


def test_hostile_discovery_cannot_lead_out_of_its_path(hostile):
    resources = [{"name": "../../secrets", "kind": "Pool"}, {"name": "..", "kind": "Pool2"}, {"name": 5, "kind": 6}]
    client, server = hostile(lambda h, n: h.send_json({"resources": resources}))
    with pytest.raises(errors.BadAnswer):
        client.resource("a.example.org/v1", "Pool")


def test_one_dead_cluster_costs_its_own_time_once():
    answered = threading.Event()

    def slow():
        answered.wait(50)

    started = time.monotonic()
    outcomes = fan_out({"a": lambda: 1, "dead": slow, "b": lambda: 2, "c": lambda: 3}, seconds=0.4, parallel=2)
    answered.set()
    assert time.monotonic() - started < 25, "the dead one answers after 50 s"
    assert [outcomes[name].value for name in ("a", "b", "c")] == [1, 2, 3] and outcomes[
        "dead"
    ].error.reason == "timed_out"
    assert list(outcomes) == ["a", "dead", "b", "c"]


def test_fan_out_keeps_errors_apart_and_raises_bugs():
    def fails():
        raise errors.Forbidden("x", "list", "no")

    outcomes = fan_out({"x": fails, "y": lambda: 1})
    assert outcomes["x"].error.reason == "forbidden" and outcomes["y"].value == 1
    with pytest.raises(ZeroDivisionError):
        fan_out({"x": lambda: 1 / 0, "y": lambda: 1})


@pytest.mark.parametrize("status", [200, 503])
def test_writers_that_start_together_ask_once_what_a_kind_is(hostile, status):
    """One question for all, and one failure: to ask a server that does not answer one after the other would take minutes."""
    together = threading.Barrier(8)

    def answer(handler, number):
        time.sleep(0.3)  # so that all of them have come
        handler.send_json(
            {"resources": [{"name": "services", "kind": "Service", "namespaced": True, "verbs": []}]}, status
        )

    client, server = hostile(answer, limits=QUICK._replace(tries=1))

    def ask():
        together.wait()
        return client.resource("v1", "Service").plural

    outcomes = fan_out({str(number): ask for number in range(8)})
    assert len(server.requests) == 1
    assert {outcome.error and outcome.error.status for outcome in outcomes.values()} == {None if status == 200 else 503}
    assert {outcome.value for outcome in outcomes.values()} == {"services" if status == 200 else None}
    before = len(server.requests)
    if status != 200:  # what comes later asks anew
        with pytest.raises(errors.KubeError):
            client.resource("v1", "Service")
    assert len(server.requests) == before + (status != 200)


def test_an_api_server_below_a_path(hostile, certificate):
    dummy, server = hostile(lambda h, n: h.send_json({"a": 1}))
    access = {"name": "gcp", "api_url": server.url + "/k8s/clusters/c-1/", "token": TOKEN, "ca_data": certificate[1]}
    client = Client(parse_access(access), QUICK)
    client.get("/api/v1/nodes/a")
    client.apply("/api/v1/nodes/a", {}, "multicluster.network/demo")
    paths = [path for dummy, path, headers in server.requests]
    assert paths[0] == "/k8s/clusters/c-1/api/v1/nodes/a" and paths[1].startswith(
        "/k8s/clusters/c-1/api/v1/nodes/a?fieldManager="
    )


def test_groups_that_are_acted_as_are_a_header_each(hostile, certificate):
    dummy, server = hostile(lambda h, n: h.send_json({"a": 1}))
    user = {"token": TOKEN, "as": "viewer", "as-groups": ["one", "two"]}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": user}],
    }
    access = {"name": "gcp", "kubeconfig": kubeconfig, "ca_data": certificate[1], "allow": ["impersonation"]}
    seen = []
    server.server.RequestHandlerClass.parse_request = _noting(server.server.RequestHandlerClass.parse_request, seen)
    client = Client(parse_access(access), QUICK)
    client.get("/api/v1/nodes/a")
    assert seen == [["one", "two"]]


def _noting(parse, seen):
    def noted(handler):
        good = parse(handler)
        seen.append(handler.headers.get_all("Impersonate-Group"))
        return good

    return noted


def test_plain_http_through_a_proxy_names_the_whole_url(hostile):
    proxy = HostileServer(None, lambda h, n: h.send_json({"a": 1}))
    try:
        access = {
            "name": "gcp",
            "api_url": "http://api.example.org:8080/prefix",
            "token": TOKEN,
            "proxy_url": proxy.url,
            "allow": ["plain_http"],
        }
        Client(parse_access(access), QUICK).get("/api/v1/nodes/a")
        assert proxy.requests[0][1] == "http://api.example.org:8080/prefix/api/v1/nodes/a"
    finally:
        proxy.close()


def test_tls_through_a_proxy_is_a_tunnel(hostile, certificate):
    """The proxy sees a host and a port, and nothing of the request."""
    dummy, server = hostile(lambda h, n: h.send_json({"a": 1}))
    asked = []

    class Tunnel(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self):
            asked.append(self.path)
            host, port = self.path.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as far:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pipe, args=(far, self.connection), daemon=True)
                back.start()
                _pipe(self.connection, far)

        def log_message(self, *unused):
            pass

    tunnel = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    tunnel.daemon_threads = True
    threading.Thread(target=tunnel.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{tunnel.server_address[1]}"
        access = {"name": "gcp", "api_url": server.url, "token": TOKEN, "ca_data": certificate[1], "proxy_url": url}
        Client(parse_access(access), QUICK).get("/api/v1/nodes/a")
        assert asked == [server.url[len("https://") :]] and server.requests[0][1] == "/api/v1/nodes/a"
    finally:
        tunnel.shutdown()
        tunnel.server_close()


def _pipe(source, sink):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_an_error_keeps_nothing_alive_that_was_read_alongside_it(hostile):
    """An error knows the frames it went through; one that these know as well would keep all lists until the garbage collector comes."""

    class Read:
        pass

    def away(handler, unused):
        handler.send_json({"kind": "Status", "message": "no such kind"}, 404)

    client, unused = hostile(away)
    kept = []

    def read():
        one = Read()
        kept.append(weakref.ref(one))
        return one

    def older_form():
        with contextlib.suppress(errors.ListIncomplete):
            client.list("/apis/discovery.k8s.io/v1/endpointslices")
        return read()

    gc.collect()
    gc.disable()
    try:
        fan_out({"aws": read, "gcp": lambda: client.get("/api/v1/nodes/one"), "merit": older_form})
        at_once(read, older_form)
        with contextlib.suppress(errors.NotFound):
            at_once(read, lambda: client.get("/api/v1/nodes/one"))
        until = time.monotonic() + 10
        while any(one() is not None for one in kept) and time.monotonic() < until:
            time.sleep(0.01)  # a thread lets go of its frame a moment after its report
        assert len(kept) == 5 and all(one() is None for one in kept)
    finally:
        gc.enable()
