# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BGP speaker of one node: rendered, checked by FRR itself, put in place, watched, and put back if sessions break."""

from __future__ import annotations

import time
import typing as t

from ..._io import frr
from ..._linux import files
from ..._linux.files import FileState
from ..._linux.host import systemd
from ..._linux.netlink.routes import look_up
from ..._loadbalancers.bgp.frr_config import commands, established, parse_speaker, read_prefixes, render, shown, without_prefixes
from ..._loadbalancers.bgp.values import parse_grants
from ..._plan.plan import Plan
from ..._values.addresses import parse_address
from ..._values.keys import fingerprint
from ..._values.refused import ValueRefused

FOLDER = "/etc/multicluster-network/bgp"
CONFIG = FOLDER + "/bgpd.conf"
UNIT = "/etc/systemd/system/" + frr.UNIT
#: FRR's own files, in which a session to the same router would fight with ours.
FOREIGN = ("/etc/frr/frr.conf", "/etc/frr/bgpd.conf")
SUMMARY = "show bgp summary json"


class RolledBack(Exception):
    """The new state did not hold; the node has what it had. ``result`` is the module's result."""

    def __init__(self, message: str, result: t.Dict[str, t.Any]) -> None:
        super().__init__(message)
        self.result = result


def run(request: t.Mapping[str, t.Any], check: bool = False) -> t.Dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense or that FRR refuses, RolledBack."""
    plan = Plan()
    if request.get("state") == "absent":
        _absent(plan, check)
        return _result(plan, {}, False)
    source = request.get("source_ip") or _source(request["neighbors"])
    speaker = parse_speaker(dict(request, source_ip=source), parse_grants(request.get("grants")))
    _no_rival(speaker.neighbours, request.get("beside_frr"))
    group = frr.group()
    wanted = {CONFIG: FileState("file", 0o640, render(speaker).encode("ascii")), UNIT: FileState("file", 0o644, frr.unit_text(CONFIG).encode("ascii"))}
    before = {path: files.read_state(path) for path in wanted}
    _note(plan, before, wanted)
    runs = frr.systemctl("is-active", "--quiet", frr.UNIT)
    if not plan.changes and not runs and systemd.running():
        plan.update("speaker", frr.UNIT, {"active": False}, {"active": True})
    if plan.changes:
        secrets = [one.password for one in speaker.neighbours if one.password]
        frr.check_config(wanted[CONFIG].content.decode("ascii"), secrets)
    stood = established(frr.ask(SUMMARY)) if runs else {}
    if not check and plan.changes:
        _apply(plan, before, wanted, group, runs, speaker, request, stood)
    sessions = established(frr.ask(SUMMARY)) if not check or runs else {}
    return _result(plan, sessions, True)


def _result(plan: Plan, sessions: t.Mapping[str, bool], present: bool) -> t.Dict[str, t.Any]:
    result = plan.result()
    result.update(sessions=dict(sorted(sessions.items())), diff=plan.diff(), warnings=plan.warnings)
    if present and not plan.changes and not all(sessions.values()):
        down = ", ".join(sorted(name for name, up in sessions.items() if not up))
        result["warnings"] = list(plan.warnings) + ["no session with {0}".format(down)]
    return result


def _source(neighbours: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The address from which the kernel reaches the first router. Raises ValueRefused, LinuxError."""
    if not neighbours:
        raise ValueRefused("no_ipv4_neighbor", "no router is named")
    router = str(parse_address(neighbours[0]["address"]))
    source = look_up([{"dst": router}])[0].get("src")
    if not source:
        raise ValueRefused("no_ipv4_neighbor", "this node has no route to {0}".format(router))
    return str(source)


def _no_rival(neighbours: t.Iterable[t.Any], allowed: t.Any) -> None:
    """A second speaker on this node with the same router would take our session down, and we its. Raises ``conflict``."""
    if allowed:
        return
    texts = [state.content.decode("utf-8", "replace") for state in map(files.read_state, FOREIGN) if state is not None and state.kind == "file"]
    words = {tuple(line.split()[:2]) for text in texts for line in text.splitlines()}
    for one in neighbours:
        if ("neighbor", one.address) in words:
            raise ValueRefused("conflict", "this node's own FRR has a session with {0}; beside_frr allows a second one".format(one.address))


