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
from ansible_collections.multicluster.network.plugins.module_utils._policy import network_sets, selector, set_plan, targets
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_corefile, coredns_rules
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

Input = t.Mapping[str, t.Any]
Answer = t.Dict[str, t.Any]
MANAGER = "multicluster.network/vectors"


def first(data: Input, *names: str) -> t.Any:
    """The value under the first of several names that a vector may use for one thing."""
    return next((data[name] for name in names if name in data), None)


# --- CoreDNS -----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def rulesets() -> t.Dict[str, t.Any]:
    """The rule sets that stand beside the vectors, which name them."""
    path = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "semaphore.json"
    return t.cast(t.Dict[str, t.Any], json.loads(path.read_text("utf-8")).get("_rulesets") or {})


def prepare(content: Input) -> None:
    """Take the rule sets of the file whose vectors come next."""
    rulesets().update(content.get("_rulesets") or {})


def ruleset(data: Input) -> t.Dict[str, t.Any]:
    """The rule set of a vector, by name or in full."""
    given = data.get("ruleset")
    return given if isinstance(given, dict) else rulesets()[given] if given else dict(data)


def own_rules(data: Input) -> t.List[coredns_rules.Rule]:
    """Our rules for what a rule set is about."""
    params = dict(ruleset(data).get("params") or data)
    return coredns_rules.rewrite_rules(
        params.get("clusters") or [], params["mirror_namespace"], bool(params.get("global")), params.get("prefixes")
    )


def rewrite(data: Input) -> Answer:
    query = first(data, "query", "name")
    found = coredns_rules.rewrite_name(own_rules(data), query)
    back = found.answer is not None and found.answer == coredns_rules.absolute(query)
    answer: Answer = {"rewritten": found.name, "answer_in": found.name, "answer_out": found.answer, "rcode": found.rcode}
    return dict(answer, roundtrip=back if found.name else None)


def ruleset_valid(data: Input) -> Answer:
    rules = ruleset(data)
    pairs = [(first(rules, "name_regex", "regex", "pattern"), first(rules, "name_to", "to", "template"))]
    if rules.get("answer_regex"):
        pairs.append((rules["answer_regex"], rules["answer_to"]))
    found = [problem for problem in (coredns_rules.rule_problem(*pair) for pair in pairs) if problem]
    valid = not found
    return {"valid": valid, "loads": valid, "accepted": valid, "ok": valid, "error": found[0] if found else None}


def answer_value(data: Input) -> Answer:
    record = data.get("record") or data
    given = {field: record[field] for field in ("name", "owner", "target", "value", "rdata") if isinstance(record.get(field), str)}
    rules = own_rules(data)
    answer: Answer = {field: coredns_rules.answer_name(rules, name) for field, name in given.items()}
    shown = next((answer[field] for field in ("target", "value", "rdata", "name") if field in answer), None)
    return {**dict.fromkeys(("name", "target", "value", "rewritten"), shown), **answer}


def corefile(data: Input) -> Answer:
    local = first(data, "local", "local_cluster", "cluster", "local_name")
    given = first(data, "remotes", "remote_clusters", "clusters") or []
    remotes = tuple(item["name"] if isinstance(item, dict) else item for item in given)
    version = first(data, "coredns", "version", "coredns_version")
    options = coredns_corefile.Options(
        local=local,
        remotes=tuple(name for name in remotes if name != local),
        mirror_namespace=first(data, "mirror_namespace", "mirror_ns", "namespace") or "sys-semaphore",
        global_zone=bool(first(data, "global", "global_zone", "global_services")),
        version=coredns_corefile.parse_version(version),
    )
    try:
        blocks = coredns_corefile.whole_corefile(options)
    except ValueRefused as error:
        return {"ok": False, "valid": False, "error": error.word}
    shown = []
    for block in blocks:
        kubernetes = [plugin for plugin in block.plugins if plugin.name == "kubernetes"]
        shown.append(
            {
                **dict.fromkeys(("health", "ready", "prometheus"), False),
                **{plugin.name: " ".join(plugin.arguments) or True for plugin in block.plugins},
                "zones": list(block.zones),
                "zone": block.zones[0],
                "header": " ".join(block.zones),
                "plugins": [plugin.name for plugin in block.plugins],
                "kubernetes_zones": [zone for plugin in kubernetes for zone in plugin.arguments],
                "kubernetes_options": [line for plugin in kubernetes for line in plugin.body],
                "rewrite": any(plugin.name == "rewrite" for plugin in block.plugins),
                "kubernetes": {
                    "zones": [zone for plugin in kubernetes for zone in plugin.arguments],
                    **{line.partition(" ")[0]: line.partition(" ")[2] or True for plugin in kubernetes for line in plugin.body},
                },
            }
        )
    text = coredns_corefile.corefile_text(blocks)
    zones = [zone for block in blocks for zone in block.zones]
    health = [block["zone"] for block in shown if "health" in block["plugins"]]
    root = shown[-1]
    answer: Answer = {"blocks": shown, "zones": zones, "corefile": text, "text": text, "ok": True, "valid": True}
    answer.update(health_blocks=health, health_in=health, root_kubernetes_zones=root["kubernetes_zones"])
    return dict(answer, health_count=len(health), local_zone_rewritten=coredns_rules.zone_of(local) in zones if local else False)


