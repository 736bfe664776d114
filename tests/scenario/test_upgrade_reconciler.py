# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler and its timer of one revision are replaced by the role of another alone, and back. Part of ``tests/run upgrade``; in order."""

from __future__ import annotations

import io
import sys
import tarfile

import pytest
import test_continuous
from service_lab import until
from test_continuous import HOME, RECONCILER, collection, inventory, journal, put
from test_upgrade import Revision

SERVICE, TIMER = "multicluster-reconciler-default.service", "multicluster-site.timer"
FORMER = HOME + "/former"
STATE = {}


@pytest.fixture(scope="module")
def former():
    return Revision("UPGRADE_FROM")


@pytest.fixture(scope="module")
def present():
    return Revision("UPGRADE_TO")


def packed(home):
    """A revision as its folder has it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as target:
        for name in ("plugins", "roles", "playbooks", "meta", "galaxy.yml"):
            target.add(home / name, "ansible_collections/multicluster/network/" + name)
    return archive.getvalue()


@pytest.fixture(scope="module", autouse=True)
def ready(fabric, former):
    for folder, content in ((HOME, collection()), (FORMER, packed(former.home))):
        fabric.sh(RECONCILER, "mkdir", "-p", folder)
        put(fabric, folder + "/collection.tar.gz", content)
        fabric.sh(RECONCILER, "tar", "-xzf", folder + "/collection.tar.gz", "-C", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_continuous, "FABRIC", {})  # its capabilities have other names in former revisions
        inventory(fabric)
    STATE["before"] = files(fabric)


def files(fabric):
    """Units, and files of /etc/multicluster."""
    return sorted(
        fabric.sh(
            RECONCILER, "sh", "-c", "ls -d /etc/systemd/system/multicluster-[rs]* /etc/multicluster/* 2>/dev/null; true"
        ).split()
    )


def role(fabric, revision, place, **variables):
    own = {
        "multicluster_reconcilers": RECONCILER,
        "reconciler_inventory": HOME + "/hosts.yml",
        "reconciler_python": sys.executable,
        "reconciler_collections_path": place,
        "reconciler_capabilities": [],
        "reconciler_period": "1h",
        "reconciler_clusters": [{"name": name, "kubeconfig": f"{HOME}/{name}.kubeconfig"} for name in fabric.clusters],
    }
    return fabric.play("reconciler", variables=dict(own, **variables), collections=revision.collections)


def property_of(fabric, unit, name):
    return fabric.sh(RECONCILER, "systemctl", "show", "--value", "-p", name, unit).strip()


def runs_from(fabric, place, other):
    """That the service runs, of the one collection and not of the other, and that the timer waits."""
    until(lambda: property_of(fabric, SERVICE, "ActiveState") == "active", 60)
    process = property_of(fabric, SERVICE, "MainPID")
    text = fabric.sh(
        RECONCILER, "sh", "-c", f"tr '\\0' '\\n' </proc/{process}/cmdline; tr '\\0' '\\n' </proc/{process}/environ"
    )
    assert place + "/ansible_collections" in text or f"={place}\n" in text, text
    assert f"{other}/ansible_collections" not in text and f"={other}\n" not in text, text
    assert property_of(fabric, TIMER, "ActiveState") == "active"
    service = fabric.sh(RECONCILER, "systemctl", "cat", "multicluster-site.service")
    assert f"={place}" in service and f"={other}\n" not in service, service
    return process


def test_the_former_role_starts_its_service_and_its_timer(fabric, former):
    role(fabric, former, FORMER).ok()
    STATE["former"] = runs_from(fabric, FORMER, HOME)


@pytest.mark.parametrize("times", ["first", "again"])
def test_the_present_role_alone_replaces_both(fabric, former, present, times):
    if times == "again":
        role(fabric, former, FORMER).ok()
        STATE["former"] = runs_from(fabric, FORMER, HOME)
    assert role(fabric, present, HOME).ok().changed
    assert runs_from(fabric, HOME, FORMER) != STATE["former"], "the process of the former revision goes on"
    run = role(fabric, present, HOME).ok()
    assert not run.changed, run.changed
    assert int(property_of(fabric, SERVICE, "NRestarts") or 0) == 0, journal(fabric)


def test_nothing_of_either_stays(fabric, present):
    role(fabric, present, HOME, reconciler_state="absent").ok()
    assert files(fabric) == STATE["before"]
    units = fabric.sh(RECONCILER, "systemctl", "list-units", "--all", "--plain", "--no-legend", "multicluster-*")
    assert "reconciler" not in units and "site" not in units
