# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The linter of playbooks and roles counts private variables, long expressions and playbooks, and lets counts only go down."""

from __future__ import annotations

import importlib.util
import json
import pathlib

import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("orchestration_linter", REPO / "tests" / "orchestration.py")
orchestration = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(orchestration)


@pytest.mark.parametrize(
    ("template", "numbers"),
    [
        ("plain", []),
        ("{{ a | b }} and {{ c | d | e }}", [1, 2]),
        ("{{ a | map('x | y') | list }}", [2]),
        ("{% for one in many | sort %}{{ one }}{% endfor %}", [1, 0, 0]),
    ],
)
def test_filters_are_counted_for_each_expression(template, numbers):
    assert orchestration.filters(template) == numbers


def test_conditions_without_braces_are_expressions():
    task = {"name": "a | b", "when": ["x | default(1) | int > 0"], "vars": {"y": "{{ z }}"}}
    assert sorted(orchestration.expressions([task])) == ["{{ x | default(1) | int > 0 }}", "{{ z }}"]


@pytest.fixture
def tree(tmp_path):
    def write(tasks, counts):
        (tmp_path / "playbooks").mkdir(exist_ok=True)
        (tmp_path / "roles").mkdir(exist_ok=True)
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "playbooks" / "one.yml").write_text(yaml.safe_dump([{"tasks": tasks}]), "utf-8")
        (tmp_path / "tests" / "orchestration.json").write_text(json.dumps(counts), "utf-8")
        return tmp_path

    return write


ZERO = {"private_variables": 0, "long_expressions": 0, "extracts": 0, "playbooks": 1}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("{{ __a_b }}", "private_variables"),
        ("{{ a | b | c | d }}", "long_expressions"),
        ("{{ hosts | map('extract', hostvars) }}", "extracts"),
    ],
)
def test_more_is_refused(tree, capsys, value, name):
    root = tree([{"debug": {"msg": value}}], ZERO)
    assert orchestration.main([], root) == 1
    assert f"{name}: 1 and 0 are allowed" in capsys.readouterr().err
    assert orchestration.main(["--write"], root) == 1


def test_counts_go_down(tree):
    root = tree([{"debug": {"msg": "{{ a }}"}}], dict(ZERO, private_variables=3, playbooks=2))
    assert orchestration.main([], root) == 0
    assert orchestration.main(["--write"], root) == 0
    assert json.loads((root / "tests" / "orchestration.json").read_text("utf-8")) == ZERO
