# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance suite of the Multi-Cluster Services API, a program built elsewhere from its public source, three times in a row."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import yaml
from harness import REPO

RUNS = int(os.environ.get("MCN_MCS_RUNS", "3"))


@pytest.fixture(scope="session")
def suite():
    """Without the program there is nothing to run, and nothing that looks like a pass."""
    given = os.environ.get("SUITE", "")
    assert given and os.access(given, os.X_OK), (
        f"SUITE must name the suite of kubernetes-sigs/mcs-api, built elsewhere; it is {given!r}"
    )
    return pathlib.Path(given).resolve()


def counted(report):
    """{state: names} of all specs in Ginkgo's own report, those of the suite's set-up left out."""
    found = {}
    for spec in json.loads(report.read_text("utf-8"))[0]["SpecReports"]:
        if spec["LeafNodeType"] == "It":
            words = [*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]]
            found.setdefault(spec["State"], []).append(" ".join(word for word in words if word))
    return found


@pytest.mark.parametrize("number", range(1, RUNS + 1))
def test_every_spec_of_the_suite_passes(plane, suite, number):
    """All of them, required and optional, none skipped, none tried again."""
    folder = plane.state / f"conformance-{number}"
    folder.mkdir(exist_ok=True)
    galaxy = yaml.safe_load((REPO / "galaxy.yml").read_text("utf-8"))
    words = [
        "-kubeconfig",
        str(plane.state / "kubeconfig"),
        "-contexts",
        ",".join(plane.clusters),
        "-test.timeout",
        "0",
        "-organization",
        galaxy["namespace"] + "." + galaxy["name"],
        "-project",
        "Ansible collection multicluster.network",
        "-version",
        galaxy["version"],
        "-url",
        galaxy["repository"],
        "-ginkgo.no-color",
        "-ginkgo.json-report",
        "ginkgo.json",
        *(["-ginkgo.focus", os.environ["FOCUS"]] if os.environ.get("FOCUS") else []),
    ]
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            [str(suite), *words], cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
        )
    text = (folder / "log").read_text("utf-8", "replace")
    assert (folder / "ginkgo.json").exists(), text[-4000:]
    found = counted(folder / "ginkgo.json")
    plane.ran(f"run {number}: { ({state: len(names) for state, names in found.items()}) }")
    if os.environ.get("REPORT"):
        kept = pathlib.Path(os.environ["REPORT"])
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("report.yaml", "report.html", "ginkgo.json", "log"):
            if (folder / name).exists():
                (kept / f"{number}-{name}").write_bytes((folder / name).read_bytes())
    wrong = {
        state: names
        for state, names in found.items()
        if state != "passed" and not (state == "skipped" and os.environ.get("FOCUS"))
    }
    assert done.returncode == 0 and not wrong and len(found["passed"]) >= (1 if os.environ.get("FOCUS") else 20), (
        wrong,
        text[-6000:],
    )
