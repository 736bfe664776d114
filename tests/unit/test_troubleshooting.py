# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide "Troubleshooting" has every reason that checks of the inventory, the mesh and preflight give, and no other."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UTILS = ROOT / "plugins" / "module_utils"
GUIDE = (ROOT / "docs" / "docsite" / "rst" / "guide_troubleshooting.rst").read_text("utf-8")
SAID = "\n".join(re.findall(r"(?m)^   \* - (.*)$", GUIDE))
MESH = (
    "fabric/checks",
    "fabric/variables",
    "fabric/names",
    "fabric/groups",
    "fabric/claims",
    "topology/semaphore",
    "semaphore/peers",
)
#: Reasons of checks that people do not meet: another one comes first, or a module alone gives them.
INNER = {"name_invalid"}
#: Names of calls with the reason as an argument, and which one.
CALLS = {"Finding": 2, "ValueRefused": 0, "Refusal": 1, "note": 2, "_report": 1, "say": 3}


def words(path: pathlib.Path) -> set[str]:
    """Reasons that a file gives to findings and refusals."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in CALLS and len(node.args) > CALLS[name]:
                argument = node.args[CALLS[name]]
                found |= {
                    inner.value
                    for inner in ast.walk(argument)
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
                }
        elif isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 3:
            second = node.value.elts[1]
            found |= {second.value} if isinstance(second, ast.Constant) and isinstance(second.value, str) else set()
    return {reason for reason in found if re.fullmatch(r"[a-z]+(_[a-z]+)+", reason)}


FILES = [*(UTILS / "_mesh" / (name + ".py") for name in MESH), UTILS / "_status" / "preflight.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_reason_has_its_row(path):
    assert words(path), "the words are said in another way now"
    missing = {reason for reason in words(path) - INNER if f"``{reason}``" not in SAID}
    assert not missing, "add rows to guide_troubleshooting.rst"


def test_every_reason_of_an_api_server_has_its_row():
    source = (UTILS / "_kubernetes" / "errors.py").read_text("utf-8")
    said = set(re.findall(r'(?m)^    reason = "([a-z_]+)"', source))
    assert said, "the file changed"
    unmet = {
        "request_failed",
        "library_missing",
        "redirect_refused",
        "credential_failed",
        "not_found",
        "expired",
        "invalid",
        "manifest_invalid",
    }
    assert {reason for reason in said - unmet if f"``{reason}``" not in SAID} == set()


def test_every_reason_of_the_guide_is_given_by_something():
    code = "\n".join(
        path.read_text("utf-8")
        for folder in ("plugins", "roles")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".yml")
    )
    for reason in re.findall(r"``([a-z]+(?:_[a-z]+)+)``", SAID):
        assert re.search(rf"\b{reason}\b", code), reason
    for text in (
        "no handshake with",
        "it has no endpoint to send to",
        "is no peer of",
        "do not leave by",
        "does not reach pod",
        "nothing was looked at",
    ):
        assert f"``{text}" in SAID and text in code, text
