# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ClusterMesh objects as the definition of meshes: reading them, their finalizer and their status (kilo 4, 13, 14, 16)."""

from __future__ import annotations

import base64
import binascii
import datetime
import typing as t

from ..._kubernetes.access import parse_access
from ..._kubernetes.argspec import limits
from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import KubeError
from ..._kubernetes.kubeconfig import parse_kubeconfig
from ..._mesh.kilo.meshes import from_object, mesh_id, registry
from ..._mesh.kilo.plan import MeshPlan
from ..._mesh.kilo.sources import Gathered
from ..._mesh.kilo.status import desired_status, object_steps, with_finalizer
from ..._mesh.kilo.values import API_VERSION
from ..._plan.plan import Plan
from ..._values.refused import ValueRefused, quoted

MANAGER_MESHES = f"/apis/{API_VERSION}/clustermeshes"
KIND = "ClusterMesh"


class Management:
    """The cluster that holds ClusterMesh objects, or none. ``meshes`` are definitions made of them."""

    def __init__(self, clusters: Clusters, request: t.Mapping[str, t.Any]) -> None:
        self.meshes: list[dict[str, t.Any]] = []
        self._clusters = clusters
        self._options = request.get("management") or {}
        self._fabric = request["fabric"]
        self._force = bool(request.get("force_finalizer"))
        self._manage = self._options.get("manage_objects") is not False
        self._client: Client | None = None
        self._state = "present"

    @classmethod
    def of(cls, request: t.Mapping[str, t.Any], clusters: Clusters) -> Management:
        """Read the objects of a request's ``management`` cluster and make clients for clusters that only they name."""
        one = cls(clusters, request)
        name = one._options.get("cluster")
        if not name:
            if any(one._options.get(key) for key in ("namespace", "names", "use_secrets")):
                raise ValueRefused(
                    "unknown_cluster", "management (clustermesh_management) names no cluster with ClusterMesh objects"
                )
            return one
        if name not in clusters.clients:
            if not any(failure["cluster"] == name for failure in clusters.failures):
                raise ValueRefused(
                    "unknown_cluster", f"management names the cluster {quoted(name)}, which clusters does not have"
                )
            return one
        one._client = clusters.clients[name]
        one._read()
        return one

    @property
    def _manager(self) -> Client:
        """The management cluster's API server, for what runs only where there is one."""
        return t.cast(Client, self._client)

    def _read(self) -> None:
        namespace, names = self._options.get("namespace"), self._options.get("names") or ()
        path = MANAGER_MESHES
        if namespace:
            path = f"/apis/{API_VERSION}/namespaces/{segment(namespace)}/clustermeshes"
        try:
            objects = self._manager.list(path).items
        except KubeError as error:
            self._clusters.fail(error)
            return
        found = sorted((from_object(obj) for obj in objects), key=mesh_id)
        self.meshes = [mesh for mesh in found if not names or mesh["name"] in names]
        for mesh in self.meshes:
            mesh["deleting"] = bool(mesh["object"]["metadata"].get("deletionTimestamp"))
        names = {str(entry.get("name")) for mesh in self.meshes for entry in mesh["clusters"]}
        self._connect(registry(self.meshes), names)

    def _connect(self, entries: t.Sequence[t.Mapping[str, t.Any]], names: t.Container[str]) -> None:
        """Clients for entries that the inventory gives no access to; whatever it gives wins."""
        for entry in entries:
            name = str(entry["name"])
            if name in self._clusters.clients or any(failure["cluster"] == name for failure in self._clusters.failures):
                continue
            if entry.get("local"):
                # the same API server under the name that it has in the mesh, so that it is read and written once
                if self._manager.cluster in names:
                    continue  # another entry is this cluster; without access of its own, this one is reported
                self._clusters.clients.pop(self._manager.cluster, None)
                self._manager.cluster = name
                self._clusters.clients[name] = self._manager
            elif entry.get("secret") and self._options.get("use_secrets"):
                try:
                    self._clusters.clients[name] = self._from_secret(name, str(entry["secret"]), str(entry.get("key")))
                except KubeError as error:
                    self._clusters.failures.append(dict(error.failure(), cluster=name))
                except ValueRefused as error:
                    self._clusters.fail_for(name, f"use Secret {entry['secret']}", error.reason, error.message)

    def _from_secret(self, name: str, secret: str, key: str) -> Client:
        namespace, dummy, secret_name = secret.partition("/")
        found = self._manager.get(f"/api/v1/namespaces/{segment(namespace)}/secrets/{segment(secret_name)}")
        try:
            raw = base64.b64decode((found.get("data") or {})[key], validate=True)
        except (KeyError, binascii.Error, ValueError, TypeError):
            raise ValueRefused("remote_access_incomplete", f"it has no data under {quoted(key)}") from None
        access = parse_access({"name": name, "kubeconfig": parse_kubeconfig(raw, "Secret " + secret)})
        return Client(access, limits(self._clusters.timeout))

    # --- finalizer and status ---------------------------------------------------------------------------------------

    def first_steps(self, plan: Plan, state: str, check: bool) -> None:
        """Add the finalizer where it is missing, before anything else is written."""
        self._state = state
        for mesh in self.meshes if self._manage and state == "present" else ():
            metadata = mesh["object"]["metadata"]
            steps = object_steps(True, metadata.get("finalizers") or (), mesh["deleting"])
            if not mesh["deleting"] and "finalizer" in steps.writes:
                self._finalizer(plan, mesh, True, check)

    def last_steps(self, plan: Plan, made: MeshPlan, gathered: Gathered, failed: set[str], check: bool) -> None:
        """Write every status that differs, and take the finalizer off objects that are cleaned up completely."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for mesh in self.meshes if self._manage else ():
            if mesh["deleting"] or self._state == "absent":
                self._cleaned(plan, mesh, gathered, failed, check)
                continue
            outcome = made.outcomes.get(mesh_id(mesh))
            if outcome is None:
                continue
            names = {entry.get("name") for entry in mesh["clusters"]}
            missing = {name: "write_failed" for name in failed & names if name not in outcome.unreachable}
            if outcome.problem is None and missing:
                outcome = outcome._replace(unreachable=dict(outcome.unreachable, **missing))
            before = mesh["object"].get("status") or {}
            status = desired_status(before, outcome, mesh["object"]["metadata"].get("generation"), now)
            if status != before:
                self._patch(plan, mesh, "/status", {"status": status}, before, status, check)

    def _cleaned(
        self, plan: Plan, mesh: t.Mapping[str, t.Any], gathered: Gathered, failed: set[str], check: bool
    ) -> None:
        finalizers = mesh["object"]["metadata"].get("finalizers") or ()
        if not object_steps(True, finalizers, True).cleanup:
            return
        names = {str(entry.get("name")) for entry in mesh["clusters"]}
        left = sorted(name for name in names if name not in gathered.peers or name in failed)
        if left and not self._force:
            message = (
                f"Peers may be left in {', '.join(left)}, so the object keeps its finalizer; force_finalizer removes it"
            )
            plan.refuse(f"{KIND} {mesh_id(mesh)}", "source_incomplete", message)
            return
        self._finalizer(plan, mesh, False, check)

    def _finalizer(self, plan: Plan, mesh: t.Mapping[str, t.Any], present: bool, check: bool) -> None:
        before = list(mesh["object"]["metadata"].get("finalizers") or ())
        after = with_finalizer(before, present)
        version = mesh["object"]["metadata"].get("resourceVersion")
        body = {"metadata": {"finalizers": after, "resourceVersion": version}}
        self._patch(plan, mesh, "", body, {"finalizers": before}, {"finalizers": after}, check)

    def _patch(
        self,
        plan: Plan,
        mesh: t.Mapping[str, t.Any],
        part: str,
        body: dict[str, t.Any],
        before: t.Any,
        after: t.Any,
        check: bool,
    ) -> None:
        path = "/apis/{0}/namespaces/{1}/clustermeshes/{2}{3}".format(
            API_VERSION, segment(str(mesh["namespace"])), segment(str(mesh["name"])), part
        )
        if not check:
            try:
                self._manager.merge_patch(path, body, "multicluster.network/" + self._fabric)
            except KubeError as error:
                self._clusters.fail(error)
                return
        plan.update(KIND, f"{self._options['cluster']}/{mesh_id(mesh)}", before, after)
