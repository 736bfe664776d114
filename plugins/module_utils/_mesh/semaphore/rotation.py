# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the rotation of a node's key towards one remote cluster is: its record in two annotations, and the order of its steps. Pure.

A bypass device alongside the node's device carries the packets while the device gets its new key. Its key is the one that the device has before, which
the other ends know already. Each device takes in packets by its own allowed IPs, so both take in everything from the first step to the
last, and a step only changes by which of them a node *sends*::

    prepare   both ends have the bypass device; the next key is there and published
    aside     a node sends by the bypass device where both ends are aside, after a handshake by it
    renew     the devices, by which no node sends, get the next keys, their own and those of their peers
    back      a node sends by the device again, after a handshake by it
    done      the bypass device and its copy of the former key go

No step begins before all nodes have done the one before it, which rotation_checks sees to. What is read here is a claim like every annotation.
"""

from __future__ import annotations

import typing as t

from ..._values.generations import NEXT
from ..._values.keys import parse_key
from ..._values.refused import ValueRefused, quoted
from ..._values.text import parse_port
from .annotations import key_of
from .preshared import OFF, parse_generation

PREPARED, ASIDE, BACK = "prepared", "aside", "back"
PHASES = (PREPARED, ASIDE, BACK)
PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE = STEPS = ("prepare", "aside", "renew", "back", "done")
#: A pass over the mesh that leaves every record as it is.
NO_STEP = ""
#: What the playbook may make of a rotation.
FINISHED, ABANDONED = STATES = ("finished", "abandoned")
#: No key, in a record.
_NONE = "-"


class Record(t.NamedTuple):
    """One node's rotation towards one remote cluster.

    ``port``: UDP port of its bypass device. ``retired``: the public key of its device that the rotation replaces, and which the bypass device has; None
    where only other nodes' keys change. ``key``: the public key that replaces it; None until the node has made it. ``preshared`` and ``former``: the
    generations of preshared keys that ``key`` goes with, and that the bypass device has; 0 for none.
    """

    phase: str
    port: int
    retired: str | None = None
    key: str | None = None
    preshared: int = OFF
    former: int = OFF

    @property
    def state(self) -> str:
        """The text of its annotation ``state``."""
        generations = [self.preshared, *([self.former] if self.former else [])] if self.preshared or self.former else []
        return " ".join(
            [self.phase, str(self.port), self.retired or _NONE, *(str(one or _NONE) for one in generations)]
        )


#: {(host, remote cluster): record}
Records = t.Mapping[tuple[str, str], Record]


def keys_of(remote: str) -> dict[str, str]:
    """Both annotations of a record: ``{"key": ..., "state": ...}``."""
    return {"key": key_of(remote + NEXT, "pubKey"), "state": key_of(remote + NEXT, "state")}


def read_record(remote: str, annotations: t.Mapping[str, t.Any]) -> Record | None:
    """The record that a Node has, None where it has none. Raises ValueRefused ``bad_rotation``."""
    names = keys_of(remote)
    text, key = annotations.get(names["state"]), annotations.get(names["key"])
    if text is None:
        return None
    parts = text.split(" ") if isinstance(text, str) else []
    if len(parts) not in (3, 4, 5) or parts[0] not in PHASES:
        raise ValueRefused("bad_rotation", f"{names['state']}: {quoted(text)} is no state of a rotation")
    retired = None if parts[2] == _NONE else parse_key(parts[2])
    generations = [OFF if part == _NONE else parse_generation(part, names["state"]) for part in parts[3:]]
    return Record(parts[0], parse_port(parts[1]), retired, None if key is None else parse_key(key), *generations)


def next_record(found: Record | None, step: str, new: Record | None) -> Record | None:
    """The record after a step; ``new``: what ``prepare`` gives a node that takes part and has none. A step is done again without harm."""
    if found is None:
        return new if step == PREPARE else None
    if step == GO_ASIDE and found.phase == PREPARED:
        return found._replace(phase=ASIDE)
    if step == GO_BACK and found.phase == ASIDE:
        return found._replace(phase=BACK)
    return None if step == DONE else found


def sends_aside(own: Record | None, other: Record | None) -> bool:
    """Whether a node sends to another by the bypass device: the one rule of both ends, so it is the same from whichever end one looks."""
    return own is not None and other is not None and own.phase == other.phase == ASIDE


def allowed_step(step: str, records: Records, state: str = FINISHED) -> str:
    """The step that a run may do where it is asked for ``step``; empty for none: what an earlier run began is ended first.

    An abandoned rotation makes no further key.
    """
    phases = {record.phase for record in records.values()}
    if step in (PREPARE, GO_ASIDE, RENEW) and (state == ABANDONED or BACK in phases):
        return NO_STEP
    if step == RENEW and phases != {ASIDE}:
        return NO_STEP
    if step == DONE and ASIDE in phases:
        return NO_STEP
    return step
