# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One judge per file of vectors: from a vector and our answer to the result it is counted under.

A judge knows the file's conventions (modes, optional vectors, alternatives); a system without one of its own is
judged by the plain rule: the answer must have everything that ``expect`` or ``expected`` names.
"""

from __future__ import annotations

import typing as t

from . import wireguard_model
from .compare import FREE_LISTS, canonical, covers, equal, same_number, show, without_empty
from .outcome import Verdict

Vector = t.Mapping[str, t.Any]


def judge(system: str, group: str, vector: Vector, answer: t.Any) -> Verdict:
    """The verdict on one answer."""
    return _JUDGES.get(system, plain)(group, vector, answer)


def plain(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """Any file: what ``expect`` names must be there; quirks and optional vectors are kept apart."""
    expected = vector["expect"] if "expect" in vector else vector.get("expected")
    difference = covers(expected, answer, vector.get("unordered") or ())
    return _graded(vector, difference)


def _graded(vector: Vector, difference: str | None) -> Verdict:
    quirk = bool(vector.get("quirk"))
    if not difference:
        return Verdict("upstream" if quirk else "passed")
    if quirk:
        return Verdict("deviates", difference)
    if vector.get("optional") or vector.get("level") == "optional":
        return Verdict("optional_failed", difference)
    return Verdict("failed", difference)


#: What only a daemon has, with an inside that the collection lacks: the rest of such a vector is compared.
_DAEMONS_OWN = ("health_http",)


def semaphore(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """``mode: quirk`` takes the preferred answer or upstream's; exact takes one."""
    difference = _semaphore_differs(vector, vector["expect"], answer)
    if vector.get("mode") != "quirk":
        return Verdict("failed", difference) if difference else Verdict("passed")
    better = _semaphore_differs(vector, vector.get("preferred"), answer) if "preferred" in vector else "none given"
    if not better:
        return Verdict("preferred")
    if not difference:
        return Verdict("upstream")
    return Verdict("failed", f"neither preferred ({better}) nor upstream ({difference})")


def _semaphore_differs(vector: Vector, expected: t.Any, answer: t.Any) -> str | None:
    if isinstance(expected, dict):
        expected = {key: value for key, value in expected.items() if key not in _DAEMONS_OWN}
        actions = vector.get("accept_actions") or expected.pop("accept_actions", None)
        if actions and isinstance(answer, dict) and answer.get("action") in actions:
            expected.pop("action", None)
        for key in ("one_of", "error_any_of"):
            if key in expected:
                choices = expected.pop(key)
                got = answer.get("error") if key == "error_any_of" and isinstance(answer, dict) else answer
                if all(covers(choice, got, vector.get("unordered") or ()) for choice in choices):
                    return f"none of {show(choices)}: {show(got)}"
    answer = _whether_wrong(expected, answer)
    return covers(expected, answer, vector.get("unordered") or (), FREE_LISTS)


