# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mapping's view of an API server: complete lists, and writes a few at a time while the Lease is held."""

from __future__ import annotations

import builtins
import functools
import typing as t

from ..._kubernetes.client import Client, Resource
from ..._kubernetes.clusters import Clusters, fan_out, in_flight
from ..._kubernetes.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    ListIncomplete,
    NotFound,
    TimedOut,
    Unreachable,
)
from ..._kubernetes.lease import Lease
from ..._kubernetes.objects import WRITES, take_alone
from ..._plan.object_plan import Key
from ..._tenants.converge import perform_step
from ..._tenants.fields import deleting, items
from ..._tenants.object_turn import Step
from ..._tenants.options import APINET, CLUSTER_KINDS, SOURCE, Options, needed, plural
from ..._tenants.store import CONFLICT, EXISTS, FORBIDDEN, INVALID, NOT_FOUND, StoreError, key_of
from ..._tenants.view import View
from ..._values.gc_pause import gc_paused

Object = t.Mapping[str, t.Any]
_Answer = t.TypeVar("_Answer")
_UNSERVED = (
    "the API server does not serve {0} in {1}: it is not the cluster that tenants_source or tenants_apinet means, tenants_profile is another, "
    "or the kinds are to be installed (tenants_install_crds: true writes stand-ins)"
)
_REASONS = ((NotFound, NOT_FOUND), (Invalid, INVALID), (Forbidden, FORBIDDEN))


class ApiStore:
    """The contract of the stores (``_tenants.store.Store``) over one API server."""

    def __init__(self, client: Client, manager: str) -> None:
        self.client, self.manager = client, manager

    def _path(self, api_version: str, kind: str, within: str, called: str | None = None) -> str:
        resource = Resource(api_version, kind, plural(kind), kind not in CLUSTER_KINDS, frozenset())
        return resource.path(within or None, called)

    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[dict[str, t.Any]]:
        listing = self._ask(lambda: self.client.list(self._path(api_version, kind, within)))
        for item in listing.items:
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", kind)
        return listing.items

    def create(self, manifest: Object) -> dict[str, t.Any]:
        key = key_of(manifest)
        return self._ask(lambda: self.client.create(self._path(*key[:3]), manifest, self.manager))

    def apply(self, manifest: Object, manager: str) -> dict[str, t.Any]:
        path = self._path(*key_of(manifest))
        answer = self._ask(lambda: self.client.apply(path, manifest, manager, force=True))
        # the network side fills in fields of its own; for the owned ones, nobody else stays on record
        return self._ask(lambda: take_alone(self.client, path, manifest, answer, manager, whole=False))

    def patch(self, key: Key, body: Object, status: bool = False) -> dict[str, t.Any] | None:
        path = self._path(*key) + ("/status" if status else "")
        answer = self._ask(lambda: self.client.merge_patch(path, body, self.manager))
        return None if deleting(answer) and not items(answer, "metadata", "finalizers") else answer

    def delete(self, key: Key, expected: str = "") -> dict[str, t.Any] | None:
        try:
            answer = self._ask(lambda: self.client.request_deletion(self._path(*key), expected or None))
        except StoreError as error:
            if error.reason == NOT_FOUND:
                return None
            raise
        return answer if deleting(answer) and items(answer, "metadata", "finalizers") else None

    def _ask(self, request: t.Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except KubeError as error:
            raise _store_error(error) from error
        except ValueError as error:  # a name that no path can hold
            raise StoreError(INVALID, str(error)) from None


def _store_error(error: KubeError) -> StoreError:
    if isinstance(error, Conflict):
        return StoreError(EXISTS if error.cause == EXISTS else CONFLICT, error.message)
    if isinstance(error, Invalid) and "metadata.uid" in error.message:
        return StoreError(CONFLICT, error.message)  # a precondition that merge patches have only in this form
    if isinstance(error, ListIncomplete):
        return StoreError("SourceIncomplete", error.message)
    return StoreError(
        next((reason for kind, reason in _REASONS if isinstance(error, kind)), error.reason), error.message
    )


def gather(
    clusters: Clusters,
    stores: t.Mapping[str, ApiStore],
    options: Options,
    reads: t.Iterable[tuple[str, str]] | None = None,
) -> View:
    """All lists at once, one for each kind and side. What could not be read is a failure and unread in the view.

    ``reads``: the (side, kind) to read, when it is not what the mapping needs. A side without a store is unread.
    """
    pairs = sorted(set(needed(options) if reads is None else reads))
    desired = [pair for pair in pairs if pair[0] in stores]

    def read(side: str, kind: str) -> list[dict[str, t.Any]]:
        try:
            return stores[side].list(options.profile.group_version(side, kind), kind, _within(side, kind, options))
        except StoreError as error:
            raise error.__cause__ or error from None

    tasks = {"{0} {1}".format(*pair): (lambda pair=pair: read(*pair)) for pair in desired}
    with gc_paused():
        answers = fan_out(tasks, clusters.timeout + 5, operation="list")
    found: dict[str, list[dict[str, t.Any]]] = {SOURCE: [], APINET: []}
    unread = [pair for pair in pairs if pair[0] not in stores]
    unserved: dict[tuple[str, str], list[str]] = {}
    for (side, kind), outcome in zip(desired, answers.values()):
        if outcome.error is None:
            found[side].extend(outcome.value)
        else:
            unread.append((side, kind))
            if isinstance(outcome.error, NotFound):  # a namespace that is missing has empty lists
                unserved.setdefault((side, options.profile.group_version(side, kind)), []).append(kind)
                continue
            clusters.failures.append(dict(outcome.error.failure(), cluster=stores[side].client.cluster))
    for (side, version), kinds in sorted(unserved.items()):
        error = NotFound(
            stores[side].client.cluster, "list " + version, _UNSERVED.format(", ".join(sorted(kinds)), version), 404
        )
        clusters.failures.append(error.failure())
    return View(found[SOURCE], found[APINET], options, unread)


def _within(side: str, kind: str, options: Options) -> str:
    if side == SOURCE:
        return options.watch_namespace
    return "" if kind in CLUSTER_KINDS else options.apinet_namespace


class Writer:
    """Performs the steps of a pass, some at a time. Takes the Lease, if there is one, before the first write.

    The first sign that a server is gone ends the work on it: the rest fails without being tried.
    """

    def __init__(
        self, stores: t.Mapping[str, ApiStore], options: Options, lease: Lease | None = None, wait: float = 0.0
    ) -> None:
        self._stores, self._options, self._lease, self._wait = stores, options, lease, wait
        self._gone: dict[str, str] = {}

    def __call__(self, steps: list[tuple[Step, Object]]) -> list[t.Any]:
        if not steps:
            return []
        if self._lease is not None and not self._lease.held:
            self._lease.acquire(self._wait)
        return in_flight([functools.partial(self._one, *one) for one in steps], WRITES)

    def _one(self, step: Step, body: Object) -> t.Any:
        store = self._stores[step.side]
        if step.side in self._gone:
            return StoreError("not_tried", "not tried: " + self._gone[step.side])
        try:
            if self._lease is not None:
                self._lease.check()
        except KubeError as error:
            return StoreError(error.reason, error.message)
        answer = perform_step(store, step, body, self._options)
        if isinstance(answer, StoreError) and answer.reason in (Unreachable.reason, TimedOut.reason):
            self._gone[step.side] = answer.message
        return answer
