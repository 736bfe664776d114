# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in pods: frames, exit codes, and servers that break off, lie or send more than they may (threat T50)."""

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors, exec_stream
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from hypothesis import given, strategies as st
from websocket_server import SUCCESS, WebSocketServer, failure


@pytest.fixture
def serve(tmp_path):
    made = []

    def start(act, **more):
        made.append(WebSocketServer(tmp_path, act, **more))
        return made[-1]

    yield start
    for server in made:
        server.close()


def run(server, data=None):
    """(exit code, output, errors) of a command there."""
    out, err = [], []
    command = exec_stream.Command("/api/v1/namespaces/n/pods/p", "node", ("sh", "-c", "x y"), data is not None)
    feed = None if data is None else io.BytesIO(data)
    code = exec_stream.run(Client(parse_access(server.access)), command, feed, out.append, err.append, 5.0)
    return code, b"".join(out), b"".join(err)


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_a_mask_is_its_own_way_back(data, key):
    masked = exec_stream.mask(data, key)
    assert masked == bytes(byte ^ key[index % 4] for index, byte in enumerate(data))
    assert exec_stream.mask(masked, key) == data


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70000])
def test_a_frame_comes_back_wherever_it_is_cut(size):
    data = bytes(index % 251 for index in range(size))
    sent = exec_stream.frame(2, data, key=b"\0\0\0\0")
    plain = bytearray(sent)
    plain[1] &= 0x7F
    mask_at = {126: 4, 127: 10}.get(plain[1] & 0x7F, 2)
    del plain[mask_at : mask_at + 4]  # as a server sends it
    for cut in [cut for cut in (0, 1, 2, 3, len(plain) - 1) if cut < len(plain)]:
        assert exec_stream.take_frame(bytearray(plain[:cut])) is None
    buffer = bytearray(plain) + b"rest"
    assert exec_stream.take_frame(buffer) == exec_stream.Frame(True, 2, data) and buffer == b"rest"


@given(st.binary(max_size=200))
def test_no_bytes_bring_more_than_a_value_error(data):
    buffer = bytearray(data)
    try:
        while exec_stream.take_frame(buffer) is not None:
            pass
    except ValueError:
        pass


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"null", b'{"status": "Failure"}', failure(0), failure(256), failure("x"), b"\xff"]
)
def test_an_end_without_an_exit_code_is_none(text):
    with pytest.raises(ValueError):
        exec_stream.exit_code(text)


def test_exit_codes():
    assert exec_stream.exit_code(SUCCESS) == 0
    assert [exec_stream.exit_code(failure(code)) for code in (1, 127, 255)] == [1, 127, 255]


def test_a_command_with_its_input_output_and_exit_code(serve):
    def act(peer, query):
        peer.channel(1, peer.input(256000))
        peer.channel(2, b"said")
        peer.end(failure(7))

    server = serve(act)
    data = bytes(range(256)) * 1000
    assert run(server, data) == (7, data, b"said")
    path, query, headers = server.requests[0]
    assert path == "/api/v1/namespaces/n/pods/p/exec" and query["command"] == ["sh", "-c", "x y"]
    assert headers["authorization"] == "Bearer not-a-secret"
    assert headers["sec-websocket-protocol"] == "v5.channel.k8s.io, v4.channel.k8s.io"


def test_without_input_nothing_is_asked_for(serve):
    server = serve(lambda peer, query: peer.end())
    assert run(server) == (0, b"", b"")
    assert "stdin" not in server.requests[0][1]


def test_messages_in_parts_and_pings_between(serve):
    def act(peer, query):
        peer.frame(b"\x01one", kind=2, final=False)
        peer.frame(b"are you there", kind=9)
        peer.frame(b"two", kind=0, final=True)
        assert peer.receive() == (10, b"are you there")
        peer.end()

    assert run(serve(act)) == (0, b"onetwo", b"")


@pytest.mark.parametrize("status", [b"", b"{", json.dumps({"status": "Failure", "message": "container gone"}).encode()])
def test_an_end_that_is_none_is_a_lost_host(serve, status):
    def act(peer, query):
        peer.channel(1, b"all is well")
        peer.end(status)

    with pytest.raises(errors.KubeError) as caught:
        run(serve(act))
    assert isinstance(caught.value, errors.Unreachable)


def test_a_connection_that_breaks_off_is_a_lost_host(serve):
    def act(peer, query):
        peer.channel(1, b"half of it")
        peer.stream.close()

    with pytest.raises(errors.Unreachable):
        run(serve(act))


def test_success_is_not_believed_before_the_end(serve):
    """A status in the middle of a message that never ends."""

    def act(peer, query):
        peer.frame(b"\x03" + SUCCESS, kind=2, final=False)
        peer.stream.close()

    with pytest.raises(errors.Unreachable):
        run(serve(act))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xc2\x00",  # an extension
        b"\x82\x80\0\0\0\0",  # masked
        b"\x82\x7f" + (1 << 40).to_bytes(8, "big"),  # a terabyte
        b"\x89\x7e\x00\x80" + b"x" * 128,  # a long ping
        b"\x80\x01x",  # the end of a message that did not begin
        b"\x83\x01x",  # an unknown kind
    ],
)
def test_frames_that_are_none(serve, raw):
    with pytest.raises(errors.BadAnswer):
        run(serve(lambda peer, query: peer.stream.sendall(raw)))


@pytest.mark.parametrize("more", [{"accept": "AAAA"}, {"protocol": "v1.channel.k8s.io"}])
def test_an_answer_to_something_else(serve, more):
    with pytest.raises(errors.BadAnswer):
        run(serve(lambda peer, query: peer.end(), **more))


def test_an_endless_status_ends(serve):
    def act(peer, query):
        while True:
            peer.channel(3, b"x" * 60000)

    with pytest.raises(errors.BadAnswer):
        run(serve(act))
