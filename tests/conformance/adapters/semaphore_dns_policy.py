# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: CoreDNS rewriting and network sets. Fields are renamed, nothing is decided here.

Set: ``max_deletes: -1``, since the vectors know no budget (decision 38). What they own by labels counts as applied by us (decision 32).
"""

from __future__ import annotations

import functools
import json
import pathlib
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_corefile, coredns_rules
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets import (
    members as network_sets,
    set_plan,
    targets,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

Input = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]
MANAGER = "multicluster.network/vectors"


# --- CoreDNS -----------------------------------------------------------------------------------------------------


@functools.cache
def rulesets() -> dict[str, t.Any]:
    """The rule sets alongside the vectors, which name them."""
    path = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "semaphore.json"
    return t.cast(dict[str, t.Any], json.loads(path.read_text("utf-8")).get("_rulesets") or {})


def prepare(content: Input) -> None:
    """Take the rule sets of the file with the next vectors."""
    rulesets().update(content.get("_rulesets") or {})


def ruleset(data: Input) -> dict[str, t.Any]:
    """The rule set of a vector, by name or in full."""
    given = data["ruleset"]
    return given if isinstance(given, dict) else rulesets()[given]


def own_rules(data: Input) -> list[coredns_rules.Rule]:
    """Our rules for what a rule set is about."""
    params = ruleset(data)["params"]
    return coredns_rules.rewrite_rules(
        params["clusters"], params["mirror_namespace"], bool(params.get("global")), params.get("prefixes")
    )


def rewrite(data: Input) -> Answer:
    query = data["query"]
    found = coredns_rules.rewrite_name(own_rules(data), query)
    back = found.answer is not None and found.answer == coredns_rules.absolute(query)
    answer: Answer = {
        "rewritten": found.name,
        "answer_in": found.name,
        "answer_out": found.answer,
        "rcode": found.rcode,
    }
    return dict(answer, roundtrip=back if found.name else None)


def ruleset_valid(data: Input) -> Answer:
    rules = ruleset(data)
    pairs = [(rules["name_regex"], rules["name_to"])]
    if rules.get("answer_regex"):
        pairs.append((rules["answer_regex"], rules["answer_to"]))
    found = [problem for problem in (coredns_rules.rule_problem(*pair) for pair in pairs) if problem]
    return {"valid": not found, "error": found[0] if found else None}


def answer_value(data: Input) -> Answer:
    rules = own_rules(data)
    return {
        field: coredns_rules.answer_name(rules, data["record"][field])
        for field in ("name", "target")
        if field in data["record"]
    }


def corefile(data: Input) -> Answer:
    options = coredns_corefile.Options(
        local=data["local"],
        remotes=tuple(data["remotes"]),
        mirror_namespace=data["mirror_namespace"],
        global_zone=bool(data.get("global")),
        version=coredns_corefile.parse_version(data.get("coredns")),
    )
    try:
        blocks = coredns_corefile.whole_corefile(options)
    except ValueRefused as error:
        return {"valid": False, "error": error.reason}
    shown = [
        {
            "zone": block.zones[0],
            "plugins": [plugin.name for plugin in block.plugins],
            "kubernetes_zones": [
                zone for plugin in block.plugins if plugin.name == "kubernetes" for zone in plugin.arguments
            ],
        }
        for block in blocks
    ]
    health = [block["zone"] for block in shown if "health" in block["plugins"]]
    text = coredns_corefile.corefile_text(blocks)
    zones = [zone for block in blocks for zone in block.zones]
    return {"blocks": shown, "zones": zones, "health_blocks": health, "corefile": text, "valid": True}


def corefile_lint(data: Input) -> Answer:
    plugin = data["plugin"]
    accepted = coredns_corefile.accepts(
        coredns_corefile.parse_version(data.get("coredns")), plugin, data.get("option") or ""
    )
    often = len(data.get("blocks") or ()) > 1
    return {"accepted": accepted, "recommended": accepted and not (plugin in coredns_corefile.ONCE and often)}


# --- network sets ------------------------------------------------------------------------------------------------


def _options(data: Input) -> dict[str, t.Any]:
    return {"include_host_network": bool((data.get("options") or {}).get("include_host_network"))}


def _after(events: t.Iterable[Input]) -> list[t.Any]:
    """The pods that exist after the events."""
    pods: dict[tuple[t.Any, t.Any], t.Any] = {}
    for event in events:
        pod = event["new"] if event["type"] == "modified" else event["pod"]
        key = (pod["metadata"].get("namespace"), pod["metadata"].get("name"))
        if event["type"] in ("deleted", "deleted_final_state_unknown"):
            pods.pop(key, None)
        else:
            pods[key] = pod
    return list(pods.values())


def _sets(cluster: str, pods: t.Iterable[t.Any], options: dict[str, t.Any]) -> tuple[t.Any, Answer]:
    """Members and names without the claims stage: the vectors know no grants (decision 29)."""
    members, refused = network_sets.members_of(cluster, pods, **options)
    named, clashes = network_sets.name_sets(members)
    invalid = [dict(refusal._asdict(), name=refusal.object) for refusal in refused]
    for clash in clashes:
        if clash.refusal.reason != "claimed_twice":
            for origin in _pods_of(members, clash.refusal.object) or [{}]:
                invalid.append(dict(clash.refusal._asdict(), name=clash.name, set=clash.name, **origin))
    conflicts = [
        dict(clash.refusal._asdict(), name=clash.name, set=clash.name, dropped=clash.refusal.object.partition("/")[2])
        for clash in clashes
        if clash.refusal.reason == "claimed_twice"
    ]
    return (members, named), {"invalid": invalid, "conflicts": conflicts}


def _pods_of(members: t.Any, label: str) -> list[Answer]:
    """The pods of a set by the label that refusals use."""
    return [
        {
            "pod": origin.pod,
            "namespace": member.namespace,
            "value": member.value,
            "label": member.value,
            "path": f"{member.namespace}/{origin.pod}",
        }
        for member, nets in members.items()
        if member.label == label
        for origin in nets.values()
    ]


def _shown(named: t.Any) -> Answer:
    return {"name": named.name, "labels": network_sets.set_labels(named.member), "nets": list(named.nets)}


def events(data: Input) -> Answer:
    (dummy, named), more = _sets(data["cluster"], _after(data["events"]), _options(data))
    return dict(more, sets=[_shown(item) for item in named])


def _existing(item: Input) -> t.Any:
    """An existing set as an object; those that the vectors call owned were applied by us."""
    labels = item.get("labels") or {}
    metadata: dict[str, t.Any] = {"name": item["name"], "labels": labels}
    if labels.get(network_sets.MANAGED_BY_LABEL) == network_sets.MANAGED_BY and labels.get(network_sets.CLUSTER_LABEL):
        metadata["managedFields"] = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:nets": {}}}}]
    return {"metadata": metadata, "spec": {"nets": item.get("nets") or []}}


def full_sync(data: Input) -> Answer:
    cluster, pods = data["cluster"], data["pods"]
    unknown = pods == "unknown"
    existing = {item["name"]: _existing(item) for item in data["existing"]}
    members, refused = network_sets.members_of(cluster, [] if unknown else pods, **_options(data))
    sources = {} if unknown else {cluster: members}
    plan = set_plan.plan_sets("local", targets.CALICO_V3, existing, sources, MANAGER, max_deletes=-1)
    after = {write.key.name: write.manifest for write in plan.writes}
    changed = {change.id.partition("/")[2]: change for change in plan.plan.changes}
    answer: Answer = {"created": [], "updated": [], "deleted": [], "conflicts": [], "invalid": []}
    for name, change in sorted(changed.items()):
        if change.action == "delete":
            answer["deleted"].append(name)
        else:
            manifest = after[name]
            shown = {"name": name, "labels": manifest["metadata"]["labels"], "nets": manifest["spec"]["nets"]}
            answer["created" if change.action == "create" else "updated"].append(shown)
    for refusal in list(refused) + plan.plan.refused:
        row = dict(refusal._asdict(), name=refusal.object)
        answer["conflicts" if refusal.reason in ("not_ours", "adoptable", "claimed_twice") else "invalid"].append(row)
    return answer


def delete_missing(data: Input) -> Answer:
    status = data["api_response"]

    class Answering(Client):
        """A client of a server with one answer."""

        def __init__(self) -> None:  # pylint: disable=super-init-not-called
            self.cluster = "local"

        def _object(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
            if status >= 400:
                raise errors.BY_STATUS.get(status, errors.Busy)("local", "delete", f"answer {status}", status)
            return {}

    try:
        Answering().delete(targets.CALICO_V3.path(data["name"]))
    except errors.KubeError as error:
        return {"error": True, "requeued": True, "reason": error.reason}
    return {"error": False, "requeued": False}


def policy_selector(data: Input) -> Answer:
    try:
        found = targets.calico_selector(data["cluster"], data["namespace"], data["name"])
    except ValueRefused as error:
        return {"error": error.reason}
    return dict(
        found, namespaceSelector=found["namespaceSelector"] if data.get("kind") != "GlobalNetworkPolicy" else None
    )


HANDLERS: dict[str, dict[str, t.Callable[[Input], Answer]]] = {
    "coredns_rewrite": {
        "rewrite": rewrite,
        "ruleset_valid": ruleset_valid,
        "answer_value": answer_value,
        "corefile": corefile,
        "corefile_lint": corefile_lint,
    },
    "networkset": {
        "events": events,
        "full_sync": full_sync,
        "delete_missing": delete_missing,
        "policy_selector": policy_selector,
    },
}
