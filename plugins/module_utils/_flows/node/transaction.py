# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's change as one transaction: the host itself takes it back unless it is confirmed in time (decisions 34, 45).

Files below the fabric's state folder, all root-only:

* ``dataplane.json``: the confirmed state, which the boot unit applies,
* ``candidate.json``: the state that this transaction leads to,
* ``transaction.json``: the journal, with everything that is needed to put back what was there.

The journal is written before the first change of the kernel and removed after everything else. Confirming renames the
candidate to the confirmed state; that rename is the one moment in which the transaction is decided. So whoever finds a
journal, after whatever end of the process that wrote it, knows what to do: with a candidate alongside it, put back; without,
finish. The dead-man, the boot unit and the next run all do that, under the host's lock.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import typing as t

from ..._dataplane.constants import MAIN_TABLE, ROUTE_PROTOCOL
from ..._dataplane.journal import REASON as JOURNAL_INVALID, parse_journal
from ..._dataplane.node_spec import NodeState, alias_of
from ..._linux import files
from ..._linux.errors import LinuxError
from ..._linux.host import deadman, snapshot, systemd
from ..._linux.host.lock import HostLock
from ..._values.refused import ValueRefused
from . import persistence

Data = dict[str, t.Any]

FORMAT = 1
CONFIRMED, ROLLED_BACK = "confirmed", "rolled_back"
#: How long the dead-man waits for a run that still holds the lock before it ends it.
PATIENCE_SECONDS = 2.0
#: How long it waits after that, for somebody that it does not know; then it acts without the lock.
BOUND_SECONDS = 15.0
#: A rollback that fails (a device busy, memory) is tried again for about five minutes.
TRIES, PAUSE_SECONDS = 100, 3.0


class NotConfirmed(Exception):
    """The transaction cannot be confirmed. ``outcome`` is what became of it: rolled_back, unknown, stale_connection."""

    def __init__(self, outcome: str, message: str, waited: float | None = None) -> None:
        self.outcome, self._waited = outcome, waited
        super().__init__(message)

    def fields(self) -> Data:
        """Keys for a module's failure result."""
        shown: Data = {"outcome": self.outcome, "rolled_back": self.outcome == ROLLED_BACK}
        return shown if self._waited is None else dict(shown, waited_seconds=int(self._waited))


class Unfinished(Exception):
    """The change is decided and stays, and what comes after the decision failed. The journal stays, and whoever finds it goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the change is kept, but what comes after it failed: {reason}; fix that, and the next run does the rest"
        )

    def fields(self) -> Data:
        """Keys for a module's failure result."""
        return {"outcome": CONFIRMED, "rolled_back": False}


def timer_name(fabric: str, ident: str) -> str:
    return f"multicluster-network-{fabric}-rollback-{ident}"


