# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a node's dataplane survive a reboot: the confirmed state, the code that applies it, the boot unit.

Decision 5 and 34: a root-only state file, the collection's own code as a zipapp alongside nothing else than python3, and a
unit that applies the state before pods start. In a pod of the role node_access (decision 71) a link in the one folder of the node that
the pod sees takes the place of units: the container's command runs what it leads to, at its begin and from then on.
"""

from __future__ import annotations

import json
import typing as t

from ..._dataplane.journal import check_release, is_state
from ..._dataplane.node_spec import NodeState
from ..._linux import files
from ..._linux.host import bundle, link_managers, node_pod, systemd
from ..._plan.plan import Plan, reconcile

STATE_ROOT = "/var/lib/multicluster-network"
RUN_ROOT = "/run/multicluster-network"
CODE_ROOT = "/usr/local/lib/multicluster-network"
UNIT_ROOT = "/etc/systemd/system"
#: The node's own files, as a pod sees them that is among its processes.
HOST_ROOT = "/proc/1/root"
WANTS_FOLDER = UNIT_ROOT + "/multi-user.target.wants"

#: The module with the ``main()`` that the archive runs; it carries what that imports.
AGENT = "_flows.node.node_agent"

_UNIT = """\
# Written by multicluster.network; remove it with the collection's teardown playbook.
[Unit]
Description=Node mesh of {fabric} (multicluster.network)
# Devices and routes must exist before the first pod sends a packet.
After=local-fs.target network.target systemd-sysctl.service systemd-modules-load.service
Before=kubelet.service containerd.service crio.service docker.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service
# Either the confirmed state, or a change that a reboot interrupted.
ConditionPathExists=|{state}
ConditionPathExists=|{journal}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 {code} {state}
TimeoutStartSec=120
# A userspace WireGuard that this unit starts must outlive a stop of the unit.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


_WATCH_UNIT = """\
# Written by multicluster.network; remove it with the collection's teardown playbook.
[Unit]
Description=Peers of the KubeSpan mesh of {fabric} (multicluster.network)
After=network.target {boot}
ConditionPathExists={state}

[Service]
ExecStart=/usr/bin/python3 {code} watch {fabric}
Restart=always
RestartSec=5
# A userspace WireGuard that the watcher started again must outlive it.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def folder(fabric: str) -> str:
    return f"{STATE_ROOT}/{fabric}"


def folders(fabric: str) -> list[tuple[str, bool]]:
    """Every owned folder on a node, and whether only root may look into it."""
    code = [] if node_pod.inside() else [(CODE_ROOT, False)]
    return [(STATE_ROOT, False), (folder(fabric), True), *code, (code_folder(fabric), False), (RUN_ROOT, False)]


def has_kubespan_files(fabric: str) -> bool:
    """Whether a KubeSpan mesh left files of its own (key, secret, identity) in the folder of the fabric."""
    return any(name.startswith("kubespan") for name in files.list_folder(folder(fabric)))


def state_path(fabric: str) -> str:
    return folder(fabric) + "/dataplane.json"


def candidate_path(fabric: str) -> str:
    """Where a state is that waits for its confirmation."""
    return folder(fabric) + "/candidate.json"


def journal_path(fabric: str) -> str:
    return folder(fabric) + "/transaction.json"


def invalid_journal_path(fabric: str) -> str:
    """Where a journal is kept that cannot be believed, until the node leaves."""
    return folder(fabric) + "/transaction.invalid.json"


def code_folder(fabric: str) -> str:
    """Where programs are; in a node pod, nothing outlives the container but what is in the folder of the state."""
    return _pod_code_folder(fabric) if node_pod.inside() else f"{CODE_ROOT}/{fabric}"


def _pod_code_folder(fabric: str) -> str:
    return f"{folder(fabric)}/code"


def units_of_the_host(fabric: str) -> list[str]:
    """In a node pod: units by which an earlier run over the host's own init left the mesh to systemd."""
    if not node_pod.inside():
        return []
    names = (unit_name(fabric), watch_name(fabric))
    return [f"{UNIT_ROOT}/{name}" for name in names if files.read_state(f"{HOST_ROOT}{UNIT_ROOT}/{name}") is not None]


