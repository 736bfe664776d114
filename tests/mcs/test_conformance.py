# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance suite of the Multi-Cluster Services API, a program built elsewhere from its public source, three times in a row."""

from __future__ import annotations

import collections
import ipaddress
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml
from harness import REPO

RUNS = int(os.environ.get("MCN_MCS_RUNS", "3"))
#: The one spec that cannot pass where two clusters have the same pod ranges: what cluster b answers to a name is compared with the
#: addresses that the pods have in cluster a, which in b are others' own. Any other spec that fails is a failure there too.
SAME_RANGES = (
    "A DNS query of the <service>.<ns>.svc.clusterset.local domain for a headless service should return the ready endpoint addresses "
    "of all the backing pods"
)


@pytest.fixture(scope="session")
def suite():
    """Without the program there is nothing to run, and nothing that looks like a pass."""
    given = os.environ.get("SUITE", "")
    assert given and os.access(given, os.X_OK), (
        f"SUITE must name the suite of kubernetes-sigs/mcs-api, built elsewhere; it is {given!r}"
    )
    return pathlib.Path(given).resolve()


def specs(report):
    """(name, state, message of its failure) of all specs in Ginkgo's own report, those of the suite's set-up left out."""
    for spec in json.loads(report.read_text("utf-8"))[0]["SpecReports"]:
        if spec["LeafNodeType"] == "It":
            words = [*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]]
            name = " ".join(part for part in words if part)
            yield name, spec["State"], spec.get("Failure", {}).get("Message", "")


def pod_ranges(topology):
    """By cluster: (its pod range, what other clusters see in its place), of a topology of the lab."""
    known = json.loads((REPO / "tests/lab/topologies" / (topology + ".json")).read_text("utf-8"))["clusters"]
    exported = {name: cluster.get("variables", {}).get("exported_pod_cidrs", {}) for name, cluster in known.items()}
    return {
        name: [(pods, exported[name].get(pods, pods)) for pods in cluster["pod_cidrs"]]
        for name, cluster in known.items()
    }


def excepted(topology):
    """The specs that must fail with these clusters' ranges."""
    real = [pods for rows in pod_ranges(topology).values() for pods, unused in rows]
    return {SAME_RANGES} if len(set(real)) < len(real) else set()


def answered_exported(message, topology, cluster):
    """Whether a failed comparison of addresses had, of each pod of a cluster, the exported address in the answer, and nothing more."""
    answer, desired = message.split("to have addresses")
    found = set(re.findall(r"^ *Address: ([0-9.]+)\r?$", answer, re.M))
    pods, seen = (ipaddress.ip_network(text) for text in pod_ranges(topology)[cluster][0])
    own = [int(ipaddress.ip_address(text)) for text in re.findall(r'"([0-9.]+)"', desired)]
    shift = int(seen.network_address) - int(pods.network_address)
    return bool(own) and found == {str(ipaddress.ip_address(number + shift)) for number in own}


@pytest.mark.parametrize("number", range(1, RUNS + 1))
def test_every_spec_of_the_suite_passes(plane, suite, number):
    """All of them, required and optional, none skipped, none tried again; with equal ranges all but the one that is named above."""
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
    rows = list(specs(folder / "ginkgo.json"))
    plane.ran(f"run {number}: {dict(collections.Counter(state for unused, state, unused_too in rows))}")
    if os.environ.get("REPORT"):
        kept = pathlib.Path(os.environ["REPORT"])
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("report.yaml", "report.html", "ginkgo.json", "log"):
            if (folder / name).exists():
                (kept / f"{number}-{name}").write_bytes((folder / name).read_bytes())
    chosen = bool(os.environ.get("FOCUS"))
    if chosen:
        rows = [row for row in rows if row[1] != "skipped"]
    expected = excepted(plane.topology) & {name for name, *unused in rows}
    wrong = [(name, state) for name, state, unused in rows if state != ("failed" if name in expected else "passed")]
    assert not wrong and len(rows) >= (1 if chosen else 20), (wrong, text[-6000:])
    assert (done.returncode == 0) == (not expected), (done.returncode, text[-6000:])
    for name, unused, message in rows:
        if name in expected:
            assert answered_exported(message, plane.topology, plane.clusters[0]), (name, message)
            plane.ran(
                f"run {number}: fails as it must with equal pod ranges, the answer is its pods' exported addresses: {name}"
            )
