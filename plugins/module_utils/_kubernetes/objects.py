# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing sets of objects of one cluster: one LIST a kind, and only the writes of a plan."""

from __future__ import annotations

import functools
import itertools
import time
import typing as t

from .._plan.object_plan import CONFLICT, Key, Read, Scope, Write
from .._plan.plan import Refusal
from .._plan.sole_owner import sole_record, surplus
from .client import Client, Resource
from .clusters import in_flight
from .errors import Conflict, Invalid, KubeError, NotFound, TimedOut, Unreachable

#: Writes to one API server at the same time (module contract 8: two to four times faster than one, and no burst).
WRITES = 8
#: Does one write of a plan; False where the server's state did not change.
WriteOne = t.Callable[[Client, Write, str], t.Any]


class Applied(t.NamedTuple):
    """What happened: writes done (in order), refusals that only the server could tell, failures."""

    done: list[Write]
    refused: list[Refusal]
    failed: list[KubeError]
    warnings: list[str]


def read_objects(
    client: Client, desired: t.Iterable[Key], scopes: t.Sequence[Scope] = ()
) -> tuple[Read, dict[Key, Key]]:
    """LIST once for each kind and namespace or selector. Raises ListIncomplete and other KubeErrors.

    Also returns how desired keys are corrected: a namespace is dropped for kinds that have none, and filled in for those
    that need one (``default``).
    """
    kinds: dict[tuple[str, str], Resource | None] = {}
    corrected: dict[Key, Key] = {}
    names: dict[tuple[str, str, str], set[str]] = {}
    scopes = list(scopes)
    for pair in [(key.api_version, key.kind) for key in desired] + [(s.api_version, s.kind) for s in scopes]:
        if pair not in kinds:
            kinds[pair] = client.resource(*pair)
    for key in desired:
        resource = kinds[key.api_version, key.kind]
        if resource is not None:
            corrected[key] = key._replace(namespace=(key.namespace or "default") if resource.namespaced else "")
            names.setdefault((key.api_version, key.kind, corrected[key].namespace), set()).add(key.name)

    objects: dict[Key, t.Mapping[str, t.Any]] = {}
    purgeable: set[Key] = set()
    covered: set[tuple[str, str, str]] = set()
    for scope in scopes:
        resource = kinds[scope.api_version, scope.kind]
        if resource is None:
            continue
        found = _listed(client, resource, scope.namespace, scope.label_selector)
        if found is None:
            kinds[scope.api_version, scope.kind] = None
            continue
        objects.update(found)
        purgeable.update(found)
        if not scope.label_selector:
            places = [place for place in names if place[:2] == scope[:2] and scope.namespace in ("", place[2])]
            covered.update(places)
    for place, desired_names in sorted(names.items()):
        resource = kinds[place[:2]]
        if place in covered or resource is None:
            continue
        # one name, one object on the wire; custom resource definitions, for example, are large
        only = next(iter(desired_names)) if len(desired_names) == 1 else None
        found = _listed(client, resource, place[2], "", only)
        if found is None:
            kinds[place[:2]] = None
        else:
            objects.update(found)
    unserved = {pair for pair, resource in kinds.items() if resource is None}
    namespaced = {pair: resource.namespaced for pair, resource in kinds.items() if resource is not None}
    return Read(objects, purgeable, unserved, namespaced), corrected


def _listed(
    client: Client, resource: Resource, namespace: str, labels: str, name: str | None = None
) -> dict[Key, t.Mapping[str, t.Any]] | None:
    """The objects found; None when the kind has just gone, which discovery learns a moment later."""
    fields = "metadata.name=" + name if name else None
    items = client.list_served(resource.path(namespace), labels or None, fields)
    if items is None:
        return None
    found: dict[Key, t.Mapping[str, t.Any]] = {}
    for item in items:
        meta = item["metadata"]
        place = str(meta.get("namespace", "")) if resource.namespaced else ""
        found[Key(resource.api_version, resource.kind, place, str(meta.get("name")))] = item
    return found


def send_all(
    client: Client,
    writes: t.Sequence[t.Any],
    operation: t.Callable[[t.Any], str],
    send: t.Callable[[t.Any], t.Any],
    gone: list[KubeError],
    untried: type[KubeError] = KubeError,
) -> list[t.Any]:
    """What each write was answered, or its KubeError; a few at a time.

    The first sign that the server is gone (added to ``gone``) ends the work on it: the rest fails without being tried.
    """

    def one(write: t.Any) -> t.Any:
        if gone:
            return untried(client.cluster, operation(write), "not tried: " + gone[0].message, retryable=True)
        try:
            return send(write)
        except (Unreachable, TimedOut) as error:
            gone.append(error)
            return error
        except KubeError as error:
            return error

    return in_flight([functools.partial(one, write) for write in writes], WRITES)


