# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant as apinetlet wrote it, kept without the uids of one time and made again with those of another server.

Twins are named after the uid of what they come from, and both sides mention each other's uids in labels, references and provider IDs. In a recording
each uid is a name of its owner, ``{source/LoadBalancer/lb-1}``; the names nest, as the names do.
"""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import merge_trees
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from api_server import minor_version
from recorded import content, load, owners, part_of
from tenant_servers import NAMESPACE, Lab
from tenants_life import POOL, Object

#: Upstream's own API servers note who wrote what, whatever release of Kubernetes passes their kinds on.
RECORDED_ON = 36
#: Not a uid of any server: what a recording has in place of one.
_OPEN = ("{" + SOURCE + "/", "{" + APINET + "/")
_FIRST = [SOURCE, APINET]


def in_words(found: t.Mapping[str, t.Iterable[Object]]) -> dict[str, list[Object]]:
    """Objects of both sides with a name in place of each uid."""
    words: dict[str, str] = {}
    for side in _FIRST:
        for obj in found[side]:
            words[obj["metadata"]["uid"]] = _placeholder(side, obj["kind"], _replaced(obj["metadata"]["name"], words))
    return {side: [_plain(_replaced(obj, words)) for obj in found[side]] for side in _FIRST}


def _plain(obj: Object) -> Object:
    """Without the nulls, the empty words and the empty status that a server of compiled types answers with: they say nothing, and servers of definitions
    keep or take none."""
    made = t.cast(Object, _without_empty(obj))
    return {key: value for key, value in made.items() if key != "status" or value}


def _without_empty(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _without_empty(inner) for key, inner in value.items() if inner is not None and inner != ""}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def _placeholder(side: str, kind: str, name: str) -> str:
    return f"{{{side}/{kind}/{name}}}"


def _replaced(value: t.Any, words: t.Mapping[str, str]) -> t.Any:
    """A value of JSON with every key of the words replaced, the longest first since words nest."""
    text = json.dumps(value)
    for uid in sorted(words, key=len, reverse=True):
        text = text.replace(uid, words[uid])
    return json.loads(text)


def _open(value: t.Any) -> bool:
    text = json.dumps(value)
    return any(start in text for start in _OPEN)


def _known(value: t.Any) -> t.Any:
    """A value without what mentions somebody who is not there yet."""
    if isinstance(value, dict):
        return {key: _known(inner) for key, inner in value.items() if not isinstance(inner, str) or not _open(inner)}
    if isinstance(value, list):
        return [_known(inner) for inner in value if not _open(inner)]
    return value


class Recorded:
    """What apinetlet wrote at its first start, and what it applies when it starts again after us. The network side is the collection's."""

    def __init__(self, lab: Lab, program: str, prefixes: t.Sequence[str]) -> None:
        self.lab, self.prefixes = lab, list(prefixes)
        self.stages = {
            stage: {side: [_plain(obj) for obj in group] for side, group in sides.items()}
            for stage, sides in load(program, RECORDED_ON).items()
        }
        self.uids: dict[str, str] = {}

    def begin(self) -> None:
        """Everything is made, then completed by what mentions others, then written down as its owners'."""
        stage = self.stages["begun"]
        for side in _FIRST:
            # twins of others are named after those, and networks come before what is in them
            for obj in sorted(
                stage[side], key=lambda one: (one["metadata"]["name"].count("{"), one["kind"] != "Network")
            ):
                self._make(side, obj)
        for side in _FIRST:
            for obj in stage[side]:
                self._complete(side, obj)

    def _make(self, side: str, recorded: Object) -> None:
        obj = _replaced(recorded, self.uids)
        meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        assert not _open(meta["name"]), meta
        body = _known({key: value for key, value in obj.items() if key not in ("metadata", "status")})
        made = self.lab.clients[side].create(
            self.lab.path(side, obj["kind"], meta["namespace"]), dict(body, metadata=_known(meta)), POOL
        )
        self.uids[_placeholder(side, obj["kind"], recorded["metadata"]["name"])] = made["metadata"]["uid"]

    def _complete(self, side: str, recorded: Object) -> None:
        obj = _replaced(recorded, self.uids)
        assert not _open(obj), obj
        meta, client = obj["metadata"], self.lab.clients[side]
        path = self.lab.path(side, obj["kind"], meta["namespace"], meta["name"])
        body = copy.deepcopy(obj)
        record = obj["metadata"]["managedFields"] = _as_noted_here(obj)
        body["metadata"].pop("managedFields", None)
        client.merge_patch(path, body, POOL)
        if obj.get("status"):
            client.merge_patch(path + "/status", {"status": obj["status"]}, POOL)
        client.merge_patch(
            path, {"metadata": {"managedFields": record or [{}]}}, POOL
        )  # an empty entry is the API's way to say nobody
        made = dict(client.get(path), apiVersion=obj["apiVersion"], kind=obj["kind"])
        assert content(made) == content(obj), (
            f"the server has something else than was recorded: {content(made)} and {content(obj)}"
        )
        made = _as_deep(made, obj)
        assert owners(made) == owners(obj), (
            f"the server has others on record than was recorded: {owners(made)} and {owners(obj)}"
        )

    def network(self) -> bool:
        results = [self.lab.allocate(public_prefixes=self.prefixes), self.lab.schedule()]
        for result in results:
            assert result["failures"] == [], result
        return any([result["changed"] for result in results] + [self.lab.agents()])

    def again(self) -> None:
        """It applies the very fields that it applied to each of its twins when it really came back."""
        for obj in self.stages["returned"][SOURCE]:
            here = self.lab.get(SOURCE, obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
            self.uids[_placeholder(SOURCE, obj["kind"], obj["metadata"]["name"])] = here["metadata"]["uid"]
        twins = [(obj, entry) for obj in self.stages["returned"][APINET] for entry in owned(obj) if _applied(entry)]
        assert len(twins) >= 5, "nothing of what upstream applies was recorded"
        for recorded, dummy in twins:
            here = self.lab.get(APINET, recorded["kind"], NAMESPACE, _replaced(recorded["metadata"]["name"], self.uids))
            self.uids[_placeholder(APINET, recorded["kind"], recorded["metadata"]["name"])] = here["metadata"]["uid"]
        for recorded, entry in _replaced(twins, self.uids):
            part, meta = t.cast(Object, part_of(recorded, entry["fieldsV1"])), recorded["metadata"]
            part.update(apiVersion=recorded["apiVersion"], kind=recorded["kind"])
            part.setdefault("metadata", {}).update(name=meta["name"], namespace=NAMESPACE)
            assert not _open(part), part
            self.lab.clients[APINET].apply(
                self.lab.path(APINET, recorded["kind"], NAMESPACE, meta["name"]), part, entry["manager"], force=True
            )


def _as_noted_here(obj: Object) -> list[Object]:
    """Its record as this server keeps one: an old one has one entry for all that a manager wrote, status too, and would take an applied empty map for
    all that is in it now."""
    record = copy.deepcopy(owned(obj))
    if minor_version() >= 22:
        return record
    made: dict[tuple[str, str], Object] = {}
    for entry in record:
        entry.pop("subresource", None)
        entry["fieldsV1"] = {
            part: tree for part, tree in entry["fieldsV1"].items() if tree or part not in ("f:spec", "f:status")
        }
        known = made.setdefault((entry["manager"], entry["operation"]), entry)
        known["fieldsV1"] = merge_trees([known["fieldsV1"], entry["fieldsV1"]])
    return list(made.values())


def _as_deep(made: Object, recorded: Object) -> Object:
    """With a record no deeper than what was recorded: an old server notes what is in a field that was written as a whole, such as an owner reference."""
    trees = (
        {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in owned(recorded)}
        if minor_version() < 22
        else {}
    )
    record = [
        dict(
            entry,
            fieldsV1=_cut(entry["fieldsV1"], trees.get((entry["manager"], entry["operation"]), entry["fieldsV1"])),
        )
        for entry in owned(made)
    ]
    return dict(made, metadata=dict(made["metadata"], managedFields=record))


def _cut(tree: Object, shape: Object) -> Object:
    return {key: _cut(inner, shape[key]) if key in shape else inner for key, inner in tree.items()} if shape else {}


def owned(obj: Object) -> list[Object]:
    """What is on record of its writers; a server notes none for what it made by itself."""
    return t.cast(list[Object], obj["metadata"].get("managedFields") or [])


def _applied(entry: t.Mapping[str, t.Any]) -> bool:
    return (entry["manager"], entry["operation"]) == (ONMETAL.field_manager, "Apply")