def corefile_lint(data: Input) -> Answer:
    version = coredns_corefile.parse_version(first(data, "coredns", "version", "coredns_version"))
    plugin, option = data["plugin"], data.get("option") or ""
    # how often the plugin stands in the file: a number, or the blocks in which it does
    counts = [len(value) if isinstance(value, list) else value for value in data.values() if isinstance(value, (list, int))]
    number = max(counts, default=1)
    accepted = coredns_corefile.accepts(version, plugin, option)
    block = first(data, "block", "zone", "server_block", "in_block")
    elsewhere = block is not None and not str(block).startswith(".")
    recommended = accepted and not (plugin in coredns_corefile.ONCE and (number > 1 or elsewhere))
    return {"accepted": accepted, "render": recommended, "recommended": recommended, "rendered": recommended, "ok": recommended}


# --- network sets ------------------------------------------------------------------------------------------------


def _options(data: Input) -> t.Dict[str, t.Any]:
    return {"include_host_network": bool((data.get("options") or {}).get("include_host_network"))}


def _after(events: t.Iterable[Input]) -> t.List[t.Any]:
    """The pods that exist after the events."""
    pods: t.Dict[t.Tuple[t.Any, t.Any], t.Any] = {}
    for event in events:
        pod = first(event, "new", "pod", "old")
        key = (pod["metadata"].get("namespace"), pod["metadata"].get("name"))
        if event["type"].startswith(("delete", "tombstone", "missed")):
            pods.pop(key, None)
        else:
            pods[key] = pod
    return list(pods.values())


def _sets(cluster: str, pods: t.Iterable[t.Any], options: t.Dict[str, t.Any]) -> t.Tuple[t.Any, Answer]:
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


def _pods_of(members: t.Any, label: str) -> t.List[Answer]:
    """The pods of a set by the label that refusals use."""
    return [
        {"pod": origin.pod, "namespace": member.namespace, "value": member.value, "label": member.value,
         "path": "{0}/{1}".format(member.namespace, origin.pod)}
        for member, nets in members.items()
        if member.label == label
        for origin in nets.values()
    ]  # fmt: skip


def _shown(named: t.Any) -> Answer:
    return {"name": named.name, "labels": network_sets.labels_of(named.member), "nets": list(named.nets)}


def events(data: Input) -> Answer:
    pods = _after(data.get("events") or ()) if "events" in data else data.get("pods") or []
    (dummy, named), more = _sets(data["cluster"], pods, _options(data))
    return dict(more, sets=[_shown(item) for item in named])


def _existing(item: Input) -> t.Any:
    """An existing set as an object; those that the vectors call owned were applied by us."""
    labels = item.get("labels") or {}
    metadata: t.Dict[str, t.Any] = {"name": item["name"], "labels": labels}
    if labels.get(network_sets.MANAGED_BY_LABEL) == network_sets.MANAGED_BY and labels.get(network_sets.CLUSTER_LABEL):
        metadata["managedFields"] = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:nets": {}}}}]
    return {"metadata": metadata, "spec": {"nets": item.get("nets") or []}}


def full_sync(data: Input) -> Answer:
    cluster, pods = data["cluster"], data.get("pods")
    unknown = pods == "unknown" or (pods is None and "pods" in data) or bool(first(data, "unknown", "list_failed"))
    listed = data.get("existing") if isinstance(data.get("existing"), list) else []  # where the list failed, nothing is known
    existing = {item["name"]: _existing(item) for item in listed}
    members, refused = network_sets.members_of(cluster, [] if unknown else pods or [], **_options(data))
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
    status = first(data, "api_response", "status")

    class Answering(Client):
        """A client whose server has one answer."""

        def __init__(self) -> None:  # pylint: disable=super-init-not-called
            self.cluster = "local"

        def _object(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
            if status >= 400:
                raise errors.BY_STATUS.get(status, errors.Busy)("local", "delete", "answer {0}".format(status), status)
            return {}

    try:
        Answering().delete(targets.CALICO_V3.path(data["name"]))
    except errors.KubeError as error:
        return {"error": True, "requeued": True, "reason": error.word}
    return {"error": False, "requeued": False}


def policy_selector(data: Input) -> Answer:
    try:
        found = selector.calico_selector(data["cluster"], data["namespace"], first(data, "name", "label", "value"))
    except ValueRefused as error:
        return {"ok": False, "valid": False, "error": error.word}
    scoped = first(data, "kind", "policy_kind") != "GlobalNetworkPolicy"
    space = found["namespaceSelector"] if scoped else None
    return dict(found, namespaceSelector=space, namespace_selector=space, ok=True, valid=True)


HANDLERS: t.Dict[str, t.Dict[str, t.Callable[[Input], Answer]]] = {
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