def apply_writes(
    client: Client,
    writes: t.Sequence[Write],
    manager: str,
    leave_conflicts: bool = False,
    write_one: WriteOne | None = None,
) -> Applied:
    """Do the writes of a plan, kind after kind in its order, a few at a time.

    Server-side apply as ``manager``; forced only for writes that adopt, or that own the object alone. Whoever came between
    makes the write fail; with leave_conflicts it is refused. A write that changed nothing on the server (it keeps the
    resource version) does not count as done. ``write_one``: how a kind with ways of its own is written.
    """
    result = Applied([], [], [], [])
    gone: list[KubeError] = []
    for (dummy, kind), group in itertools.groupby(writes, lambda write: (write.manifest is None, write.key.kind)):
        batch = list(group)
        answers = send_all(
            client, batch, _operation, lambda write: (write_one or write_object)(client, write, manager), gone
        )
        for write, answer in zip(batch, answers):
            label = f"{write.key.kind} {write.change.id}"
            if isinstance(answer, Conflict) and write.manifest is not None and write.uid is None:
                result.refused.append(
                    Refusal(label, "not_ours", "has just been made by somebody else; " + answer.message)
                )
            elif isinstance(answer, Conflict) and leave_conflicts and write.manifest is not None:
                result.refused.append(Refusal(label, CONFLICT, answer.message))
            elif isinstance(answer, KubeError):
                result.failed.append(answer)
            elif answer is False:
                if write.manifest is not None:
                    result.warnings.append(
                        f"{write.key.kind} {write.change.id}: the server accepted the manifest and kept the object as it was; it has fields that "
                        "this API version does not store"
                    )
            else:
                result.done.append(write)
        if kind == "CustomResourceDefinition" and not gone and batch[0].manifest is not None:
            _wait_for_kinds(client, [write.manifest for write in batch if write.manifest])
    return result


def _operation(write: Write) -> str:
    return f"{write.change.action} {write.key.kind} {write.key.short}"


def take_alone(
    client: Client,
    path: str,
    manifest: t.Mapping[str, t.Any],
    found: dict[str, t.Any],
    manager: str,
    kept: t.Collection[tuple[str, ...]] = (),
    whole: bool = True,
) -> dict[str, t.Any]:
    """After an apply: nobody else stays on record for what is owned, and what others put there goes. The object as it is then.

    ``found``: the server's answer to the apply. whole: all of the object is owned, not only what was applied. Nothing is sent
    where there is nothing to do. Somebody who writes in between (a status, say) makes it try again.
    """
    for attempt in range(3):
        record = sole_record(found, manager, kept, whole)
        patch = surplus(manifest, found, manager, kept) if whole else {}
        if record is None and not patch:
            break
        meta = found["metadata"]
        metadata = {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}
        if record is not None:
            metadata["managedFields"] = record
        try:
            return client.merge_patch(path, dict(patch, metadata=metadata), manager)
        except Conflict:
            if attempt == 2:
                raise
            found = client.get(path)
    return found


def write_object(client: Client, write: Write, manager: str) -> bool:
    """True when the server's state changed."""
    key = write.key
    resource = client.resource(key.api_version, key.kind)
    if resource is None:
        raise NotFound(client.cluster, _operation(write), f"the API server has no {key.kind} in {key.api_version}")
    path = resource.path(key.namespace, key.name)
    if write.manifest is None:
        return client.delete(path, uid=write.uid)
    manifest = dict(write.manifest, metadata=dict(write.manifest["metadata"]))
    if resource.namespaced:
        manifest["metadata"]["namespace"] = key.namespace
    if write.uid:
        # a precondition: the object that was compared, not one made anew under its name in the meantime
        manifest["metadata"]["uid"] = write.uid
    try:
        answer = client.apply(path, manifest, manager, force=write.force)
        if write.force and write.uid:
            answer = take_alone(client, path, manifest, answer, manager, whole=write.alone)
    except Invalid:
        lists = _lists(write.manifest)
        if not write.force or not write.uid or not lists:
            raise
        # What another hand put into a keyed list stays there alongside the applied entries, and both together may be no valid object (a port that got
        # another number keeps its name). The lists are put right as a whole, and then it can be applied.
        patched = client.merge_patch(
            path, dict(lists, metadata={"uid": write.uid, "resourceVersion": write.version}), manager
        )
        answer = client.apply(path, manifest, manager, force=True)
        take_alone(client, path, manifest, answer, manager, whole=write.alone)
        return bool(patched.get("metadata", {}).get("resourceVersion") != write.version)
    return write.version is None or bool(answer.get("metadata", {}).get("resourceVersion") != write.version)


def _lists(value: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The part of a manifest that lists are in, metadata apart."""
    found: dict[str, t.Any] = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and name != "metadata":
            inner = _lists(inner) or None
        if isinstance(inner, list) or (isinstance(inner, dict) and name != "metadata"):
            found[name] = inner
    return found


def _wait_for_kinds(client: Client, definitions: t.Sequence[t.Mapping[str, t.Any]], seconds: float = 15.0) -> None:
    """New kinds are served a moment after their definition was written; what follows may need them."""
    deadline = time.monotonic() + seconds
    for definition in definitions:
        spec = definition.get("spec", {})
        for version in spec.get("versions") or ():
            api_version = f"{spec.get('group')}/{version.get('name')}"
            kind = spec.get("names", {}).get("kind")
            while client.resource(api_version, kind, refresh=True) is None and time.monotonic() < deadline:
                time.sleep(0.1)
