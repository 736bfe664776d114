# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The combined vectors' objects, created in any order with runs in between, end in the same state."""

from __future__ import annotations

import copy
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants import fields
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    SOURCE,
    Options,
    parse_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, key_of
from hypothesis import given, settings, strategies as st

from .tenant_world import converged

VECTORS = pathlib.Path(__file__).resolve().parents[4] / "conformance" / "vectors" / "apinet.json"
COMBINED = [vector for vector in json.loads(VECTORS.read_text())["combined"] if vector["source"]]
OPTIONS = parse_options({"apinet_namespace": "apinet-system", "max_deletes": -1})


class Both:
    """Two stores in memory, and the network side of a vector, which fills in what it allocates."""

    def __init__(self, vector: t.Mapping[str, t.Any], options: Options = OPTIONS) -> None:
        self.options = options
        fills = {(given["kind"], given["name"]): given["set"] for given in vector.get("apinet_fills") or ()}

        def fill(obj: dict[str, t.Any], _before: t.Any) -> dict[str, t.Any]:
            return missing(obj, fills.get((obj["kind"], obj["metadata"]["name"]), {}))

        self.stores = {SOURCE: MemoryStore(prefix="s"), APINET: MemoryStore(prefix="a", fill=fill)}

    def create(self, side: str, obj: t.Mapping[str, t.Any]) -> None:
        self.stores[side].create(obj)
        if obj.get("status"):
            self.stores[side].patch(key_of(obj), {"status": obj["status"]}, True)

    def sync(self) -> int:
        before = sum(len(store.writes) for store in self.stores.values())
        result = converged(self.stores, self.options)
        assert not result.failed, result.failed
        return sum(len(store.writes) for store in self.stores.values()) - before

    def settle(self) -> t.Any:
        for _turn in range(10):
            if not self.sync():
                return [comparable(obj) for side in (SOURCE, APINET) for obj in self.stores[side].all()]
        raise AssertionError("it does not settle")


def missing(value: t.Any, added: t.Any) -> t.Any:
    """A value with what it lacks; entries of lists are matched by name."""
    if isinstance(added, dict) and isinstance(value, dict):
        return dict(value, **{key: missing(value.get(key), item) for key, item in added.items()})
    if isinstance(added, list) and isinstance(value, list):
        known = {item.get("name"): item for item in added if isinstance(item, dict)}
        return [missing(item, known.get(item.get("name"), {})) if isinstance(item, dict) else item for item in value]
    return copy.deepcopy(added) if value in (None, "", [], {}) else value


def comparable(obj: t.Any) -> t.Any:
    plain = fields.plain(obj)
    plain["metadata"].pop("resourceVersion", None)
    return plain


def things(vector: t.Mapping[str, t.Any]) -> list[tuple[str, t.Any]]:
    return [(SOURCE, obj) for obj in vector["source"]] + [(APINET, obj) for obj in vector["apinet"]]


def straight(vector: t.Mapping[str, t.Any], options: Options = OPTIONS) -> t.Any:
    world = Both(vector, options)
    for side, obj in things(vector):
        world.create(side, obj)
    return world.settle()


EXPECTED = {vector["id"]: straight(vector) for vector in COMBINED}


def renamed(value: t.Any) -> t.Any:
    """The same under the project's present name."""
    return json.loads(
        json.dumps(value).replace("onmetal-api-net://", "ironcore-net://").replace("api.onmetal.de", "ironcore.dev")
    )


@pytest.mark.parametrize("vector", COMBINED, ids=lambda vector: vector["id"])
def test_the_present_name_of_the_project_changes_names_only(vector: t.Mapping[str, t.Any]) -> None:
    options = parse_options({"apinet_namespace": "apinet-system", "max_deletes": -1, "profile": "ironcore"})
    assert straight(renamed(vector), options) == renamed(EXPECTED[vector["id"]])


@pytest.mark.parametrize("vector", COMBINED, ids=lambda vector: vector["id"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_order_ends_in_the_same_state(vector: t.Mapping[str, t.Any], data: st.DataObject) -> None:
    objects = things(vector)
    order = data.draw(st.permutations(range(len(objects))))
    pauses = data.draw(st.sets(st.integers(0, len(objects))))
    world = Both(vector)
    for number, index in enumerate(order):
        world.create(*objects[index])
        if number in pauses:
            world.sync()
    assert world.settle() == EXPECTED[vector["id"]]