def agent_link(fabric: str) -> str:
    """What the container of a node pod runs."""
    return f"{folder(fabric)}/agent"


def outcome_path(fabric: str) -> str:
    """How the last transaction since boot ended."""
    return f"{RUN_ROOT}/{fabric}.json"


def run_files(fabric: str) -> list[str]:
    """What is in /run: how the last transaction ended, and what the watcher shows."""
    return [outcome_path(fabric), *(f"{RUN_ROOT}/{fabric}-kubespan.{ending}" for ending in ("json", "prom"))]


def _kept_by_watcher(fabric: str) -> list[str]:
    """What lasts longer than a boot: endpoints that were tried, and members of the discovery service."""
    return [folder(fabric) + "/kubespan-watch.json", members_path(fabric)]


def members_path(fabric: str) -> str:
    """Members of the discovery service that were found last, where the state has one."""
    return folder(fabric) + "/kubespan-members.json"


def forget_run_files(fabric: str) -> None:
    """Remove them, and their folder when no other fabric has anything in it."""
    for path in run_files(fabric):
        files.remove(path)
    files.remove_empty_folders(RUN_ROOT, "/run")


def unit_name(fabric: str) -> str:
    return f"multicluster-network-{fabric}.service"


def watch_name(fabric: str) -> str:
    return f"multicluster-network-{fabric}-watch.service"


def _enabled(name: str, text: str) -> dict[str, files.FileState]:
    """A unit, and the link that enables it."""
    unit, link = f"{UNIT_ROOT}/{name}", f"{WANTS_FOLDER}/{name}"
    return {
        unit: files.FileState("file", 0o644, text.encode("ascii")),
        link: files.FileState("link", 0o777, unit.encode("ascii")),
    }


def _watch_files(fabric: str) -> dict[str, files.FileState]:
    text = _WATCH_UNIT.format(fabric=fabric, boot=unit_name(fabric), state=state_path(fabric), code=code_file(fabric))
    return _enabled(watch_name(fabric), text)


def state_bytes(state: t.Mapping[str, t.Any]) -> bytes:
    """A map as the bytes of its file: the same map gives the same bytes."""
    return (json.dumps(state, sort_keys=True, indent=1) + "\n").encode("utf-8")


