# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owned section of every cluster's Corefile: one GET a cluster, one patch where it differs; twice that where the Corefile imports users' files.

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
from ..._services.coredns_merge import (
    has_multicluster,
    markers,
    merge,
    multicluster_elsewhere,
    root_binds,
    root_forwards,
    root_ports,
    serves_zone,
    warnings,
)
from ..._services.coredns_places import (
    COREFILE,
    CUSTOM_KEY,
    CUSTOM_MAP,
    DEFAULT_MAP,
    Place,
    imports,
    owner_of,
    owner_sentence,
    place_of,
    with_imports,
)
from ..._values.refused import ValueRefused, quoted
from ..._values.text import lower, mapping, parse_subdomain
from ..access import cluster_objects

Map = t.Optional[dict[str, t.Any]]


class Read(t.NamedTuple):
    """What was read of one cluster. ``config``: the ConfigMap of its place; ``custom``: that of its users' files, where the Corefile imports those.

    ``root``: the ConfigMap with the Corefile, where the user chose a file that it imports; None where it is not there or may not be seen.
    """

    config: Map
    found: multicluster.Found | None
    custom: Map = None
    root: Map = None


class Edit(t.NamedTuple):
    """One write: the text that the key gets (None: the key goes), and the map's version when it was read."""

    change: Change
    place: Place
    text: str | None
    uid: str | None
    version: str | None


