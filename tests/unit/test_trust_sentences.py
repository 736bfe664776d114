# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guide_trust.rst promises alongside its table: who is asked, secrets, and what a run may do."""

from __future__ import annotations

import ast
import json
import pathlib
import re
import stat
import sys
import typing as t

import pytest
import yaml

TESTS = pathlib.Path(__file__).resolve().parents[1]
MODULES = TESTS.parent / "plugins" / "modules"
for _folder in (
    TESTS / "unit" / "plugins" / "module_utils" / "_kubernetes",
    TESTS / "unit" / "plugins" / "module_utils",
    TESTS / "browser",
):
    sys.path.insert(0, str(_folder))

import fabrics
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    parse_node,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import guard as node_guard, persistence
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.kubespan import (
    node as kubespan_node,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import kubeconfig
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import settings
from ansible_collections.multicluster.network.plugins.module_utils._linux.host.lock import LockFile
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard import keys as secret_files
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard.keys import KeyFile
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb import (
    config as metallb_config,
)
from ansible_collections.multicluster.network.plugins.module_utils._module_dataplane import kubespan_spec
from ansible_collections.multicluster.network.plugins.module_utils._plan import access_manifests, object_plan
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._status import (
    model,
    page,
    prometheus,
    redact,
    verdict,
)
from ansible_collections.multicluster.network.plugins.module_utils._values import keys

# --- sentences alongside the table -----------------------------------------------------------------------------------


def test_the_stage_has_no_switch() -> None:
    """No module, role or plan takes anything that leaves the claims stage out."""
    stages = sorted((TESTS.parent / "plugins" / "module_utils" / "_mesh").rglob("*claims*.py"))
    assert len(stages) == 4, stages
    for path in stages:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name in ("check_claims", "open_claims", "check_affiliates"):
                given = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
                assert given <= {
                    "claims",
                    "affiliates",
                    "grants",
                    "holders",
                    "own_keys",
                    "ranges",
                    "subnet",
                    "balanced",
                }, path
    for planner in ("semaphore", "kubespan"):
        tree = ast.parse(
            (TESTS.parent / "plugins" / "module_utils" / "_mesh" / "topology" / (planner + ".py")).read_text("utf-8")
        )
        (made,) = [
            node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == f"plan_{planner}_mesh"
        ]
        calls = [
            node
            for node in made.body
            if any(
                isinstance(one, ast.Name) and one.id in ("open_claims", "check_affiliates") for one in ast.walk(node)
            )
        ]
        assert calls and not any(isinstance(node, ast.If) for node in calls), planner


RUN_VARIABLES = yaml.safe_load((TESTS.parent / "playbooks" / "vars" / "run_variables.yml").read_text("utf-8"))[
    "variables"
]
CAPABILITIES = RUN_VARIABLES["multicluster_capabilities"]["choices"]


@pytest.mark.parametrize("name", ["mesh", *CAPABILITIES])
def test_one_rule_for_refusals_and_exit_codes(name: str) -> None:
    """A refusal alone is not proven, never broken; no option makes it a failure by default; the one variable accepts it."""
    row = {"object": "gcp/default/a-service", "reason": "name_too_long", "message": "too long"}
    result = {"changed": False, "plan": {"changes": []}, "refused": [row]}
    found = verdict.of_capability(name, result)
    assert (found.value, len(found.unproven)) == (verdict.UNPROVEN, 1) and "name_too_long" in found.unproven[0]
    whole = verdict.combine(
        {name: found, "another": verdict.of_capability("another", {"changed": False, "plan": {"changes": []}})}
    )
    assert whole.value == verdict.UNPROVEN and verdict.ALLOW in "\n".join(verdict.report_lines(whole, {"limit": ""}))
    for path in sorted((TESTS.parent / "roles").glob("*/defaults/main.yml")):
        for option, default in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            assert not option.endswith("_fail_on_refused") or default is False, option
    for path in sorted((TESTS.parent / "roles").glob("*/meta/argument_specs.yml")):
        text = path.read_text("utf-8")
        assert "fail_on_refused" not in text or re.search(r"_fail_on_refused:\n(?:.*\n)*?\s+default: false", text), path


def test_private_keys_stay_on_their_host(tmp_path: t.Any) -> None:
    file = KeyFile(str(tmp_path / "a.key"))
    public = file.ensure()
    assert stat.S_IMODE(pathlib.Path(file.path).stat().st_mode) == 0o600
    secret = pathlib.Path(file.path).read_text("utf-8").strip()
    assert secret not in json.dumps(file.state()) and file.state()["public_key"] == public


def test_secrets_are_fingerprints() -> None:
    assert (
        keys.fingerprint("a") != keys.fingerprint("b")
        and "hunter2" not in keys.fingerprint("hunter2")
        and len(keys.fingerprint("x" * 9999)) < 30
    )


# --- secrets ------------------------------------------------------------------------------------------------------


def test_the_secret_of_a_mesh_is_in_files_for_root(tmp_path: t.Any) -> None:
    """Written where it was not, and over a file that others could read; what the boot unit keeps has only its path."""
    path = tmp_path / "kubespan.psk"
    path.write_text("old", "utf-8")
    path.chmod(0o644)
    secret_files.write_new(str(path), "c2VjcmV0", replace=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text("utf-8") == "c2VjcmV0"
    assert kubespan_node.secret_path("default").startswith(persistence.folder("default") + "/")
    assert (persistence.folder("default"), True) in persistence.folders("default"), "only root may look into the folder"
    assert kubespan_spec()["mesh_secret"]["no_log"] is True
    assert '"options": kubespan_spec()}' in (MODULES / "node_dataplane.py").read_text("utf-8")


def test_tokens_are_short_lived_with_the_least_rights() -> None:
    defaults = yaml.safe_load((TESTS.parent / "roles" / "cluster_access" / "defaults" / "main.yml").read_text("utf-8"))
    assert (
        600 <= defaults["cluster_access_expires"] <= 86400
        and 0 < defaults["cluster_access_renew_before"] < defaults["cluster_access_expires"]
    )
    names = [access_manifests.account_name(capability) for capability in access_manifests.CAPABILITIES]
    assert len(set(names)) == len(names), "one account for each"
    for table in (access_manifests.CAPABILITIES, access_manifests.NAMESPACED):
        for capability, rules in table.items():
            for rule in rules:
                words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                assert "*" not in "".join(words) and not {"secrets", "pods/exec"} & set(rule["resources"]), capability
                assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), capability


def test_kubeconfigs_are_private_and_replaced_in_one_step(tmp_path: t.Any) -> None:
    path = tmp_path / "aws.kubeconfig"
    path.write_bytes(b"old")
    path.chmod(0o644)
    with path.open("rb") as reader:
        kubeconfig.write_private(str(path), b"new")
        assert reader.read() == b"old", "who reads it meanwhile has all of the old one"
    assert (
        path.read_bytes() == b"new"
        and stat.S_IMODE(path.stat().st_mode) == 0o600
        and [one.name for one in tmp_path.iterdir()] == [path.name]
    )


SECRET = re.compile(r"(?:^|_)(?:password|pass|secret|token|api_key|psk|preshared_key|private_key|auth_key)$")


def _options(tree: ast.AST) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """(name, specification) of everything in a module's text that looks like an option."""
    for node in ast.walk(tree):
        pairs: list[tuple[t.Any, t.Any]] = []
        if isinstance(node, ast.Dict):
            pairs = [(key.value, value) for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        for name, value in pairs:
            if isinstance(name, str) and isinstance(value, ast.Dict):
                spec = {
                    key.value: getattr(item, "value", None)
                    for key, item in zip(value.keys, value.values)
                    if isinstance(key, ast.Constant)
                }
                if spec.get("type") in ("str", "raw"):
                    yield name, spec


def test_passwords_and_tokens_are_no_log() -> None:
    seen = []
    for folder in (MODULES, MODULES.parent / "module_utils"):
        for path in sorted(folder.rglob("*.py")):
            for name, spec in _options(ast.parse(path.read_text("utf-8"))):
                if SECRET.search(name) and name != "config_secret":  # the name of a Secret
                    seen.append(name)
                    assert spec.get("no_log") is True, f"{path.name}: {name}"
    assert {"password", "mesh_secret", "token"} <= set(seen)


def test_passwords_of_sessions_are_withheld() -> None:
    assert metallb_config.Options().passwords == metallb_config.WITHHOLD
    spec = dict(
        _options(
            ast.parse(
                (MODULES.parent / "module_utils" / "_flows" / "load_balancers" / "arguments.py").read_text("utf-8")
            )
        )
    )
    assert spec["bgp_pass"]["no_log"] is True
    text = (MODULES.parent / "module_utils" / "_flows" / "load_balancers" / "arguments.py").read_text("utf-8")
    assert 'publish_bgp_password={"type": "bool", "default": False' in text
    setup = ast.parse((MODULES.parent / "module_utils" / "_loadbalancers" / "setup.py").read_text("utf-8"))
    tests = [node.test for node in ast.walk(setup) if isinstance(node, ast.IfExp) and "PLAIN" in ast.dump(node.body)]
    assert tests and all("publish_bgp_password" in ast.dump(test) for test in tests), "plain text has one way in"


STARTS = (
    "run",
    "run_for",
    "_run",
    "leave_running",
    "Popen",
    "run_command",
    "check_output",
    "check_call",
    "call",
    "execv",
    "execve",
    "execvp",
)
IN_WORDS = re.compile(
    r"(?:^|_)(?:password|passwd|secret|token|api_key|psk|preshared|preshared_key|private_key|bgp_pass)$"
)


def _secret_words(tree: ast.AST) -> list[str]:
    """Names of secrets in the words with which a process is started."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in STARTS:
            for part in (one for given in node.args for one in ast.walk(given)):
                name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
                name = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else name
                if IN_WORDS.search(name):
                    found.append(name)
    return found


def test_nothing_secret_is_an_argument() -> None:
    assert _secret_words(ast.parse("programs.run(['wg', 'set', 'psk', secret], 3)")) == ["psk", "secret"]
    started = 0
    for root in (MODULES.parent, TESTS.parent / "extensions"):
        for path in sorted(root.rglob("*.py")):
            text = path.read_text("utf-8")
            started += text.count("subprocess.") + text.count("programs.run")
            assert _secret_words(ast.parse(text)) == [], path
    assert started >= 4


def test_the_page_and_the_facts_carry_no_secret() -> None:
    """Planted wherever a node's facts, a module's result or a cluster's object could have one."""
    planted = {
        "private_key": "cGxhbnRlZC1wcml2YXRlLWtleS1vZi0zMi1ieXRlcyE=",
        "preshared_key": "cGxhbnRlZC1wcmVzaGFyZWQta2V5LTMyLWJ5dGVzISE=",
        "token": "planted-token-abcdef",
        "password": "planted-password",
        "mesh_secret": "planted-mesh-secret",
    }
    facts = fabrics.facts({"aws": 1, "gcp": 1})
    for node in facts["nodes"].values():
        node.update(planted)
        for device in node["devices"]:
            device.update(planted)
            for peer in device["peers"]:
                peer.update(planted)
    facts["plans"] = {"service_mirror": {"plan": {"changes": []}}}
    for result in (*facts["plans"].values(), *facts["node_plans"].values()):
        result["invocation"] = {"module_args": planted}
    document = model.build(facts)
    shown = page.render(document) + json.dumps(document) + prometheus.text(document)
    assert "aws-node-1" in shown and not [name for name, secret in planted.items() if secret in shown]
    support = json.dumps(redact.Redactor(known=planted.values()).value(facts["nodes"]))
    assert "aws-node-1" in support and not [name for name, secret in planted.items() if secret in support]


# --- what a run may do --------------------------------------------------------------------------------------------


def test_a_capability_has_its_own_rights() -> None:
    rule, *ranges = access_manifests.CAPABILITIES["mesh"]
    assert (rule["resources"], sorted(rule["verbs"])) == (["nodes"], ["get", "list", "patch"])
    listed = [(one["resources"], one["verbs"]) for one in ranges]
    assert listed == [(["blockaffinities", "ipamblocks", "ippools"], ["list"]), (["ciliumnodes"], ["list"])], (
        "where CNIs keep ranges"
    )
    patching = {
        name
        for name, rules in access_manifests.CAPABILITIES.items()
        for one in rules
        if "nodes" in one["resources"] and "patch" in one["verbs"]
    }
    assert patching == {
        "mesh",
        "mesh_pods",
        "clustermesh_nodes",
        "load_balancers",
        "load_balancers_metallb",
        "load_balancers_moving",
    }
    watching = {
        name for name, rules in access_manifests.CAPABILITIES.items() for one in rules if "watch" in one["verbs"]
    }
    # what CoreDNS gets from an account, that account has to have
    assert watching == {"follow", "coredns_rewrite_mcs"}
    bound = [
        rule
        for name in sorted(access_manifests.CAPABILITIES)
        for rule in access_manifests.CAPABILITIES[name]
        if "clusterroles" in rule["resources"]
    ]
    assert [rule["resourceNames"] for rule in bound] == [["multicluster-coredns-serviceimports"]]
    for name in access_manifests.CAPABILITIES:
        made = access_manifests.access_manifests([name])
        subjects = [one["subjects"] for one in made if one["kind"].endswith("Binding")]
        assert subjects and all(
            [subject["name"] for subject in row] == [access_manifests.account_name(name)] for row in subjects
        )


def test_what_is_unowned_stays() -> None:
    manager, somebody = field_manager("default"), "kubectl"

    def config(text: str, owner: str) -> dict[str, t.Any]:
        fields = {"f:data": {"f:a": {}}}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"a": text},
            "metadata": {
                "name": "x",
                "namespace": "n",
                "uid": "u1",
                "resourceVersion": "7",
                "managedFields": [{"manager": owner, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}],
            },
        }

    desired = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "n"},
        "data": {"a": "owned"},
    }
    key = object_plan.Key("v1", "ConfigMap", "n", "x")
    pair = {("v1", "ConfigMap"): True}
    plan, writes = object_plan.plan_objects(
        "aws", {key: desired}, object_plan.Read({key: config("theirs", somebody)}, {key}, frozenset(), pair), manager
    )
    assert not writes and not plan.changes and [row.reason for row in plan.refused] == ["not_ours"]
    plan, writes = object_plan.plan_objects(
        "aws", {key: desired}, object_plan.Read({key: config("before", manager)}, {key}, frozenset(), pair), manager
    )
    (write,) = writes
    assert (write.uid, write.version) == ("u1", "7") and not plan.refused
    plan, writes = object_plan.plan_objects(
        "aws", {}, object_plan.Read({key: config("theirs", somebody)}, {key}, frozenset(), pair), manager
    )
    assert not writes, "what nobody wants any more and is unowned is not deleted"


