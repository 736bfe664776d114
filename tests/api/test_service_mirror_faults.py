# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that fails in the middle of an apply, or of a list: the next run converges, and nothing was lost."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from faulty_server import FAULTS, Faulty, revive, timeout
from mirror_clusters import NAMESPACE, endpoints, namespace, other, service, two  # pylint: disable=unused-import

__all__ = ["other", "two"]
COUNT = 12
#: Faults that a run outlives, since it asks again.
OUTLIVED = ("too many requests", "answers lost")
MORE = {"mirror_as": "endpoints", "max_deletes": -1, "confirm_empty": ["aws"]}
EVERYTHING = {f"aws-shop-73736d-s{number}" for number in range(COUNT)}
KEPT = {f"aws-shop-73736d-s{number}" for number in range(1, COUNT, 2)}


@pytest.fixture
def dozen(two):
    """A dozen Services to mirror."""
    for number in range(COUNT):
        two.put("aws", service("shop", f"s{number}"), endpoints("shop", f"s{number}", "10.2.3.4"))
    two.put("gcp", namespace(NAMESPACE))
    return two


def through(two, relay, what, cluster="gcp"):
    """A run that reaches one cluster through the relay."""
    request = two.request(**dict(MORE, timeout=timeout(what)))
    for entry in request["clusters"]:
        if entry["name"] == cluster:
            entry["api_url"] = relay.url
    result = service_mirror.run(request)
    assert relay.met, "the fault was never met"
    return result


def converges(two, desired):
    """The next run gets there, and the one after it has nothing to do."""
    revive(two.servers["gcp"])
    result = two.run(**MORE)
    assert (result["failures"], result["refused"]) == ([], [])
    assert set(two.names("gcp", "Service")) == set(two.names("gcp", "Endpoints")) == desired
    mark = two.mark()
    assert not two.run(**MORE)["changed"] and two.writes(mark) == {"aws": [], "gcp": []}


@pytest.mark.parametrize("name", FAULTS)
def test_while_mirrors_are_made(dozen, name):
    with Faulty(dozen.servers["gcp"], FAULTS[name]) as relay:
        result = through(dozen, relay, name)
    # the failed run reported what it did not do
    assert name in OUTLIVED or result["failures"] or result["refused"], result
    converges(dozen, EVERYTHING)


@pytest.mark.parametrize(
    "name", ["killed in the middle", "conflict", "internal error for ever", "answers lost", "stall"]
)
def test_while_mirrors_are_swept(dozen, name):
    dozen.run(**MORE)
    for number in range(0, COUNT, 2):
        dozen.drop("aws", "Service", "shop", f"s{number}")
    with Faulty(dozen.servers["gcp"], FAULTS[name]) as relay:
        result = through(dozen, relay, name)
    # a deletion that meets a conflict has met an object made anew, which is nobody's failure
    assert name in OUTLIVED + ("conflict",) or result["failures"], result
    revive(dozen.servers["gcp"])
    assert set(dozen.names("gcp", "Service")) >= KEPT, "a run with failures took away what has a source"
    converges(dozen, KEPT)


@pytest.mark.parametrize(
    "cluster,what", [("aws", "stall"), ("aws", "cut"), ("aws", 500), ("aws", 429), ("gcp", "stall")]
)
def test_a_list_that_does_not_come(dozen, cluster, what):
    """Of the source, or of what is there: nothing is written, nothing is deleted, whatever the options allow."""
    dozen.run(**MORE)
    mark = dozen.mark()
    with Faulty(dozen.servers[cluster], {}, dict.fromkeys(range(2, 100), what)) as relay:
        result = through(dozen, relay, what, cluster)
    assert result["failures"][0]["reason"] == "source_incomplete" and not result["changed"]
    assert dozen.writes(mark) == {"aws": [], "gcp": []}
    converges(dozen, EVERYTHING)
