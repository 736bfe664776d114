# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BGP speaker of one node: rendered, checked by its own daemon, put in place, watched, and put back if sessions break.

What is announced when is the follower's work (speaker_follow.py), which goes on without a play; here its state, its code and the units are kept.
"""

from __future__ import annotations

import contextlib
import json
import time
import typing as t

from ...._linux import files
from ...._linux.daemons import command, frr
from ...._linux.files import FileState
from ...._linux.host import bundle, connections, systemd
from ...._linux.host.lock import HostLock
from ...._linux.netlink.routes import look_up
from ...._loadbalancers.bgp.speaker import Speaker, parse_speaker
from ...._loadbalancers.bgp.values import parse_grants
from ...._loadbalancers.delivery import Desired, parse_routes
from ...._plan.plan import Plan
from ...._values.addresses import parse_address
from ...._values.keys import fingerprint
from ...._values.refused import ValueRefused
from ...._values.text import in_short
from .. import unfinished
from ..follower import unit_text
from . import follow as speaker_follow
from .follow import FOLDER, KEPT, STATE, STATUS

#: The module with the ``main()`` that the archive runs; it carries what that imports.
AGENT = "_flows.speakers.bgp.agent"
CODE = "/usr/local/lib/multicluster-network-bgp/speaker.pyz"
_UNITS = "/etc/systemd/system/"
UNIT = _UNITS + frr.UNIT
#: Alongside it, where its daemon needs them; in the order in which they start.
COMPANIONS = (_UNITS + frr.ZEBRA_UNIT, _UNITS + frr.BFD_UNIT)
FOLLOWER = "multicluster-bgp-follow.service"
FOLLOWER_UNIT = "/etc/systemd/system/" + FOLLOWER
FOLLOWER_TITLE = "What the BGP speaker of multicluster.network announces"
#: Where the daemon's configuration lay before there was a follower.
FORMER = FOLDER + "/bgpd.conf"
#: What a run that was killed has written and started nothing for.
UNFINISHED = FOLDER + "/unfinished"
PORT = 179
#: FRR's own files, in which a session to the same router would fight with that of this speaker.
UNOWNED = ("/etc/frr/frr.conf", "/etc/frr/bgpd.conf")
#: Of whoever changes the state, alongside the follower's own; so long another one may take.
LOCK, LOCK_SECONDS = "multicluster-bgp-state", 120.0
_KEPT_OPTIONS = (
    "asn",
    "router_id",
    "keepalive_time",
    "hold_time",
    "graceful_restart",
    "communities",
    "large_communities",
    "local_preference",
    "med",
    "pools",
)


class RolledBack(Exception):
    """The new state did not hold; the node has what it had. ``result`` is the module's result."""

    def __init__(self, message: str, result: dict[str, t.Any]) -> None:
        super().__init__(message)
        self.result = result


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense or that the daemon refuses, RolledBack, LinuxError.

    One at a time: a node call that only changes routes must not put back what a play that comes at the same time has changed.
    """
    with contextlib.nullcontext() if check else HostLock(LOCK, LOCK_SECONDS):
        return _run(request, check)


def _run(request: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    plan = Plan()
    if request.get("state") == "absent":
        _absent(plan, check)
        return _result(plan, {}, False)
    if request.get("routes_only"):
        return _run_routes_only(request, check)
    if request.get("asn") is None or not request.get("neighbors"):
        raise ValueRefused("bad_setting", "asn and neighbors belong together, and one of them is missing")
    given = _given(request)
    speaker, routes = parse_speaker(given, parse_grants(request.get("grants"))), parse_routes((), given["routes"])
    rivals = {} if request.get("alongside_frr") else _rivals(speaker.neighbours, speaker.source)
    _no_rival(speaker.neighbours, request.get("alongside_frr"))
    state = speaker_follow.parse_state(json.dumps(given))
    daemon = speaker_follow.DAEMONS[state.daemon]
    daemon.group()
    desired = {
        CODE: FileState("file", 0o755, bundle.build(AGENT)),
        **_unit_files(daemon, speaker),
        FOLLOWER_UNIT: files.text_file(0o644, unit_text(FOLLOWER_TITLE, CODE, STATE, frr.UNIT)),
        STATE: files.json_file(0o600, given),
    }
    before = {path: files.read_state(path) for path in dict.fromkeys((*desired, FORMER, *COMPANIONS))}
    unfinished.note_files(plan, before, desired, _shown)
    runs = all(command.systemctl("is-active", "--quiet", unit) for unit in (*_companions(desired), frr.UNIT, FOLLOWER))
    if rivals and before[STATE] is None:
        raise ValueRefused("conflict", next(iter(rivals.values())))
    current = not unfinished.left(UNFINISHED)
    if not plan.changes and not (runs and current) and systemd.running():
        plan.update("speaker", frr.UNIT, {"active": runs, "current": current}, {"active": True, "current": True})
    if plan.changes:
        secrets = [one.password for one in speaker.neighbours if one.password]
        daemon.check_config(state.render(route.network for route in routes), secrets)
    stood = _sessions() if command.systemctl("is-active", "--quiet", frr.UNIT) else {}
    plan.warnings += [text for router, text in rivals.items() if not stood.get(router)]
    if not check and plan.changes:
        _apply(before, desired, request, stood)
    return _result(plan, _sessions() if not check or runs else {}, True, speaker, [route.network for route in routes])


def _unit_files(daemon: speaker_follow.Daemon, speaker: Speaker) -> dict[str, FileState]:
    paths = {frr.UNIT: UNIT, **{path[len(_UNITS) :]: path for path in COMPANIONS}}
    texts = daemon.unit_texts(CODE, any(one.bfd for one in speaker.neighbours))
    return {paths[name]: files.text_file(0o644, text) for name, text in texts.items()}


def _companions(desired: t.Iterable[str]) -> list[str]:
    """The names of the units that run alongside the daemon."""
    there = set(desired)
    return [path[len(_UNITS) :] for path in COMPANIONS if path in there]


def _run_routes_only(request: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    """What a configured speaker announces; all else stays as a whole run left it. Raises ValueRefused ``no_speaker``, and as run."""
    plan, before = Plan(), files.read_state(STATE)
    if before is None or speaker_follow.load_state() is None:
        raise ValueRefused(
            "no_speaker", "this node has no BGP speaker yet, and routes_only only changes what one announces"
        )
    given = json.loads(before.content.decode("utf-8"))
    given["routes"] = _routes(parse_routes(request.get("prefixes") or (), request.get("routes") or ()))
    desired = {STATE: files.json_file(0o600, given)}
    state = speaker_follow.parse_state(json.dumps(given))
    unfinished.note_files(plan, {STATE: before, FORMER: None}, desired, _shown)
    if plan.changes:
        secrets = [one.password for one in state.speaker.neighbours if one.password]
        speaker_follow.DAEMONS[state.daemon].check_config(
            state.render(route.network for route in state.routes), secrets
        )
        if not check:
            _apply({STATE: before}, desired, request, None)
    return _result(plan, _sessions(), True, state.speaker, [route.network for route in state.routes])


def _sessions() -> dict[str, bool]:
    """Router -> whether its session is established, by the daemon that runs."""
    return {name: state == "Established" for name, state in speaker_follow.running_daemon().sessions().items()}


def _given(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the follower has to know, as plain data: the same request gives the same. Raises ValueRefused, LinuxError."""
    routes = parse_routes(request.get("prefixes") or (), request.get("routes") or ())
    source = request.get("source_ip") or _source(request["neighbors"])
    return dict(
        {name: request[name] for name in _KEPT_OPTIONS if request.get(name) is not None},
        version=speaker_follow.VERSION,
        daemon=request.get("daemon") or speaker_follow.FRR,
        source_ip=source,
        neighbors=[_neighbour(row, source) for row in request["neighbors"]],
        node_port=request.get("node_health_port") or 0,
        routes=_routes(routes),
    )


