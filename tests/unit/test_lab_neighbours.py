# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs and clones side by side on one machine: ports, names and who ends what; and a machine that is slow."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "lab"))
from mcnlab import (  # pylint: disable=wrong-import-position
    kubernetes,
    lab as labs,  # pylint: disable=wrong-import-position
    ports,
)
from mcnlab.errors import LabError  # pylint: disable=wrong-import-position

NAMES = ("etcd", "api")


@pytest.fixture
def choose(tmp_path):
    def ensure(lab):
        (tmp_path / lab).mkdir(exist_ok=True)
        return ports.ensure(NAMES, tmp_path / lab / "ports.json", tmp_path / "registry")

    return ensure


def test_ports_of_a_lab_with_servers_that_do_not_listen_yet_are_taken(choose):
    one, two = choose("one"), choose("two")
    assert not set(one.values()) & set(two.values())
    assert choose("one") == one and choose("two") == two


def test_ports_of_a_lab_that_is_gone_are_free_again(choose, tmp_path):
    one = choose("one")
    shutil.rmtree(tmp_path / "one")
    assert choose("two") == one


def test_released_ports_are_free_while_the_record_is_there(choose, tmp_path):
    one = choose("one")
    ports.release(tmp_path / "one", tmp_path / "registry")
    assert choose("two") == one
    assert not set(choose("one").values()) & set(one.values()), "the later claim stays, the earlier lab chooses anew"


def test_two_records_with_the_same_ports_after_a_reboot_do_not_meet(choose, tmp_path):
    one = choose("one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "ports.json").write_text(json.dumps(one))
    shutil.rmtree(tmp_path / "registry")
    assert choose("one") == one
    assert not set(choose("two").values()) & set(one.values())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"etcd": 21001}'])
def test_a_broken_record_is_written_anew(choose, tmp_path, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "ports.json").write_text(text)
    assert set(choose("one")) == set(NAMES)
    assert json.loads((tmp_path / "one" / "ports.json").read_text()) == choose("one")


def test_labs_of_one_name_in_two_state_folders_share_no_namespace(monkeypatch, tmp_path):
    prefixes = set()
    for folder in (labs.DEFAULT_STATE, str(tmp_path / "a"), str(tmp_path / "b")):
        monkeypatch.setenv("MCN_LAB_STATE", folder)
        prefixes.add(labs.Lab("demo").prefix)
    assert len(prefixes) == 3
    assert not any(one != other and one.startswith(other) for one in prefixes for other in prefixes)


def test_a_lab_of_another_clone_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("MCN_LAB_STATE", str(tmp_path / "state"))
    lab = labs.Lab("demo")
    lab.state.mkdir(parents=True)
    other = tmp_path / "other"
    (other / "tests" / "lab").mkdir(parents=True)
    (other / "tests" / "lab" / "lab.py").touch()
    (lab.state / "clone").write_text(f"{other}\n")
    with pytest.raises(LabError, match=f"belongs to the clone {other}"):
        lab._claim()
    shutil.rmtree(other)
    lab._claim()
    assert lab.clone == REPO


def clone(tmp_path, name):
    """A clone with a lab program that only writes down its arguments."""
    folder = tmp_path / name
    (folder / "tests" / "lab").mkdir(parents=True)
    shutil.copy(REPO / "tests" / "run", folder / "tests" / "run")
    (folder / "tests" / "lab" / "lab.py").write_text(
        f"import os, sys\nopen({str(tmp_path / 'noted')!r}, 'a').write(' '.join([os.environ['MCN_LAB_STATE'], *sys.argv[1:]]) + chr(10))\n"
    )
    return folder


def test_clean_ends_the_labs_of_its_own_clone_only(tmp_path):
    mine, other = clone(tmp_path, "mine"), clone(tmp_path, "other")
    state = tmp_path / "state"
    for lab, owner in (("demo", mine), ("theirs", other), ("orphan", tmp_path / "gone")):
        (state / lab).mkdir(parents=True)
        (state / lab / "clone").write_text(f"{owner}\n")
    environment = dict(os.environ, MCN_LAB_STATE=str(state), MCN_CACHE=str(pathlib.Path.home() / "nowhere"))
    done = subprocess.run(
        [str(mine / "tests" / "run"), "clean"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "noted").read_text().splitlines()) == [
        f"{state} down --name demo",
        f"{state} down --name orphan",
    ]
    assert f"left alone: the lab theirs of {other}" in done.stdout


class Plane(kubernetes.ControlPlane):
    """A control plane with an API server that takes ``slow`` questions to be ready, and may have ended."""

    def __init__(self, folder, slow, dead=()):
        self.folder, self.slow, self.dead, self.cluster = folder, slow, dead, type("Cluster", (), {"name": "aws"})

    @property
    def api(self):
        return self

    def request(self, *unused, **unused_too):
        self.slow -= 1
        if self.slow > 0:
            raise OSError("refused")
        return "ok"

    def alive(self, program):
        return program not in self.dead


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(kubernetes.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(kubernetes.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_a_server_that_needs_minutes_is_waited_for(tmp_path, clock):
    Plane(tmp_path, slow=4000).wait_ready()
    assert clock[0] > 300


def test_a_server_that_has_ended_is_a_failure_at_once_with_its_last_lines(tmp_path, clock):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kube-apiserver.log").write_text("bind: address already in use\n")
    with pytest.raises(LabError, match="kube-apiserver has ended\nbind: address already in use"):
        Plane(tmp_path, slow=4000, dead=("kube-apiserver",)).wait_ready()
    assert clock[0] < 1


def test_a_server_that_never_gets_ready_is_a_failure_after_ten_minutes(tmp_path, clock):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kube-apiserver.log").write_text("waiting for etcd\n")
    with pytest.raises(LabError, match="not ready after 600 s: refused\nwaiting for etcd"):
        Plane(tmp_path, slow=10**9).wait_ready()
    assert 600 <= clock[0] < 602
