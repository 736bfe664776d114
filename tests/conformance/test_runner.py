# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runner itself: a vector that must fail fails, nobody's vector is unhandled, garbage is reported."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.multicluster.network.tests.conformance import run
from ansible_collections.multicluster.network.tests.conformance.compare import covers, equal
from ansible_collections.multicluster.network.tests.conformance.judges import judge
from ansible_collections.multicluster.network.tests.conformance.outcome import WORDS, Internal, Ruled, Unhandled

HERE = pathlib.Path(__file__).resolve().parent
GOOD = {"id": "ok", "op": "device_name", "mode": "exact", "input": {"cluster": "gcp"}, "expect": {"length": 13}}


def write(folder: pathlib.Path, name: str, content: t.Any) -> pathlib.Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, "utf-8")
    return folder


def counts(folder: pathlib.Path, system: str = "semaphore", group: str = "wg_device_name") -> dict[str, t.Any]:
    return run.run(folder)[system][group]


def test_our_vectors_meet_the_requirements() -> None:
    report = run.run(HERE / "vectors")
    assert run.check_required(report, json.loads((HERE / "required.json").read_text("utf-8"))) == []
    assert [ident for groups in report.values() for group in groups.values() for ident in group["failing"]] == []


def test_every_vector_is_counted_once() -> None:
    for groups in run.run(HERE / "vectors").values():
        for group in groups.values():
            assert sum(group[result] for result in WORDS) == group["total"] > 0


def test_a_failing_vector_fails(tmp_path: pathlib.Path) -> None:
    bad = dict(GOOD, id="bad", expect={"length": 14})
    found = counts(write(tmp_path, "semaphore.json", {"wg_device_name": [GOOD, bad]}))
    assert (found["passed"], found["failed"], found["failing"]) == (1, 1, ["bad"])
    assert "14" in found["messages"]["bad"]
    assert run.main(["--vectors", str(tmp_path)]) == 1


def test_unknown_operations_groups_and_systems_are_unhandled(tmp_path: pathlib.Path) -> None:
    other = dict(GOOD, id="other", op="fly")
    write(tmp_path, "semaphore.json", {"_meta": {"x": []}, "wg_device_name": [other], "new_group": [GOOD]})
    write(tmp_path, "newsystem.json", {"group": [GOOD]})
    assert counts(tmp_path)["unhandled_ids"] == ["other"]
    assert counts(tmp_path, group="new_group")["unhandled"] == 1
    assert counts(tmp_path, "newsystem", "group")["unhandled"] == 1
    assert run.main(["--vectors", str(tmp_path)]) == 0


def test_a_crash_fails_one_vector_and_the_run_goes_on(tmp_path: pathlib.Path) -> None:
    crash = {"id": "crash", "op": "device_name", "input": {}, "expect": {}}
    found = counts(write(tmp_path, "semaphore.json", {"wg_device_name": [crash, "text", None, GOOD]}))
    assert (found["failed"], found["passed"]) == (3, 1)
    assert found["failing"] == ["crash", "wg_device_name[1]", "wg_device_name[2]"]
    assert found["messages"]["crash"].startswith("KeyError")


@pytest.mark.parametrize("text", ["{", "[]", "7", "", "\x00", "[" * 100000])
def test_garbage_is_reported_and_fails(tmp_path: pathlib.Path, text: str) -> None:
    write(write(tmp_path, "broken.json", text), "semaphore.json", {"wg_device_name": [GOOD]})
    report = run.run(tmp_path)
    assert report["broken"]["(file)"]["failed"] == 1 and report["semaphore"]["wg_device_name"]["passed"] == 1
    assert run.main(["--vectors", str(tmp_path)]) == 1


def test_nested_groups_and_missing_ids(tmp_path: pathlib.Path) -> None:
    write(
        tmp_path, "semaphore.json", {"outer": {"inner": [dict(GOOD, id=None), {}]}, "conventions": ["text"], "meta": {}}
    )
    report = run.run(tmp_path)["semaphore"]
    assert list(report) == ["outer.inner"]
    assert report["outer.inner"]["unhandled_ids"] == ["outer.inner[0]", "outer.inner[1]"]


