# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one source object needs in this pass: writes in their order, or what it waits for."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .._plan.objects import owned_tree, stale_fields
from .._plan.sole_owner import sole_record
from .fields import Object, entries, get, items, same, uid, without_nulls
from .links import has_finalizer, with_finalizer
from .merge import ATOMIC, list_key
from .options import Options
from .profile import APINET, SOURCE
from .store import key_of
from .view import View

# Order inside a pass (8.5): what frees something goes before what takes it, so that moves settle quickly.
FINALIZER, RELEASE, TWIN, DEPENDENT, CLAIM, MAIN, STATUS, DELETE, DELETE_NETWORK, LAST = range(10)

APPLY, CREATE, PATCH, PATCH_STATUS, REMOVE = "apply", "create", "patch", "status", "delete"

#: What happened to an object, the most telling last.
WORDS = ("skipped", "unchanged", "updated", "created", "released", "deleted", "pending", "failed")


class Step(t.NamedTuple):
    """One write. ``guarded``: only while the object is as we know it. ``stops``: its failure ends the object's turn."""

    phase: int
    side: str
    verb: str
    key: Key
    body: t.Mapping[str, t.Any]
    uid: str = ""
    guarded: bool = False
    stops: bool = True
    outcome: str = "updated"
    otherwise: t.Optional["Step"] = None


class Reason(t.NamedTuple):
    """Why an object waits or fails."""

    reason: str
    message: str


class Work:
    """One source object's turn; collected twins have their own (``subject`` is the twin, ``source`` whom its labels name)."""

    def __init__(self, view: View, kind: str, subject: Object) -> None:
        self.view, self.kind, self.subject = view, kind, subject
        self.key = key_of(subject)
        self.source: t.Optional[Key] = None
        self.steps: t.List[Step] = []
        self.pending: t.List[Reason] = []
        self.failed: t.List[Reason] = []

    @property
    def options(self) -> Options:
        """The run's options."""
        return self.view.options

    @property
    def outstanding(self) -> bool:
        """True when something must be written first that later parts build on."""
        return bool([step for step in self.steps if step.phase != FINALIZER])

    def wait(self, reason: str, message: str) -> None:
        """Note what the object waits for."""
        self.pending.append(Reason(reason, message))

    def fail(self, reason: str, message: str) -> None:
        """Note why the object fails."""
        self.failed.append(Reason(reason, message))

    def add(self, step: Step) -> None:
        """One more write."""
        self.steps.append(step)

    # -- the usual writes

    def finalize(self) -> None:
        """Our finalizer comes before anything else."""
        if not has_finalizer(self.kind, self.subject, self.options.profile):
            self.patch_source(FINALIZER, with_finalizer(self.kind, self.subject, self.options.profile), guarded=True)

    def patch_source(self, phase: int, body: Object, guarded: bool = False, other: t.Optional[Object] = None, stops: bool = True) -> None:
        """A write to the main part of our source object (or of another one)."""
        target = self.subject if other is None else other
        self.add(Step(phase, SOURCE, PATCH, key_of(target), body, uid(target), guarded, stops))

    def status_step(self, wanted: t.Mapping[str, t.Any]) -> t.Optional[Step]:
        """The status write that makes these fields so (None or empty: removed); None when they are."""
        current = get(self.subject, "status") or {}
        change = {name: value or None for name, value in wanted.items() if not same(current.get(name), value, name)}
        if not change:
            return None
        return Step(STATUS, SOURCE, PATCH_STATUS, self.key, {"status": change}, uid(self.subject))

    def status(self, wanted: t.Mapping[str, t.Any]) -> None:
        """Write status fields where they differ."""
        step = self.status_step(wanted)
        if step:
            self.add(step)

    def patch_twin(self, phase: int, twin: Object, body: Object, outcome: str = "updated", stops: bool = True) -> None:
        """A guarded patch of a twin."""
        self.add(Step(phase, APINET, PATCH, key_of(twin), body, uid(twin), True, stops, outcome))

    def remove_twin(self, twin: Object, phase: int = DELETE) -> None:
        """Delete a twin, the one that was read and no later one of its name."""
        self.add(Step(phase, APINET, REMOVE, key_of(twin), {}, uid(twin), False, True, "deleted"))

    def apply(
        self,
        phase: int,
        manifest: Object,
        owned: t.Sequence[t.Tuple[str, ...]] = (),
        otherwise: t.Optional[Step] = None,
    ) -> t.Optional[t.Dict[str, t.Any]]:
        """Make a twin say what the manifest says; the twin once it does, None while that is still to be written.

        ``owned``: fields that are ours even where the manifest leaves them out, so they go when others wrote them.
        """
        manifest = without_nulls(manifest)
        key = key_of(manifest)
        current = self.view.twin(key.kind, key.name)
        if current is None:
            self.add(Step(phase, APINET, APPLY, key, manifest, outcome="created", otherwise=otherwise))
            return None
        if not covered(manifest, current) or self._stale(manifest, current) or self._shared(current):
            self.add(Step(phase, APINET, APPLY, key, manifest, otherwise=otherwise))
            return None
        left = leftovers(manifest, current, owned)
        if left:
            self.add(Step(phase, APINET, PATCH, key, left, uid(current), True, otherwise=otherwise))
            return None
        if self.options.always_apply:
            self.add(Step(phase, APINET, APPLY, key, spelled(manifest, current), otherwise=otherwise))
        return current

    def _stale(self, manifest: Object, current: Object) -> bool:
        return bool(stale_fields(owned_tree(current, self.options.profile.field_manager, "Apply"), manifest))

    def _shared(self, current: Object) -> bool:
        """True when we are not on record for what we write, or not alone: the twin is to be taken over, or was taken over half."""
        if not entries(current, "metadata", "managedFields"):
            return False
        manager = self.options.profile.field_manager
        if not owned_tree(current, manager, "Apply"):
            return self.options.adopt
        return sole_record(current, manager, whole=False) is not None


