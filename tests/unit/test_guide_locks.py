# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every sentence of the guides that promises something of locks and of what surrounds a node's mesh has a test, named here."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINUX, FLOWS = "tests/unit/plugins/module_utils/_linux/", "tests/unit/plugins/module_utils/_flows/"
#: (guide, sentence, the file and name of its test)
PROMISES = [
    (
        "continuous",
        "A second run waits, and then leaves with the name of the first, the time since when it runs, the processes and what frees the lock",
        FLOWS + "test_run_lock.py",
        "test_the_second_run_is_notified_who_holds_the_lock_who_keeps_it_and_how_to_free_it",
    ),
    (
        "continuous",
        "a link, a folder of another user or one below a folder that everybody may write into is refused",
        LINUX + "test_lock.py",
        "test_a_folder_of_somebody_else_or_a_link_is_refused_by_name",
    ),
    (
        "continuous",
        "one below a folder that everybody may write into is refused",
        LINUX + "test_lock.py",
        "test_a_folder_below_one_that_everybody_may_write_into_is_refused",
    ),
    (
        "continuous",
        "No other user can hold it or keep a run waiting",
        LINUX + "test_lock.py",
        "test_other_users_can_neither_take_nor_see_the_lock",
    ),
    (
        "continuous",
        "The lock is freed when the run ends, fails or is killed, also while it was being taken",
        "tests/api/test_run_lock.py",
        "test_a_run_that_is_killed_while_it_takes_its_lock_leaves_none",
    ),
    (
        "continuous",
        "the process that holds it watches ``ansible-playbook`` and nobody else",
        FLOWS + "test_run_lock.py",
        "test_a_worker_of_a_killed_playbook_takes_no_lock_for_init",
    ),
    (
        "continuous",
        "One that hangs after its run is ended by the next run after 20 seconds",
        FLOWS + "test_run_lock.py",
        "test_a_watchdog_that_hangs_after_its_run_is_ended",
    ),
    (
        "continuous",
        "A run that has had the lock for more than a day is said to hang; it is never ended for that",
        FLOWS + "test_run_lock.py",
        "test_a_run_that_has_had_the_lock_for_a_day_is_said_to_hang",
    ),
    (
        "continuous",
        "the Leases are free 30 seconds later",
        "tests/api/test_run_lock.py",
        "test_a_lease_that_nobody_renews_is_taken_over",
    ),
    (
        "awx",
        "between two jobs, or where a workflow is cancelled, it holds for ``multicluster_workflow_between`` seconds",
        "tests/api/test_run_lock.py",
        "test_the_lease_of_a_workflow_that_never_ended_runs_out",
    ),
    (
        "awx",
        "The jobs hold one Lease in each cluster together",
        "tests/api/test_run_lock.py",
        "test_jobs_of_a_workflow_hold_its_lease_together_and_it_stays_between_two",
    ),
    (
        "awx",
        "A slice with another plan changes nothing",
        "tests/api/test_slices.py",
        "test_a_slice_that_plans_something_else_calls_nobody_and_keeps_nobody",
    ),
    (
        "awx",
        "And this is the whole workflow, each job by such a pipe, with a slice on each of the machines",
        "tests/scenario/test_slices.py",
        "test_two_slices_on_two_execution_nodes_build_what_one_run_does",
    ),
    (
        "awx",
        "``--limit 'aws-*'`` converges some nodes only",
        "tests/scenario/test_slices.py",
        "test_a_limit_converges_these_nodes_and_no_other",
    ),
    (
        "awx",
        "where the controller is lost, the lock is free ``multicluster_workflow_between`` seconds after the last job",
        "tests/scenario/test_slices.py",
        "test_a_workflow_with_a_killed_controller_frees_the_fabric_after_its_bound",
    ),
    (
        "awx",
        "which has no plan then and changes nothing",
        "tests/awx/test_awx.py",
        "test_a_sliced_job_that_nobody_gave_a_plan_changes_nothing",
    ),
    (
        "limits",
        "a home folder that can be written",
        "tests/api/test_run_lock.py",
        "test_a_machine_without_a_place_for_the_lock_reports_it_and_goes_on",
    ),
    (
        "trust",
        "No other user, and no pod in the host's network, can hold one, keep a run waiting, or keep a node from taking a change back",
        "tests/kernel/test_transaction.py",
        "test_no_user_of_the_host_can_keep_it_from_taking_a_change_back",
    ),
    (
        "trust",
        "Locks are files in folders that only their user can enter",
        LINUX + "test_lock.py",
        "test_other_users_can_neither_take_nor_see_the_lock",
    ),
    (
        "trust",
        "folders of the collection that they may write into are closed again",
        "tests/kernel/test_transaction.py",
        "test_what_surrounds_the_mesh_is_drift_and_what_is_owned_is_repaired",
    ),
]


@pytest.mark.parametrize("guide, sentence, path, name", PROMISES, ids=[row[3] for row in PROMISES])
def test_the_guide_has_it_and_a_test_proves_it(guide, sentence, path, name):
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "docsite" / "rst" / f"guide_{guide}.rst").read_text("utf-8"))
    assert sentence in text
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
