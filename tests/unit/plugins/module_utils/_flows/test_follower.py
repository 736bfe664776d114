# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows a node's health ports, on machines that are not well."""

from __future__ import annotations

import errno
import http.server
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers import follower, unfinished
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import lock
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.delivery import Desired

HOSTS = ("127.0.0.1",)


class Answer(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self):
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def port(monkeypatch):
    """A port that answers that the node can deliver."""
    monkeypatch.setattr(Answer, "status", 200)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def nothing():
    return ()


def test_a_full_disk_keeps_no_node_from_withdrawing(tmp_path, monkeypatch, port):
    """That kube-proxy's port has answered is noted on the disk; a round goes on without that, and notes it as soon as it can."""
    kept, full = tmp_path / "known", [True]
    real = follower.files.write_state

    def write(path, state):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        real(path, state)

    monkeypatch.setattr(follower.files, "write_state", write)
    ports, desired = follower.Ports(str(kept)), (Desired("192.0.2.1/32"),)
    assert ports.decide(desired, port, HOSTS, nothing).announced == ["192.0.2.1/32"] and not kept.exists()
    monkeypatch.setattr(Answer, "status", 503)
    assert ports.decide(desired, port, HOSTS, nothing).announced == [] and not kept.exists()
    full[0] = False
    ports.decide(desired, port, HOSTS, nothing)
    assert kept.read_text() == f"{port}\n" and follower.Ports(str(kept)).known == port


@pytest.mark.parametrize(
    "text", ["{}", '{"version": 1}', '{"version": 1, "routes": null}', '{"version": 1, "routes": [7]}']
)
def test_a_state_that_this_release_cannot_read_is_said_in_one_line(tmp_path, monkeypatch, text):
    from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.bgp import (
        follow as speaker_follow,
    )
    from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.layer2 import follow

    state = tmp_path / "speaker.json"
    state.write_text(text)
    state.chmod(0o600)
    monkeypatch.setattr(follower.files, "is_roots_alone", lambda path: True)
    for module in (follow, speaker_follow):
        with pytest.raises(ValueError) as caught:
            follower.load_state(str(state), module.parse_state)
        assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "0\n1\n", "-5", "99999999", "10256; rm", "\u0661\u0662"])
def test_a_note_that_is_none_counts_nothing(tmp_path, text):
    (tmp_path / "known").write_text(text, encoding="utf-8")
    assert follower.Ports(str(tmp_path / "known")).known == 0


def test_rounds_of_two_are_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path / "locks"))

    class Counting(follower.Follower):
        lock = "multicluster-test"
        inside = 0
        most = 0

        def _round(self, starting):
            Counting.inside += 1
            Counting.most = max(Counting.most, Counting.inside)
            self._say({"starting": starting})
            Counting.inside -= 1

    one = Counting(str(tmp_path / "kept"), str(tmp_path / "status"))
    threads = [threading.Thread(target=one.round) for unused in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counting.most == 1 and follower.read_status(str(tmp_path / "status")) == {"starting": False}
    (tmp_path / "status").write_text("[]")
    assert follower.read_status(str(tmp_path / "status")) == {} == follower.read_status(str(tmp_path / "none"))


def test_what_a_killed_run_left_is_kept_until_it_is_carried_out(tmp_path):
    note = str(tmp_path / "note")
    assert unfinished.left(note) == frozenset()
    unfinished.begin(note, ["/a", "/b"])
    unfinished.begin(note, ["/c"])
    unfinished.end(note, ["/a", "/c"])
    assert unfinished.left(note) == {"/b"}
    unfinished.end(note, ["/b"])
    assert unfinished.left(note) == frozenset() and not (tmp_path / "note").exists()