def _routes(routes: t.Iterable[Desired]) -> list[dict[str, t.Any]]:
    return [{"network": route.network, "health_ports": list(route.health_ports)} for route in routes]


def _neighbour(row: t.Mapping[str, t.Any], source: str) -> dict[str, t.Any]:
    """A router with the password itself, wherever that is stored, and the node's address of its family. Raises ValueRefused, LinuxError."""
    found = {name: value for name, value in row.items() if value is not None and name != "password_file"}
    if not found.get("source_ip") and parse_address(row["address"]).version != parse_address(source).version:
        found["source_ip"] = _source([row])
    path = row.get("password_file")
    if path:
        held = files.content(str(path))
        if held is None:
            raise ValueRefused(
                "bad_setting",
                f"password_file of {row['address']} in bgp_speaker_neighbors: the node has no file {path}",
            )
        found["password"] = held.decode("utf-8", "replace").strip()
    return found


def _no_session(uncarried: t.Sequence[str]) -> str:
    """What to write where networks of a family have no router."""
    version, other = (6, 4) if ":" in uncarried[0] else (4, 6)
    hop = ", with next_hop, an IPv6 address of the node" if version == 6 else ""
    return (
        f"no session carries {in_short(uncarried, 5)}: no router in bgp_speaker_neighbors is of IPv{version}; add one, "
        f"or write both_families: true for a router of IPv{other} that takes both (RFC 8950){hop}"
    )


