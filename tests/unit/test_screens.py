# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people see on a terminal with colours, at 80 and 120 columns (decision 73). `tests/run matrix` runs it on every release of ansible-core."""

from __future__ import annotations

import os

import pytest
import terminal
import yaml

#: A server or a node wrote it: it clears the screen, and has a colour of its own.
HOSTILE = "no way to \x1b[31mthe server\x1b[2J at all, and so many words that no terminal of any width has room for them on one of its lines, however small"
COMMAND = "ansible-playbook multicluster.network.mesh -e mesh_confirm_empty=true --limit aws_nodes -e multicluster_capabilities=service_mirror,network_sets"
FAIL, DEBUG, FACT = "ansible.builtin.fail", "ansible.builtin.debug", "ansible.builtin.set_fact"
ON = {"gather_facts": False}
TASKS = {
    "first": [
        {
            "name": "Write",
            "ansible.builtin.copy": {"content": "a\n", "dest": "{{ inventory_dir }}/new-{{ inventory_hostname }}"},
        }
    ],
    "unchanged": [{"name": "Look", "ansible.builtin.command": {"cmd": "/bin/true"}, "changed_when": False}],
    "one error": [{"name": "Reach", FAIL: {"msg": HOSTILE}, "when": "inventory_hostname == 'h1'"}],
    "three errors": [
        {"name": "Reach", FAIL: {"msg": "{{ inventory_hostname }}: " + HOSTILE}, "ignore_errors": True},
        {"name": "Fix it by hand", FAIL: {"msg": "too few rows; run " + COMMAND}, "when": "inventory_hostname != 'h3'"},
    ],
    "a report": [
        {
            "name": "Show",
            DEBUG: {"msg": ["broken: 1 problem", "  h1: " + HOSTILE, "next: run " + COMMAND]},
            "run_once": True,
        }
    ],
}


def play(tmp_path, columns, tasks, *more):
    (tmp_path / "hosts").write_text("h1\nh2\nh3\n")
    quiet = {"name": "Follow", "hosts": "!all", **ON, "tasks": [{DEBUG: {"msg": "x"}}]}
    (tmp_path / "book.yml").write_text(yaml.safe_dump([{"name": "Work", "hosts": "all", **ON, "tasks": tasks}, quiet]))
    environment = dict(
        os.environ, ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest", ANSIBLE_HOME=str(tmp_path / "home")
    )
    command = [
        "ansible-playbook",
        "-i",
        str(tmp_path / "hosts"),
        "-c",
        "local",
        "-e",
        "ansible_python_interpreter=/usr/bin/python3",
        *more,
    ]
    return terminal.run([*command, str(tmp_path / "book.yml")], columns, env=environment, cwd=tmp_path)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("case", sorted(TASKS))
@pytest.mark.parametrize("more", [(), ("--check", "--diff")], ids=["run", "check"])
def test_a_screen_fits_moves_no_cursor_and_ends_with_what_to_do(columns, case, more, tmp_path):
    screen = play(tmp_path, columns, TASKS[case], *more)
    assert (screen.status != 0) is ("error" in case), screen.text
    lines = [line for line in screen.lines if line]
    wide = [line for line in lines if len(line) > columns - 1 and COMMAND not in line]
    assert not wide, wide
    assert "\x1b" not in screen.text, "colours alone"
    assert "Follow" not in screen.text, "a play for which another left nothing to do"
    assert len([line for line in lines if line.startswith("next: ")]) == 1 and "done after" in screen.text
    last = screen.text[screen.text.index("next: ") :]
    expected = {"one error": "fix what failed", "three errors": "fix what failed", "a report": COMMAND}.get(case)
    expected = expected or ("without --check" if more and case == "first" else "nothing to do")
    assert expected in last, screen.text


@pytest.mark.parametrize("columns", [80, 120])
def test_one_cause_of_three_hosts_is_said_once(columns, tmp_path):
    screen = play(tmp_path, columns, TASKS["three errors"])
    words = " ".join(screen.text.split())
    assert words.count("no way to ?[31mthe server?[2J at all") == 1 and words.count("too few rows") == 1, screen.text
    assert "the same as" in words and any(COMMAND in line for line in screen.lines), "copied in one piece"


def test_what_would_be_lost_is_red_and_what_may_be_is_yellow(tmp_path):
    lines = {
        "lost 4 pairs [outside_grant/aws/gcp], a to b by wireguard.gcp": "31",
        "Service gcp/shop/web keeps no endpoint": "31",
        "address 203.0.113.7 of gcp/shop/web has no node that could have it": "31",
        "a run stops before its first write, see mesh_max_lost_pairs": "31",
        "risked 1 pair [key_changed/aws/gcp], a to b": "33",
        "not proven: a could not be compared": "33",
        "address 203.0.113.7 of gcp/shop/web moves from a to b": "33",
        "gained 2 pairs [gained/aws/gcp], a to b": "32",
        "what if: a is away": None,
    }
    screen = play(tmp_path, 120, [{"name": "Show", DEBUG: {"msg": list(lines)}, "run_once": True}])
    found = {}
    for row in screen.raw.replace("\r", "").split("\n"):
        for line in lines:
            if line in row:
                found[line] = next((one for one in ("31", "32", "33") if f";{one}m" in row or f"[{one}m" in row), None)
    assert found == lines, screen.raw[-3000:]
