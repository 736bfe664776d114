# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owned section of every cluster's Corefile: one GET a cluster, one patch where it differs.

With the zone of the Multi-Cluster Services API also what CoreDNS needs for it: four more GETs, and a role with its binding.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, at_once, seconds_of
from ..._kubernetes.errors import Forbidden, KubeError
from ..._plan.object_plan import Key, Write
from ..._plan.objects import field_manager
from ..._plan.plan import CREATE, UPDATE, Change, Plan
from ..._services import coredns_multicluster as multicluster
from ..._services.coredns_corefile import Block, Options, owned_blocks, parse_version
from ..._services.coredns_merge import has_multicluster, markers, merge, multicluster_elsewhere, root_forwards, root_ports, serves_zone, warnings
from ..._services.coredns_rules import DEFAULT_DOMAIN
from ..._values.refused import ValueRefused, quoted
from ..._values.text import lower, parse_subdomain
from ..fabric import cluster_objects

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
    clusters = clusters or Clusters(request["clusters"], seconds_of(request))
    maps = "/api/v1/namespaces/{0}/configmaps".format(segment(namespace))
    path = "{0}/{1}".format(maps, segment(name))
    asked = sorted(set(options) & set(clusters.clients))  # one without a usable access is among the failures already
    read = clusters.read("get " + path, lambda name, client: _read(client, request, path), asked)
    whole, leaving, edits = Plan(), Plan(), {}
    before: t.Dict[str, t.List[Write]] = {}
    after: t.Dict[str, t.List[Write]] = {}
    for cluster in sorted(read):
        config, found = read[cluster]
        try:
            edit, zone = plan(request, cluster, options[cluster], config, whole, found)
            if found is not None and (zone or not wants_zone(request)):
                part, writes = multicluster.plan_rights(cluster, namespace, found, zone, manager)
                part.unchanged = 0  # the count is of ConfigMaps
                (before if zone else after)[cluster] = writes
                (whole if zone else leaving).extend(part)
        except ValueRefused as error:
            whole.refuse("ConfigMap {0}/{1}/{2}".format(cluster, namespace, name), error.reason, error.message)
            continue
        if edit is None:
            whole.unchanged += 1
        else:
            edits[cluster] = edit
            whole.changes.append(edit.change)
    if check:
        whole.extend(leaving)
    else:
        # CoreDNS may read ServiceImports before it is told to, and as long as it does
        whole = cluster_objects.apply(clusters, whole, before, manager)
        failed = {row["cluster"] for row in clusters.failures}
        edits = {cluster: edit for cluster, edit in edits.items() if cluster not in failed}
        done = clusters.write("write " + path, edits, lambda cluster, client: _write(client, maps, name, request["key"], edits[cluster], manager))
        whole.changes += [edits[cluster].change for cluster in sorted(done)]
        failed = {row["cluster"] for row in clusters.failures}
        whole.extend(cluster_objects.apply(clusters, leaving, {name: writes for name, writes in after.items() if name not in failed}, manager))
    result = whole.result()
    result.update(failures=clusters.failures, stats=clusters.stats(), diff=whole.diff(), warnings=whole.warnings)
    return result


def wants_zone(request: t.Mapping[str, t.Any]) -> bool:
    """Whether names of ServiceImports are asked for."""
    return bool(request.get("clusterset_domain")) and request.get("state") != "absent"


def _read(
    client: Client, request: t.Mapping[str, t.Any], path: str
) -> t.Tuple[t.Optional[t.Dict[str, t.Any]], t.Optional[multicluster.Found]]:
    """The ConfigMap; and what a zone of ServiceImports needs, where one is asked for, or stands, or may have left its rights behind."""
    config = client.find(path)
    if not request.get("clusterset_domain") and not _stands(request, config):
        return config, None
    hidden: t.List[str] = []
    namespace = segment(request["namespace"])

    def visible(path: str, what: str) -> t.Optional[t.Dict[str, t.Any]]:
        try:
            return client.find(path)
        except Forbidden:
            hidden.append(what)
            return None

    if not wants_zone(request):
        found = at_once(*(lambda key=key: visible(_path(key), "get " + key.kind) for key in (multicluster.ROLE, multicluster.BINDING)))
        rights = {key: one for key, one in zip((multicluster.ROLE, multicluster.BINDING), found) if one is not None}
        return config, multicluster.Found(rights=rights, hidden=tuple(sorted(hidden)))
    deployment = "/apis/apps/v1/namespaces/{0}/deployments/{1}".format(namespace, segment(request.get("deployment") or "coredns"))
    role, binding, running, served = at_once(
        lambda: visible(_path(multicluster.ROLE), "get ClusterRole"),
        lambda: visible(_path(multicluster.BINDING), "get ClusterRoleBinding"),
        lambda: visible(deployment, "get Deployment"),
        lambda: client.resource(multicluster.API_VERSION, multicluster.KIND, refresh=True) is not None,  # the definitions may come later
    )
    rights = {key: one for key, one in ((multicluster.ROLE, role), (multicluster.BINDING, binding)) if one is not None}
    return config, multicluster.Found(running, served, rights, tuple(sorted(hidden)))


def _path(key: Key) -> str:
    return "/apis/{0}/{1}s/{2}".format(key.api_version, lower(key.kind), segment(key.name))


