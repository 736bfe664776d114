# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback digest: diffs, causes that are named once, and real runs on a terminal."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import types

import pytest
import terminal
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import undone_lines
from ansible_collections.multicluster.network.plugins.plugin_utils import digest_diff, digest_space, digest_text
from digest_screen import Run
from hypothesis import example, given, strategies as st


def test_the_diff_of_a_file_is_short_and_that_of_objects_whole():
    text = (
        "--- before\n+++ after\n@@ -1 +1 @@\n+file /etc/x\n"
        + "+  - line\n" * 50
        + "+link wireguard.gcp\n+  mtu: 1420\n"
    )
    lines = digest_diff.short_diff(text, False)
    assert (
        lines[:2] == ["+link wireguard.gcp: mtu 1420", "+file /etc/x"]
        and lines[-1] == "(47 lines of files: -v shows them)"
    )
    assert len(lines) == 6 and len(digest_diff.short_diff(text, True)) == 56


def test_a_changed_line_shows_of_which_object_it_is():
    """Also where the name is too far above to be in the diff's context."""
    rows = [f"  line {number}" for number in range(20)]
    before = "\n".join(["ConfigMap oslo/dns", *rows, "ConfigMap rome/dns", *rows, "file /etc/x", *rows, ""])
    after = before.replace("  line 15", "  line 15a").replace("rome/dns\n  line 0", "rome/dns\n  line 0b")
    lines = Run().callback._get_diff({"before": before, "after": after})
    assert digest_diff.short_diff(lines, False, before, after) == [
        " ConfigMap oslo/dns",
        "-  line 15",
        "+  line 15a",
        " ConfigMap rome/dns",
        "-  line 0",
        "+  line 0b",
        "-  line 15",
        "+  line 15a",
        " file /etc/x",
        "-  line 15",
        "+  line 15a",
    ]


def test_an_error_is_reported_once_in_a_step_for_each_host():
    """A task fails, is rescued, and another one ends the host with the same words; another step that fails like it is news."""
    run = (
        Run()
        .play("Converge")
        .task("Converge keys")
        .result("n1", "failed", msg="no MAC")
        .result("n2", "failed", msg="no MAC")
    )
    run.task("Stop").result("n1", "failed", msg="no MAC").result("n2", "failed", msg="other")
    assert run.screen.lines == ["FAILED n1: Converge keys: no MAC", "FAILED n2: Stop: other"]
    run.play("Again").task("Converge keys").result("n1", "failed", msg="no MAC")
    assert run.screen.lines[2] == "FAILED n2: Converge keys: the same as n1"
    assert run.screen.lines[-1] == "FAILED n1: Converge keys: no MAC"


def test_a_cause_of_many_hosts_is_said_once_with_their_names():
    run = Run().play("Converge").task("mesh : Converge")
    for host in ("n1", "n2", "n3"):
        run.result(host, "failed", msg=f"{host}: Python does not start there")
    lines = run.end()
    assert lines[:2] == ["FAILED n1: Converge: Python does not start there", "FAILED n2, n3: Converge: the same as n1"]
    assert run.next == "next: fix what failed, see above, and run the same command again"


CAUSE = "kubeconfig /srv/gcp.kubeconfig cannot be read: No such file or directory"


def test_what_a_report_said_the_end_of_the_run_does_not_repeat():
    """The verdict has the cause, then the table of clusters; the failure of the last task only sums up."""
    run = Run().play("Prove").task("Show", "ansible.builtin.debug")
    run.result("aws", msg=["broken: 1 problem", f"  cluster gcp: {CAUSE} [kubeconfig_unreadable]"])
    table = [
        "CLUSTER  MESH",
        "gcp      failed",
        "failed:",
        f"  mesh, cluster gcp: {CAUSE} [kubeconfig_unreadable]",
        "  verify: cluster gcp: " + CAUSE,
    ]
    run.task("Table", "ansible.builtin.debug").result("aws", msg=table)
    run.task("End", "ansible.builtin.fail", run_once=True).result(
        "aws", "failed", msg=f"2 failed in gcp, first: mesh, cluster gcp: {CAUSE} [x]"
    )
    lines = run.end()
    assert sum(CAUSE in line for line in lines) == 1
    assert lines[2:6] == [
        "  CLUSTER  MESH",
        "  gcp      failed",
        "  failed: see above",
        "FAILED gcp: End: 2 failed in gcp, see above",
    ]