class JournalInvalid(LinuxError):
    """There is a journal, and it is not one that may be believed. ``set_aside`` and the confirmed state are the way out."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("read the journal", path, reason + f" [{JOURNAL_INVALID}]")


def pending(fabric: str) -> Data | None:
    """The journal of a transaction that is not decided or not finished; None when there is none. Raises JournalInvalid."""
    path = persistence.journal_path(fabric)
    found = files.read_state(path)
    if found is None:
        return None
    if found.kind != "file" or not files.is_roots_alone(path):
        raise JournalInvalid(path, "it is no file that root alone can have written")
    try:
        return parse_journal(json.loads(found.content.decode("utf-8")), fabric, persistence.code_folder(fabric))
    except ValueRefused as error:
        raise JournalInvalid(path, error.message) from None
    except (ValueError, RecursionError):
        raise JournalInvalid(path, "it is not JSON, or only a part of it") from None


def pending_or_none(fabric: str) -> Data | None:
    """The same for those who only look."""
    try:
        return pending(fabric)
    except JournalInvalid:
        return None


def set_aside(fabric: str, error: JournalInvalid) -> Data:
    """Keep an invalid journal alongside, for whoever wants to know, and forget its change. Returns the record of how it ended.

    The caller holds the host's lock, and then brings the host to its confirmed state: what the change replaced is not known.
    """
    path = persistence.invalid_journal_path(fabric)
    with contextlib.suppress(FileNotFoundError):  # another run was first
        os.replace(persistence.journal_path(fabric), path)
    message = f"{error}; it is kept as {path}, and the host goes back to its confirmed state"
    record: Data = {
        "id": None,
        "outcome": ROLLED_BACK,
        "message": message,
        "at": int(time.time()),
        "seconds": None,
        "armed_at": None,
        "expired": False,
    }
    _write(persistence.outcome_path(fabric), record)
    persistence.sweep(fabric)
    return record


def begin(fabric: str, seconds: int, before: Data, candidate: NodeState, persist: bool) -> Data:
    """Arm, then write candidate and journal. After this, and not before, the kernel may be touched. Returns the journal.

    before: ``{devices: {name: of take_device}, routes: of take_routes, route_devices: [name], keys: [path of a key file that
    is made or removed], kubespan: what put_back_steering takes, or None, tables: what tables.put_back takes, or None}``.
    """
    ident = os.urandom(8).hex()
    code = persistence.code_file(fabric)
    unit_files = persistence.unit_files(fabric)
    kept = snapshot.take_files([*before.pop("keys"), *unit_files])
    had_code = files.read_state(code) is not None
    files.make_folder(persistence.folder(fabric), 0o700)  # in a node pod, programs are below it
    if not had_code:
        files.write_state(code, persistence.code_state())
    journal = dict(
        before,
        format=FORMAT,
        fabric=fabric,
        id=ident,
        seconds=seconds,
        persist=persist,
        files=kept,
        leaving=candidate.absent,
    )
    journal.update(armed_at=deadman.uptime())
    journal.update(
        code=None if had_code else code, writer=[os.getpid(), deadman.process_started(os.getpid())], applied_at=None
    )
    parse_journal(
        dict(journal, armed=""), fabric, persistence.code_folder(fabric)
    )  # what could not be read again is not begun
    how = deadman.arm(timer_name(fabric, ident), seconds, [code, "rollback", fabric, ident])
    journal["armed"] = how
    _write(persistence.candidate_path(fabric), candidate.to_json())
    _write(persistence.journal_path(fabric), journal)
    if persist and not candidate.absent and kept[unit_files[0]] is None:
        # a first reboot in the middle must find somebody who puts the host in order
        persistence.install_unit(fabric)
    return journal


def applied(fabric: str, journal: Data) -> None:
    """Everything is written. Only a connection that was opened after this proves that the host can be reached."""
    journal["applied_at"] = deadman.uptime()
    _write(persistence.journal_path(fabric), journal)


def confirm(fabric: str, ident: str, lock_seconds: float) -> Data:
    """Decide for the new state and finish. Confirming twice is the same as once. Raises NotConfirmed, Unfinished, LinuxError."""
    with HostLock(alias_of(fabric), lock_seconds):
        try:
            journal = pending(fabric)
        except JournalInvalid as error:
            raise NotConfirmed("unknown", str(error)) from None
        if journal is None or journal["id"] != ident:
            last = persistence.load_json(persistence.outcome_path(fabric)) or {}
            if last.get("id") != ident:
                raise NotConfirmed(
                    "unknown", "the host knows no such change any more; it was restarted and runs its confirmed state"
                )
            if last.get("outcome") != CONFIRMED:
                raise _taken_back(last)
            return _reported(last)
        opened = deadman.connection_opened()
        if opened is not None and (journal["applied_at"] is None or opened <= journal["applied_at"]):
            raise NotConfirmed(
                "stale_connection", "this connection is older than the change and proves nothing; reset it first"
            )
        candidate = persistence.candidate_path(fabric)
        if files.read_state(candidate) is not None:
            _decide(fabric, bool(journal["persist"]))
        try:
            record = _finish(fabric, journal)
        except (LinuxError, OSError) as error:
            raise Unfinished(str(error)) from error
        return dict(_reported(record), **_waited(journal))


def _reported(record: t.Mapping[str, t.Any]) -> Data:
    """What a caller is notified of how a transaction ended."""
    return {name: record.get(name) for name in ("id", "outcome", "message", "at")}


def _waited(journal: t.Mapping[str, t.Any]) -> Data:
    began = journal.get("armed_at")
    return {} if began is None else {"waited_seconds": int(deadman.uptime() - began)}


def _taken_back(last: t.Mapping[str, t.Any]) -> NotConfirmed:
    """Only a confirmation that came after the host's patience was over shows how late it was: then time was all that it lacked."""
    message = f"the host has put back what it had: {last.get('message')}"
    if not last.get("expired") or not isinstance(last.get("armed_at"), (int, float)):
        return NotConfirmed(ROLLED_BACK, message)
    waited = deadman.uptime() - last["armed_at"]
    text = "{0}; it waited {1} s (node_dataplane_rollback_seconds), and the confirmation arrived {2:.0f} s after the change was begun"
    return NotConfirmed(ROLLED_BACK, text.format(message, last.get("seconds"), waited), waited)


