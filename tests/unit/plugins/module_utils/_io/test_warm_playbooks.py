# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the real ansible-playbook in forks of a process that has Ansible in memory: the same as those of the shell, whatever happens to that process."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._io import playbook_server, warm_playbooks
from ansible_collections.multicluster.network.plugins.module_utils._io.commands import run_playbook
from ansible_collections.multicluster.network.plugins.module_utils._io.warm_playbooks import (
    Unsuitable,
    WarmPlaybooks,
    interpreter_of,
)

PROGRAM = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
#: Each runs the real program twice, so `make test` has one or two of a kind.
REST = pytest.mark.skipif(
    "MCN_EXAMPLES" in os.environ, reason="NOT RUN: others of its kind are; `tests/run units` has all"
)
#: A machine that is busy gets much more time than any of it takes.
LONG = 240.0
#: It writes what a run finds, so that two can be compared: settings, words, secrets, templates, a module, and who runs it.
BOOK = [
    {
        "hosts": "here",
        "gather_facts": False,
        "tasks": [
            {"name": "Say", "ansible.builtin.debug": {"msg": "got {{ given | default('nothing') }}"}},
            {
                "name": "Write",
                "ansible.builtin.copy": {"dest": "{{ folder }}/found", "content": "{{ found | to_nice_json }}"},
                "vars": {
                    "found": {
                        "ansible": "{{ ansible_version.full }}",
                        "given": "{{ given | default('nothing') }}",
                        "secret": "{{ secret | default('none') }}",
                        "environment": "{{ lookup('ansible.builtin.env', 'MCN_WARM_TEST') }}",
                        "group": "{{ of_group }}",
                        "here": "{{ lookup('ansible.builtin.pipe', 'pwd') }}",
                    }
                },
            },
            {"name": "Fail", "ansible.builtin.fail": {"msg": "as asked"}, "when": "fails | default(false)"},
        ],
    },
]
STAY = ["/bin/sh", "-c", "echo begun >>{{ folder }}/log; sleep {{ seconds }}; echo ended >>{{ folder }}/log"]
SLOW = [
    {
        "hosts": "here",
        "gather_facts": False,
        "tasks": [{"name": "Begin and stay", "ansible.builtin.command": {"argv": STAY}}],
    }
]


def until(what, why="", within=LONG):
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


class Place:
    """A folder with an inventory and plays, and runs over them."""

    def __init__(self, folder, capfd):
        self.folder, self.capfd, self.reported = folder, capfd, []
        (folder / "hosts.yml").write_text(
            yaml.safe_dump(
                {
                    "all": {
                        "hosts": {
                            "here": {
                                "ansible_connection": "local",
                                "ansible_python_interpreter": sys.executable,
                                "folder": str(folder),
                            }
                        }
                    }
                }
            )
        )
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "all.yml").write_text("of_group: something\n")
        (folder / "book.yml").write_text(yaml.safe_dump(BOOK))
        (folder / "slow.yml").write_text(yaml.safe_dump(SLOW))
        self.stop = threading.Event()
        self.warm = None

    def make(self, program=PROGRAM, **more):
        self.warm = WarmPlaybooks(
            [program, "-i", str(self.folder / "hosts.yml")],
            dict({"MCN_WARM_TEST": "as set"}, **more),
            self.reported.append,
        )
        return self.warm

    def run(self, *words, book="book.yml", seconds=LONG):
        return self.warm.run([*words, str(self.folder / book)], seconds, self.stop)

    def ready(self):
        """Until it is in memory; runs from now on start nothing."""

        def in_memory():
            before = self.warm.starts
            self.run("--version")
            return self.warm.starts == before

        until(in_memory, self.reported)
        self.reported.clear()
        return self.warm

    def found(self):
        return json.loads((self.folder / "found").read_text())

    def log(self):
        path = self.folder / "log"
        return path.read_text().split() if path.exists() else []


@pytest.fixture(name="place")
def _place(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANSIBLE_NOCOLOR", "1")
    monkeypatch.setenv("ANSIBLE_LOCALHOST_WARNING", "0")
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path, capfd)
    yield place
    if place.warm is not None:
        place.warm.stop()