def test_a_refusal_that_the_verdict_named_the_table_only_counts():
    why = (
        "edge/shop/ingress: left out: '10.33.33.41' is a node's, which the mesh does not carry [host_network_in_clear]"
    )
    said = digest_space.Said()
    said.news(["not proven: 1 reason", "  service_mirror: refused " + why])
    assert said.news(
        ["CLUSTER  MESH", "edge     ok", "refused: " + why, "refused: edge/shop/web: the name is too long [x]"]
    ) == [
        "CLUSTER  MESH",
        "edge     ok",
        "refused: edge/shop/web: the name is too long [x]",
        "refused: 1, see above",
    ]


@given(st.lists(st.text("abcdefgh ", min_size=1, max_size=60), max_size=6))
def test_of_what_was_not_said_before_nothing_is_left_out(lines):
    """Whatever a report has first is shown, in its order."""
    said = digest_space.Said()
    assert said.news(lines) == lines


def test_differences_begin_with_what_packets_depend_on():
    """A first run makes files and keys too; they are no reason to hide its peers. What is not of our objects keeps its order."""
    order = (
        "key /k",
        "file /etc/x",
        "unit x",
        "nftables table ip x",
        "link wireguard.gcp",
        "peer wireguard.gcp abc",
        "route 10.4.0.0/16",
    )
    text = "--- before\n+++ after\n@@ -0,0 +1,12 @@\n" + "".join(f"+{name}\n+  of: {name}\n" for name in order)
    heads = [
        line[1:].partition(": of")[0]
        for line in digest_diff.short_diff(text, False)
        if line[1:2] != " " and line[:1] == "+"
    ]
    assert heads == [
        "peer wireguard.gcp abc",
        "route 10.4.0.0/16",
        "link wireguard.gcp",
        "nftables table ip x",
        "unit x",
        "key /k",
        "file /etc/x",
    ]
    other = "--- before\n+++ after\n@@ -0,0 +1,2 @@\n+file one\n+zone two\n+peer three\n"
    assert digest_diff.short_diff(other, False) == ["+file one", "+zone two", "+peer three"]


def test_every_kind_of_object_of_a_node_has_its_place():
    """A kind that has none leaves a whole host's objects in the order of their names, and its peers far below."""
    rooms = pathlib.Path(digest_text.__file__).parents[1] / "module_utils"
    kinds = set()
    for path in [*rooms.glob("_dataplane/*.py"), *rooms.glob("_linux/**/*.py"), *rooms.glob("_flows/node/*.py")]:
        kinds |= set(re.findall(r'\b(?:plan|todo)\.(?:create|update|delete)\(\s*f?"([a-z]+)', path.read_text()))
    assert {"peer", "route", "link", "nftables", "file"} <= kinds
    text = "@@ -0,0 +1,99 @@\n" + "".join(f"+{kind} x\n" for kind in sorted(kinds))
    assert [line.split()[0] for line in digest_diff.short_diff(text, False)][:2] == ["+peer", "+route"]


def test_an_object_that_comes_whole_is_one_line():
    text = (
        "@@ -0,0 +1,9 @@\n+peer wireguard.gcp abc\n+  allowed_ips:\n+  - 10.4.7.0/24\n+  - fd00::/64\n+  endpoint: 10.22.22.27:51821\n"
        "+link wireguard.gcp\n+  addresses: []\n+  mtu: 1420\n+route 10.4.0.0/16\n+  nested:\n+    of: x\n"
    )
    assert digest_diff.short_diff(text, False) == [
        "+peer wireguard.gcp abc: allowed_ips 10.4.7.0/24 fd00::/64, endpoint 10.22.22.27:51821",
        "+route 10.4.0.0/16",
        "+  nested:",
        "+    of: x",
        "+link wireguard.gcp: mtu 1420",
    ]


