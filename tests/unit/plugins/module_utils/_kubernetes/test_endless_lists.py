# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that sends few huge pages without end, over real sockets: what a run reads and keeps of it is bounded."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import AccessRefused, parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.decode import memory_of
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import MIB, Limits, scaled
from hostile_server import HostileServer, make_certificate

SHAPES = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "endless_lists.json").read_text("utf-8")
)["pages"]

#: Run apart, so that what it needs of memory can be seen from outside. Without bounds it ends where the server lets it.
CHILD = """
import json, sys
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
given = json.load(sys.stdin)
limits = Limits(request_seconds=120, list_seconds=300, objects=10**9)
if given["unbounded"]:
    limits = limits._replace(answer_bytes=1 << 40, list_bytes=1 << 40, list_memory=1 << 40, run_bytes=None, run_memory=None)
client, outcome = Client(parse_access(given["access"]), limits), "complete"
import urllib3  # what is loaded anyway is no part of the answer

def peak():  # of this program alone: getrusage counts what the process was before it became this one
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

before = peak()
try:
    kept = client.list("/api/v1/nodes")
except errors.ListIncomplete as error:
    outcome = error.cause + ": " + str(error)
print(json.dumps({"outcome": outcome, "mib": (peak() - before) / 1024, "pages": client.stats["list"]}))
"""


