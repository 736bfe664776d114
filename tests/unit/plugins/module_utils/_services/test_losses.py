# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors and global Services that a plan leaves without endpoints, alongside an evaluation of what clusters have before and after."""

from __future__ import annotations

import os
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key, Write
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import UPDATE, Change, Plan
from ansible_collections.multicluster.network.plugins.module_utils._services import losses
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.exports import read_exports
from ansible_collections.multicluster.network.plugins.module_utils._services.lost_mirrors import Sources, lost_mirrors
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import plan_cluster
from test_mirror_plan import GRANTS, MANAGER, NS, Fabric, endpoints, options, piece, service

#: Random fabrics and changes; ``tests/run what_if`` takes 1,000.
FABRICS = int(os.environ.get("MCN_FABRICS", "50"))
LABELS = ("mirror", "global")
SERVICES = ("web", "cart")
LOCAL = "gcp"
NETS = {"aws": "10.2.0", "gcp": "10.4.0", "merit": "10.6.0"}


class World(t.NamedTuple):
    """One Service of one cluster: which labels it has, how many pods, and whether these are inside of its grant."""

    labels: frozenset[str]
    pods: int
    inside: bool


Worlds = dict[tuple[str, str], World]


def before(chance: random.Random) -> Worlds:
    made: Worlds = {}
    for cluster in GRANTS:
        for name in SERVICES:
            if chance.random() < 0.8:
                labels = frozenset(label for label in LABELS if chance.random() < 0.7)
                made[cluster, name] = World(labels, chance.choice((0, 1, 1, 2)), True)
    return made


def changed(worlds: Worlds, chance: random.Random) -> Worlds:
    made: Worlds = {}
    for place, one in worlds.items():
        fate = chance.random()
        if fate < 0.15:
            one = one._replace(labels=frozenset(label for label in one.labels if chance.random() < 0.5))
        elif fate < 0.25:
            one = one._replace(inside=False)
        elif fate < 0.35:
            one = one._replace(pods=0)
        elif fate < 0.45:
            continue
        made[place] = one
    return made


def put(fabric: Fabric, worlds: Worlds) -> None:
    for cluster, here in fabric.sources.items():
        here.update(services=[], endpoints=[], slices=[])
        for (owner, name), one in worlds.items():
            if owner == cluster:
                labels = dict.fromkeys(one.labels, "yes") or {"none": "yes"}
                net = NETS[cluster] if one.inside else "10.99.0"
                ips = [f"{net}.{number + 1}" for number in range(one.pods)]
                here["services"].append(service(name, labels))
                here["endpoints"].append(dict(endpoints(name, *ips)))
                here["endpoints"][-1]["metadata"]["labels"] = labels
                here["slices"].append(piece(name, "-" + cluster, *ips, labels=labels))


def expected(old: Worlds, new: Worlds) -> set[str]:
    """Names of what answers before and not after, of which something could answer, by what clusters have alone."""

    def parts(worlds: Worlds, name: str, label: str) -> set[str]:
        return {
            place
            for (place, other), one in worlds.items()
            if other == name and label in one.labels and one.pods and one.inside
        }

    found = set()
    for name in SERVICES:
        for cluster in set(GRANTS) - {LOCAL}:
            gone = cluster in parts(old, name, "mirror") - parts(new, name, "mirror")
            if gone and new.get((cluster, name), World(frozenset(), 0, True)).pods:
                found.add(f"{cluster}-shop-73736d-{name}")
        shared = parts(old, name, "global")
        if (
            shared
            and not parts(new, name, "global")
            and any(new[place, name].pods for place in shared if (place, name) in new)
        ):
            found.add(f"gl-shop-73736d-{name}")
    return found


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_lost_is_what_answers_before_and_not_after_and_still_could(form):
    chosen = options(max_deletes=-1)
    for number in range(FABRICS):
        chance = random.Random(number)
        fabric, old = Fabric(form), before(chance)
        put(fabric, old)
        fabric.run(LOCAL)
        new = changed(old, chance)
        put(fabric, new)
        listed = {name: fabric.listed(name) for name in GRANTS}
        exports = {name: read_exports(name, one, chosen, Guard(GRANTS)) for name, one in listed.items()}
        writes = plan_cluster(LOCAL, listed[LOCAL], exports, (), chosen, MANAGER)[1]
        found = lost_mirrors(LOCAL, listed[LOCAL], Sources(listed, exports, chosen), chosen, writes)
        names = {loss.label.rpartition("/")[2] for loss in found}
        assert names == expected(old, new), (number, old, new)


def loss(number: int, cause: str = "cause", text: str = "text") -> losses.Loss:
    key = Key("v1", "Service", NS, f"s{number}")
    return losses.Loss(
        f"{cause}{number}", "a", "b", ("a", "b/x/s"), "a", f"Service a/{NS}/s{number}", frozenset([key]), text
    )


def test_the_screen_has_ten_lines_and_a_confirmed_class_stops_nothing():
    rows = [loss(number) for number in range(12)] + [loss(3)]
    found = losses.judged(rows, 0, ["cause3/a/b"])
    assert len(found["lines"]) == losses.MOST_LINES and found["lines"][0].startswith(
        "lost 2 pairs [cause3/a/b], a to b/x/s"
    )
    assert found["lost"] == 13 and len(found["stops"]) == 11 and "[pairs_lost]" in found["message"]
    assert losses.judged(rows, 11, ["cause3/a/b"])["stops"] == []
    assert losses.judged(rows, -1, [])["stops"] == [] and losses.judged([], 0, [])["lines"] == []


def test_what_a_cluster_calls_its_objects_is_no_template_and_moves_no_cursor():
    shown = str(losses.judged([loss(1, text="{{ x }}\x1b[2J")], 0, []))
    assert "{{ x" not in shown and "\x1b" not in shown


def test_what_may_not_be_lost_is_left_and_the_rest_is_written():
    change = [Change(UPDATE, "Service", f"a/{NS}/s{number}", {}, {}) for number in range(2)]
    writes = {"a": [Write(change[n], Key("v1", "Service", NS, f"s{n}"), {}, "u", None, False) for n in range(2)]}
    whole = Plan()
    whole.changes += change
    reach = losses.limited([loss(1)], {"max_lost_pairs": 0}, whole, writes, check=False, hold=True)
    assert reach["reachability"]["stops"] == ["cause1/a/b"]
    assert [write.key.name for write in writes["a"]] == ["s0"] and whole.changes == change[:1]
    assert [row.reason for row in whole.refused] == [losses.PAIRS_LOST]
    assert losses.limited([loss(1)], {"max_lost_pairs": 0, "state": "absent"}, whole, writes, False, False) == {}
    with pytest.raises(losses.PairsLost):
        losses.limited([loss(0)], {"max_lost_pairs": 0}, whole, writes, check=False, hold=False)