def run(request: t.Mapping[str, t.Any], check: bool = False, clusters: Clusters | None = None) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense.

    ``clusters``: those of a caller that stays, instead of new ones.
    """
    if not check:  # a CoreDNS that cannot list ServiceImports is never ready, so a promise is not enough where something is written
        request = dict(request, definitions_planned=False)
    manager = field_manager(request["fabric"])
    markers(request["fabric"])
    options = options_of(request)
    places = {cluster: _checked(place_of(request, cluster)) for cluster in options}
    clusters = clusters or Clusters(request["clusters"], seconds_of(request))
    asked = sorted(set(options) & set(clusters.clients))  # one without a usable access is among the failures already
    read = clusters.read("get the Corefile", lambda name, client: _read(client, request, places[name]), asked)
    whole, leaving, edits = Plan(), Plan(), {}
    before: dict[str, list[Write]] = {}
    after: dict[str, list[Write]] = {}
    for cluster in sorted(read):
        place, found = places[cluster], read[cluster].found
        try:
            made, zone = plan_places(request, cluster, options[cluster], place, read[cluster], whole)
            if found is not None and (zone or not wants_zone(request)):
                part, writes = multicluster.plan_rights(cluster, place.namespace, found, zone, manager)
                part.unchanged = 0  # the count is of ConfigMaps
                (before if zone else after)[cluster] = writes
                (whole if zone else leaving).extend(part)
        except ValueRefused as error:
            whole.refuse(f"ConfigMap {cluster}/{place.namespace}/{place.name}", error.reason, error.message)
            continue
        if not made:
            whole.unchanged += 1
        else:
            edits[cluster] = made
            whole.changes += [edit.change for edit in made]
    if check:
        whole.extend(leaving)
    else:
        # CoreDNS may read ServiceImports before it is configured to, and as long as it does
        whole = cluster_objects.apply(clusters, whole, before, manager)
        failed = {row["cluster"] for row in clusters.failures}
        edits = {cluster: made for cluster, made in edits.items() if cluster not in failed}
        done = clusters.write(
            "write the Corefile", edits, lambda cluster, client: _write_all(client, edits[cluster], manager)
        )
        whole.changes += [edit.change for cluster in sorted(done) for edit in edits[cluster]]
        failed = {row["cluster"] for row in clusters.failures}
        whole.extend(
            cluster_objects.apply(
                clusters, leaving, {name: writes for name, writes in after.items() if name not in failed}, manager
            )
        )
    return clusters.result(whole)


def _checked(place: Place) -> Place:
    parse_subdomain(place.namespace)
    parse_subdomain(place.name)
    return place


def _maps(place: Place) -> str:
    return f"/api/v1/namespaces/{segment(place.namespace)}/configmaps"


def wants_zone(request: t.Mapping[str, t.Any]) -> bool:
    """Whether names of ServiceImports are asked for."""
    return bool(request.get("clusterset_domain")) and request.get("state") != "absent"


def _read(client: Client, request: t.Mapping[str, t.Any], place: Place) -> Read:
    """The ConfigMaps; and what a zone of ServiceImports needs, where one is asked for, or exists, or may have left its rights behind."""
    config = client.find(f"{_maps(place)}/{segment(place.name)}")
    custom, root = None, None
    if place.chosen and place.key != COREFILE:
        try:
            root = config if place.name == DEFAULT_MAP else client.find(f"{_maps(place)}/{DEFAULT_MAP}")
        except Forbidden:
            root = None  # an account that was made for the one ConfigMap
    elif not place.chosen and imports(_readable(place, config), CUSTOM_KEY):
        custom = client.find(f"{_maps(place)}/{CUSTOM_MAP}") or {}
    texts = [_readable(place, config), _readable(place._replace(key=CUSTOM_KEY), custom)]
    if not request.get("clusterset_domain") and not any(_is_written(request, text) for text in texts):
        return Read(config, None, custom, root)
    return Read(config, _rights(client, request, place), custom, root)


def _rights(client: Client, request: t.Mapping[str, t.Any], place: Place) -> multicluster.Found:
    hidden: list[str] = []

    def visible(path: str, what: str) -> dict[str, t.Any] | None:
        try:
            return client.find(path)
        except Forbidden:
            hidden.append(what)
            return None

    if not wants_zone(request):
        found = at_once(
            *(
                lambda key=key: visible(_path(key), "get " + key.kind)
                for key in (multicluster.ROLE, multicluster.BINDING)
            )
        )
        rights = {key: one for key, one in zip((multicluster.ROLE, multicluster.BINDING), found) if one is not None}
        return multicluster.Found(rights=rights, hidden=tuple(sorted(hidden)))
    deployment = f"/apis/apps/v1/namespaces/{segment(place.namespace)}/deployments/{segment(place.deployment)}"
    role, binding, running, served = at_once(
        lambda: visible(_path(multicluster.ROLE), "get ClusterRole"),
        lambda: visible(_path(multicluster.BINDING), "get ClusterRoleBinding"),
        lambda: visible(deployment, "get Deployment"),
        lambda: (
            bool(request.get("definitions_planned"))
            or client.resource(multicluster.API_VERSION, multicluster.KIND, refresh=True) is not None
        ),  # the definitions may come later
    )
    rights = {key: one for key, one in ((multicluster.ROLE, role), (multicluster.BINDING, binding)) if one is not None}
    return multicluster.Found(running, served, rights, tuple(sorted(hidden)))


def _path(key: Key) -> str:
    return f"/apis/{key.api_version}/{lower(key.kind)}s/{segment(key.name)}"


def _is_written(request: t.Mapping[str, t.Any], text: str) -> bool:
    try:
        return has_multicluster(text, request["fabric"])
    except ValueRefused:
        return False  # the plan reports it


def _text(place: Place, config: t.Mapping[str, t.Any] | None) -> str | None:
    """The text of the key, None where there is none. Raises ValueRefused for what is no text."""
    data = (config or {}).get("data")
    text = data.get(place.key) if isinstance(data, dict) else None
    if text is not None and not isinstance(text, str):
        raise ValueRefused("corefile_broken", f"{quoted(place.key)} is no text")
    return text


def _readable(place: Place, config: t.Mapping[str, t.Any] | None) -> str:
    try:
        return _text(place, config) or ""
    except ValueRefused:
        return ""  # the plan reports it


def options_of(request: t.Mapping[str, t.Any]) -> dict[str, Options]:
    """What the blocks depend on of each cluster with a Corefile that is edited. The others are members, and are not asked for anything.

    Raises ValueRefused for a destination to which nobody gave access.
    """
    names = [str(entry["name"]) for entry in request["clusters"]]
    members = sorted(set(request.get("members") or names) | set(names))
    versions = request.get("versions") or {}
    destinations = request.get("destinations") or names
    for name in sorted(set(destinations) - set(names)):
        raise ValueRefused(
            "unknown_cluster",
            f"destinations (coredns_rewrite_destinations) names {quoted(name)}, to which clusters gives no access",
        )
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
            cluster_domain=place_of(request, local).cluster_domain,
            version=parse_version(versions.get(local) or request.get("version")),
            multicluster=request.get("clusterset_domain") or None,
        )
        owned_blocks(found[local])  # what cannot be rendered is wrong before anything is read
    return found


def plan_places(
    request: t.Mapping[str, t.Any], cluster: str, options: Options, place: Place, read: Read, whole: Plan
) -> tuple[list[Edit], bool]:
    """The writes that one cluster needs, in their order, and whether our section has the zone of ServiceImports then. Pure. Raises ValueRefused.

    Where a program keeps the Corefile as it made it and imports its users' files, the section is among those, and in the Corefile no more;
    elsewhere the reverse. It is taken out of one before it is put into the other: CoreDNS does not load both.
    """
    owner, text = owner_of(read.config), _readable(place, read.config)
    present = request.get("state") != "absent"
    moved = read.custom is not None and present and owner is not None
    if owner is not None and present and not moved:
        whole.warnings.append(owner_sentence(cluster, place, owner, text))
    if read.custom is None:
        around = _readable(place._replace(key=COREFILE), read.root)
        around = with_imports(around, mapping(read.config, "data"), place.key) if around and present else ""
        edit, zone = plan(request, cluster, options, place, read.config, whole, read.found, around or None)
        return [edit] if edit is not None else [], zone
    custom = place._replace(name=CUSTOM_MAP, key=CUSTOM_KEY)
    files = mapping(read.custom, "data")
    if moved:
        gone, dummy = plan(dict(request, state="absent"), cluster, options, place, read.config, Plan())
        split_off = merge(text, request["fabric"], [])
        around = with_imports(split_off, files, CUSTOM_KEY)
        there, zone = plan(request, cluster, options, custom, read.custom or None, whole, read.found, around)
    else:
        gone, dummy = plan(dict(request, state="absent"), cluster, options, custom, read.custom or None, Plan())
        around = with_imports(text, files, CUSTOM_KEY)
        there, zone = plan(
            request, cluster, options, place, read.config, whole, read.found, around if present else None
        )
    return [edit for edit in (gone, there) if edit is not None], zone


def plan(
    request: t.Mapping[str, t.Any],
    cluster: str,
    options: Options,
    place: Place,
    actual: t.Mapping[str, t.Any] | None,
    whole: Plan,
    found: multicluster.Found | None = None,
    around: str | None = None,
) -> tuple[Edit | None, bool]:
    """The write that one place needs, or None, and whether our section has the zone of ServiceImports then.

    around: the whole Corefile with what it imports, for a file that is one of those. Pure. Raises ValueRefused for a Corefile that cannot
    be merged into.
    """
    key, absent = place.key, request.get("state") == "absent"
    before = _text(place, actual)
    if before is None and key == COREFILE and not absent:
        where = "coredns_rewrite_namespace, coredns_rewrite_config_map and coredns_rewrite_key"
        raise ValueRefused("not_found", "there is no Corefile; say where it is with " + where)
    text, fabric = before or "", request["fabric"]
    root = around if around is not None else text if key == COREFILE else None
    zone = None if absent else _zone(request, cluster, options, place, text, whole, found, root)
    blocks: list[Block] = []
    if not absent:
        options = options._replace(multicluster=zone)
        if root is not None:
            options = options._replace(
                ports=root_ports(root, fabric), forwards=root_forwards(root, fabric), binds=root_binds(root, fabric)
            )
        blocks = owned_blocks(options)
    after: str | None = merge(text, fabric, blocks)
    if root is not None and not absent:
        merge(root, fabric, blocks)  # raises where another file has one of our zones
        whole.warnings += [f"{cluster}: {one}" for one in warnings(root, fabric)]
    if not after and key != COREFILE:
        after = None
    if after == before or (before is None and not after):
        return None, zone is not None
    ident = f"{cluster}/{place.namespace}/{place.name}"
    change = Change(CREATE if actual is None else UPDATE, "ConfigMap", ident, _shown(key, before), _shown(key, after))
    metadata = actual["metadata"] if actual is not None else {}
    return Edit(change, place, after, metadata.get("uid"), metadata.get("resourceVersion")), zone is not None


def _zone(
    request: t.Mapping[str, t.Any],
    cluster: str,
    options: Options,
    place: Place,
    text: str,
    whole: Plan,
    found: multicluster.Found | None,
    root: str | None,
) -> str | None:
    """The zone of ServiceImports where it is to be written; why not is said, and the rest of the section goes on without it."""
    zone, fabric = options.multicluster, request["fabric"]
    if zone is None or found is None:
        return None
    around = text if root is None else root
    theirs = multicluster_elsewhere(around, fabric, zone)
    if theirs is not None:
        said = "{0}: {1} is in the Corefile and has another owner; it is left, and so are the rights of its account"
        whole.warnings.append(said.format(cluster, quoted(theirs)))
        return None
    address, is_there = serves_zone(around, fabric, zone), has_multicluster(text, fabric)
    namespace = place.namespace
    why: tuple[str, str] | None = None
    if address is not None:
        why = (
            "not_ours",
            f"a server block of another owner has the zone {quoted(address)}; remove it, we leave it alone",
        )
    else:
        given = bool((request.get("versions") or {}).get(cluster) or request.get("version"))
        why = multicluster.refused(options, given, found, namespace, place.deployment, is_there)
    if why is not None:
        whole.refuse(f"zone {cluster}/{zone}", *why)
        return None
    barred = multicluster.plan_rights(cluster, namespace, found, True, field_manager(fabric))[0].refused
    if barred and not is_there:
        whole.refused.extend(barred)  # what is in the way of the rights is in the way of the zone
        return None
    return zone


def _shown(key: str, text: str | None) -> t.Any:
    """Line by line, so that a diff shows the lines that differ."""
    return None if text is None else {key: text.splitlines()}


def _write_all(client: Client, edits: t.Sequence[Edit], manager: str) -> None:
    for edit in edits:
        _write(client, edit, manager)


def _write(client: Client, edit: Edit, manager: str) -> None:
    maps, name, key = _maps(edit.place), edit.place.name, edit.place.key
    if edit.version is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: edit.text}}
        client.create(maps, body, manager)
        return
    # only this very version: what somebody wrote since is not lost, but seen at the next run
    metadata = {"uid": edit.uid, "resourceVersion": edit.version}
    answer = client.merge_patch(f"{maps}/{segment(name)}", {"metadata": metadata, "data": {key: edit.text}}, manager)
    if (answer.get("data") or {}).get(key) != edit.text:
        raise KubeError(client.cluster, f"patch {maps}/{name}", "the server kept another text")