def _whether_wrong(expected: t.Any, answer: t.Any) -> t.Any:
    """Where ``error`` is true or false, it asks whether there is one; an answer with the code states it too."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        made = {
            key: _whether_wrong(expected[key], value) if key in expected else value for key, value in answer.items()
        }
        if isinstance(expected.get("error"), bool):
            made["error"] = bool(answer.get("error"))
        return made
    if isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        return [_whether_wrong(one, other) for one, other in zip(expected, answer)]
    return answer


_CCM_UNORDERED = ("peers", "address-pools", "addresses", "node-selectors", "nodeSelectors", "ipAddressPools")
_CCM_DEFAULTS = {"peer-port": 0, "hold-time": "0s", "keepalive-time": "0s", "avoid-buggy-ips": False}


def ccm(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """Alternatives in ``accept_also``; contains, absent and patch comparisons; order of actions may be free."""
    alongside, answer = _ccm_alongside(answer)
    choices = [vector.get("expected")] + list(vector.get("accept_also") or ())
    differences = [_ccm_differs(group, vector, choice, answer) for choice in choices]
    difference = None if None in differences else differences[0]
    for unwanted in vector.get("not_expected") or ():
        actions = answer.get("actions") if isinstance(answer, dict) else answer
        if any(covers(unwanted, action) is None for action in actions or ()):
            difference = f"{show(unwanted)} must not happen"
    return _graded(vector, difference or _ccm_alongside_differs(vector, alongside, answer))


def _ccm_alongside(answer: t.Any) -> tuple[dict[str, t.Any], t.Any]:
    """An adapter's keys ``_name`` answer the vector's ``expected_name`` and are no part of the answer itself."""
    if not isinstance(answer, dict):
        return {}, answer
    alongside = {key[1:]: value for key, value in answer.items() if key.startswith("_")}
    return alongside, {key: value for key, value in answer.items() if not key.startswith("_")}


def _ccm_alongside_differs(vector: Vector, alongside: t.Mapping[str, t.Any], answer: t.Any) -> str | None:
    desired = {key[len("expected_") :]: value for key, value in vector.items() if key.startswith("expected_")}
    if "state" in vector and "state" in alongside:
        desired["state"] = vector["state"]
    for name, value in desired.items():
        got = alongside.get(name)
        if vector.get(f"compare_{name}") == "first":
            value, got = list(value)[:1], list(got or ())[:1]
        difference = covers(value, got, (), (), name)
        if difference:
            return difference
    found = [key for key in vector.get("forbidden") or () if isinstance(answer, dict) and key in answer]
    return f"must not be there: {show(found)}" if found else None


def _ccm_differs(group: str, vector: Vector, expected: t.Any, answer: t.Any) -> str | None:
    how = vector.get("compare")
    if isinstance(answer, dict) and isinstance(expected, list):
        # an alternative that gives the graded part alone
        answer = next((answer[name] for name in ("api_calls", "actions") if name in answer), answer)
    if isinstance(answer, dict) and isinstance(expected, dict):
        expected, answer, difference = _ccm_fitted(vector, dict(expected), answer)
        if difference:
            return difference
    if how in ("contains", "patch"):
        return covers(expected, answer, _CCM_UNORDERED if group.startswith("metallb") else ())
    if how == "absent":
        keys = expected if isinstance(expected, (list, dict)) else [expected]
        found = [key for key in keys if isinstance(answer, dict) and key in answer]
        return f"still there: {show(found)}" if found else None
    if group.startswith("metallb"):
        return equal(_ccm_plain(expected), _ccm_plain(answer), _CCM_UNORDERED)
    if isinstance(expected, dict) and "actions" in expected:
        free = () if vector.get("order_matters", True) else ("actions",)
        return covers(expected, answer, free)
    return covers(expected, answer, _CCM_UNORDERED)


def _ccm_fitted(
    vector: Vector, expected: dict[str, t.Any], answer: t.Mapping[str, t.Any]
) -> tuple[dict[str, t.Any], dict[str, t.Any], str | None]:
    """Both sides without what the file's rules leave free."""
    missing = [
        part
        for part in expected.pop("message_contains_all", None) or ()
        if part not in str(answer.get("message") or "")
    ]
    if missing:
        return expected, dict(answer), f"message: {show(missing)} is missing in {show(answer.get('message'))}"
    if "error" in expected or "skipped" in expected:
        answer = {key: answer.get(key) for key in expected}  # what stays as it was need not be reported
    fitted = {key: None if expected.get(key, 0) is None and value == "" else value for key, value in answer.items()}
    mapped = vector.get("mapped_cidrs") or ()
    if mapped and isinstance(expected.get("actions"), list):
        # to map what is mapped may be reported or not
        for side in (expected, fitted):
            side["actions"] = [
                row for row in side.get("actions") or () if row.get("action") != "map" or row.get("cidr") not in mapped
            ]
    return expected, fitted, None