def processes():
    """pid -> (its words, its group, its state)."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            found[int(folder.name)] = (words, int(state[2]), state[0])
    return found


def of_place(place):
    """Processes of runs over a place, without those that have ended."""
    return {
        pid
        for pid, (words, unused, state) in processes().items()
        if state != "Z" and any(str(place.folder) in argument for argument in words)
    }


# --- a run is the program itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "book"),
    [
        ([], "book.yml"),
        (["-e", "given=this", "-e", '{"fails": true}'], "book.yml"),
        (["-e", "@vaulted.yml", "--vault-password-file", "password"], "book.yml"),
        pytest.param(["-e", "@vaulted.yml"], "book.yml", marks=REST),
        pytest.param(["--limit", "nobody"], "book.yml", marks=REST),
        pytest.param(["--check", "--diff", "-v"], "book.yml", marks=REST),
        (["--no-such-option"], "book.yml"),
        ([], "missing.yml"),
        (["-i", "away,", "-e", "ansible_connection=ssh", "--limit", "away", "-T", "1", "-e", "folder=x"], "away.yml"),
    ],
)
def test_it_ends_and_prints_the_same_as_from_the_shell(place, words, book):
    (place.folder / "password").write_text("open\n")
    (place.folder / "away.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}])
    )
    (place.folder / "vaulted.yml").write_text("secret: hidden\n")
    subprocess.run(
        [PROGRAM.replace("-playbook", "-vault"), "encrypt", "--vault-password-file", "password", "vaulted.yml"],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    warm = place.make()
    place.ready()
    place.capfd.readouterr()
    path, starts, seen = place.folder / "found", warm.starts, []
    command = [
        "env",
        "MCN_WARM_TEST=as set",
        PROGRAM,
        "-i",
        str(place.folder / "hosts.yml"),
        *words,
        str(place.folder / book),
    ]
    for run in (lambda: place.run(*words, book=book), lambda: run_playbook(command, LONG, place.stop)):
        path.unlink(missing_ok=True)
        result = run()
        shown = place.capfd.readouterr()
        seen.append(
            (
                result,
                path.read_text() if path.exists() else "",
                *(re.sub(r"tmp[\w/.-]*|[0-9a-f]{40}|ansible-local-\w+", "…", text) for text in shown),
            )
        )
    assert seen[0] == seen[1]
    assert warm.starts == starts and not place.reported, "nothing was started"
    if words == [] and book == "book.yml":
        assert place.found() == dict(
            place.found(),
            given="nothing",
            secret="none",
            environment="as set",
            group="something",
            here=str(place.folder),
        )
    if "--vault-password-file" in words:
        assert place.found()["secret"] == "hidden"


def test_runs_share_nothing_and_what_changed_between_them_is_read(place):
    place.make()
    place.ready()
    pid = place.warm.pid
    for value in ("one", "two"):
        (place.folder / "group_vars" / "all.yml").write_text(f"of_group: {value}\n")
        assert place.run("-e", "given=" + value) == 0
        assert (place.found()["given"], place.found()["group"]) == (value, value)
    assert place.run() == 0 and place.found()["given"] == "nothing"
    assert place.warm.pid == pid and not place.reported


def test_it_does_not_grow(place):
    place.make()
    place.ready()

    def look():
        folder = pathlib.Path(f"/proc/{place.warm.pid}")
        memory = int(re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text()).group(1))
        return (
            memory,
            len(list((folder / "fd").iterdir())),
            len((folder / "task" / folder.name / "children").read_text().split()),
        )

    for unused in range(5):
        place.run("--version")
    before, pid = look(), place.warm.pid
    for unused in range(25):
        place.run("--version")
    after = look()
    assert place.warm.pid == pid and before[1:] == after[1:] and after[2] == 0
    assert after[0] <= before[0] + 1024 and after[0] < 150 * 1024, f"kB: {before} became {after}"


def test_what_is_kept_in_memory_has_these_names_in_this_ansible():
    """A name that goes breaks nothing: a run imports what it needs itself. It only takes longer, and this reports that the list is to be fixed."""
    for name in (playbook_server.NEEDED, *playbook_server.USUAL):
        importlib.import_module(name)


# --- whatever happens to the process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=REST) for one in (signal.SIGTERM, signal.SIGSEGV))]
)
def test_one_that_died_is_missed_by_nobody(place, number):
    place.make()
    place.ready()
    before = place.warm.pid
    os.kill(before, number)
    until(lambda: processes().get(before, (0, 0, "Z"))[2] == "Z")
    assert place.run("-e", "given=after") == 0 and place.found()["given"] == "after"
    assert len(place.reported) == 1 and "gone" in place.reported[0]
    place.ready()
    assert place.warm.pid not in (0, before)


def test_one_that_dies_during_a_run_takes_the_run_along_and_it_is_done_again(place):
    """A run that went on by itself could give nodes old orders after new ones."""
    place.make()
    place.ready()
    results = []
    thread = threading.Thread(target=lambda: results.append(place.run("-e", "seconds=4", book="slow.yml")))
    thread.start()
    until(lambda: place.log() == ["begun"])
    orphans = of_place(place)
    os.kill(place.warm.pid, signal.SIGKILL)
    thread.join()
    assert results == [0] and place.log() == ["begun", "begun", "ended"]
    assert orphans and not orphans & of_place(place) and len(place.reported) == 1


def test_one_without_output_is_ended_with_its_run(place, monkeypatch):
    monkeypatch.setattr(warm_playbooks, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(warm_playbooks, "_END", 1.0)
    place.make()
    place.ready()
    pid = place.warm.pid
    os.kill(pid, signal.SIGSTOP)
    assert place.run("-e", "seconds=100", book="slow.yml", seconds=1.0) == 124
    assert pid not in processes() and not of_place(place)
    place.ready()


@pytest.mark.parametrize("how", ["stop", "time"])
def test_a_run_that_is_ended_before_its_time(place, how):
    place.make()
    place.ready()
    pid, results = place.warm.pid, []
    thread = threading.Thread(
        target=lambda: results.append(
            place.run("-e", "seconds=1000", book="slow.yml", seconds=LONG if how == "stop" else 8.0)
        )
    )
    thread.start()
    if how == "stop":
        until(lambda: place.log() == ["begun"])
        place.stop.set()
    thread.join()
    place.stop.clear()
    until(lambda: not of_place(place), "the run and its workers are gone")
    assert results == [124] and place.warm.pid == pid and not place.reported
    assert place.run("-e", "given=next") == 0 and place.found()["given"] == "next"


OWNER = """
import sys, threading
from ansible_collections.multicluster.network.plugins.module_utils._io.warm_playbooks import WarmPlaybooks
program, hosts, book, folder = sys.argv[1:]
warm = WarmPlaybooks([program, "-i", hosts], {}, print)
stop = threading.Event()
before = -1
while warm.starts != before:
    before = warm.starts
    warm.run(["--version"], 200, stop)