#: Roles that write nothing into clusters or on nodes of the fabric (of a trace nothing outlives its process, adopt looks), or, control_plane_address,
#: have a lock of their own.
QUIET = {"adopt", "preflight", "status", "support_bundle", "reconciler", "run_lock", "control_plane_address", "trace"}


def _books(path: pathlib.Path) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """(name of a role, the task) in the order of a playbook and of those that it imports."""
    for play in yaml.safe_load(path.read_text("utf-8")):
        imported = play.get("ansible.builtin.import_playbook") or play.get("import_playbook")
        if imported:
            name = imported.replace("multicluster.network.", "").replace(".", "/")
            yield from _books(path.parent / imported if imported.endswith(".yml") else BOOKS / (name + ".yml"))
            continue
        todo = [*(play.get("pre_tasks") or ()), *(play.get("tasks") or ()), *(play.get("post_tasks") or ())]
        while todo:
            task = todo.pop(0)
            todo = [*(task.get("block") or ()), *(task.get("rescue") or ()), *todo]
            for name in ("include_role", "import_role"):
                role = task.get("ansible.builtin." + name)
                if role:
                    yield role["name"].rpartition(".")[2], dict(role, **(role.get("apply") or {}))
        for role in play.get("roles") or ():
            yield str(role if isinstance(role, str) else role.get("role")).rpartition(".")[2], {}


