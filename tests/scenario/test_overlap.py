# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters with the same pod and the same Service ranges become one network (translation 6). The tests build on each other, in their order."""

from __future__ import annotations

TOPOLOGY = "overlap"


def test_validate_refuses_them_without_a_mapping_and_gives_the_line_to_paste(fabric):
    run = fabric.play("validate", variables={"exported_pod_cidrs": {}})
    assert run.rc != 0 and "pod_subnet_overlap" in run.out
    assert "exported_pod_cidrs: {10.244.0.0/16: 10.192.0.0/16} for clusters/" in run.out.replace("\n", " "), run.out[
        -2000:
    ]
    fabric.play("validate").ok()


def test_every_pod_reaches_every_pod_of_the_other_cluster(fabric):
    run = fabric.play("site").ok()
    assert "all green" in run.out, run.out[-3000:]
    assert all(row["ok"] for row in fabric.reaches()), fabric.reaches()


def test_an_unchanged_run_changes_nothing(fabric):
    assert not fabric.play("mesh").ok().changed
