# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owned section of every cluster's Corefile: one GET a cluster, one patch where it differs."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import KubeError, NotFound
from ..._plan.objects import field_manager
from ..._plan.plan import CREATE, UPDATE, Change, Plan
from ..._services.coredns_corefile import Block, Options, owned_blocks, parse_version
from ..._services.coredns_merge import markers, merge, root_port, warnings
from ..._services.coredns_rules import DEFAULT_DOMAIN
from ..._values.refused import ValueRefused, quoted
from ..._values.text import parse_subdomain

#: The key of a ConfigMap that holds a whole Corefile. Under any other there is a file that such a one imports.
COREFILE = "Corefile"


class Edit(t.NamedTuple):
    """One write: the text that the key gets (None: the key goes), and the map's version when it was read."""

    change: Change
    text: t.Optional[str]
    uid: t.Optional[str]
    version: t.Optional[str]


def run(request: t.Mapping[str, t.Any], check: bool = False, clusters: t.Optional[Clusters] = None) -> t.Dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense.

    ``clusters``: those of a caller that stays, instead of new ones.
    """
    manager = field_manager(request["fabric"])
    markers(request["fabric"])
    namespace, name = (parse_subdomain(request[option]) for option in ("namespace", "name"))
    options = options_of(request)
    clusters = clusters or Clusters(request["clusters"], request.get("timeout") or 120.0)
    maps = "/api/v1/namespaces/{0}/configmaps".format(segment(namespace))
    path = "{0}/{1}".format(maps, segment(name))
    read = clusters.read("get " + path, lambda name, client: _get(client, path))
    whole, edits = Plan(), {}
    for cluster in sorted(read):
        try:
            edit = plan(request, cluster, options[cluster], read[cluster], whole)
        except ValueRefused as error:
            whole.refuse("ConfigMap {0}/{1}/{2}".format(cluster, namespace, name), error.reason, error.message)
            continue
        if edit is None:
            whole.unchanged += 1
        else:
            edits[cluster] = edit
            whole.changes.append(edit.change)
    if not check:
        done = clusters.write("write " + path, edits, lambda cluster, client: _write(client, maps, name, request["key"], edits[cluster], manager))
        whole.changes = [edits[cluster].change for cluster in sorted(done)]
    result = whole.result()
    result.update(failures=clusters.failures, stats=clusters.stats(), diff=whole.diff(), warnings=whole.warnings)
    return result


def options_of(request: t.Mapping[str, t.Any]) -> t.Dict[str, Options]:
    """What each cluster's blocks depend on."""
    names = [str(entry["name"]) for entry in request["clusters"]]
    members = sorted(set(request.get("members") or names) | set(names))
    versions = request.get("versions") or {}
    found = {}
    for local in names:
        found[local] = Options(
            local=local if request.get("own_zone", True) else None,
            remotes=tuple(name for name in members if name != local),
            mirror_namespace=request["mirror_namespace"],
            global_zone=bool(request.get("global_zone")),
            prefixes=request.get("prefixes") or {},
            cluster_domain=request.get("cluster_domain") or DEFAULT_DOMAIN,
            version=parse_version(versions.get(local) or request.get("version")),
        )
        owned_blocks(found[local])  # what cannot be rendered is wrong before anything is read
    return found


def plan(
    request: t.Mapping[str, t.Any],
    cluster: str,
    options: Options,
    actual: t.Optional[t.Mapping[str, t.Any]],
    whole: Plan,
) -> t.Optional[Edit]:
    """The write that one cluster needs, or None. Pure. Raises ValueRefused for a Corefile that cannot be merged into."""
    key, absent = request["key"], request.get("state") == "absent"
    data = (actual or {}).get("data")
    before = data.get(key) if isinstance(data, dict) else None
    if before is None and key == COREFILE and not absent:
        where = "coredns_rewrite_namespace, coredns_rewrite_config_map and coredns_rewrite_key"
        raise ValueRefused("not_found", "there is no Corefile; say where it is with " + where)
    if before is not None and not isinstance(before, str):
        raise ValueRefused("corefile_broken", "{0} is no text".format(quoted(key)))
    text, fabric = before or "", request["fabric"]
    blocks: t.List[Block] = []
    if not absent:
        blocks = owned_blocks(options._replace(port=root_port(text)) if key == COREFILE else options)
    after: t.Optional[str] = merge(text, fabric, blocks)
    if key == COREFILE and not absent:
        whole.warnings += ["{0}: {1}".format(cluster, one) for one in warnings(str(after), fabric)]
    if not after and key != COREFILE:
        after = None
    if after == before or (before is None and not after):
        return None
    ident = "{0}/{1}/{2}".format(cluster, request["namespace"], request["name"])
    change = Change(CREATE if actual is None else UPDATE, "ConfigMap", ident, _shown(key, before), _shown(key, after))
    metadata = actual["metadata"] if actual is not None else {}
    return Edit(change, after, metadata.get("uid"), metadata.get("resourceVersion"))


def _shown(key: str, text: t.Optional[str]) -> t.Any:
    """Line by line, so that a diff shows the lines that differ."""
    return None if text is None else {key: text.splitlines()}


def _get(client: Client, path: str) -> t.Optional[t.Dict[str, t.Any]]:
    try:
        return client.get(path)
    except NotFound:
        return None


def _write(client: Client, maps: str, name: str, key: str, edit: Edit, manager: str) -> None:
    if edit.version is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: edit.text}}
        client.create(maps, body, manager)
        return
    # only this very version: what somebody wrote since is not lost, but seen at the next run
    metadata = {"uid": edit.uid, "resourceVersion": edit.version}
    answer = client.merge_patch("{0}/{1}".format(maps, name), {"metadata": metadata, "data": {key: edit.text}}, manager)
    if (answer.get("data") or {}).get(key) != edit.text:
        raise KubeError(client.cluster, "patch {0}/{1}".format(maps, name), "the server kept another text")