def _result(
    plan: Plan,
    sessions: t.Mapping[str, bool],
    present: bool,
    speaker: Speaker | None = None,
    networks: t.Iterable[str] = (),
) -> dict[str, t.Any]:
    result, status = plan.result(), speaker_follow.read_status() if present else {}
    uncarried = speaker.uncarried(networks) if speaker is not None else []
    if uncarried:
        plan.warnings.append(_no_session(uncarried))
    result.update(
        uncarried=uncarried,
        sessions=dict(sorted(sessions.items())),
        diff=plan.diff(),
        warnings=list(plan.warnings),
        announced=status.get("announced") or [],
        withheld=status.get("withheld") or {},
    )
    if present and not plan.changes and not all(sessions.values()):
        down = ", ".join(sorted(name for name, up in sessions.items() if not up))
        result["warnings"].append(f"no session with {down}")
    return result


def _source(neighbours: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The address from which the kernel reaches the first router. Raises ValueRefused, LinuxError."""
    if not neighbours:
        raise ValueRefused("no_ipv4_neighbor", "no router is named")
    router = str(parse_address(neighbours[0]["address"]))
    source = look_up([{"dst": router}])[0].get("src")
    if not source:
        raise ValueRefused("no_ipv4_neighbor", f"this node has no route to {router}")
    return str(source)


def _no_rival(neighbours: t.Iterable[t.Any], allowed: t.Any) -> None:
    """A second speaker on this node with the same router would take our session down, and we its. Raises ``conflict``."""
    if allowed:
        return
    texts = [(files.content(path) or b"").decode("utf-8", "replace") for path in UNOWNED]
    words = {tuple(line.split()[:2]) for text in texts for line in text.splitlines()}
    for one in neighbours:
        if ("neighbor", one.address) in words:
            raise ValueRefused(
                "conflict", f"this node's own FRR has a session with {one.address}; alongside_frr allows a second one"
            )


def _rivals(neighbours: t.Iterable[t.Any], source: str) -> dict[str, str]:
    """Router -> a sentence on another program of this node that has a session with it from our address, such as the speaker of a load balancer
    from which Services come. A router keeps one session of an address: this speaker's would not come up, or end the other one's."""
    routers = {one.address: one.source or source for one in neighbours}
    text = (
        "this node's {0} (process {1}) has a session with {2} from {3}, and a router keeps one of each address: end that first, "
        "or set bgp_speaker_source_ip to another address of the node (bgp_speaker_alongside_frr: true starts this program anyway)"
    )
    found: dict[str, str] = {}
    for row in connections.connections():
        if routers.get(row.remote) != row.local or PORT not in (row.local_port, row.remote_port):
            continue
        holder = connections.holder_of(row.socket)
        if holder is not None and frr.UNIT not in holder.group:
            found[row.remote] = text.format(holder.words or "program", holder.pid, row.remote, row.local)
    return found


def _shown(path: str, state: FileState) -> dict[str, t.Any]:
    """For a plan: of the follower's state what the daemon is sent when everything can be delivered, and what that depends on."""
    if path != STATE:
        return state.shown()
    try:
        desired = speaker_follow.parse_state(state.content.decode("utf-8"))
    except (ValueError, KeyError):
        return {"lines": []}
    rows = [
        f"! {route.network} while port {port} of the node reports that it can deliver"
        for route in desired.routes
        for port in route.health_ports
    ]
    lines = speaker_follow.DAEMONS[desired.daemon].shown(
        desired.render(route.network for route in desired.routes), fingerprint
    )
    return {"lines": lines + rows}


def _apply(
    before: t.Mapping[str, FileState | None],
    desired: t.Mapping[str, FileState],
    request: t.Mapping[str, t.Any],
    stood: t.Mapping[str, bool] | None,
) -> None:
    """``stood``: the sessions before it, None for a change that touches none."""
    seconds = float(request.get("verify_seconds") or 0)
    try:
        _put(before, desired, seconds)
        if stood is not None:
            _wait_for(stood, seconds)
    except (ValueRefused, OSError) as error:  # a full disk, for one
        _put_back(before, desired, seconds)
        result, message = _result(Plan(), _sessions(), False), getattr(error, "message", str(error))
        result["refused"] = [
            {"object": frr.UNIT, "reason": getattr(error, "reason", "speaker_failed"), "message": message}
        ]
        raise RolledBack(f"the node has its former BGP speaker again: {message}", result) from None


def _put(before: t.Mapping[str, FileState | None], desired: t.Mapping[str, FileState], seconds: float) -> None:
    """The files, the state last; then what has to start, and the follower's report that all of it holds. Raises ValueRefused, OSError."""
    changed = {path for path in desired if before.get(path) != desired[path]} | (
        unfinished.left(UNFINISHED) & set(desired)
    )
    if changed - {STATE}:  # of the state the follower finds out by itself
        unfinished.begin(UNFINISHED, changed)
    for path in sorted(desired, key=lambda path: (path == STATE, path)):
        if before.get(path) != desired[path]:
            files.write_state(path, desired[path])
    files.remove(FORMER)
    gone = [path for path in COMPANIONS if before.get(path) is not None and path not in desired and UNIT in desired]
    if systemd.running():
        _carry_out(before, desired, changed)
        for path in gone:  # the daemon runs without them now
            _end(path)
        _wait_until_followed(desired[STATE], seconds)
    else:
        for path in gone:
            files.remove(path)
    unfinished.end(UNFINISHED, changed)


def _carry_out(
    before: t.Mapping[str, FileState | None], desired: t.Mapping[str, FileState], changed: t.Container[str]
) -> None:
    units = {path for path in (UNIT, FOLLOWER_UNIT, *COMPANIONS) if path in changed}
    if units:
        systemd.reload_units()
    for name in _companions(desired):
        if _UNITS + name in units or not command.systemctl("is-active", "--quiet", name):
            _start(name)
    if UNIT in units or not command.systemctl("is-active", "--quiet", frr.UNIT):
        before_state = before.get(STATE)
        _start(frr.UNIT, before_state is not None and speaker_follow.keeps_routes(before_state.content))
    if FOLLOWER_UNIT in units or CODE in changed or not command.systemctl("is-active", "--quiet", FOLLOWER):
        _start(FOLLOWER)


def _end(path: str) -> None:
    systemd.retire(path[len(_UNITS) :])
    files.remove(path)


def _start(unit: str, keep_routes: bool = False) -> None:
    """``keep_routes``: without a last message to routers, which keep the routes for a daemon that comes back (graceful restart)."""
    if unit not in (frr.ZEBRA_UNIT, frr.BFD_UNIT):  # those come along with the daemon
        command.systemctl("enable", unit)
    if keep_routes:
        command.systemctl("kill", "--signal=KILL", unit)
    command.systemctl("reset-failed", unit)
    if not command.systemctl("restart", unit):
        why = speaker_follow.read_status().get("error")
        raise ValueRefused("speaker_failed", f"the unit {unit} did not start{(f': {why}' if why else '')}")


def _wait_until_followed(state: FileState, seconds: float) -> None:
    """Until the daemon has been notified of this state. Raises ValueRefused ``speaker_failed``."""
    digest = speaker_follow.parse_state(state.content.decode("utf-8")).digest
    deadline = time.monotonic() + max(seconds, 5.0)
    while True:
        status = speaker_follow.read_status()
        if status.get("state") == digest and not status.get("error"):
            return
        if time.monotonic() >= deadline:
            raise ValueRefused(
                "speaker_failed", str(status.get("error") or f"{FOLLOWER} does not follow; see its journal")
            )
        time.sleep(0.1)


def _wait_for(stood: t.Mapping[str, bool], seconds: float) -> None:
    """Sessions that were established must be so again; those that never were are only reported. Raises ValueRefused ``session_lost``."""
    needed = {name for name, up in stood.items() if up}
    deadline = time.monotonic() + seconds
    while systemd.running():
        now = _sessions()
        missing = sorted(name for name in needed if name in now and not now[name])
        if now and not missing:
            return
        if time.monotonic() >= deadline:
            if not now:
                raise ValueRefused("speaker_failed", "the speaker does not answer")
            raise ValueRefused("session_lost", f"the session with {', '.join(missing)} did not come back")
        time.sleep(0.3)


def _put_back(before: t.Mapping[str, FileState | None], desired: t.Mapping[str, FileState], seconds: float) -> None:
    former = {path: state for path, state in before.items() if state is not None}
    if STATE not in former:
        _take_away((*desired, FORMER))
        for path, state in former.items():
            files.write_state(path, state)
        if UNIT in former:  # of a release without a follower
            files.give_to_group(FORMER, frr.group())
            systemd.reload_units()
            command.systemctl("restart", frr.UNIT)
        return
    with contextlib.suppress(ValueRefused, OSError):  # what cannot be put back is left; what broke is reported anyway
        _put({path: desired.get(path) for path in before}, former, seconds)


def _absent(plan: Plan, check: bool) -> None:
    there = {path: files.read_state(path) for path in (CODE, UNIT, *COMPANIONS, FOLLOWER_UNIT, STATE, FORMER)}
    for path, state in there.items():
        if state is None:
            plan.unchanged += path not in COMPANIONS
        else:
            plan.delete("file", path, _shown(path, state) if path != FORMER else {})
    if plan.changes and not check:
        _take_away(there)


def _take_away(paths: t.Iterable[str]) -> None:
    # the daemon ends with a notification, so that routers withdraw at once and need not wait for the hold time
    for unit in (FOLLOWER, frr.UNIT):
        systemd.retire(unit)
        command.systemctl("disable", unit)
    for path in COMPANIONS:
        if files.read_state(path) is not None:
            _end(path)
    for path in (*paths, KEPT, STATUS, UNFINISHED):
        files.remove(path)
    frr.forget_everything()
    systemd.reload_units()
    for path, top in ((FOLDER, "/etc"), (CODE, "/usr/local/lib"), (KEPT, "/var/lib"), (STATUS, "/run")):
        files.remove_empty_folders(path if path == FOLDER else path.rsplit("/", 1)[0], top)
