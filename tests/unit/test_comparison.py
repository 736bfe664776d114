# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide "Is it for me?": what it answers for this collection has a guide and a test, what it has of others a source and a date."""

from __future__ import annotations

import datetime
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "docsite" / "rst"
LABEL = re.compile(r"<ansible_collections\.multicluster\.network\.docsite\.(guide_[a-z_]+)>")
#: One row each, in this order.
OTHERS = ["Submariner", "Cilium Cluster Mesh", "Liqo", "Skupper", "Linkerd", "Istio", "Kilo", "NetBird", "Netmaker"]
OTHERS += ["Tailscale's operator"]


def tables():
    """The guide's two tables: each a list of rows, each row a list of its cells' texts, without the header."""
    found = []
    for line in (GUIDES / "guide_comparison.rst").read_text("utf-8").splitlines():
        if line.startswith(".. list-table::"):
            found.append([])
        elif line.startswith("   * -"):
            found[-1].append([line[6:].strip()])
        elif line.startswith("     -"):
            found[-1][-1].append(line[6:].strip())
    return [rows[1:] for rows in found]


ANSWERS, THEIRS = tables()


@pytest.mark.parametrize("row", [row for row in ANSWERS if row[1].startswith("yes")], ids=lambda row: row[0])
def test_each_yes_names_its_guide_and_a_test_that_exists(row):
    found = LABEL.search(row[2])
    assert found and (GUIDES / f"{found[1]}.rst").exists(), row
    path, name = row[3].strip("`").split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.M), row[3]


def test_each_answer_is_yes_or_no():
    assert len(ANSWERS) > 15
    assert {row[1].split(",")[0] for row in ANSWERS} == {"yes", "no"}


@pytest.mark.parametrize("row", THEIRS, ids=lambda row: row[0])
def test_each_other_program_has_a_source_and_a_date(row):
    assert all(row), row
    assert row[5].startswith("https://")
    assert datetime.date.fromisoformat(row[6]) >= datetime.date(2026, 1, 1)


def test_each_program_of_the_field_has_a_row():
    assert [row[0] for row in THEIRS] == OTHERS


def test_the_readme_agrees():
    """A row of its table with a yes for this collection has no other answer than the guide."""
    answers = {row[0]: row[1] for row in ANSWERS}
    assert answers["Clusters with the same pod and Service ranges"] == "yes"
    assert answers["The Multi-Cluster Services API of Kubernetes"] == "yes"
    assert answers["Every change is shown before it is made"] == "yes"
    assert answers["Identities of workloads, retries, weights, rules of layer 7"] == "no"
    table = (ROOT / "README.md").read_text("utf-8").split("## Next to other programs")[1].split("\n\n")[1]
    first = {cells[1].strip(): cells[2].strip() for cells in (line.split("|") for line in table.splitlines()[2:])}
    assert first["same pod ranges"] == first["Multi-Cluster Services API"] == "yes"
    assert first["the whole change before it is made"] == "yes"
    assert first["identities of workloads, layer 7"] == "no"
