# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part of a trace: arm the recorder and say how things are, send the packets, collect what the kernel reported of them.

Nothing of it stays on the node: the recorder is a process without a file, its table ends with it, and it ends by itself.
"""

from __future__ import annotations

import re
import time
import typing as t

from ...._linux.errors import LinuxError
from ...._linux.host import detached, packets
from ...._linux.netlink.links import link_name
from ...._linux.nftables import table as nft, text
from ...._linux.nftables.trace import PREFIX, TraceSocket, TraceTable
from ...._values.packed import pack
from ...._values.refused import ValueRefused
from ..status import read_sections
from . import ask as trace_ask, facts as trace_facts
from .record import MOST_FLOWS, Flow, Record, clean, parse_flow

Data = dict[str, t.Any]

_ID = re.compile(r"[a-z0-9]{1,24}\Z", re.ASCII)
#: Signs of a rule's text that people are shown.
_RULE_LENGTH = 300
#: So many chains are listed for the texts of their rules, and for so long, since one of them may have thousands.
_MOST_CHAINS, _TEXT_SECONDS = 60, 2.0
#: What ends a packet is reported in any case; what lets it pass, where there is time.
_ENDS = ("drop", "accept", "queue", "stolen")
_LIFETIME = (1, 600)
_SIZES = (68, 65535)
_MOST_WAIT = 30
#: So long a question may wait for events that were there before it.
_CATCH_UP = 10.0


def run(request: t.Mapping[str, t.Any], check_mode: bool = False) -> Data:
    """The module's result. ``request``: {state, fabric, id, flows, questions, lifetime, events, sizes, wait_seconds, packed}.

    Raises ValueRefused, LinuxError.
    """
    if not _ID.match(str(request["id"])):
        raise ValueRefused("bad_id", "id must be 1 to 24 small letters and digits")
    name = PREFIX + request["id"]
    flows, refused = _parse(request.get("flows") or ())
    parts: dict[str, t.Callable[[], Data]] = {
        "armed": lambda: _arm(name, flows, request, check_mode),
        "sent": lambda: _send(flows, request, check_mode),
        "collected": lambda: _collect(name, bool(request.get("packed"))),
    }
    return dict(parts[request["state"]](), changed=False, refused=refused)


def _parse(rows: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[Flow], list[Data]]:
    """(flows, what is none of them and why)."""
    flows: list[Flow] = []
    refused: list[Data] = []
    for raw in rows:
        try:
            if len(flows) == MOST_FLOWS:
                raise ValueRefused(
                    "too_many_flows", f"a node traces {MOST_FLOWS} flows at once; trace fewer pairs at a time"
                )
            flows.append(parse_flow(raw))
        except ValueRefused as error:
            refused.append(
                {"object": f"flow {clean(str(raw.get('id')))}", "reason": error.reason, "message": error.message}
            )
    return flows, refused


# --- armed ---------------------------------------------------------------------------------------------------------


class _Recorder:
    """The work of the process apart: from the kernel's events to a record of them."""

    def __init__(self, name: str, flows: t.Sequence[Flow], most: int) -> None:
        self._table = TraceTable(name, [flow.mark for flow in flows])
        try:
            self._events = TraceSocket()
        except LinuxError:
            self._table.close()
            raise
        self._record = Record(flows, name, self._table.quotes, most, lambda index: link_name(index) or f"index {index}")
        self._started = time.monotonic()

    def fileno(self) -> int:
        return self._events.fileno()

    def read(self) -> None:
        self._take()

    def _take(self) -> int:
        events = self._events.read()
        seen = int((time.monotonic() - self._started) * 1_000_000)
        for event in events:
            self._record.take(event, seen)
        return len(events)

    def answer(self, request: str) -> tuple[Data, bool]:
        """``events`` as often as somebody asks, ``end`` gives nothing and is the last."""
        if request == "end":
            return {"last": True}, True
        asked = time.monotonic()
        while self._take() and time.monotonic() - asked < _CATCH_UP:  # all that came before the question
            continue
        return dict(
            self._record.result(), lost=self._events.lost, unreadable=self._events.unreadable, last=False
        ), False

    def close(self) -> None:
        self._table.close()
        self._events.close()


def _arm(name: str, flows: t.Sequence[Flow], request: t.Mapping[str, t.Any], check_mode: bool) -> Data:
    lifetime = min(max(int(request["lifetime"]), _LIFETIME[0]), _LIFETIME[1])
    if check_mode:
        reason: str | None = "check mode: nothing is recorded"
    elif not flows:
        reason = "no flow is to be traced"
    else:
        # before anything else: threads of what follows do not go along
        reason = detached.start(name, lifetime, lambda: _Recorder(name, flows, int(request["events"])))
    facts = trace_facts.read_facts(request["fabric"], flows)
    found: Data = {"armed": reason is None, "reason": reason, "facts": facts, "answers": [], "errors": facts["errors"]}
    read_sections([("answers", lambda: trace_facts.read_answers(flows, request.get("questions") or ()))], found)
    del found["errors"]
    return found