def _decide(fabric: str, persist: bool) -> None:
    candidate = persistence.candidate_path(fabric)
    if persist:
        os.replace(candidate, persistence.state_path(fabric))
    else:
        files.remove(candidate)


def _finish(fabric: str, journal: Data) -> Data:
    """After the decision: files as the confirmed state wants them, then forget the transaction."""
    if journal["persist"]:
        persistence.settle_files(fabric)
    elif journal["code"]:
        files.remove(journal["code"])
    return _close(fabric, journal, CONFIRMED, "confirmed")


def _close(fabric: str, journal: Data, outcome: str, message: str, expired: bool = False) -> Data:
    record = {"id": journal["id"], "outcome": outcome, "message": message, "at": int(time.time())}
    record.update(seconds=journal["seconds"], armed_at=journal.get("armed_at"), expired=expired)
    if journal.get("leaving") and outcome == CONFIRMED:
        persistence.forget_run_files(fabric)  # of a node that left nothing stays, not even how it left
    else:
        _write(persistence.outcome_path(fabric), record)
    # the journal before the candidate: a journal without a candidate would count as confirmed
    files.remove(persistence.journal_path(fabric))
    persistence.sweep(fabric)
    if journal["armed"] == "systemd":
        with contextlib.suppress(LinuxError):  # it would find nothing to do
            deadman.disarm(timer_name(fabric, journal["id"]))
    return record


def settle(fabric: str, message: str, expired: bool = False) -> Data | None:
    """Bring a transaction to its end, whoever left it: finished when it was decided, else put back. None: there was none.

    expired: nobody confirmed it in time, which is remembered for a confirmation that is late.

    The caller holds the host's lock. Raises LinuxError when something could not be put back; the journal then stays.
    """
    journal = pending(fabric)
    if journal is None:
        return None
    if files.read_state(persistence.candidate_path(fabric)) is None:
        return _finish(fabric, journal)
    put_back(journal)
    _take_back_record(fabric)
    if snapshot.restore_files(journal["files"]):
        systemd.reload_units()
    for path, entry in journal["files"].items():
        if entry is None:
            persistence.forget_folder(path)
    if journal["code"]:
        files.remove(journal["code"])
    return _close(fabric, journal, ROLLED_BACK, message, expired)


def _take_back_record(fabric: str) -> None:
    """What only the change had announced at a discovery service, before the id of the node is forgotten; without an answer it expires."""
    tried, before = (persistence.load_state(fabric, candidate) for candidate in (True, False))
    announced = ((tried.kubespan if tried else None) or {}).get("discovery")
    kept = ((before.kubespan if before else None) or {}).get("discovery") or {}
    if tried is None or not announced or all(announced.get(name) == kept.get(name) for name in ("url", "mesh_id")):
        return
    from .kubespan import discovery  # not compiled on hosts without discovery

    with contextlib.suppress(LinuxError, OSError, ValueRefused):
        discovery.take_away(announced, discovery.node_id_of(fabric))


def put_back(journal: t.Mapping[str, t.Any]) -> None:
    """The kernel's part: what steers packets first, for it may hide the controller; then devices, then routes into them."""
    from .kubespan import dataplane as kubespan  # not needed, and so not compiled, in the runs that change nothing

    errors: list[str] = []
    broken: list[str] = []
    devices, over = journal["devices"], journal["route_devices"]
    steps: list[t.Callable[[], None]] = [
        lambda: _put_back_tables(journal.get("tables")),
        lambda: kubespan.put_back_steering(journal.get("kubespan")),
        lambda: snapshot.clear_routes(MAIN_TABLE, over, ROUTE_PROTOCOL, journal["routes"]),
        *(
            functools.partial(snapshot.restore_device, name, was)
            for name, was in sorted(devices.items(), key=_made_first)
        ),
        lambda: snapshot.restore_routes(MAIN_TABLE, journal["routes"]),
        lambda: kubespan.put_back_routes(journal.get("kubespan")),
        lambda: _put_back_tables(journal.get("tables"), last=True),
    ]
    for step in steps:
        try:
            step()
        except (LinuxError, OSError) as error:
            errors.append(str(error))  # one thing that cannot be restored must not keep the others away
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            broken.append(f"{type(error).__name__}: {str(error)[:100]}")
    if broken:  # trying again would not help
        raise JournalInvalid(
            persistence.journal_path(journal["fabric"]), "parts of it cannot be put back: " + "; ".join(broken)
        )
    if errors:
        raise LinuxError("restore", "this host", "; ".join(errors))