@pytest.mark.parametrize(
    "error, result", [(Unhandled("x"), "unhandled"), (Internal("x"), "internal"), (Ruled("4"), "ruled")]
)
def test_what_adapters_may_say(error: Exception, result: str) -> None:
    def handler(_vector: t.Any) -> t.NoReturn:
        raise error

    verdict = run.run_vector("semaphore", "g", GOOD, {"g": handler})
    assert (verdict.result, verdict.message) == (result, str(error))


def test_a_broken_adapter_shows_in_every_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_names: str) -> t.NoReturn:
        raise ImportError("gone")

    monkeypatch.setattr(run.importlib, "import_module", fail)
    verdict = run.run_vector("semaphore", "wg_peers", GOOD, run.load_handlers("semaphore"))
    assert verdict.result == "failed" and "gone" in verdict.message


@pytest.mark.parametrize(
    "answer, result", [({"error": "b"}, "preferred"), ({"error": "a"}, "upstream"), ({"error": "c"}, "failed")]
)
def test_semaphore_quirks(answer: t.Any, result: str) -> None:
    vector = {"mode": "quirk", "expect": {"error": "a"}, "preferred": {"error": "b"}}
    assert judge("semaphore", "g", vector, answer).result == result


@pytest.mark.parametrize("system", ["kilo-clustermesh", "newsystem"])
def test_other_quirks_are_scored_apart(system: str) -> None:
    vector = {"quirk": True, "expect": [1]}
    assert judge(system, "g", vector, [1]).result == "upstream"
    assert judge(system, "g", vector, [2]).result == "deviates"


def test_optional_vectors_never_fail() -> None:
    assert judge("ccm", "g", {"optional": True, "expected": 1}, 2).result == "optional_failed"
    assert judge("apinet", "g", {"level": "optional", "expect": {"a": 1}}, {"a": 2}).result == "optional_failed"


def test_ccm_rules() -> None:
    vector: dict[str, t.Any] = {"expected": {"actions": [{"action": "a"}, {"action": "b"}]}}
    swapped = {"actions": [{"action": "b", "description": "free"}, {"action": "a"}]}
    assert judge("ccm", "service_reconcile", vector, swapped).result == "failed"
    assert judge("ccm", "service_reconcile", dict(vector, order_matters=False), swapped).result == "passed"
    unwanted = dict(vector, order_matters=False, not_expected=[{"action": "b"}])
    assert judge("ccm", "service_reconcile", unwanted, swapped).result == "failed"
    assert judge("ccm", "g", {"expected": 1, "accept_also": [2]}, 2).result == "passed"
    calls = {"expected": {"api_calls": [["DELETE"]], "error": None}, "accept_also": [[]]}
    assert judge("ccm", "g", calls, {"api_calls": [], "error": None}).result == "passed"
    assert judge("ccm", "g", calls, {"api_calls": [["POST"]], "error": None}).result == "failed"
    said = {"expected": {"message_contains_all": ["one", "two"]}}
    assert judge("ccm", "g", said, {"message": "POST /x: one; two"}).result == "passed"
    assert judge("ccm", "g", said, {"message": "one"}).result == "failed"
    mapped = {"expected": {"actions": [{"action": "map", "cidr": "192.0.2.1/32"}]}, "mapped_cidrs": ["192.0.2.1/32"]}
    assert judge("ccm", "service_reconcile", mapped, {"actions": []}).result == "passed"
    assert judge("ccm", "service_reconcile", dict(mapped, mapped_cidrs=[]), {"actions": []}).result == "failed"
    peers = {"expected": {"peers": [{"a": 1}, {"b": 2}]}}
    got = {"peers": [{"b": 2, "peer-port": 0, "hold-time": "0s"}, {"a": 1}], "address-pools": []}
    assert judge("ccm", "metallb_configmap", peers, got).result == "passed"
    assert judge("ccm", "g", {"compare": "absent", "expected": ["x"]}, {"y": 1}).result == "passed"
    assert judge("ccm", "g", {"compare": "absent", "expected": ["x"]}, {"x": 1}).result == "failed"


