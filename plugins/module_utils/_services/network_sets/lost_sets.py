# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets that a plan takes away or empties, although pods of which they have the addresses still run: policies that name them would turn these away. Pure."""

from __future__ import annotations

import typing as t

from ..._plan.object_plan import Key, Write
from ..._plan.plan import Refusal
from ..._values.exported_ranges import ExportedRanges
from ..._values.text import mapping
from ..losses import Loss
from .members import FINISHED, NAME_LABEL, TERMINATION_SLACK_SECONDS, Member, Members, host_nets, seconds_of_time
from .set_plan import Objects, member_of
from .targets import Target, nets_of

Data = t.Mapping[str, t.Any]
#: Its pods have not the label any more; they are on the host's network, which is off; their addresses are refused; they could not be listed.
UNLABELLED, HOST_NETWORK, REFUSED, UNPROVEN = "set_unlabelled", "set_host_network", "set_refused", "set_unproven"


class Emptied(t.NamedTuple):
    """A set that would have no address any more. nets: those that it has. written: seconds since 1970 when this fabric wrote it, None if unknown."""

    local: str
    member: Member
    label: str
    nets: frozenset[str]
    keys: frozenset[Key]
    written: float | None


def emptied_sets(
    local: str,
    target: Target,
    existing: Objects,
    writes: t.Iterable[Write],
    members: t.Mapping[str, Members],
    manager: str,
) -> list[Emptied]:
    """What the writes of one cluster empty. members: of the sources that could be read; others are emptied because somebody asked for it."""
    gone = {write.key.name: write.key for write in writes if write.manifest is None}
    found: dict[Member, Emptied] = {}
    for name in sorted(gone):
        obj = existing[name]
        member, nets = member_of(obj), frozenset(map(str, nets_of(target, obj)))
        if member is None or member.cluster not in members or not nets or members[member.cluster].get(member):
            continue
        before = found.get(member)
        label = f"{target.kind} {local}/{name}"
        row = Emptied(local, member, label, nets, frozenset((gone[name],)), _written(obj, manager))
        if before is not None:
            row = before._replace(nets=before.nets | nets, keys=before.keys | row.keys)
        found[member] = row
    return [found[member] for member in sorted(found)]


def _written(obj: Data, manager: str) -> float | None:
    """When this fabric last wrote the networks, or the label of the cluster."""
    times = []
    for entry in mapping(obj, "metadata").get("managedFields") or ():
        if isinstance(entry, dict) and entry.get("manager") == manager and isinstance(entry.get("time"), str):
            times.append(seconds_of_time(entry["time"]))
    known = [when for when in times if when is not None]
    return max(known) if known else None


def lost_sets(
    emptied: t.Iterable[Emptied],
    pods: t.Mapping[str, t.Iterable[Data]],
    exported: t.Mapping[str, ExportedRanges],
    refused: t.Collection[Refusal] = (),
    include_host_network: bool = False,
) -> list[Loss]:
    """pods: that run, of the namespaces in question, by cluster. An address that a younger pod has now is no loss, since the set was not made for it."""
    listed = {source: list(given) for source, given in pods.items()}
    losses = []
    for one in emptied:
        source = one.member.cluster
        if source not in listed:
            message = f"pods of namespace {one.member.namespace} of {source} could not be listed, so nobody knows whether they are gone"
            ends = source, one.local
            losses.append(Loss(UNPROVEN, *ends, ends, one.local, one.label, one.keys, message))
        for pod in listed.get(source, ()):
            if not _is_held(one, pod, exported[source]):
                continue
            name = f"{source}/{one.member.namespace}/{mapping(pod, 'metadata').get('name')}"
            cause, why = _cause(one.member, pod, name, refused, include_host_network)
            message = f"pod {name} runs, and {why}"
            losses.append(Loss(cause, source, one.local, (name, one.local), one.local, one.label, one.keys, message))
            break
    return losses


def _is_held(one: Emptied, pod: Data, exported: ExportedRanges) -> bool:
    """Whether the set was written with an address of this pod."""
    metadata, status = mapping(pod, "metadata"), mapping(pod, "status")
    if metadata.get("namespace") != one.member.namespace or status.get("phase") in FINISHED:
        return False
    made = seconds_of_time(str(metadata.get("creationTimestamp")))
    if metadata.get("deletionTimestamp"):
        return False
    # clocks differ
    if made is not None and one.written is not None and made > one.written + TERMINATION_SLACK_SECONDS:
        return False
    host = mapping(pod, "spec").get("hostNetwork") is True
    return any((net if host or not exported else exported.network(net)) in one.nets for net in host_nets(status))


def _cause(
    member: Member, pod: Data, name: str, refused: t.Collection[Refusal], include_host_network: bool
) -> tuple[str, str]:
    value = mapping(mapping(pod, "metadata"), "labels").get(NAME_LABEL)
    if value != member.value:
        return UNLABELLED, f"its label {NAME_LABEL} is not {member.value} any more"
    if mapping(pod, "spec").get("hostNetwork") is True and not include_host_network:
        return HOST_NETWORK, "it is on the host's network, which include_host_network leaves out"
    why = next((f"{row.message} [{row.reason}]" for row in refused if row.object == name), "it is refused")
    return REFUSED, why
