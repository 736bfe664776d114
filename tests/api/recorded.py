# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects as other programs wrote them, with who is on record for which field: kept as JSON, and written again as they were.

A file of tests/fixtures/originals is of one program and one release of Kubernetes, since servers differ in what they put on record::

    {"program": NAME, "kubernetes": MINOR, "stages": {STAGE: {CLUSTER: [OBJECT, ...]}}}

tests/originals writes them with RECORD=1, from what the real programs did. Who owns what cannot be posted: each owner's fields are sent
by the kind of request that made them, under that owner's name, and what the server then has on record must be what was recorded.
"""

from __future__ import annotations

import copy
import json
import pathlib
import typing as t

from api_server import minor_version

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "originals"
Object = dict[str, t.Any]
Stages = dict[str, dict[str, list[Object]]]
#: Of one server and one time.
_PASSING = ("uid", "resourceVersion", "creationTimestamp", "generation", "selfLink")
#: What a server assigns, and another server would assign differently.
_ASSIGNED = ("clusterIP", "clusterIPs")


def file_of(program: str, minor: int = 0) -> pathlib.Path:
    """Where a program's objects are, for the release of Kubernetes that the tests run on, or for 1.MINOR."""
    return FOLDER / f"{program}-1.{minor or minor_version()}.json"


def load(program: str, minor: int = 0) -> Stages:
    """{stage: {cluster: objects}}. Where nothing was recorded on this release there is nothing to test with, which is a failure.

    ``minor``: the release on which it was recorded, for objects of an API server that is not Kubernetes' own.
    """
    file = file_of(program, minor)
    assert file.exists(), f"{file} is missing: record it with tests/run originals ORIGINALS=DIR RECORD=1"
    return t.cast(Stages, json.loads(file.read_text("utf-8"))["stages"])


def keep(program: str, stages: Stages) -> None:
    """Write what a program did, in an order that is always the same."""
    FOLDER.mkdir(exist_ok=True)
    ordered = {
        stage: {name: sorted((lasting(obj) for obj in objects), key=_place) for name, objects in clusters.items()}
        for stage, clusters in stages.items()
    }
    made = {"program": program, "kubernetes": minor_version(), "stages": ordered}
    file_of(program).write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", "utf-8")


def lasting(obj: Object) -> Object:
    """An object without what belongs to one server and one time."""
    made = copy.deepcopy(obj)
    meta = made["metadata"]
    for name in _PASSING:
        meta.pop(name, None)
    for name in _ASSIGNED:
        if made.get("spec", {}).get(name) not in (None, "None", ["None"]):
            made["spec"].pop(name, None)
    for port in made.get("spec", {}).get("ports") or () if made.get("kind") == "Service" else ():
        port.pop("nodePort", None)
    for entry in meta.get("managedFields", ()):
        entry.pop("time", None)
    return made


def content(obj: Object) -> Object:
    """What an object has, whoever is on record for it."""
    made = lasting(obj)
    made["metadata"].pop("managedFields", None)
    return made


def owners(obj: Object) -> list[tuple[str, str, t.Any]]:
    """(manager, operation, fields), sorted."""
    entries = obj["metadata"].get("managedFields") or []
    return sorted(
        ((entry["manager"], entry["operation"], entry["fieldsV1"]) for entry in entries),
        key=lambda one: (one[0], one[1], json.dumps(one[2])),
    )


def replay(client: t.Any, obj: Object) -> Object:
    """Write an object as it was written: by its owners, one after the other, each with its kind of request. Returns what the server has."""
    resource = client.resource(obj["apiVersion"], obj["kind"])
    meta = obj["metadata"]
    here = resource.path(meta.get("namespace"), meta["name"])
    there = client.find(here) is not None
    for entry in sorted(meta["managedFields"], key=lambda one: bool(one.get("subresource"))):
        part = t.cast(Object, part_of(obj, entry["fieldsV1"]))
        part.update(apiVersion=obj["apiVersion"], kind=obj["kind"])
        part.setdefault("metadata", {}).update(name=meta["name"])
        if meta.get("namespace"):
            part["metadata"]["namespace"] = meta["namespace"]
        manager, place = entry["manager"], here + ("/" + entry["subresource"] if entry.get("subresource") else "")
        if entry["operation"] == "Apply":
            client.apply(place, part, manager, force=True)
        elif there:
            client.merge_patch(place, part, manager)
        else:
            client.create(resource.path(meta.get("namespace")), part, manager)
        there = True
        if part.get("status") and not entry.get("subresource"):  # older servers do not note by which path a status came
            client.merge_patch(here + "/status", {"status": part["status"]}, manager)
    made = t.cast(Object, client.get(here))
    assert content(made) == content(obj), "the server has something else than was recorded"
    assert owners(made) == owners(obj), (
        f"the server has others on record than was recorded: {owners(made)} and {owners(obj)}"
    )
    return made


def part_of(value: t.Any, tree: t.Mapping[str, t.Any]) -> t.Any:
    """What of a value is in a tree of fields."""
    names = [name for name in tree if name != "."]
    if not names:
        return copy.deepcopy(value) if not tree else ({} if isinstance(value, dict) else [])
    if all(name.startswith("f:") for name in names):
        return {name[2:]: part_of(value[name[2:]], tree[name]) for name in names if name[2:] in value}
    keyed = [(name[0], json.loads(name[2:]), tree[name]) for name in names]
    if keyed[0][0] == "v":
        desired = [one for dummy, one, inner in keyed]
        return [item for item in value if item in desired]
    found = [
        (item, key, inner)
        for item in value
        for dummy, key, inner in keyed
        if all(item.get(name) == given for name, given in key.items())
    ]
    return [dict(key, **part_of(item, inner)) for item, key, inner in found]


def _place(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
