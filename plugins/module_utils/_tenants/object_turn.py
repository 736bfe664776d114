# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One object's turn in a pass: its writes in their order, or what it waits for."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .._plan.objects import owned_tree, stale_fields
from .._plan.sole_owner import sole_record
from .fields import Object, covered, entries, get, leftovers, same, spelled, uid, without_nulls
from .links import controller_reference, has_finalizer, link_labels, with_finalizer
from .options import APINET, SOURCE, Options
from .store import key_of
from .view import View

# Order inside a pass (8.5): what frees something goes before what takes it, so that moves settle quickly.
FINALIZER, RELEASE, TWIN, DEPENDENT, CLAIM, MAIN, STATUS, DELETE, DELETE_NETWORK, LAST = range(10)

APPLY, CREATE, PATCH, PATCH_STATUS, REMOVE = "apply", "create", "patch", "status", "delete"

#: What happened to an object, the most telling last.
ACTIONS = ("skipped", "unchanged", "updated", "created", "released", "deleted", "pending", "failed")


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
    action: str = "updated"
    otherwise: Step | None = None


class Condition(t.NamedTuple):
    """Why an object waits or fails."""

    reason: str
    message: str


class ObjectTurn:
    """The turn of one source object. Collected twins have their own: ``subject`` is the twin, ``source`` whom its labels name."""

    def __init__(self, view: View, kind: str, subject: Object) -> None:
        self.view, self.kind, self.subject = view, kind, subject
        self.key = key_of(subject)
        self.source: Key | None = None
        self.steps: list[Step] = []
        self.pending: list[Condition] = []
        self.failed: list[Condition] = []

    @property
    def options(self) -> Options:
        return self.view.options

    @property
    def outstanding(self) -> bool:
        """True when something must be written first that later parts build on."""
        return bool([step for step in self.steps if step.phase != FINALIZER])

    def wait(self, reason: str, message: str) -> None:
        self.pending.append(Condition(reason, message))

    def fail(self, reason: str, message: str) -> None:
        self.failed.append(Condition(reason, message))

    def refuse(self, reason: str, message: str) -> None:
        """Note why the object fails, and write nothing for it."""
        self.steps = []
        self.fail(reason, message)

    def finalize(self) -> None:
        """Our finalizer comes before anything else."""
        if not has_finalizer(self.kind, self.subject, self.options.profile):
            self.patch_source(FINALIZER, with_finalizer(self.kind, self.subject, self.options.profile), guarded=True)

    def patch_source(
        self, phase: int, body: Object, guarded: bool = False, other: Object | None = None, stops: bool = True
    ) -> None:
        """A write to the main part of our source object (or of another one)."""
        target = self.subject if other is None else other
        self.steps.append(Step(phase, SOURCE, PATCH, key_of(target), body, uid(target), guarded, stops))

    def status_step(self, desired: t.Mapping[str, t.Any]) -> Step | None:
        """The status write that makes these fields so (None or empty: removed); None when they are."""
        current = get(self.subject, "status") or {}
        change = {name: value or None for name, value in desired.items() if not same(current.get(name), value, name)}
        if not change:
            return None
        return Step(STATUS, SOURCE, PATCH_STATUS, self.key, {"status": change}, uid(self.subject))

    def status(self, desired: t.Mapping[str, t.Any]) -> None:
        """Write status fields where they differ."""
        step = self.status_step(desired)
        if step:
            self.steps.append(step)

    def create(self, phase: int, manifest: Object) -> None:
        self.steps.append(Step(phase, APINET, CREATE, key_of(manifest), manifest, action="created"))

    def create_owned(self, phase: int, kind: str, called: str, labels: Object | None = None, **parts: t.Any) -> None:
        """Make an object of the network side that the turn's own object, one of that side, controls."""
        meta: dict[str, t.Any] = {
            "namespace": self.options.apinet_namespace,
            "name": called,
            "ownerReferences": [controller_reference(dict(self.subject, kind=self.kind), self.options.profile)],
        }
        if labels:
            meta["labels"] = dict(labels)
        self.create(phase, dict({"apiVersion": self.options.profile.apinet, "kind": kind, "metadata": meta}, **parts))

    def patch_twin(self, phase: int, twin: Object, body: Object, action: str = "updated", stops: bool = True) -> None:
        self.steps.append(Step(phase, APINET, PATCH, key_of(twin), body, uid(twin), True, stops, action))

    def remove_twin(self, twin: Object, phase: int = DELETE) -> None:
        """Delete a twin, the one that was read and no later one of its name."""
        self.steps.append(Step(phase, APINET, REMOVE, key_of(twin), {}, uid(twin), action="deleted"))

    def apply(
        self,
        phase: int,
        manifest: Object,
        owned: t.Sequence[tuple[str, ...]] = (),
        otherwise: Step | None = None,
    ) -> dict[str, t.Any] | None:
        """Make a twin as the manifest; the twin once it is, None while that is still to be written.

        Where nothing but the record of its writers differs, it is so already: what hangs on it is planned in the same pass, and shown in check mode.
        ``owned``: fields that are owned even where the manifest leaves them out, so they go when others wrote them.
        """
        manifest = without_nulls(manifest)
        key = key_of(manifest)
        current = self.view.twin(key.kind, key.name)
        if current is None:
            self.steps.append(Step(phase, APINET, APPLY, key, manifest, action="created", otherwise=otherwise))
            return None
        stale = stale_fields(owned_tree(current, self.options.profile.field_manager, "Apply"), manifest)
        if stale or not covered(manifest, current):
            self.steps.append(Step(phase, APINET, APPLY, key, manifest, otherwise=otherwise))
            return None
        shared = self._shared(current)
        if shared:
            self.steps.append(Step(phase, APINET, APPLY, key, manifest, otherwise=otherwise))
        left = leftovers(manifest, current, owned)
        if left:
            self.steps.append(Step(phase, APINET, PATCH, key, left, uid(current), True, otherwise=otherwise))
            return None
        if self.options.always_apply and not shared:
            self.steps.append(Step(phase, APINET, APPLY, key, spelled(manifest, current), otherwise=otherwise))
        return current

    def _shared(self, current: Object) -> bool:
        """True when we are not on record for what we write, or not alone: the twin is to be taken over, or was taken over half."""
        if not entries(current, "metadata", "managedFields"):
            return False
        manager = self.options.profile.field_manager
        if not owned_tree(current, manager, "Apply"):
            return self.options.adopt
        return sole_record(current, manager, whole=False) is not None

    def manifest(self, kind: str, owner: Object | None = None, **parts: t.Any) -> dict[str, t.Any]:
        """A manifest in our namespace, named for the source object and labelled with it."""
        meta: dict[str, t.Any] = {
            "namespace": self.options.apinet_namespace,
            "name": uid(self.subject),
            "labels": link_labels(self.kind, self.subject, self.options.profile),
        }
        if owner is not None:
            meta["ownerReferences"] = [owner]
        given = {name: value for name, value in parts.items() if value is not None}
        return dict({"apiVersion": self.options.profile.apinet, "kind": kind, "metadata": meta}, **given)
