# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two API servers with the kinds of the tenant mapping, and the seed's tenant."""

from __future__ import annotations

import pathlib
import time
import typing as t

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows import tenants
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._tenants.profile import APINET, CLUSTER_KINDS, ONMETAL, SOURCE, plural

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "tenants_crds" / "files"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "apinet-system"
TEAM = "team-a"
SOURCE_KINDS = ("Network", "NetworkInterface", "VirtualIP", "LoadBalancer", "LoadBalancerRouting", "NATGateway", "Prefix")
APINET_KINDS = (
    "NetworkInterface", "LoadBalancerRouting", "NATGatewayAutoscaler", "NATTable", "Instance", "DaemonSet", "LoadBalancer",
    "NATGateway", "IP", "Network", "NetworkID", "IPAddress", "Node",
)  # fmt: skip


def install(server: t.Any, side: str, profile: t.Any = ONMETAL) -> None:
    """The side's kinds, served."""
    client = server.client()
    pairs = []
    for path in sorted(FILES.glob(side + "_*.yml")):
        for definition in yaml.safe_load_all(path.read_text().replace("api.onmetal.de", profile.source.partition("/")[0].partition(".")[2])):
            try:
                client.create(DEFINITIONS, definition, "test")
            except errors.Conflict:
                pass
            pairs.append((definition["spec"]["group"] + "/v1alpha1", definition["spec"]["names"]["kind"]))
    deadline = time.monotonic() + 60
    for api_version, kind in pairs:
        while client.resource(api_version, kind, refresh=True) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def make_namespace(server: t.Any, name: str) -> None:
    try:
        server.client().create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "test")
    except errors.Conflict:
        pass


class Lab:
    """Both servers (which may be one), and shortcuts."""

    def __init__(self, source: t.Any, apinet: t.Any, profile: t.Any = ONMETAL) -> None:
        self.servers = {SOURCE: source, APINET: apinet}
        self.clients = {side: server.client() for side, server in self.servers.items()}
        self.profile = profile

    def path(self, side: str, kind: str, namespace: str = "", name: t.Optional[str] = None) -> str:
        place = "/namespaces/" + namespace if namespace and not (side == APINET and kind in CLUSTER_KINDS) else ""
        found = "/apis/{0}{1}/{2}".format(self.profile.group_version(side, kind), place, plural(kind))
        return found if name is None else found + "/" + name

    def create(self, side: str, obj: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
        """Make an object; its status is written after it, as a controller would."""
        body = {key: value for key, value in obj.items() if key != "status"}
        meta = {key: value for key, value in obj["metadata"].items() if key != "uid"}
        path = self.path(side, obj["kind"], meta.get("namespace", ""))
        made = self.clients[side].create(path, dict(body, metadata=meta), "test")
        if obj.get("status"):
            made = self.status(side, obj["kind"], meta.get("namespace", ""), meta["name"], obj["status"])
        return made

    def status(self, side: str, kind: str, namespace: str, name: str, status: t.Any) -> t.Dict[str, t.Any]:
        return self.clients[side].merge_patch(self.path(side, kind, namespace, name) + "/status", {"status": status}, "test")

    def patch(self, side: str, kind: str, namespace: str, name: str, body: t.Any) -> t.Dict[str, t.Any]:
        return self.clients[side].merge_patch(self.path(side, kind, namespace, name), body, "test")

    def get(self, side: str, kind: str, namespace: str, name: str) -> t.Dict[str, t.Any]:
        return self.clients[side].get(self.path(side, kind, namespace, name))

    def list(self, side: str, kind: str) -> t.List[t.Dict[str, t.Any]]:
        return self.clients[side].list(self.path(side, kind)).items

    def delete(self, side: str, kind: str, namespace: str, name: str) -> None:
        self.clients[side].delete(self.path(side, kind, namespace, name))

    def clear(self) -> None:
        """Nothing left on either side, whatever holds it."""
        for side, kinds in ((SOURCE, SOURCE_KINDS), (APINET, APINET_KINDS)):
            for kind in kinds:
                for obj in self.list(side, kind):
                    meta = obj["metadata"]
                    place = (side, kind, meta.get("namespace", ""), meta["name"])
                    if meta.get("finalizers"):
                        self.patch(*place, {"metadata": {"finalizers": None}})
                    self.delete(*place)

    def left(self) -> t.List[str]:
        """What there is, on both sides; nodes do not count."""
        found = []
        for side, kinds in ((SOURCE, SOURCE_KINDS), (APINET, APINET_KINDS[:-1])):
            for kind in kinds:
                found += ["{0} {1} {2}".format(side, kind, obj["metadata"]["name"]) for obj in self.list(side, kind)]
        return found

    # -- running

    def request(self, **more: t.Any) -> t.Dict[str, t.Any]:
        clusters = [self.servers[SOURCE].access("east"), self.servers[APINET].access("fabric")]
        return dict(
            {"fabric": "t", "clusters": clusters, "source": "east", "apinet": "fabric", "apinet_namespace": NAMESPACE,
             "profile": self.profile.name, "timeout": 20, "lease_wait": 20, "max_deletes": -1}, **more
        )  # fmt: skip

    def sync(self, check: bool = False, **more: t.Any) -> t.Dict[str, t.Any]:
        return tenants.run(self.request(**more), check)

    def mark(self) -> t.Dict[str, int]:
        return {side: server.mark() for side, server in self.servers.items()}

    def writes(self, mark: t.Mapping[str, int]) -> t.Dict[str, t.List[t.Any]]:
        return {side: server.writes(mark[side]) for side, server in self.servers.items()}

    def audit(self, mark: t.Mapping[str, int]) -> t.Dict[str, t.List[t.Any]]:
        return {side: server.audit(mark[side]) for side, server in self.servers.items()}


def source(kind: str, name: str, spec: t.Optional[t.Any] = None, namespace: str = TEAM, **more: t.Any) -> t.Dict[str, t.Any]:
    """An object of the tenant-facing side."""
    obj = {"apiVersion": ONMETAL.group_version(SOURCE, kind), "kind": kind, "metadata": {"namespace": namespace, "name": name}}
    return dict(obj, **({"spec": spec} if spec is not None else {}), **more)