with open(folder + "/said", "w") as said:
    said.write(str(warm.pid))
warm.run(["-e", "seconds=1000", book], 1000, stop)
"""


def test_with_whoever_asked_for_it_everything_ends(place):
    """kill -9 of the service: neither the process nor what it runs stays."""
    words = [
        sys.executable,
        "-c",
        OWNER,
        PROGRAM,
        *(str(place.folder / name) for name in ("hosts.yml", "slow.yml")),
        str(place.folder),
    ]
    owner = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    until(lambda: place.log() == ["begun"])
    pid = int((place.folder / "said").read_text())
    assert pid in processes()
    owner.kill()
    owner.wait()
    until(lambda: processes().get(pid, (0, 0, "Z"))[2] == "Z" and not of_place(place), "nothing is left")


def test_what_it_cleans_up_at_its_end(place):
    """Runs share its temporary folder, which goes when it is asked to end, and not with a run."""
    place.make()
    place.ready()
    assert place.run() == 0 and place.run() == 0
    assert len(list((place.folder / "home" / "tmp").iterdir())) == 1
    place.warm.stop()
    assert not list((place.folder / "home" / "tmp").iterdir())
    assert place.run("-e", "given=late") == 0, "one that comes after it is not refused"
    assert place.warm.pid == 0


# --- what changes it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    ["settings", *(pytest.param(one, marks=REST) for one in ("named settings", "program")), "collection"],
)
def test_what_it_has_in_memory_is_never_old(place, change, monkeypatch):
    program, named = place.folder / "bin" / "ansible-playbook", place.folder / "named.cfg"
    program.parent.mkdir()
    program.write_text(pathlib.Path(PROGRAM).read_text())
    program.chmod(0o755)
    (place.folder / "plugins").mkdir()
    monkeypatch.setattr(warm_playbooks, "_COLLECTION", str(place.folder))
    settings = named if change == "named settings" else place.folder / "ansible.cfg"
    place.make(str(program), **({"ANSIBLE_CONFIG": str(named)} if change == "named settings" else {}))
    place.ready()
    before, text = place.warm.pid, "[defaults]\ndisplay_skipped_hosts = false\n"
    changed = {
        "settings": settings,
        "named settings": settings,
        "program": program,
        "collection": place.folder / "plugins" / "new.py",
    }[change]
    changed.write_text(
        program.read_text() + "\n" if change == "program" else "# new\n" if change == "collection" else text
    )
    place.capfd.readouterr()
    starts = place.warm.starts
    assert place.run("-e", "given=seen") == 0 and place.warm.starts == starts + 1
    assert ("skipping:" in place.capfd.readouterr().out) != ("settings" in change), (
        "the run that found out did not use what was old"
    )
    place.ready()
    assert place.warm.pid != before
    place.capfd.readouterr()
    assert place.run("-e", "given=again") == 0
    assert ("skipping:" in place.capfd.readouterr().out) != ("settings" in change)


PIP = """import sys
from ansible.cli.playbook import main
if __name__ == '__main__':
    sys.argv[0] = sys.argv[0].removesuffix('.exe')
    sys.exit(main())