def body(shape, size, token):
    """A page of about so many bytes."""
    item = json.dumps(shape["item"], separators=(",", ":"), ensure_ascii=False)
    if shape.get("keys"):
        rows = ",".join(f'"{number:x}":"{number:o}"' for number in range(size // 18))
        return (
            '{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}'
            % (token, shape["in_one"] % rows)
        ).encode()
    rows = ",".join([item] * max(1, size // (len(item) + 1)))
    filler = shape.get("in_one", "%s") % rows
    return (
        '{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (token, filler)
    ).encode()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), ["127.0.0.1"])


@pytest.fixture
def endless(certificate):
    servers = []

    def start(shape, size, last=10**9):
        page = body(shape, size, "TOKEN").split(b"TOKEN")
        server = HostileServer(
            certificate[0], lambda handler, n: handler.send_json(page[0] + (b"t%d" % n if n < last else b"") + page[1])
        )
        servers.append(server)
        return {"name": "gcp", "api_url": server.url, "token": "abcdef", "ca_data": certificate[1]}, server

    yield start
    for server in servers:
        server.close()


def child(access, unbounded=False):
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps({"access": access, "unbounded": unbounded}),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["id"])
def test_pages_without_end_are_given_up_within_a_bound_of_memory(endless, shape):
    access, server = endless(shape, 3 * MIB)
    found = child(dict(access, read_limit_mib=8))
    assert (
        found["outcome"].startswith("answer_too_large: ") and "raise read_limit_mib of clusters/gcp" in found["outcome"]
    )
    assert found["mib"] < 120, found
    assert len(server.requests) <= 4


def test_the_measure_sees_what_no_bound_would_cost(endless):
    """The same pages, five of them, without the bounds."""
    access, _server = endless(SHAPES[0], 3 * MIB, last=5)
    found = child(access, unbounded=True)
    assert found["outcome"] == "complete" and found["mib"] > 200, found


def test_with_the_default_a_dense_page_is_not_even_decoded(endless):
    access, server = endless(SHAPES[0], 60 * MIB)
    found = child(access)
    assert (
        found["outcome"].startswith("answer_too_large: ")
        and "1024 MiB of memory" in found["outcome"]
        and found["mib"] < 400
    ), found
    assert len(server.requests) == 1


def client(access, **limits):
    return Client(parse_access(access), Limits(request_seconds=30, list_seconds=60)._replace(**limits))


def test_all_lists_of_a_run_are_counted_together(endless):
    access, server = endless({"item": {"metadata": {"name": "x" * 1000}}}, MIB, last=0)
    one = client(dict(access, read_limit_mib=2))
    for unused in range(7):
        one.list("/api/v1/nodes")
    with pytest.raises(errors.ListIncomplete) as error:
        for unused in range(3):
            one.list("/api/v1/pods")
    assert error.value.cause == "answer_too_large" and "all lists together have more than 8 MiB" in str(error.value)
    # another cluster's client has a bound of its own, and one that lives as long as a service has none for all
    assert client(access, run_bytes=None).list("/api/v1/nodes").complete


def test_a_page_is_given_up_while_it_is_read(endless):
    access, _server = endless({"item": {"metadata": {"name": "x" * 1000}}}, 12 * MIB)
    one = client(access, list_bytes=2 * MIB)
    with pytest.raises(errors.ListIncomplete):
        one.list("/api/v1/nodes")
    assert one.bytes_read <= 2 * MIB


def test_an_ordinary_cluster_is_far_below_the_bounds(endless):
    """2,000 Nodes as real ones are, with images and managed fields, need a fifth of what a list may have."""
    fields = {
        "f:metadata": {"f:annotations": {".": {}, **{f"f:key-{n}": {} for n in range(20)}}},
        "f:status": {"f:addresses": {}},
    }
    images = [{"names": [f"registry.example/{n}@sha256:{'0' * 64}"], "sizeBytes": 12345} for n in range(50)]
    item = {"metadata": {"name": "n", "managedFields": [{"fieldsV1": fields}] * 3}, "status": {"images": images}}
    text = json.dumps([item] * 2000).encode()
    assert len(text) < Limits().list_bytes / 5 and memory_of(text) < Limits().list_memory / 5
    access, _server = endless({"item": item}, 8 * MIB, last=1)
    assert len(client(access).list("/api/v1/nodes").items) > 500


@pytest.mark.parametrize("wrong", [0, -1, True, "256 MiB", "\u0662", 1 << 30, 1.5])
def test_the_variable_is_a_number_of_mib(certificate, wrong):
    with pytest.raises(AccessRefused, match="read_limit_mib is a number of MiB from 1 to 65536"):
        parse_access(
            {
                "name": "gcp",
                "api_url": "https://127.0.0.1",
                "token": "abcdef",
                "ca_data": certificate[1],
                "read_limit_mib": wrong,
            }
        )


def test_an_inventory_in_ini_form_has_texts(certificate):
    access = {
        "name": "gcp",
        "api_url": "https://127.0.0.1",
        "token": "abcdef",
        "ca_data": certificate[1],
        "read_limit_mib": "512",
    }
    assert Client(parse_access(access)).limits.list_bytes == 512 * MIB


def test_the_variable_scales_every_bound():
    found = scaled(Limits(), 512)
    assert (found.list_bytes, found.run_bytes, found.list_memory, found.run_memory) == (
        512 * MIB,
        2048 * MIB,
        2048 * MIB,
        4096 * MIB,
    )
    assert scaled(Limits(), 8).answer_bytes == 8 * MIB and scaled(Limits(), 512).answer_bytes == Limits().answer_bytes
    forever = scaled(Limits(run_bytes=None, run_memory=None), 512)
    assert forever.run_bytes is None and forever.run_memory is None and scaled(Limits(), None) == Limits()
    assert scaled(Limits(), 256) == Limits()


#: Run apart: what a text needs once decoded, by Python's own books. The kernel's would also say what it takes away and gives back meanwhile.
DECODER = """
import json, sys, tracemalloc
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.decode import decode, memory_of

body = sys.stdin.buffer.read()
said = memory_of(body)
tracemalloc.start()
kept = decode(body, 64)
print(json.dumps({"needs": tracemalloc.get_traced_memory()[0], "said": said}))
"""


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["id"])
def test_no_form_of_answer_needs_more_than_the_estimate(shape):
    """Whatever a text is made of: what bounds it is what it needs, or more."""
    done = subprocess.run(
        [sys.executable, "-c", DECODER], input=body(shape, 4 * MIB, ""), capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["needs"] > 4 * MIB / 2 and found["needs"] < 1.1 * found["said"], found


def test_lists_that_pass_one_by_one_are_given_up_together(endless):
    """Every one of them is below its bound, and all of them are kept."""
    access, _server = endless(SHAPES[0], MIB, last=0)
    one = client(access, list_memory=64 * MIB, run_memory=100 * MIB)
    with pytest.raises(errors.ListIncomplete) as error:
        for unused in range(30):
            one.list("/api/v1/pods")
    assert error.value.cause == "answer_too_large" and "all lists together need more than 100 MiB of memory" in str(
        error.value
    )
    assert 1 <= one.stats["list"] < 30 and "raise read_limit_mib of clusters/gcp" in str(error.value)
