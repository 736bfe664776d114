# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback ``watch`` on a terminal with colours, at 80 and 120 columns (decision 73). `tests/run matrix` runs it on every release of ansible-core."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import terminal
import yaml
from ansible_collections.multicluster.network.plugins.callback import watch
from ansible_collections.multicluster.network.plugins.module_utils._status import model
from ansible_collections.multicluster.network.plugins.plugin_utils import watch_screen

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "browser"))

import fabrics  # pylint: disable=wrong-import-position

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
FRAME = re.compile(r"\x1b\[H(.*?)\x1b\[J", re.DOTALL)
#: Nothing listens there, so that a run takes a second and finds something.
SERVER = "https://127.0.0.1:1"
GUIDE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst" / "guide_status.rst").read_text(
    "utf-8"
)


@pytest.fixture(name="inventory")
def inventory_of_two(tmp_path):
    """Two clusters that do not answer."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": SERVER}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    hosts = {
        name: {"kubeconfig": str(tmp_path / "config"), "pod_cidrs": [cidr]}
        for name, cidr in (("aws", "10.2.0.0/16"), ("gcp", "10.4.0.0/16"))
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"clusters": {"hosts": hosts, "vars": local}}))
    return tmp_path / "hosts.yml"


def command(inventory, *more, playbook="multicluster.network.status"):
    return ["ansible-playbook", "-i", str(inventory), playbook, *more]


def environment(folder):
    return dict(
        os.environ,
        ANSIBLE_STDOUT_CALLBACK="multicluster.network.watch",
        ANSIBLE_HOME=str(folder / "home"),
        MULTICLUSTER_WATCH_INTERVAL="1",
        TMPDIR=str(folder),
    )


def frames(raw):
    """The pictures that were drawn in place, each as its lines."""
    inside = raw[raw.index(ENTER) : raw.index(LEAVE)]
    return [
        terminal.COLOUR.sub("", one).replace("\x1b[K", "").replace("\r\n", "\n").splitlines()
        for one in FRAME.findall(inside)
    ]


@pytest.mark.parametrize("columns, key", [(80, b"\x03"), (120, b"q")], ids=["80 Ctrl-C", "120 q"])
def test_the_table_is_kept_until_a_key_ends_it_with_a_clean_terminal(columns, key, inventory, tmp_path):
    steps = [("took", b"x"), ("reading", b""), ("took", key)]
    screen, same = terminal.session(command(inventory), columns, steps, env=environment(tmp_path), cwd=tmp_path)
    assert screen.status == 0, screen.raw
    assert same, "the modes of the terminal are not as they were"
    assert screen.raw.count(ENTER) == screen.raw.count(LEAVE) == 1 and screen.raw.startswith(ENTER)
    drawn = frames(screen.raw)
    tables = [one for one in drawn if any("fabric default: broken" in line for line in one)]
    assert len({one[0] for one in tables}) >= 2, "the second run's table was not drawn"
    assert max(len(line) for one in drawn for line in one) < columns and max(map(len, drawn)) < 24
    assert any(SERVER in line for line in tables[-1]) and any(line.startswith("aws ") for line in tables[-1])
    last = screen.raw[screen.raw.index(LEAVE) + len(LEAVE) :]
    text = terminal.COLOUR.sub("", last)
    assert "\x1b" not in text and "fabric default: broken" in text and "\x1b[31m" in last, (
        "the last table stays, in colour"
    )
    assert not list(tmp_path.glob("multicluster-watch-*")) and not list(tmp_path.glob("fabric-status*"))


def test_ctrl_c_ends_a_run_that_is_under_way(inventory, tmp_path):
    screen, same = terminal.session(
        command(inventory), 80, [("reading", b"\x03")], env=environment(tmp_path), cwd=tmp_path
    )
    assert screen.status == 0 and same and screen.raw.rstrip().endswith(LEAVE), screen.raw
    left = subprocess.run(["pgrep", "-f", str(inventory)], capture_output=True, text=True, check=False).stdout
    assert left == "", "a run goes on"


def test_a_run_without_a_table_shows_why(tmp_path):
    (tmp_path / "hosts.yml").write_text("clusters: {hosts: {aws: {pod_cidrs: [10.2.0.0/16]}}}\n")
    screen, same = terminal.session(
        command(tmp_path / "hosts.yml", "-e", "status_timeout=nonsense"),
        80,
        [("took", b"\x03")],
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    shown = "\n".join(frames(screen.raw)[-1])
    assert same and "left no table (exit code" in shown and len(shown.splitlines()) > 2, screen.raw


def test_where_there_is_no_terminal_tables_follow_each_other(inventory, tmp_path):
    process = subprocess.Popen(
        command(inventory),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
        cwd=tmp_path,
        text=True,
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if sum("fabric default: broken" in one for one in seen) == 2:
            process.send_signal(signal.SIGTERM)
            break
    rest = process.stdout.read()
    assert process.wait() == 0 and "\x1b" not in "".join(seen) + rest
    assert not list(tmp_path.glob("multicluster-watch-*"))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"args": ["multicluster.network.site"]}, "alone, and not multicluster.network.site"),
        ({"args": ["multicluster.network.status", "multicluster.network.site"]}, "alone"),
        ({"args": ["multicluster.network.status"], "check": True}, "--check"),
        ({"args": ["multicluster.network.status"], "become_ask_pass": True}, "--become-password-file"),
        ({"args": ["multicluster.network.status"], "vault_ids": ["dev@prompt"]}, "--vault-password-file"),
        ({"args": ["playbooks/status.yml"], "vault_ids": ["dev@file"]}, ""),
        ({"args": ["multicluster.network.status"]}, ""),
    ],
)
def test_what_is_repeated(arguments, words):
    assert bool(watch.refused(arguments)) == bool(words) and words in watch.refused(arguments)


def test_another_playbook_is_refused_before_it_does_anything(tmp_path):
    (tmp_path / "site.yml").write_text(
        "- {hosts: localhost, gather_facts: false, tasks: [{ansible.builtin.copy: {content: x, dest: written}}]}\n"
    )
    ran = subprocess.run(
        command("localhost,", playbook="site.yml"),
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 2 and "repeats multicluster.network.status alone" in ran.stderr
    assert not (tmp_path / "written").exists()


def picture(**change):
    facts = fabrics.facts({f"cluster-{number}": 2 for number in range(30)}, ("cluster-3-node-1",))
    return watch_screen.Picture("12:00:00 UTC, took 2 s", model.build(dict(facts, **change)))


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_large_fabric_fits_into_a_small_terminal(columns):
    drawn = watch_screen.lines(picture(), columns, 20, True)
    assert len(drawn) == 20 and max(len(terminal.COLOUR.sub("", line)) for line in drawn) <= columns
    assert "more lines" in drawn[-1]
    assert re.match(r"\x1b\[31mcluster-3 ", drawn[3]), "the cluster with the node that does not answer is first, in red"
    assert "VERDICT" in drawn[2] and ("POD RANGES" in drawn[2]) is (columns == 120)


def test_text_of_others_moves_no_cursor():
    text = "\x1b[2J\x1b[H\x07evil"
    shown = watch_screen.lines(picture(fabric="default")._replace(error=f"failed: {text}\n"), 80, 24, True)
    assert all("\x1b" not in terminal.COLOUR.sub("", line) and "\x07" not in line for line in shown)


def test_the_guide_has_the_command():
    assert "ANSIBLE_STDOUT_CALLBACK=multicluster.network.watch" in GUIDE and "MULTICLUSTER_WATCH_INTERVAL" in GUIDE