def _ccm_plain(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {
            key: _ccm_plain(item)
            for key, item in value.items()
            if not (key in _CCM_DEFAULTS and same_number(item, _CCM_DEFAULTS[key]))
        }
    return [_ccm_plain(item) for item in value] if isinstance(value, list) else value


def kilo(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """Exact answers; null is an omitted field; allowed IPs are a set except in peer_build."""
    unordered = () if group == "peer_build" else ("allowedIPs",)
    expected = vector.get("expect")
    if isinstance(expected, dict) and isinstance(answer, dict) and isinstance(answer.get("message"), str):
        # a message may be given whole, in parts, or not at all
        parts = expected.get("message_contains") or ()
        missing = [part for part in parts if part not in answer["message"]]
        if missing:
            return _graded(vector, f"message: {show(missing)} is missing in {show(answer['message'])}")
        expected = {key: value for key, value in expected.items() if key != "message_contains"}
        if "message" not in expected:
            answer = {key: value for key, value in answer.items() if key != "message"}
    return _graded(vector, equal(expected, answer, unordered))


#: The only words of errors that the file uses as far as it is known; its conventions and the specification name none.
_KUBESPAN_ERRORS = ("invalid_mac", "invalid_filter")
#: Groups with vectors that ask for a part of the fields; in all others a field that is missing is empty.
_KUBESPAN_SELECTED = ("nft_targets", "mss_clamp", "fwmark", "ip_rules", "affiliate_merge", "config")
#: Fields of which a vector names what it asks for; all others are whole.
_KUBESPAN_PARTS = ("effective", "effective_subset", "loaded")


def kubespan(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """Results are alongside the input: what the adapter answers is compared with the fields of the same name.

    An error without a known code counts as an error only. Messages to a device are compared by what they do to it.
    """
    if not isinstance(answer, dict) or not answer:
        return Verdict("failed", "the adapter answers no fields")
    if vector.get("error") and not answer.get("error"):
        return _graded(vector, f"error: expected {show(vector['error'])}, got {show(answer)}")
    if group == "wireguard_diff" and "operations" in answer and "operations" in vector:
        return _graded(vector, wireguard_model.differs(vector, answer["operations"]))
    asked = [key for key in answer if key in vector or key == "error" or group not in _KUBESPAN_SELECTED]
    if not asked:
        if any(key == "today_rules" or key.startswith("v1_4_") for key in vector):
            return Verdict("internal", "only the rules of another form are asked for")
        return Verdict("failed", f"of what the adapter answers nothing is asked for: {show(answer)}")
    for key in asked:
        if (
            key == "error"
            and vector.get(key)
            and answer[key]
            and not {vector[key], answer[key]} & set(_KUBESPAN_ERRORS)
        ):
            continue
        compare = covers if key in _KUBESPAN_PARTS else equal
        difference = compare(vector.get(key), _as_asked(group, vector.get(key), answer[key]), (), name=key)
        if difference:
            return _graded(vector, difference)
    return _graded(vector, None)


def _as_asked(group: str, expected: t.Any, answer: t.Any) -> t.Any:
    """Where one record is expected, the only one of a list; where steps are, as many."""
    if isinstance(expected, dict) and isinstance(answer, list) and len(answer) == 1:
        return answer[0]
    return answer[: len(expected)] if group == "endpoint_rotation_sequence" else answer


_APINET_UNORDERED = ("finalizers", "ownerReferences", "apinet_after", "source_patches", "errors")
_APINET_IGNORED = ("resourceVersion", "generation", "managedFields", "creationTimestamp")


def apinet(group: str, vector: Vector, answer: t.Any) -> Verdict:
    """The final state of both servers; <now> is any time; uids that are not given are free."""
    expected = vector.get("expect")
    if not isinstance(expected, dict) or "apinet_after" not in expected:
        return _graded(vector, covers(expected, answer))
    actual = dict(answer)
    desired = [_apinet_object(item) for item in expected["apinet_after"]]
    got = [_apinet_object(item) for item in actual.get("apinet_after") or ()]
    parts = expected.get("assert_only")
    if parts:
        labels = parts is True or "labels" in str(parts)
        desired, got = ([_named(item, labels) for item in side] for side in (desired, got))
    got = [_like(item, desired) for item in got]
    difference = equal(desired, got, _APINET_UNORDERED, "apinet_after")
    for key in ("source_patches", "errors"):
        difference = difference or equal(_now(expected.get(key)), _now(actual.get(key)), _APINET_UNORDERED, key)
    return _graded(vector, difference)


def _apinet_object(item: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    plain_item = _now(without_empty(item))
    metadata = {key: value for key, value in plain_item.get("metadata", {}).items() if key not in _APINET_IGNORED}
    return dict(canonical(dict(plain_item, metadata=metadata), _APINET_UNORDERED))


def _like(item: dict[str, t.Any], desired: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Drop the uid where the expected object of that kind and name gives none."""
    for other in desired:
        same = all(other["metadata"].get(key) == item["metadata"].get(key) for key in ("namespace", "name"))
        if same and other.get("kind") == item.get("kind") and "uid" not in other["metadata"]:
            metadata = {key: value for key, value in item["metadata"].items() if key != "uid"}
            return dict(item, metadata=metadata)
    return item


def _named(item: t.Mapping[str, t.Any], labels: bool) -> dict[str, t.Any]:
    """That an object is there, and its labels where they are asked for."""
    fields = ("namespace", "name", "labels") if labels else ("namespace", "name")
    return {"kind": item.get("kind"), "metadata": {key: item["metadata"].get(key) for key in fields}}


def _now(value: t.Any) -> t.Any:
    """Any time stamp under a name that holds one becomes the text <now>."""
    if isinstance(value, dict):
        return {key: "<now>" if item and _is_time(key, item) else _now(item) for key, item in value.items()}
    return [_now(item) for item in value] if isinstance(value, list) else value


def _is_time(key: str, item: t.Any) -> bool:
    return isinstance(item, str) and key.lower().endswith(("timestamp", "time"))


_JUDGES: dict[str, t.Callable[[str, Vector, t.Any], Verdict]] = {
    "semaphore": semaphore,
    "ccm": ccm,
    "kilo-clustermesh": kilo,
    "kubespan": kubespan,
    "apinet": apinet,
}