def _made_first(item: tuple[str, t.Any]) -> tuple[bool, str]:
    """Devices that the change made go before others come back: they may have their ports."""
    return item[1] is not None, item[0]


def _put_back_tables(before: t.Mapping[str, t.Any] | None, last: bool = False) -> None:
    if before is not None:
        from . import tables as node_tables  # seldom there, and not compiled where it is not

        node_tables.put_back(before, last)


def revert(fabric: str, ident: str | None, lock_seconds: float) -> tuple[Data, bool]:
    """Put back now, on request. (what became of the change, whether that was done now). None: whichever change waits."""
    with HostLock(alias_of(fabric), lock_seconds):
        journal = pending(fabric)
        if journal is not None and ident in (None, journal["id"]):
            return _reported(settle(fabric, "the play asked for it") or {}), True
    last = persistence.load_json(persistence.outcome_path(fabric)) or {}
    if last and ident in (None, last.get("id")):
        return _reported(last), False
    return {"id": ident, "outcome": "unknown", "message": "the node knows no such change"}, False


def dead_man(fabric: str, ident: str, after: float) -> Data | None:
    """What the armed command does, ``after`` seconds from now. A run that hangs with the lock in its hand is ended."""
    deadline = deadman.uptime() + after

    def owned() -> bool:
        journal = pending_or_none(fabric)
        return journal is not None and journal["id"] == ident

    def waiting() -> bool:
        return owned() or _is_invalid(fabric)

    looked: list[tuple[tuple[int, int] | None, bool]] = []

    def still() -> bool:
        # The journal of a node with hundreds of peers costs more to read than all else that this process does, twice a second.
        stamp = files.stamp(persistence.journal_path(fabric))
        if not looked or stamp is None or looked[0][0] != stamp:
            looked[:] = [(stamp, waiting())]
        return looked[0][1]

    # No journal means that the change was brought to its end, or that the run that armed this has not written it yet, which may take
    # long where many nodes share a machine. That run holds the lock until then, so whoever has the lock knows.
    while not deadman.wait_while(still, deadline - deadman.uptime()):
        try:
            with HostLock(alias_of(fabric), max(0.0, deadline - deadman.uptime())):
                if not waiting():
                    if pending(fabric) is None:
                        persistence.sweep(fabric)
                    return None
        except (LinuxError, OSError):
            left = deadline - deadman.uptime()
            if left <= 0:
                break  # it was held until the time was over, or cannot be had: below somebody acts without it
            time.sleep(min(left, PAUSE_SECONDS))
    for attempt in range(TRIES):
        try:
            with contextlib.ExitStack() as stack:
                alongside = _lock(fabric, ident, stack)
                if owned():
                    return settle(fabric, "nobody confirmed the change within its time" + alongside, expired=True)
                if pending(fabric) is None and not alongside:
                    persistence.sweep(fabric)
                return None
        except JournalInvalid:
            raise
        except (LinuxError, OSError):
            if attempt == TRIES - 1:
                raise
            time.sleep(PAUSE_SECONDS)
    return None


def _is_invalid(fabric: str) -> bool:
    try:
        pending(fabric)
    except JournalInvalid:
        return True
    return False


def _lock(fabric: str, ident: str, stack: contextlib.ExitStack) -> str:
    """Take the host's lock onto the stack, "" then. The run that wrote the journal of this very change is ended when it has held
    the lock for too long: a later run may have brought the change to its end, and have begun its own. Whoever else holds it past
    the bound does not keep an unreachable host unreachable: then this returns who it was."""
    name = alias_of(fabric)
    reason = ""
    for patience in (PATIENCE_SECONDS, BOUND_SECONDS):
        try:
            stack.enter_context(HostLock(name, patience))
            return ""
        except LinuxError as error:
            reason = error.message
        journal = pending_or_none(fabric)
        if journal is not None and journal["id"] == ident:
            deadman.kill_process(int(journal["writer"][0]), journal["writer"][1])
    return "; the host's lock was not waited for any longer: " + reason


def _write(path: str, content: t.Mapping[str, t.Any]) -> None:
    files.write_state(path, files.FileState("file", 0o600, persistence.state_bytes(content)))