def _note(plan: Plan, before: t.Mapping[str, t.Optional[FileState]], wanted: t.Mapping[str, FileState]) -> None:
    for path in sorted(wanted):
        old, new = before[path], wanted[path]
        if old == new:
            plan.unchanged += 1
            continue
        rows = [{"lines": shown(state.content.decode("utf-8", "replace"), fingerprint)} if state is not None else None for state in (old, new)]
        if old is None:
            plan.create("file", path, rows[1])
        else:
            plan.update("file", path, rows[0], rows[1])


def _apply(
    plan: Plan, before: t.Mapping[str, t.Optional[FileState]], wanted: t.Mapping[str, FileState], group: int, runs: bool,
    speaker: t.Any, request: t.Mapping[str, t.Any], stood: t.Mapping[str, bool],
) -> None:  # fmt: skip
    old, new = before[CONFIG], wanted[CONFIG].content.decode("ascii")
    text = old.content.decode("utf-8", "replace") if old is not None else ""
    quiet = runs and before[UNIT] == wanted[UNIT] and without_prefixes(text) == without_prefixes(new)
    try:
        if quiet and old is not None:
            # sessions stay; the file last, so that a run that was killed in between is repeated
            frr.tell(commands(speaker.asn, read_prefixes(text), read_prefixes(new)))
            _put(wanted, group)
        else:
            _put(wanted, group)
            _restart()
        _wait_for(stood, float(request.get("verify_seconds") or 0))
    except ValueRefused as error:
        _put_back(before, group)
        result = _result(Plan(), established(frr.ask(SUMMARY)), False)
        result["refused"] = [{"object": frr.UNIT, "reason": error.reason, "message": error.message}]
        raise RolledBack("the node has its former BGP speaker again: {0}".format(error.message), result) from None


def _put(states: t.Mapping[str, t.Optional[FileState]], group: int) -> None:
    for path in sorted(states):
        state = states[path]
        if state is not None and files.read_state(path) != state:
            files.write_state(path, state)
        if path == CONFIG and state is not None:
            files.give_to_group(path, group)


def _restart() -> None:
    systemd.reload_units()
    frr.systemctl("reset-failed", frr.UNIT)
    frr.systemctl("enable", frr.UNIT)
    if not frr.systemctl("restart", frr.UNIT) and systemd.running():
        raise ValueRefused("speaker_failed", "the unit {0} did not start".format(frr.UNIT))


def _wait_for(stood: t.Mapping[str, bool], seconds: float) -> None:
    """Sessions that stood must stand again; those that never did are only reported. Raises ValueRefused ``session_lost``."""
    needed = {name for name, up in stood.items() if up}
    deadline = time.monotonic() + seconds
    while systemd.running():
        now = established(frr.ask(SUMMARY))
        missing = sorted(name for name in needed if name in now and not now[name])
        if now and not missing:
            return
        if time.monotonic() >= deadline:
            if not now:
                raise ValueRefused("speaker_failed", "the speaker does not answer")
            raise ValueRefused("session_lost", "the session with {0} did not come back".format(", ".join(missing)))
        time.sleep(0.3)


def _put_back(before: t.Mapping[str, t.Optional[FileState]], group: int) -> None:
    if before[UNIT] is None:
        systemd.retire(frr.UNIT)
        frr.systemctl("disable", frr.UNIT)
    for path, state in before.items():
        if state is None:
            files.remove(path)
    _put(before, group)
    systemd.reload_units()
    if before[UNIT] is not None:
        frr.systemctl("restart", frr.UNIT)
    else:
        files.remove_empty_folders(FOLDER, "/etc")


def _absent(plan: Plan, check: bool) -> None:
    there = {path: files.read_state(path) for path in (CONFIG, UNIT)}
    for path, state in there.items():
        if state is None:
            plan.unchanged += 1
        else:
            plan.delete("file", path, {"lines": shown(state.content.decode("utf-8", "replace"), fingerprint)})
    if check or not plan.changes:
        return
    # ends with a notification, so that routers withdraw at once and need not wait for the hold time
    systemd.retire(frr.UNIT)
    frr.systemctl("disable", frr.UNIT)
    for path in there:
        files.remove(path)
    systemd.reload_units()
    files.remove_empty_folders(FOLDER, "/etc")
