# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guest of the kernel run gets a part of the tree: what its tests read must be in it."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]


def test_the_guest_gets_everything_that_its_tests_are_collected_from(tmp_path):
    parts = re.search(r'-cf "\$results/tree\.tar" (.*)', (REPO / "tests" / "vm" / "run").read_text())
    home = tmp_path / "ansible_collections" / "multicluster" / "network"
    home.mkdir(parents=True)
    packed = subprocess.run(
        ["tar", "-C", str(REPO), "--exclude=__pycache__", "-cf", "-", *parts.group(1).split()],
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "-C", str(home), "-xf", "-"], input=packed.stdout, check=True)
    # the guest has no Ansible
    (tmp_path / "ansible.py").write_text("""raise ModuleNotFoundError("No module named 'ansible'")\n""")
    words = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests/kernel"]
    done = subprocess.run(
        words,
        cwd=str(home),
        env=dict(os.environ, PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_what_the_guest_leaves_out_runs_elsewhere_and_nothing_is_skipped_for_being_there():
    """A skip inside the guest fails its run, so what the guest cannot do is not selected, by a mark with the reason, and `tests/run kernel` has it."""
    guest = (REPO / "tests" / "vm" / "run").read_text("utf-8")
    marked = re.findall(r'-m "([^"]*)" --junitxml', guest)
    assert marked == ["(kernel_wireguard or other_kernel) and not this_machine"]
    left_out = []
    for path in sorted((REPO / "tests" / "kernel").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = {
                ast.unparse(mark.func if isinstance(mark, ast.Call) else mark).rpartition(".")[2]: mark
                for mark in node.decorator_list
            }
            assert "SLOW" not in ast.unparse(marks["skipif"]) if "skipif" in marks else True, (
                f"{path.name}: mark {node.name} this_machine"
            )
            if "this_machine" in marks:
                assert len(marks["this_machine"].args) == 1 and marks["this_machine"].args[0].value, node.name
                assert "takes_long" not in marks, f"{node.name}: then no run has it"
                left_out.append(node.name)
    assert {"test_as_ansible_runs_it", "test_the_samples_have_todays_shape"} <= set(left_out)