BOOKS = TESTS.parent / "playbooks"
#: Folders of what playbooks are made of.
PARTS = ("plays", "vars", "files")
READS = ("validate", "plan", "verify", "report", "pods", "compare", "info", "outcome", "arguments")


def _is_write(role: str, task: t.Mapping[str, t.Any]) -> bool:
    return role not in QUIET and task.get("check_mode") is not True and task.get("tasks_from", "main") not in READS


def _name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(BOOKS).with_suffix("").parts)


@pytest.mark.parametrize(
    "path", sorted(path for path in BOOKS.rglob("*.yml") if _name(path).partition(".")[0] not in PARTS), ids=_name
)
def test_every_playbook_that_writes_takes_the_lock(path: t.Any) -> None:
    """Before its first write. The role capability takes it itself."""
    if _name(path) == "awx.load":
        return  # it writes into AWX alone
    steps = list(_books(path))
    first = next((number for number, (role, task) in enumerate(steps) if _is_write(role, task)), None)
    if first is None:
        quiet = (
            "validate",
            "verify",
            "status",
            "preflight",
            "support_bundle",
            "reconciler",
            "ccm.control_plane_address",
            "awx.survey",
            "trace",
        )
        assert _name(path) in (*quiet, "slices.plan", "slices.verify", "slices.end")
        return
    assert steps[first][0] == "capability" or any(role == "run_lock" for role, _task in steps[:first]), path.name
    taken = yaml.safe_load((TESTS.parent / "roles" / "capability" / "tasks" / "main.yml").read_text("utf-8"))[0]
    assert taken["ansible.builtin.include_tasks"] == "lock.yml"