@example("-:::::::::::::::::: :", 20, "")
@given(st.text("ab/.:,- ", max_size=400), st.integers(20, 200), st.sampled_from(["", "  ", "  +", "-", "    "]))
def test_a_line_fits_a_terminal_and_loses_nothing(text, columns, lead):
    """But for words that are longer than a line: those are paths and commands, which are copied."""
    line = lead + text.strip()
    rows = digest_space.fitted(line, columns)
    words = [text for row in rows for text in row.split()]
    joined = "".join(words)
    sign = line.strip()[:1] if line.strip()[:1] in ("+", "-") else ""  # what was added or removed goes on as such
    assert (
        joined.replace(sign, "") == "".join(line.split()).replace(sign, "") if sign else joined == "".join(line.split())
    )
    assert all(len(row) <= columns or len(row.split()) <= 1 + bool(sign) for row in rows)
    assert digest_space.fitted(line, 0) == [line]


def test_a_command_is_copied_in_one_piece():
    command = "ansible-playbook multicluster.network.mesh -e mesh_confirm_empty=true --limit aws_nodes"
    rows = digest_space.fitted(
        f"  a sentence of some words before it, which is long enough: {command}, and some after it", 79
    )
    assert any(command in row for row in rows)


def test_plays_that_have_nothing_to_do_are_not_shown_and_a_limit_that_left_none_is():
    run = Run()
    for hosts in (["!all"], ["aws_nodes"]):
        run.callback.v2_playbook_on_play_start(types.SimpleNamespace(get_name=lambda: "Follow", hosts=hosts))
        run.callback.v2_playbook_on_no_hosts_matched()
    assert run.screen.lines == ["Follow: the run has no host for it"]


def test_the_last_line_shows_what_to_do():
    assert Run().play("a").task("t").result("n1").end()
    run = (
        Run()
        .play("a")
        .task("t")
        .result("n1", warnings=["disk full"])
        .result("n1", plan={"changes": []}, refused=[{"object": "x"}])
    )
    run.end()
    assert run.next == "next: read the warnings and refusals above"
    done = Run().play("a").task("t").result("n1", changed=True)
    done.end()
    assert done.next == "next: nothing to do"
    lines = undone_lines(["gcp"], ["gcp-node-1"], [])
    part = (
        Run()
        .play("a")
        .task("t")
        .result("n1", changed=True)
        .task("Show", "ansible.builtin.debug")
        .result("n1", msg=lines)
    )
    part.end()
    assert part.next == "next: run the same command without --limit, which does the rest"
    assert digest_text.next_line({"n1": {"failures": 0, "unreachable": 0}}, {"n1"}, True).endswith(
        "without --check, which writes it"
    )


def test_a_dictionary_is_lines_and_no_python():
    message = {
        "scope": {"limit": "", "nodes": 5, "not_asked": {"nodes": [], "capabilities": []}},
        "verdict": "broken",
        "reasons": ["faro: a", "faro: b"],
        "parts": {"mesh": {"value": "broken", "reasons": 2}, "coredns_rewrite": {"value": "proven", "reasons": 0}},
        "files": {},
        "left": [],
    }
    assert digest_text.debug_lines({"msg": message}) == [
        "scope:",
        "  limit: none",
        "  nodes: 5",
        "  not_asked: none",
        "verdict: broken",
        "reasons:",
        "  faro: a",
        "  faro: b",
        "parts:",
        "  mesh: value broken, reasons 2",
        "  coredns_rewrite: value proven, reasons 0",
        "files: none",
        "left: none",
    ]