def _stands(request: t.Mapping[str, t.Any], config: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    try:
        return has_multicluster(_text(request, config) or "", request["fabric"])
    except ValueRefused:
        return False  # the plan says so


def _text(request: t.Mapping[str, t.Any], config: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[str]:
    """The Corefile as it stands, None where there is none. Raises ValueRefused for what is no text."""
    data = (config or {}).get("data")
    text = data.get(request["key"]) if isinstance(data, dict) else None
    if text is not None and not isinstance(text, str):
        raise ValueRefused("corefile_broken", "{0} is no text".format(quoted(request["key"])))
    return text


def options_of(request: t.Mapping[str, t.Any]) -> t.Dict[str, Options]:
    """What the blocks of each cluster depend on whose Corefile is ours to edit. The others are members, and are not asked for anything.

    Raises ValueRefused for a destination to which nobody gave access.
    """
    names = [str(entry["name"]) for entry in request["clusters"]]
    members = sorted(set(request.get("members") or names) | set(names))
    versions = request.get("versions") or {}
    destinations = request.get("destinations") or names
    for name in sorted(set(destinations) - set(names)):
        raise ValueRefused("unknown_cluster", "destinations (coredns_rewrite_destinations) names {0}, to which clusters gives no access".format(quoted(name)))
    found = {}
    for local in names:
        if local not in destinations:
            continue
        found[local] = Options(
            local=local if request.get("own_zone", True) else None,
            remotes=tuple(name for name in members if name != local),
            mirror_namespace=request["mirror_namespace"],
            global_zone=bool(request.get("global_zone")),
            prefixes=request.get("prefixes") or {},
            cluster_domain=request.get("cluster_domain") or DEFAULT_DOMAIN,
            version=parse_version(versions.get(local) or request.get("version")),
            multicluster=request.get("clusterset_domain") or None,
        )
        owned_blocks(found[local])  # what cannot be rendered is wrong before anything is read
    return found


def plan(
    request: t.Mapping[str, t.Any],
    cluster: str,
    options: Options,
    actual: t.Optional[t.Mapping[str, t.Any]],
    whole: Plan,
    found: t.Optional[multicluster.Found] = None,
) -> t.Tuple[t.Optional[Edit], bool]:
    """The write that one cluster needs, or None, and whether our section has the zone of ServiceImports then.

    Pure. Raises ValueRefused for a Corefile that cannot be merged into.
    """
    key, absent = request["key"], request.get("state") == "absent"
    before = _text(request, actual)
    if before is None and key == COREFILE and not absent:
        where = "coredns_rewrite_namespace, coredns_rewrite_config_map and coredns_rewrite_key"
        raise ValueRefused("not_found", "there is no Corefile; say where it is with " + where)
    text, fabric = before or "", request["fabric"]
    zone = None if absent else _zone(request, cluster, options, text, whole, found)
    blocks: t.List[Block] = []
    if not absent:
        options = options._replace(multicluster=zone)
        if key == COREFILE:
            options = options._replace(ports=root_ports(text, fabric), forwards=root_forwards(text, fabric))
        blocks = owned_blocks(options)
    after: t.Optional[str] = merge(text, fabric, blocks)
    if key == COREFILE and not absent:
        whole.warnings += ["{0}: {1}".format(cluster, one) for one in warnings(str(after), fabric)]
    if not after and key != COREFILE:
        after = None
    if after == before or (before is None and not after):
        return None, zone is not None
    ident = "{0}/{1}/{2}".format(cluster, request["namespace"], request["name"])
    change = Change(CREATE if actual is None else UPDATE, "ConfigMap", ident, _shown(key, before), _shown(key, after))
    metadata = actual["metadata"] if actual is not None else {}
    return Edit(change, after, metadata.get("uid"), metadata.get("resourceVersion")), zone is not None


def _zone(
    request: t.Mapping[str, t.Any], cluster: str, options: Options, text: str, whole: Plan, found: t.Optional[multicluster.Found]
) -> t.Optional[str]:
    """The zone of ServiceImports where it is to be written; why not is said, and the rest of the section goes on without it."""
    zone, fabric = options.multicluster, request["fabric"]
    if zone is None or found is None:
        return None
    theirs = multicluster_elsewhere(text, fabric, zone)
    if theirs is not None:
        said = "{0}: {1} stands in the Corefile and is not ours; it is left, and so are the rights of its account"
        whole.warnings.append(said.format(cluster, quoted(theirs)))
        return None
    address, stands = serves_zone(text, fabric, zone), has_multicluster(text, fabric)
    namespace = request["namespace"]
    why: t.Optional[t.Tuple[str, str]] = None
    if address is not None:
        why = "not_ours", "a server block that is not ours has the zone {0}; remove it, we leave it alone".format(quoted(address))
    else:
        given = bool((request.get("versions") or {}).get(cluster) or request.get("version"))
        name = request.get("deployment") or "coredns"
        why = multicluster.refused(options, given, found, namespace, name, stands)
    if why is not None:
        whole.refuse("zone {0}/{1}".format(cluster, zone), *why)
        return None
    barred = multicluster.plan_rights(cluster, namespace, found, True, field_manager(fabric))[0].refused
    if barred and not stands:
        whole.refused.extend(barred)  # what is in the way of the rights is in the way of the zone
        return None
    return zone


def _shown(key: str, text: t.Optional[str]) -> t.Any:
    """Line by line, so that a diff shows the lines that differ."""
    return None if text is None else {key: text.splitlines()}


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
