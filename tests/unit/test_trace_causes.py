# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each cause for why a packet does not arrive has a row in the guide, and something in the lab that is broken so."""

from __future__ import annotations

import ast
import pathlib
import re

from ansible_collections.multicluster.network.plugins.module_utils._trace import causes
from ansible_collections.multicluster.network.plugins.module_utils._trace.causes import FIXES

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "docsite" / "rst" / "guide_trace.rst").read_text("utf-8")
SCENARIOS = [ROOT / "tests" / "scenario" / name for name in ("trace_breaks.py", "test_trace_kubespan.py")]

#: Causes that need a lab of their own, with its scenario.
ALONE = {"translation_missing": "test_overlap.py"}


def rows():
    """The words of the table's first column."""
    table = GUIDE[GUIDE.index("\nThe causes\n") : GUIDE.index("\nFive of them")]
    return [
        cause for line in re.findall(r"(?m)^   \* - (``.*)$", table) for cause in re.findall(r"``([a-z_]+)``", line)
    ]


def broken():
    """The words that breakers say first."""
    found = set()
    for path in SCENARIOS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = [
                    one
                    for one in node.decorator_list
                    if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "breaks"
                ]
                found.update(cause for call in calls for cause in call.args[0].value.split())
    return found


def test_each_cause_has_one_row_in_the_guide():
    assert sorted(rows()) == sorted(FIXES)


def test_each_cause_is_broken_in_the_lab():
    assert broken() | set(ALONE) == set(FIXES)
    for cause, name in ALONE.items():
        assert f'"{cause}"' in (ROOT / "tests" / "scenario" / name).read_text("utf-8"), cause


def test_the_examples_of_the_guide_are_of_five_words():
    shown = re.findall(
        r"(?m)^    ([a-z_]+) on [a-z0-9-]+ \((?:proven|likely)\): ", GUIDE[GUIDE.index("\nFive of them") :]
    )
    assert len(set(shown)) == 5 and set(shown) <= set(FIXES)


def test_a_fix_names_the_device():
    """People copy it: a placeholder is no command."""
    for cause in (causes.DEVICE_DOWN, causes.REVERSE_PATH_FILTER):
        fault = causes.Fault(cause, "aws-node-1", 0, "text", "aws-node-1", device="wireguard.gcp")
        assert "wireguard.gcp" in fault.fix and "DEVICE" not in fault.fix