def test_a_diff_of_all_clusters_is_no_hosts():
    run = Run().play("Names").task("Names of every cluster", run_once=True)
    run.now.diff = True
    given = types.SimpleNamespace(
        _host=types.SimpleNamespace(get_name=lambda: "berlin"),
        _task=run.now,
        _result={"diff": {"before": "", "after": "x\n"}},
    )
    run.callback.v2_on_file_diff(given)
    assert run.screen.lines == ["Names of every cluster:", "  +x"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_diff_moves_no_cursor(whole):
    """Nor with -v: what a cluster wrote into an object is shown, and does nothing."""
    lines = digest_diff.short_diff("+link \x1b]0;title\x07\x1b[2Jwg\u202e\n", whole)
    assert lines == ["+link ?]0;title??[2Jwg?"]


def differ(run, host, lines, **task):
    run.task("Converge", **task)
    text = "".join(f"{host} {number}\n" for number in range(lines))
    given_ = types.SimpleNamespace(
        _host=types.SimpleNamespace(get_name=lambda: host),
        _task=run.now,
        _result={"diff": {"before": "", "after": text}},
    )
    run.callback.v2_on_file_diff(given_)


def test_a_first_diff_over_many_hosts_fits_and_reports_what_it_left_out(tmp_path):
    path = tmp_path / "details"
    run = Run(details_file=str(path)).play("Converge the nodes")
    for number in range(500):
        differ(run, f"n{number:03}", 80)
    lines = run.end()
    assert len(lines) <= 80 + 2
    shown = [line for line in lines if line.startswith("  +")]
    assert max(sum(line.startswith(f"  +n{number:03}") for line in shown) for number in range(500)) == 20
    assert (
        lines[-2]
        == f"{40000 - len(shown):,} lines of diffs left out, of n000, n001, n002 and 497 more: {path} has all of them, and so has -v"
    )
    kept = path.read_text()
    assert kept.count("\n+n") == 40000 and "n499:\n" in kept


def test_a_diff_that_fits_is_whole_and_nothing_is_said():
    run = Run().play("p")
    differ(run, "n1", 3)
    assert run.end()[:-1] == ["n1:", "  +n1 0", "  +n1 1", "  +n1 2"]


@pytest.mark.parametrize("options", [{"verbosity": 1}, {"diff_lines": 0, "diff_lines_of_host": 0}])
def test_the_bounds_of_a_diff_can_be_lifted(options):
    run = Run(**options).play("p")
    differ(run, "n1", 500)
    assert sum(line.startswith("  +n1") for line in run.end()) == 500 and not any(
        "left out" in line for line in run.screen.lines
    )


def test_without_a_file_of_details_it_shows_how_to_have_one():
    run = Run().play("p")
    differ(run, "n1", 21)
    assert (
        run.end()[-2]
        == "1 lines of diffs left out, of n1: -v shows all of them, MULTICLUSTER_DIGEST_DETAILS=FILE keeps them"
    )


def test_what_five_hundred_hosts_warn_of_is_said_once():
    """The discovered interpreter, for one. What one host alone warns of is not lost among them."""
    run = Run().play("p").task("t")
    for number in range(500):
        run.result(f"n{number:03}", warnings=[f"Host 'n{number:03}' is using the discovered Python interpreter"])
    run.result("n007", warnings=["disk full"])
    lines = run.end()
    assert [line for line in lines if "WARNING" in line] == [
        "[WARNING]: Host 'n000' is using the discovered Python interpreter",
        "[WARNING]: disk full",
    ]
    assert lines[-2] == "499 more warnings, of other hosts"
    run = Run().play("p").task("t")
    for number in range(60):
        run.result(
            f"n{number:02}", warnings=["refused gcp/n9: bad [bad_key]", f"refused n{number:02}/x: bad [bad_key]", "odd"]
        )
    lines = run.end()
    assert lines[-2] == "59 more warnings, of other hosts", "refusals are no warnings of other hosts"
    assert sum("[bad_key]" in line for line in lines) == 2
    run = Run().play("p").task("t")
    for number in range(500):
        run.result("n1", warnings=[f"refused gcp/x-{number}: bad [bad_key]", "odd"])
    lines = run.end()
    assert sum("[bad_key]" in line for line in lines) == 30 and "[WARNING]: 470 more refusals, -v shows them" in lines
    run = Run().play("p").task("t")
    for number in range(500):
        run.result("n1", warnings=[f"strange thing {number}"])
    lines = run.end()
    assert sum("WARNING" in line for line in lines) == 30 and lines[-2] == "470 more warnings, -v shows them"


PLAYS = """
- name: Work
  hosts: all
  gather_facts: false
  tasks:
    - {name: fine, ansible.builtin.command: "true", changed_when: true}
    - {name: off, ansible.builtin.command: "false", when: false}
    - {name: wrong, ansible.builtin.fail: {msg: "no way\\nat all"}, when: inventory_hostname == 'h2', ignore_errors: true}
    - {name: fatal, ansible.builtin.fail: {msg: [first, second]}, when: inventory_hostname == 'h3'}
- name: Say
  hosts: all
  gather_facts: false
  tasks:
    - {name: noted, ansible.builtin.debug: {msg: [one, two]}, run_once: true}
    - {name: all, ansible.builtin.fail: {msg: "1 failed, first: coredns_rewrite, cluster oslo: no"}, run_once: true}
"""


def test_a_real_run(tmp_path):
    """By name, as a user sets it, in the ansible-core that is here."""
    (tmp_path / "book.yml").write_text(PLAYS)
    environment = dict(
        os.environ,
        ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest",
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_HOME=str(tmp_path / "home"),
    )
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "h1,h2,h3,",
            "-c",
            "local",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
            str(tmp_path / "book.yml"),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "failed, goes on: h2: wrong: no way at all",
        "FAILED h3: fatal: first",
        "FAILED h3: fatal: second",
    ]
    assert lines[3].startswith("Work: 3 hosts, 2 changed, 1 failed (")
    assert lines[4:7] == ["  one", "  two", "FAILED oslo: all: 1 failed, first: coredns_rewrite, cluster oslo: no"]
    assert lines[-2].startswith("done after ") and lines[-2].endswith(
        "3 hosts, 3 changed; 1 failed: h3; clusters at fault: oslo"
    )
    assert lines[-1] == "next: fix what failed, see above, and run the same command again"
    assert "Traceback" not in done.stderr and "WARNING" not in done.stderr, done.stderr