"""
UV = "# -*- coding: utf-8 -*-\n" + PIP


@pytest.mark.parametrize(
    ("head", "body", "desired"),
    [
        ("#!/opt/ansible/bin/python3", PIP, ["/opt/ansible/bin/python3"]),
        ("#!/opt/ansible/bin/python3.12 -sP", UV, ["/opt/ansible/bin/python3.12", "-sP"]),
        ("#! /usr/bin/python3", UV, ["/usr/bin/python3"]),
        ("#!/bin/sh\n'''exec' \"/a very long/path/python3\" \"$0\" \"$@\"\n' '''", PIP, ["/a very long/path/python3"]),
        ("#!/bin/sh\n'''exec' /long/path/python3 \"$0\" \"$@\"\n' '''", PIP, ["/long/path/python3"]),
        ("#!/bin/bash", 'exec ansible-playbook "$@"\n', "no script"),
        ("#!/usr/bin/env bash", 'exec pyenv exec ansible-playbook "$@"\n', "no script"),
        ("\x7fELF", "", "no script"),
        ("#!/usr/bin/python3", "import os\nos.environ['ANSIBLE_CONFIG'] = '/x'\n" + PIP, "does more"),
        ("#!/usr/bin/python3", PIP + "print('done')\n", "does more"),
        ("#!/usr/bin/python3", "from ansible.cli.adhoc import main\nif True:\n    main()\n", "does more"),
        ("#!/usr/bin/python3", "def\n", "does more"),
        ("#!/usr/bin/python3", PIP + "#" * 5000, "no script"),
        ("#!", "\n", "no script"),
        ("", "", "no script"),
    ],
)
def test_which_programs_can_be_kept(tmp_path, head, body, desired):
    path = tmp_path / "ansible-playbook"
    path.write_text(head + "\n" + body)
    path.chmod(0o755)
    for name in (str(path), "ansible-playbook"):
        if isinstance(desired, str):
            with pytest.raises(Unsuitable, match=desired):
                interpreter_of(name, str(tmp_path))
        else:
            assert interpreter_of(name, str(tmp_path)) == (str(path), desired)


def test_an_interpreter_that_is_looked_for_and_a_program_that_is_not_there(tmp_path):
    for name in ("python3", "ansible-playbook"):
        (tmp_path / name).write_text("#!/usr/bin/env python3\n" + PIP)
        (tmp_path / name).chmod(0o755)
    assert interpreter_of("ansible-playbook", str(tmp_path)) == (
        str(tmp_path / "ansible-playbook"),
        [str(tmp_path / "python3")],
    )
    with pytest.raises(Unsuitable, match="no program"):
        interpreter_of(str(tmp_path / "nothing"))


def test_a_program_that_cannot_be_kept_is_started_each_time(place):
    wrapper = place.folder / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexport MCN_WARM_TEST=wrapped\nexec {PROGRAM} "$@"\n')
    wrapper.chmod(0o755)
    place.make(str(wrapper))
    for number in (1, 2):
        assert place.run() == 0 and place.warm.starts == number
        assert place.found()["environment"] == "wrapped" and place.warm.pid == 0
    assert "no script" in place.reported[0]


@pytest.mark.parametrize(
    "fault",
    [
        "exit 3",
        pytest.param("exec sleep 1000", marks=REST),
        "echo nonsense >&$2; exec sleep 1000",
        pytest.param("kill -9 $$", marks=REST),
    ],
)
def test_one_that_never_begins_keeps_no_run_waiting(place, fault, monkeypatch):
    """Whatever is wrong alongside the program itself; it is tried again after growing pauses."""
    monkeypatch.setattr(warm_playbooks, "_BEGINNING", 0.5)
    python = place.folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/bash\ncase $1 in *playbook_server.py) {fault} ;; esac\nexec {sys.executable} "$@"\n')
    program = python.with_name("ansible-playbook")
    program.write_text(f"#!{python}\n{PIP}")
    for path in (python, program):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    place.make(str(program))
    assert [place.run("-e", f"given={number}") for number in range(3)] == [0, 0, 0]
    assert place.found()["given"] == "2" and place.warm.starts == 3 and place.reported
