# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upstream programs among the workloads of a cluster, and what each was given: flags, environment, files that it mounts.

What a Secret holds is never asked for: a value out of one is known by its place alone. Everything here is a claim of the cluster that sent it, so any
form of an object is read, and what has another one than Kubernetes' counts as not there.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from .._values.text import dicts_of, mapping, text_of
from .programs import PROGRAMS, Program

KINDS = ("DaemonSet", "Deployment", "StatefulSet")
#: A cluster's ConfigMaps by namespace and name.
ConfigMaps = t.Mapping[tuple[str, str], t.Mapping[str, t.Any]]
_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9/_-][A-Za-z0-9._/:\[\]-]{0,252}\Z")
#: Containers have tens of variables and flags; whoever has more has the rest left out, and a note of it.
MOST_WORDS = 500
SHELLS = ("sh", "bash", "ash", "dash", "busybox")


class Configured(t.NamedTuple):
    """One value: ``text``, or None where it is not known here. ``place``: where it comes from, if not from the object itself.

    ``config_map``: the name of the ConfigMap that has it.
    """

    text: str | None
    place: str = ""
    secret: bool = False
    config_map: str = ""


class Mount(t.NamedTuple):
    """A volume at a path: of ``kind`` ConfigMap or Secret. ``items``: file to key; ``sub_path``: the one file that the path is."""

    path: str
    kind: str
    name: str
    items: t.Mapping[str, str]
    sub_path: str


class Process(t.NamedTuple):
    """A container with an original. ``configured``: by flag, with its dashes, or variable; ``alongside``: what could not be read, in words."""

    program: Program
    cluster: str
    namespace: str
    where: str
    image: str
    copies: int
    configured: t.Mapping[str, Configured]
    mounts: tuple[Mount, ...]
    alongside: tuple[str, ...] = ()

    def first(self, *names: str) -> Configured | None:
        """The first of these that is there and not empty: a variable that is set but empty counts as unset."""
        for name in names:
            found = self.configured.get(name)
            if found is not None and found.text != "":
                return found
        return None

    def text(self, *names: str) -> str | None:
        """The text of the same, None where it is not known."""
        found = self.first(*names)
        return found.text if found else None

    def file(self, path: str, config_maps: ConfigMaps) -> Configured:
        """What a file of the container holds: the text of a ConfigMap, or the place alone."""
        kind, name, key = self.mounted(path)
        if not kind:
            return Configured(None, f"{shown(path)} of the container, which is no ConfigMap")
        place = f"{kind} {shown(self.namespace)}/{shown(name)}, key {shown(key)}"
        text = config_maps.get((self.namespace, name), {}).get(key) if kind == "ConfigMap" else None
        return Configured(text if isinstance(text, str) else None, place, kind == "Secret")

    def mounted(self, path: str) -> tuple[str, str, str]:
        """(kind, name, key) behind a path; empty texts where nothing of the API is mounted there. The longest mount wins."""
        path = posixpath.normpath(path)
        for mount in sorted(self.mounts, key=lambda one: -len(one.path)):
            if mount.sub_path and path == mount.path:
                return mount.kind, mount.name, mount.items.get(mount.sub_path, mount.sub_path)
            if not mount.sub_path and path.startswith(mount.path.rstrip("/") + "/"):
                inner = path[len(mount.path.rstrip("/")) + 1 :]
                return mount.kind, mount.name, mount.items.get(inner, inner)
        return "", "", ""


def shown(text: object) -> str:
    """Untrusted text for a comment or a message: names as they are, anything else as its length alone."""
    text = str(text)
    return text if _PLAIN.match(text) else f"(a name of {len(text)} characters)"


def processes(cluster: str, objects: t.Iterable[t.Any], config_maps: ConfigMaps | None = None) -> list[Process]:
    """The upstream programs among workloads, in the order of their kinds and names."""
    found = []
    for obj in objects:
        kind, name, namespace = (
            mapping(obj).get("kind"),
            mapping(obj, "metadata").get("name"),
            mapping(obj, "metadata").get("namespace"),
        )
        if kind not in KINDS or not isinstance(name, str):
            continue
        namespace = namespace if isinstance(namespace, str) else "default"
        spec = mapping(obj, "spec", "template", "spec")
        for container in containers_of(spec):
            program = _program(container)
            if program is None:
                continue
            configured, alongside = _configured(program, container, namespace, config_maps or {})
            where = f"{kind} {shown(namespace)}/{shown(name)} of cluster {shown(cluster)}"
            found.append(
                Process(
                    program,
                    cluster,
                    namespace,
                    where,
                    text_of(container.get("image")),
                    _copies(obj),
                    configured,
                    _mounts(container, spec),
                    alongside,
                )
            )
    return sorted(found, key=lambda one: (one.program.name, one.where))


def desired_config_maps(found: t.Iterable[Process]) -> list[tuple[str, str]]:
    """Namespaces and names of the ConfigMaps that these mount or take variables from."""
    names = {(one.namespace, mount.name) for one in found for mount in one.mounts if mount.kind == "ConfigMap"}
    names |= {
        (one.namespace, configured.config_map)
        for one in found
        for configured in one.configured.values()
        if configured.config_map
    }
    return sorted(pair for pair in names if pair[1])