DIFFS = """
- name: Write
  hosts: all
  gather_facts: false
  tasks:
    - name: a file
      ansible.builtin.copy:
        content: "{0}"
        dest: "{{{{ inventory_dir }}}}/written"
"""


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verbose", [(), ("-v",)], ids=["plain", "v"])
def test_a_diff_is_seen_on_a_terminal(columns, verbose, tmp_path):
    """With colours as without them, line by line; what others wrote moves no cursor and has no colour of its own."""
    (tmp_path / "hosts").write_text("h1\n")
    (tmp_path / "written").write_text("kept\nold line\n")
    (tmp_path / "book.yml").write_text(DIFFS.format("kept\\nnew line\\n\\e[31mred\\e[2J\\n"))
    command = [
        "ansible-playbook",
        "-i",
        str(tmp_path / "hosts"),
        "-c",
        "local",
        "-e",
        "ansible_python_interpreter=/usr/bin/python3",
        "--check",
        "--diff",
    ]
    environment = dict(
        os.environ, ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest", ANSIBLE_HOME=str(tmp_path / "home")
    )
    screen = terminal.run([*command, *verbose, str(tmp_path / "book.yml")], columns, env=environment, cwd=tmp_path)
    assert screen.status == 0, screen.raw
    lines = [line.strip() for line in screen.lines]
    for expected in ("-old line", "+new line", "+?[31mred?[2J"):
        assert expected in lines, screen.text
    assert "\x1b" not in screen.text and "?[0" not in screen.text
    (added,) = [line for line in screen.raw.splitlines() if "+new line" in line]
    assert terminal.COLOUR.match(added), "the terminal has colours"


@pytest.mark.parametrize("name", ["mesh_report", "run_changes", "run_outcome"])
def test_what_only_joins_results_is_no_step(name):
    """Their text is shown by the task after them; a line of their own would say that something was done."""
    assert digest_text.is_housekeeping("multicluster.network." + name) and not digest_text.is_housekeeping(
        "multicluster.network.mesh_plan"
    )


def test_a_refusal_that_the_table_names_is_not_said_before_it_too():
    lines = [
        "refused: zone a/x: no version [coredns_version_unknown] (also in b)",
        "refused: c: no kind [kind_not_served]",
    ]
    warnings = [
        "refused zone a/x: no version [coredns_version_unknown]",
        "refused zone b/x: no version [coredns_version_unknown]",
        "refused pod d/e: its range [outside_grant]",
    ]
    run = Run().play("p").task("t").result("n1", warnings=warnings)
    assert not [line for line in run.screen.lines if "refused" in line]
    run.task("table", action="ansible.builtin.debug").result("n1", msg=lines)
    ended = run.end()
    assert sum("no version" in line for line in ended) == 1
    assert sum("refused pod d/e: its range [outside_grant]" in line for line in ended) == 1