def load_json(path: str) -> dict[str, t.Any] | None:
    """A map out of an owned file; None when there is none, somebody else wrote it, or it cannot be read as one."""
    found = files.read_state(path)
    if found is None or found.kind != "file" or not files.is_roots_alone(path):
        return None
    try:
        content = json.loads(found.content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def load_state(fabric: str, candidate: bool = False) -> NodeState | None:
    """The confirmed state, or the one that waits for its confirmation; None when there is none or it cannot be read as one.

    Raises ValueRefused ``state_of_later_release``.
    """
    path = candidate_path(fabric) if candidate else state_path(fabric)
    found = load_json(path)
    if found is not None:
        check_release(found, fabric, path)
    if found is None or not is_state(found, fabric):
        return None
    try:
        return NodeState.of_json(found)
    except (AttributeError, TypeError, ValueError):
        return None


def write_confirmed(fabric: str, state: NodeState) -> None:
    """Replace the confirmed state alone; its program and units are there already. The caller holds the host's lock."""
    files.write_state(state_path(fabric), files.FileState("file", 0o600, state_bytes(state.to_json())))


def code_file(fabric: str) -> str:
    return f"{code_folder(fabric)}/dataplane-{bundle.digest(AGENT)}.pyz"


def code_state() -> files.FileState:
    return files.FileState("file", 0o755, bundle.build(AGENT))


def unit_files(fabric: str) -> list[str]:
    """The boot unit and the link that enables it; in a node pod the link to the agent."""
    if node_pod.inside():
        return [agent_link(fabric)]
    return [f"{UNIT_ROOT}/{unit_name(fabric)}", f"{WANTS_FOLDER}/{unit_name(fabric)}"]


def _desired_unit(fabric: str) -> dict[str, files.FileState]:
    if node_pod.inside():
        return {agent_link(fabric): files.FileState("link", 0o777, code_file(fabric).encode("ascii"))}
    text = _UNIT.format(fabric=fabric, state=state_path(fabric), journal=journal_path(fabric), code=code_file(fabric))
    return _enabled(unit_name(fabric), text)


def desired_files(fabric: str, state: NodeState | None) -> dict[str, files.FileState]:
    """Path to state of every file that we own for a fabric; empty for a fabric that is to go."""
    if state is None:
        return {}
    mesh = ((state.kubespan or {}).get("layout") or {}).get("device")
    devices = sorted({*(device.name for device in state.devices), *([mesh] if mesh else [])})
    in_pod = node_pod.inside()
    # what manages the links of the node itself is out of reach of a pod
    found = {} if in_pod else link_managers.texts(_manager_name(fabric), devices)
    watched = bool((state.kubespan or {}).get("watcher")) and not in_pod  # the agent watches, by the state
    return {
        code_file(fabric): code_state(),
        **_desired_unit(fabric),
        **(_watch_files(fabric) if watched else {}),
        **{path: files.FileState("file", 0o644, text.encode("ascii")) for path, text in found.items()},
        state_path(fabric): files.FileState("file", 0o600, state_bytes(state.to_json())),
    }


def records(fabric: str) -> list[str]:
    """The files that change whenever a device comes or goes: the confirmed state, and what keeps the host's link managers away from it."""
    return [state_path(fabric), *link_managers.paths(_manager_name(fabric))]


def _manager_name(fabric: str) -> str:
    return f"multicluster-network-{fabric}"


def install_unit(fabric: str) -> None:
    """The boot unit alone, ahead of the state that it applies."""
    for path, state in _desired_unit(fabric).items():
        files.write_state(path, state)
    systemd.reload_units()


def settle_files(fabric: str) -> None:
    """Make the files what the confirmed state wants; a state without anything in it takes them all away."""
    state = load_state(fabric)
    desired = desired_files(fabric, state if state and not state.absent else None)
    apply(fabric, desired, compare(fabric, desired))


def sweep(fabric: str) -> None:
    """Remove what dead writers left: candidates without a journal, spare files, folders without anything in them.

    The caller holds the host's lock, and no transaction is open.
    """
    files.remove(candidate_path(fabric))
    for path in (state_path(fabric), candidate_path(fabric), journal_path(fabric)):
        for spare in files.spares(path):
            files.remove(spare)
    if files.read_state(unit_files(fabric)[0]) is None:
        for name in files.list_folder(code_folder(fabric)):
            files.remove(f"{code_folder(fabric)}/{name}")
    _leave_folders(fabric)


def _leave_folders(fabric: str) -> None:
    if not node_pod.inside():
        files.remove_empty_folders(code_folder(fabric), "/usr/local/lib")
    files.remove_empty_folders(_pod_code_folder(fabric), "/var/lib")
    files.remove_empty_folders(folder(fabric), "/var/lib")


def gather(
    fabric: str, desired: t.Mapping[str, files.FileState], others: t.Iterable[str] = ()
) -> dict[str, files.FileState]:
    """The owned files that are there, whether desired or not, and the spare files of these and of ``others``.

    Only while the host's lock is held is a spare file certainly a dead writer's.
    """
    paths = {*desired, state_path(fabric), candidate_path(fabric)}
    # those of a node pod as well: a host may be reached in another way from now on
    for code in sorted({code_folder(fabric), _pod_code_folder(fabric)}):
        paths.update(f"{code}/{name}" for name in files.list_folder(code))
    paths.update(
        f"{root}/{name}" for root in (UNIT_ROOT, WANTS_FOLDER) for name in (unit_name(fabric), watch_name(fabric))
    )
    paths.update((*link_managers.paths(_manager_name(fabric)), agent_link(fabric)))
    if not desired:
        paths.update((*_kept_by_watcher(fabric), *run_files(fabric)))
    found: dict[str, files.FileState | None] = {}
    for path in sorted({*paths, *others, journal_path(fabric)}):
        # Never read: a spare of a key file holds a private key, and a plan shows what files hold.
        found.update((spare, files.FileState("other", 0o600, b"")) for spare in files.spares(path))
    found.update((path, files.read_state(path)) for path in sorted(paths))
    for path, state in found.items():
        if state is not None and state.kind == "file" and not files.is_roots_alone(path):
            found[path] = files.FileState(
                "other", state.mode, b""
            )  # its owner can change it again, so it is put there anew
    if not desired and files.read_state(invalid_journal_path(fabric)) is not None:
        found[invalid_journal_path(fabric)] = files.FileState("other", 0o600, b"")  # it has keys in it as well
    return {path: state for path, state in found.items() if state is not None}


def plan(desired: t.Mapping[str, files.FileState], actual: t.Mapping[str, files.FileState]) -> Plan:
    """Compare files by kind, mode and content. The text of one that comes or goes as a whole shows nothing that its name does not."""

    def sides(one: t.Mapping[str, files.FileState], other: t.Mapping[str, files.FileState]) -> dict[str, t.Any]:
        return {path: state.shown() if path in other else state.brief() for path, state in one.items()}

    return reconcile("file", sides(desired, actual), sides(actual, desired))


def compare(fabric: str, desired: t.Mapping[str, files.FileState], others: t.Iterable[str] = ()) -> Plan:
    """What the files need, and a watcher that somebody stopped: nobody else would start it before the next boot."""
    todo = plan(desired, gather(fabric, desired, others))
    watch = f"{UNIT_ROOT}/{watch_name(fabric)}"
    if watch in desired and watch not in {change.id for change in todo.changes} and systemd.stopped(watch_name(fabric)):
        todo.update("unit", watch_name(fabric), {"active": False}, {"active": True})
    return todo


def apply(fabric: str, desired: t.Mapping[str, files.FileState], todo: Plan) -> None:
    """Write what differs: the code before the unit that names it, the state last, deletions after all writes."""
    units = unit_files(fabric)
    order = sorted(
        desired, key=lambda path: (path == state_path(fabric), path.startswith(UNIT_ROOT) or path in units, path)
    )
    touched = {change.id for change in todo.changes}
    for path in order:
        if path in touched:
            if path.startswith(STATE_ROOT):
                files.make_folder(folder(fabric), 0o700)
            files.write_state(path, desired[path])
    gone = [change.id for change in todo.of("delete")]
    watch = f"{UNIT_ROOT}/{watch_name(fabric)}"
    if watch in gone:
        systemd.retire(watch_name(fabric))
        for path in (*_kept_by_watcher(fabric), *run_files(fabric)[1:]):
            files.remove(path)
    if not desired and gone:
        systemd.retire(unit_name(fabric))
    for path in gone:
        files.remove(path)
    if not desired:
        _leave_folders(fabric)
        files.remove_empty_folders(RUN_ROOT, "/run")
    if any(path.startswith(UNIT_ROOT + "/") for path in touched):
        systemd.reload_units()
    link_managers.reload_managers(touched, _manager_name(fabric))
    if watch in desired and touched & {watch, watch_name(fabric)}:
        systemd.restart(watch_name(fabric))


def forget_folder(path: str) -> None:
    """Remove the folder of a removed file when nothing else is in it."""
    files.remove_empty_folders(path.rsplit("/", 1)[0], "/var/lib")