def containers_of(spec: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The containers of a pod's specification, without those that only prepare it."""
    return dicts_of(spec.get("containers"))


def _copies(obj: t.Any) -> int:
    """How many copies are desired: 0 is one that was stopped."""
    desired = (
        mapping(obj, "status").get("desiredNumberScheduled", 1)
        if obj["kind"] == "DaemonSet"
        else mapping(obj, "spec").get("replicas", 1)
    )
    return desired if isinstance(desired, int) else 1


def _program(container: t.Mapping[str, t.Any]) -> Program | None:
    image = text_of(container.get("image")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    command = container.get("command")
    first = text_of(command[0]).rpartition("/")[2] if isinstance(command, list) and command else ""
    for name in (first, image):
        for program in PROGRAMS.values():
            if name in program.images:
                return program
    return None


def _configured(
    program: Program, container: t.Mapping[str, t.Any], namespace: str, config_maps: ConfigMaps
) -> tuple[dict[str, Configured], tuple[str, ...]]:
    configured: dict[str, Configured] = {}
    alongside: list[str] = []
    rows = dicts_of(container.get("env"))
    for row in rows[:MOST_WORDS]:
        name = row.get("name")
        if isinstance(name, str):
            configured[name] = _variable(row, configured, namespace, config_maps)
    if dicts_of(container.get("envFrom")):
        alongside.append("its envFrom is not read: name the variables in its env, or give them as a file")
    command, args = container.get("command"), container.get("args")
    words = [
        argument for part in (command, args) if isinstance(part, list) for argument in part if isinstance(argument, str)
    ]
    if isinstance(command, list) and command and text_of(command[0]).rpartition("/")[2] in SHELLS:
        alongside.append("it is started by a shell, and the shell's arguments are not read: give its flags as a file")
        words = []
    if len(words) > MOST_WORDS or len(rows) > MOST_WORDS:
        alongside.append(f"it has more than {MOST_WORDS} flags or variables: the others are not read")
    configured.update(flags(program, [_expanded(argument, configured) for argument in words[:MOST_WORDS]]))
    return configured, tuple(alongside)


def _variable(
    row: t.Mapping[str, t.Any], before: t.Mapping[str, Configured], namespace: str, config_maps: ConfigMaps
) -> Configured:
    source = mapping(row, "valueFrom")
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if field in source:
            name, key = text_of(mapping(source, field).get("name")), text_of(mapping(source, field).get("key"))
            place = f"{kind} {shown(namespace)}/{shown(name)}, key {shown(key)}"
            if kind == "Secret":
                return Configured(None, place, True)
            text = config_maps.get((namespace, name), {}).get(key)
            return Configured(text if isinstance(text, str) else None, place, config_map=name)
    if source:
        return Configured(None, "a field of the pod")
    return _expanded(text_of(row.get("value")), before)


def _expanded(text: str, configured: t.Mapping[str, Configured]) -> Configured:
    """``$(NAME)`` refers to a variable, as Kubernetes has it. What holds one that is not known is not known either."""
    unknown: list[Configured] = []

    def one(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        found = configured.get(match.group(2))
        if found is not None and found.text is None:
            unknown.append(found)
        return match.group(0) if found is None else found.text or ""

    text = _REFERENCE.sub(one, text)
    return unknown[0] if unknown else Configured(text)


def flags(program: Program, words: t.Sequence[Configured]) -> dict[str, Configured]:
    """Flags by name, with the program's own dashes. The last of a name wins; a flag that the program has not keeps no value."""
    found: dict[str, Configured] = {}
    todo = list(words)
    while todo:
        argument = todo.pop(0)
        if argument.text is None:
            continue
        if argument.text == "--":
            break
        if not argument.text.startswith("-") or argument.text == "-":
            continue
        name, equals, value = argument.text.lstrip("-").partition("=")
        flag = program.dash + name
        if equals:
            found[flag] = Configured(value)
        elif name in program.switches or not todo or program.key(flag) is None:
            found[flag] = Configured("true")
        else:
            found[flag] = todo.pop(0)
    return found


def _mounts(container: t.Mapping[str, t.Any], spec: t.Mapping[str, t.Any]) -> tuple[Mount, ...]:
    volumes: dict[str, tuple[str, str, dict[str, str]]] = {}
    for volume in dicts_of(spec.get("volumes")):
        for kind, source in _sources(volume):
            name = text_of(source.get("name") or source.get("secretName"))
            items = {text_of(row.get("path")): text_of(row.get("key")) for row in dicts_of(source.get("items"))}
            volumes.setdefault(text_of(volume.get("name")), (kind, name, items))
    found = []
    for row in dicts_of(container.get("volumeMounts")):
        path = text_of(row.get("mountPath"))
        if path and text_of(row.get("name")) in volumes:
            kind, name, items = volumes[text_of(row.get("name"))]
            found.append(Mount(posixpath.normpath(path), kind, name, items, text_of(row.get("subPath"))))
    return tuple(found)


def _sources(volume: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """ConfigMaps and Secrets of a volume, those of a projected one too; of several only the first counts."""
    for holder in (volume, *dicts_of(mapping(volume, "projected").get("sources"))):
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if field in holder:
                yield kind, mapping(holder, field)
