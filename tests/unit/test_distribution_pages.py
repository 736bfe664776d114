# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of distributions and managed services: from one table, in the sidebar, with sources, and with examples that validate."""

from __future__ import annotations

import importlib.util
import ipaddress
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("distribution_pages", ROOT / "tests" / "docs" / "distribution_pages.py")
generator = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generator)
FACTS = generator.facts()["distributions"]
CLUSTERS = (ROOT / "docs" / "docsite" / "rst" / "guide_clusters.rst").read_text("utf-8")
RANGE = re.compile(r"\b\d+\.\d+\.\d+\.\d+/\d+\b")


def test_the_pages_are_in_step():
    assert {path.name: path.read_text("utf-8") for path in generator.PAGES.glob("guide_on_*.rst")} == {
        path.name: text for path, text in generator.pages().items()
    }, "run: tests/run distribution_pages"


def test_the_sidebar_has_all_of_them_and_no_other():
    sections = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text("utf-8"))["sections"]
    listed = [name for section in sections for name in section["toctree"] if name.startswith("guide_on_")]
    assert sorted(listed) == sorted(f"guide_on_{name}" for name in FACTS)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_each_has_what_a_reader_needs(name):
    row = FACTS[name]
    needed = {"title", "example", "notes", "ran"} | {field for field, dummy in generator.ROWS}
    assert needed == set(row) - {"sources", "documentation"} and row["notes"]
    sources = row.get("sources", []) + row.get("documentation", [])
    assert sources and all(url.startswith("https://") for url in sources)
    assert re.search(r"did not run|nothing of|no node", row["ran"], re.IGNORECASE), (
        "nobody ran it: the page has to admit it"
    )
    for cidr in row["example"]["pod_cidrs"] + row["example"]["service_cidrs"]:
        ipaddress.ip_network(cidr)
    block = (
        generator.file_of(name).read_text("utf-8").partition(".. code-block:: yaml\n\n")[2].partition("\n.. code")[0]
    )
    inventory = yaml.safe_load(block)
    host = next(iter(inventory["clusters"]["hosts"].values()))
    assert host["pod_cidrs"] == row["example"]["pod_cidrs"]


@pytest.mark.parametrize("name", ["kubeadm", "kubespray", "k3s", "rke2"])
def test_ranges_are_those_of_the_guide_to_clusters(name):
    found = {text for field in ("pods", "services") for text in RANGE.findall(FACTS[name][field])}
    assert found and found <= set(
        RANGE.findall(CLUSTERS.partition("\nDistributions\n")[2].partition("\nkubeadm\n~")[0])
    )