def covered(wanted: t.Any, current: t.Any, path: t.Tuple[str, ...] = ()) -> bool:
    """Whether an object says everything that a manifest says."""
    if isinstance(wanted, dict) and not (path and path[-1] in ATOMIC):
        inner = current if isinstance(current, dict) else {}
        return all(covered(value, inner.get(name), path + (name,)) for name, value in wanted.items())
    if isinstance(wanted, list):
        key = list_key(path, wanted, current if isinstance(current, list) else [])
        if key is not None:
            known = {item[key]: item for item in current or ()}
            return all(item[key] in known and covered(item, known[item[key]], path + ("-",)) for item in wanted)
    return same(wanted, current, path[-1] if path else "")


def spelled(wanted: t.Any, current: t.Any, key: str = "") -> t.Any:
    """A manifest in the spelling of an object that says the same, so that sending it changes nothing."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        return {name: spelled(value, current.get(name), name) for name, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(current, list) and len(wanted) == len(current):
        return [spelled(one, other, key) for one, other in zip(wanted, current)]
    return current if isinstance(wanted, str) and isinstance(current, str) and same(wanted, current, key) else wanted


#: Lists of which every field of every entry is ours; in the others the network side fills fields in.
_WHOLE = ("peerings",)


def leftovers(manifest: Object, current: Object, owned: t.Sequence[t.Tuple[str, ...]]) -> t.Dict[str, t.Any]:
    """The patch that takes away, from the fields that are ours, what the manifest does not say."""
    patch: t.Dict[str, t.Any] = {}
    for path in owned:
        wanted, found = get(manifest, *path), get(current, *path)
        if found is None or same(found, None):
            continue
        if wanted is None:
            _set(patch, path, None)
        elif isinstance(wanted, list) and isinstance(found, list):
            key = list_key(path, wanted, found)
            names = {item[key] for item in wanted} if key else set()
            kept = [item for item in found if item[key] in names] if key else wanted
            if path[-1] in _WHOLE and not same(found, wanted):
                _set(patch, path, wanted)
            elif len(kept) != len(found):
                _set(patch, path, kept)
    stale = _second_controllers(manifest, current)
    if stale:
        kept = [ref for ref in items(current, "metadata", "ownerReferences") if ref not in stale]
        _set(patch, ("metadata", "ownerReferences"), kept)
    return patch


def _second_controllers(manifest: Object, current: Object) -> t.List[t.Any]:
    ours = {ref.get("uid") for ref in entries(manifest, "metadata", "ownerReferences")}
    if not ours:
        return []
    return [ref for ref in entries(current, "metadata", "ownerReferences") if ref.get("controller") is True and ref.get("uid") not in ours]


def _set(patch: t.Dict[str, t.Any], path: t.Tuple[str, ...], value: t.Any) -> None:
    for name in path[:-1]:
        patch = patch.setdefault(name, {})
    patch[path[-1]] = value


def twin_manifest(work: Work, kind: str, labels: t.Mapping[str, str], **parts: t.Any) -> t.Dict[str, t.Any]:
    """A manifest named for the source object, in our namespace."""
    meta: t.Dict[str, t.Any] = {
        "namespace": work.options.apinet_namespace,
        "name": uid(work.subject),
        "labels": dict(labels),
    }
    owner = parts.pop("owner", None)
    if owner is not None:
        meta["ownerReferences"] = [owner]
    manifest = {"apiVersion": work.options.profile.apinet, "kind": kind, "metadata": meta}
    manifest.update({name: value for name, value in parts.items() if value is not None})
    return manifest
