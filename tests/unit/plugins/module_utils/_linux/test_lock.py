# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a host and the file under it: real processes, killed ones, other users, what others put in the way."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import signal
import subprocess
import sys
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import lock, processes
from ansible_collections.multicluster.network.plugins.module_utils._linux.host.lock import (
    HostLock,
    LockFile,
    read_record,
)
from hypothesis import given, strategies as st

NAME = f"multicluster.network/test-lock-{os.getpid()}"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: only root can become another user")
NOBODY = pwd.getpwnam("nobody").pw_uid
HOLDER = (
    "import sys, time; from ansible_collections.multicluster.network.plugins.module_utils._linux.host import lock; lock.FOLDER = sys.argv[2]; "
    "lock.HostLock(sys.argv[1], 0).__enter__(); print('held', flush=True); time.sleep(600)"
)


@pytest.fixture(name="folder", autouse=True)
def folder_fixture(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture(name="start")
def start_fixture():
    made = []

    def start(code, *words):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env=environment
        )
        made.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def full_disk():
    """No file can be written any more, by the kernel's own error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_lock_of_which_nobody_knows(folder):
    with full_disk(), pytest.raises(LinuxError, match=f"lock .*{folder}.*File too large"):
        HostLock(NAME, 0).__enter__()
    with HostLock(NAME, 0):
        pass
    assert not folder.exists()


def test_the_record_of_a_lock_is_there_though_the_disk_got_full(folder):
    held = LockFile(str(folder), "x.lock")
    assert held.take({"a": 1})
    with full_disk(), pytest.raises(OSError):
        held.tell({"a": 2, "b": 3})
    assert held.record() == {"a": 1}
    held.tell({})
    assert held.record() == {}
    held.release()


def test_two_runs_on_one_host_take_turns(folder):
    with (
        HostLock(NAME, 1),
        pytest.raises(
            LinuxError, match="another run .*process {0} .* since 2.*`kill {0}` on this host".format(os.getpid())
        ),
        HostLock(NAME, 0.3),
    ):
        raise AssertionError("both hold the lock")
    with HostLock(NAME, 0):
        (path,) = folder.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists(), "what is given back leaves nothing"


def test_a_killed_holder_leaves_the_lock_free(start, folder):
    process = start(HOLDER, NAME, str(folder))
    with pytest.raises(LinuxError, match=f"process {process.pid} "), HostLock(NAME, 0):
        raise AssertionError("both hold the lock")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(folder.iterdir())
    with HostLock(NAME, 0):
        pass
    assert not folder.exists()


@AS_ROOT
def test_other_users_can_neither_take_nor_see_the_lock(folder):
    attempt = (
        "import fcntl, os, sys; os.setuid(int(sys.argv[2])); print('held', flush=True)\n"
        "try: fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print('taken')\n"
        "except PermissionError: print('refused')"
    )
    folder.parent.chmod(0o755)
    with HostLock(NAME, 0):
        (path,) = folder.iterdir()
        done = subprocess.run(
            [sys.executable, "-c", attempt, str(path), str(NOBODY)], capture_output=True, text=True, check=True
        )
    assert done.stdout.split() == ["held", "refused"]


@AS_ROOT
def test_a_folder_of_somebody_else_or_a_link_is_refused_by_name(folder, tmp_path):
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(LinuxError, match="locks: it belongs to another user"), HostLock(NAME, 0):
        pass
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinuxError, match="locks: it is a symbolic link or no folder"), HostLock(NAME, 0):
        pass
    folder.unlink()
    folder.write_text("")
    with pytest.raises(LinuxError, match="locks: it is (no folder|a symbolic link or no folder)"), HostLock(NAME, 0):
        pass


def test_a_folder_below_one_that_everybody_may_write_into_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(LinuxError, match="everybody may write into .*open"):
        LockFile(str(tmp_path / "open" / "locks"), "x").take({})
    (tmp_path / "open").chmod(0o1777)
    assert LockFile(str(tmp_path / "open" / "locks"), "x").take({})


def test_a_folder_that_was_open_is_closed_and_what_others_put_there_goes(folder, tmp_path):
    def reopen():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)

    victim = tmp_path / "victim"
    victim.write_text("keep me")
    name = NAME.replace("/", "_") + ".lock"
    for put in (
        lambda path: path.symlink_to(victim),
        os.mkfifo,
        lambda path: path.mkdir(),
        lambda path: os.link(victim, path),
    ):
        reopen()
        put(folder / name)
        with HostLock(NAME, 0):
            assert folder.stat().st_mode & 0o777 == 0o700
            assert (folder / name).is_file() and not (folder / name).is_symlink()
        for left in folder.glob("*") if folder.exists() else ():
            left.rmdir()  # what was a folder is set aside
    if os.geteuid() == 0:
        reopen()
        (folder / name).write_text("")
        os.chown(folder / name, NOBODY, NOBODY)
        with HostLock(NAME, 0):
            assert (folder / name).stat().st_uid == 0
    assert victim.read_text() == "keep me"


def test_many_who_take_and_remove_it_never_meet(folder):
    inside, most, errors = [], [], []

    def work():
        try:
            for _turn in range(20):
                one = LockFile(str(folder), "busy.lock")
                while not one.take({}):
                    pass
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                one.release()
        except Exception as error:  # pylint: disable=broad-except  # shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work) for _number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(most) == 120 and set(most) == {1}


@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()),
    )
)
def test_whatever_a_lock_holds_is_a_map(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("said")
    (folder / "x").write_bytes(content)
    assert isinstance(read_record(str(folder), "x"), dict)


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handles", [True, False])
def test_a_process_is_watched_until_it_ends_and_no_other_of_its_number(start, monkeypatch, handles):
    if not handles:
        monkeypatch.setattr(processes, "open_process", lambda pid: None)
    process = start("import time; print('held', flush=True); time.sleep(600)")
    born = processes.birth(process.pid)
    assert (
        processes.lives(process.pid, born)
        and not processes.lives(process.pid, born + "0")
        and not processes.end(process.pid, "1")
    )
    stop = threading.Event()
    watch = threading.Thread(target=processes.outlive, args=(process.pid, born, stop))
    watch.start()
    assert not stop.wait(0.6)
    assert processes.end(process.pid, born)
    watch.join(30)
    assert stop.is_set() and not watch.is_alive()
    process.wait()
    assert (
        not processes.lives(process.pid, born)
        and processes.birth(process.pid) == ""
        and not processes.end(process.pid, born)
    )


@pytest.mark.parametrize("pid, born", [(1, ""), (1, "x"), (0, "1"), ("1", "1"), (None, None), (-1, "5"), (2**40, "5")])
def test_who_is_not_named_exactly_is_not_alive(pid, born):
    assert not processes.lives(pid, born)
    assert not processes.end(pid, born)


def test_a_process_descends_from_those_that_started_it():
    assert processes.descends(os.getpid(), os.getpid()) and processes.descends(os.getpid(), os.getppid())
    assert (
        not processes.descends(os.getppid(), os.getpid())
        and not processes.descends(None, os.getpid())
        and not processes.descends(1, os.getpid())
    )


def test_a_folder_that_another_run_removes_between_two_looks_is_made_again(folder, monkeypatch):
    """It is there for the first look and gone for the second: that is no file in its place."""
    make, tries = os.makedirs, []

    def late(path, *arguments, **options):
        tries.append(path)
        if len(tries) == 1:
            raise FileExistsError(path)
        return make(path, *arguments, **options)

    monkeypatch.setattr(os, "makedirs", late)
    monkeypatch.setattr(os.path, "lexists", lambda path: True)
    with HostLock(NAME, 0):
        assert len(tries) == 2