# --- sent ----------------------------------------------------------------------------------------------------------


def _send(flows: t.Sequence[Flow], request: t.Mapping[str, t.Any], check_mode: bool) -> Data:
    sizes = [int(size) for size in request.get("sizes") or ()]
    if any(not _SIZES[0] <= size <= _SIZES[1] for size in sizes):
        raise ValueRefused("bad_size", "sizes are of whole packets, {0} to {1} bytes".format(*_SIZES))
    if check_mode:
        return {"sent": [], "asked": []}
    namespaces = trace_facts.Pods(flows).namespaces()
    jobs, rows = [], []
    for flow in flows:
        address, port = flow.targets[0]
        if flow.source in namespaces:
            jobs.append(
                packets.Job(
                    flow.id,
                    namespaces[flow.source],
                    flow.protocol,
                    flow.version,
                    flow.source,
                    address,
                    port,
                    flow.number,
                )
            )
        else:
            rows.append(
                packets.Outcome(
                    flow.id, 0, "failed", f"no network namespace of this node has the address {flow.source}"
                )
            )
    wait = min(max(int(request["wait_seconds"]), 1), _MOST_WAIT)
    asked = trace_ask.ask_names(request.get("flows") or (), {job.flow: job.netns for job in jobs}, wait)
    rows += packets.send(jobs, wait, sizes)
    return {"sent": [row._asdict() for row in rows], "asked": asked}


# --- collected -----------------------------------------------------------------------------------------------------


def _collect(name: str, packed: bool) -> Data:
    found: Data = {
        "collected": False,
        "reason": None,
        "events": [],
        "counts": {},
        "others": 0,
        "lost": 0,
        "unreadable": 0,
        "errors": [],
    }
    try:
        answer = detached.ask(name, "events")
        if answer is None:
            found["reason"] = (
                "no recorder of this trace runs here: its lifetime was over, it was ended, or it never started"
            )
        else:
            found.update(
                {key: answer.get(key, found[key]) for key in ("events", "counts", "others", "lost", "unreadable")},
                collected=True,
            )
    except LinuxError as error:
        found["reason"] = str(error)
    sections: list[tuple[str, t.Callable[[], t.Any]]] = [
        ("rules", lambda: _add_texts(found["events"])),
        ("devices", trace_facts.read_devices),
        ("counters", trace_facts.read_counters),
    ]
    rest: Data = {"errors": found["errors"], "devices": [], "counters": {}}
    read_sections(sections, rest)
    rest.pop("rules", None)
    found.update(rest)
    if found["collected"]:
        try:
            detached.ask(name, "end")
        except LinuxError as error:
            found["errors"].append({"section": "end", "message": str(error)[:500]})
    if packed and found["collected"]:
        found.update(packed=pack(found["events"]), events=[])
    return found


def _add_texts(events: t.Sequence[Data]) -> None:
    """To each event of a rule its text, as nft writes it, and to each of a base chain its hook and priority."""
    places = {}
    for table in nft.list_base_chains():
        places.update(
            {(table["family"], clean(table["name"]), clean(chain["name"])): chain for chain in table["chains"]}
        )
    hooks: dict[int, t.Any] = {}
    for row in events:  # as they came: a chain that is jumped to belongs to the hook in which its packet was last
        place = places.get((row["family"], row["table"], row["chain"]))
        if place:
            row.update(hook=place["hook"], priority=place["priority"])
        hooks[row["packet"]] = row["hook"] = row["hook"] or hooks.get(row["packet"])
    texts: dict[tuple[str, str, str], dict[int, str]] = {}
    started = time.monotonic()
    for row in sorted(events, key=lambda row: _ENDS.index(row["verdict"]) if row["verdict"] in _ENDS else len(_ENDS)):
        key = (row["family"], row["table"], row["chain"])
        if row["owned"] or row["handle"] is None:
            continue
        if key not in texts:
            try:
                late = len(texts) >= _MOST_CHAINS or time.monotonic() - started > _TEXT_SECONDS
                texts[key] = {} if late else text.list_rules(*key)
            except LinuxError:
                texts[key] = {}
        rule = texts[key].get(row["handle"])
        row["rule"] = clean(rule, _RULE_LENGTH) if rule is not None else None
