# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guide has of the conformance suite is what the suite's own report has."""

from __future__ import annotations

import pathlib
import re

import yaml

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def test_the_guide_has_what_the_report_has():
    (report,) = (DOCS / "conformance").glob("mcs-api-*.yaml")
    reported = yaml.safe_load(report.read_text("utf-8"))
    specs = {group["name"]: group["tests"] for group in reported["groups"]}
    every = [spec for group in specs.values() for spec in group]
    assert reported["passed"] == reported["total"] == len(every) and not reported["suitefailure"]
    assert all(spec["passed"] and spec["conformant"] and not spec["skipped"] and not spec["failed"] for spec in every)
    assert reported["implementation"]["version"] in report.name
    counts = f"{len(every)} specs, {len(specs['Required'])} required and {len(specs['Optional'])} optional"
    guide = re.sub(r"\s+", " ", (DOCS / "docsite" / "rst" / "guide_mcs.rst").read_text("utf-8"))
    commit = re.search(r"`([0-9a-f]{12})`", (DOCS / "conformance" / "README.md").read_text("utf-8"))
    assert counts in guide and commit is not None and commit.group(1) in guide
    table = f"{len(every)} ({len(specs['Required'])} required, {len(specs['Optional'])} optional)"
    assert table in (DOCS / "conformance" / "README.md").read_text("utf-8")