def test_what_others_can_do_to_a_mesh_is_seen(tmp_path: t.Any, monkeypatch: t.Any) -> None:
    opened, private = tmp_path / "open", tmp_path / "private"
    for folder, mode in ((opened, 0o777), (private, 0o755)):
        folder.mkdir()
        folder.chmod(mode)
    monkeypatch.setattr(persistence, "folders", lambda fabric: [(str(opened), False), (str(private), True)])
    monkeypatch.setattr(settings, "drop_ins", lambda unit: [(f"/etc/systemd/system/{unit}.d/x.conf", "eve")])
    monkeypatch.setattr(settings, "read", lambda *parts: 0)
    monkeypatch.setattr(settings, "set_by", lambda *parts: ["/etc/sysctl.d/50-eve.conf has 0"])
    device = {"name": "wireguard.gcp", "routes": ["10.4.0.0/16"], "private_key_file": str(private) + "/k"}

    def planned(accepted: t.Iterable[str]) -> tuple[node_guard.Folders, t.Any]:
        spec = parse_node({"fabric": "default", "devices": [device], "accepted": accepted})
        parts = node_guard.Folders(spec), node_guard.Settings(spec, spec.devices, True)
        for part in parts:
            part.gather()
        return parts[0], parts[0].plan().extend(parts[1].plan())

    folders, plan = planned(())
    assert {change.id for change in plan.changes if change.kind == "folder"} >= {str(opened), str(private)}
    words = {(row.reason, "eve" in row.message) for row in plan.refused}
    assert words == {("forwarding_off", True), ("not_ours", True)}
    folders.apply()
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (opened, private)] == [0o755, 0o700]
    accepted = {row.object for row in plan.refused}
    assert not planned(accepted)[1].refused


def test_locks_are_files_of_one_user(tmp_path: t.Any) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(0o777)
    mine, other = LockFile(str(folder), "fabric"), LockFile(str(folder), "fabric")
    assert mine.take({"who": "a"}) and not other.take({"who": "b"})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE((folder / "fabric").stat().st_mode) == 0o600
    mine.release()
    folder.mkdir(exist_ok=True)
    (tmp_path / "theirs").write_text("x", "utf-8")
    (folder / "fabric").symlink_to(tmp_path / "theirs")
    assert other.take({"who": "b"}) and (tmp_path / "theirs").read_text("utf-8") == "x", "what is in the way is no lock"
    other.release()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(LinuxError):
        LockFile(str(tmp_path / "link"), "fabric").take({})