def test_kubespan_compares_the_fields_that_the_adapter_answers() -> None:
    vector = {"mac": "2e:1a:b6:53:81:69", "subnet": "fd7f::/64"}
    assert judge("kubespan", "g", vector, {"subnet": "fd7f::/64"}).result == "passed"
    assert judge("kubespan", "g", vector, {"subnet": None}).result == "failed"
    assert judge("kubespan", "g", vector, {}).result == "failed"
    # an error that is expected and does not come is a failure, also where nothing comes instead
    wrong = {"filters": [" "], "error": "invalid_filter"}
    assert judge("kubespan", "g", wrong, {"result": []}).result == "failed"
    assert judge("kubespan", "g", wrong, {"error": "invalid_filter"}).result == "passed"
    assert judge("kubespan", "g", wrong, {"error": "bad_address"}).result == "failed"
    assert judge("kubespan", "g", {"result": [1]}, {"error": "bad_address"}).result == "failed"
    assert judge("kubespan", "g", {"error": "no_key"}, {"error": "bad_key_file"}).result == "passed"


def test_apinet_final_state() -> None:
    desired = {"kind": "Network", "metadata": {"name": "a", "finalizers": ["x", "y"], "deletionTimestamp": "<now>"}}
    got = {
        "kind": "Network",
        "metadata": {
            "name": "a",
            "uid": "free",
            "resourceVersion": "7",
            "finalizers": ["y", "x"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {},
    }
    vector = {"expect": {"apinet_after": [desired], "source_patches": [], "errors": []}}
    assert judge("apinet", "network", vector, {"apinet_after": [got]}).result == "passed"
    assert judge("apinet", "network", vector, {"apinet_after": [got, got]}).result == "failed"
    other = dict(got, metadata=dict(got["metadata"], labels={"a": "b"}))
    for parts, result in ((["labels"], "failed"), (["existence"], "passed")):
        vector["expect"]["assert_only"] = parts
        assert judge("apinet", "network", vector, {"apinet_after": [other]}).result == result


def test_covers() -> None:
    assert covers({"a": None, "b": []}, {"c": 1}) is None
    assert covers({"a": 1}, {"a": True})
    assert covers({"a": [1, 2]}, {"a": [2, 1]}) and covers({"a": [1, 2]}, {"a": [2, 1]}, ("a",)) is None
    assert covers({"a": [1]}, {"a": [1, 2]}, ("a",))
    assert covers({"a": ["x"]}, {"a": ["xy"]}, ("a",), ("skipped",))
    assert covers({"warnings": ["x.y"]}, {"warnings": ["more text about x.y"]}, (), ("warnings",)) is None
    assert covers({"skipped": ["x"]}, {"skipped": [{"node": "y", "reason": "x"}]}, (), ("skipped",)) is None
    assert covers({"spec": 1, "spec_absent": ["x"]}, {"spec": {"x": 1}})
    assert equal({"b": ["2", "1"], "c": None}, {"b": ["1", "2"]}, ("b",)) is None


def test_requirements(tmp_path: pathlib.Path) -> None:
    vectors = [
        {
            "id": "a",
            "op": "interface_name",
            "input": {"component": "wireguard", "name": ""},
            "expect": {"error": "device_name_too_long"},
        }
    ]
    vectors.append({"id": "b", "op": "nobody", "input": {"component": "other"}, "expect": {}})
    report = run.run(write(tmp_path, "semaphore.json", {"wg_device_name": vectors}))
    select = "wg_device_name#component="
    assert run.check_required(report, {"semaphore": [select + "wireguard"]}) == []
    assert (
        len(run.check_required(report, {"semaphore": [select + "other", "wg_device_name", "none", select + "no"]})) == 4
    )


def test_the_command_line(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, str(HERE / "run.py"), "--require", str(HERE / "required.json"), "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=str(tmp_path), env={"LANG": "C"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "semaphore wg_peers" in done.stdout
    assert json.loads(report.read_text("utf-8"))["semaphore"]["wg_device_name"]["failing"] == []


def test_an_empty_folder_is_no_success(tmp_path: pathlib.Path) -> None:
    assert run.main(["--vectors", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    "asked, answered, fits",
    [(True, "name_invalid", True), (True, None, False), (False, None, True), (False, "x", False)],
)
def test_whether_there_is_an_error_is_answered_by_its_code(asked: bool, answered: t.Any, fits: bool) -> None:
    vector = {"mode": "exact", "expect": {"after": [{"error": asked}]}}
    assert (judge("semaphore", "global_service", vector, {"after": [{"error": answered}]}).result == "passed") == fits


def test_tables_alongside_the_groups_reach_the_adapter(tmp_path: pathlib.Path) -> None:
    query = {"id": "q", "op": "rewrite", "input": {"ruleset": "only_here", "query": "a.b.svc.cluster.merit"}}
    query["expect"] = {"rewritten": "merit-b-73736d-a.sys-semaphore.svc.cluster.local."}
    tables = {"only_here": {"params": {"clusters": ["merit"], "mirror_namespace": "sys-semaphore"}}}
    write(tmp_path, "semaphore.json", {"_rulesets": tables, "coredns_rewrite": [query]})
    assert counts(tmp_path, group="coredns_rewrite")["passed"] == 1


def peer(key: str, *ranges: str) -> dict[str, t.Any]:
    return {
        "public_key": key,
        "endpoint": None,
        "preshared_key": "S",
        "persistent_keepalive": 25,
        "allowed_ips": list(ranges),
    }


def to_peer(key: str, *ranges: str, replace: bool = True, **more: t.Any) -> dict[str, t.Any]:
    return {**peer(key, *ranges), "op": "set_peer", "preshared_key": True, "replace_allowed_ips": replace, **more}


MOVED = {
    "existing": {"fwmark": "0x20", "peers": [peer("one", "a", "b"), peer("two")]},
    "desired": {"fwmark": "0x20", "peers": [peer("one", "a"), peer("two", "b")]},
    "operations": [to_peer("two", "b"), to_peer("one", "a")],
}


@pytest.mark.parametrize(
    "operations, result",
    [
        (MOVED["operations"], "passed"),
        (
            [to_peer("two", "b", replace=False)],
            "passed",
        ),  # a range has one owner: to give it to one takes it from the other
        ([{"op": "set_peer", "public_key": "two", "replace_allowed_ips": False, "allowed_ips": ["b"]}], "passed"),
        ([to_peer("one", "a"), to_peer("two", "b")], "failed"),  # nobody has b in between
        ([to_peer("one", "a", replace=False)], "failed"),
        ([to_peer("two", "b", persistent_keepalive=1)], "failed"),
        ([to_peer("two", "b", endpoint="192.0.2.1:1")], "failed"),
        ([to_peer("two", "b"), {"op": "set_device", "fwmark": "0x21"}], "failed"),
        ([to_peer("two", "b", preshared_key=False, clear_preshared_key=True)], "failed"),
        ([{"op": "remove_peer", "public_key": "two"}, to_peer("two", "b")], "failed"),
        ([], "failed"),
    ],
)
def test_messages_are_judged_by_what_they_do(operations: t.Any, result: str) -> None:
    assert judge("kubespan", "wireguard_diff", MOVED, {"operations": operations}).result == result


def test_no_message_where_none_is_expected() -> None:
    same = {"existing": MOVED["existing"], "desired": MOVED["existing"], "operations": []}
    assert judge("kubespan", "wireguard_diff", same, {"operations": []}).result == "passed"
    assert judge("kubespan", "wireguard_diff", same, {"operations": [to_peer("one", "a", "b")]}).result == "failed"
