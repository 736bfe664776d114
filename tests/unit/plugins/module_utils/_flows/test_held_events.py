# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of the reconciler about pairs that it does not lose."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler import held_events
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict, Forbidden

ROW = {"class": "service_unlabelled/gcp/aws", "cluster": "gcp", "pairs": 2, "message": "why"}


class Cluster:
    """What is written; ``answer``: what the next create raises."""

    def __init__(self):
        self.writes, self.answer = [], None

    def create(self, path, body, manager):
        if self.answer is not None:
            raise self.answer
        self.writes.append((path, body["message"], manager))

    def merge_patch(self, path, body, manager):
        self.writes.append((path, body["message"], manager))


@pytest.fixture
def said():
    return []


@pytest.fixture
def gcp():
    return Cluster()


@pytest.fixture
def events(gcp, said):
    return held_events.HeldEvents({"gcp": gcp}, "t", "kube-system", Log(said.append))


def test_a_class_is_written_once_in_the_cluster_that_keeps_it(events, gcp, said):
    for _turn in range(3):
        events.report("mcs", [ROW, dict(ROW, **{"class": "another/aws/gcp", "cluster": "aws"})])
    ((path, message, manager),) = gcp.writes
    assert path == "/api/v1/namespaces/kube-system/events" and manager == "multicluster.network/t"
    assert message.startswith("mcs keeps what would lose 2 pairs: why.")
    assert message.endswith("confirm with mcs_confirm_lost: [service_unlabelled/gcp/aws]") and said == []


def test_what_is_held_again_is_written_again_under_the_same_name(events, gcp):
    events.report("mcs", [ROW])
    events.report("mcs", [])
    gcp.answer = Conflict("gcp", "create", "AlreadyExists")
    events.report("mcs", [ROW])
    first, second = gcp.writes
    name = held_events.event_of("mcs", ROW, "t", "kube-system", "now")["metadata"]["name"]
    assert second[0] == f"{first[0]}/{name}" and second[1] == first[1]


def test_without_the_right_the_log_has_it_once_and_work_goes_on(events, gcp, said):
    gcp.answer = Forbidden("gcp", "create", "events is forbidden")
    for _turn in range(2):
        events.report("mcs", [])
        events.report("mcs", [ROW])
    assert len(said) == 1 and "create and patch of events in kube-system" in said[0] and gcp.writes == []
