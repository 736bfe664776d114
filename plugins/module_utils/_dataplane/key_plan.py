# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A desired private key file against what is there (semaphore 3.3)."""

from __future__ import annotations

import typing as t

from .._plan.plan import Pending, Plan
from .._values.keys import parse_key
from .._values.refused import ValueRefused, quoted

Data = dict[str, t.Any]
#: Where semaphore-wireguard keeps its keys; an installation of it is adopted in place.
KEY_DIRECTORY = "/var/lib/semaphore-wireguard"

GENERATE, USE, ERROR = "generate", "use", "error"


def key_action(state: str) -> str:
    """What to do with a key file that is ``absent``, a ``key`` or ``unusable``: a file that exists is never written."""
    return {"absent": GENERATE, "key": USE}.get(state, ERROR)


class KeyPlan(Plan):
    """A plan and its work: ``ensure``, ``rotate``, ``remove`` or None. public_key: as it will be."""

    def __init__(self) -> None:
        super().__init__()
        self.work: str | None = None
        self.public_key: str | Pending | None = None


def parse_key_desired(raw: t.Mapping[str, t.Any]) -> Data:
    """``{path, state: present|absent, rotate_from: public key|None}``. Raises ValueRefused."""
    path, state = raw.get("path"), raw.get("state") or "present"
    if not isinstance(path, str) or not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueRefused("bad_key_file", f"{quoted(path)} is not an absolute path of a file")
    if state not in ("present", "absent"):
        raise ValueRefused("bad_state", f"{quoted(state)} is neither present nor absent")
    rotate_from = parse_key(raw["rotate_from"]) if raw.get("rotate_from") else None
    return {"path": path, "state": state, "rotate_from": rotate_from}


def plan_key(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> KeyPlan:
    """desired: of parse_key_desired; actual: ``{"state", "public_key", "mode", "message"}`` of KeyFile.state."""
    plan = KeyPlan()
    path, action = desired["path"], key_action(actual["state"])
    before = {"mode": actual["mode"], "public_key": actual["public_key"]}
    if action == ERROR:
        plan.refuse(path, "bad_private_key", f"{actual['message']}; it is left alone")
    elif desired["state"] == "absent":
        if action != GENERATE:
            plan.delete("key", path, before)
            plan.work = "remove"
    elif action == GENERATE:
        plan.public_key = Pending(f"public key of {path}")
        plan.create("key", path, {"mode": "0600", "public_key": plan.public_key})
        plan.work = "ensure"
    elif desired["rotate_from"] == actual["public_key"]:
        plan.public_key = Pending(f"new public key of {path}")
        plan.update("key", path, before, {"mode": "0600", "public_key": plan.public_key})
        plan.work = "rotate"
    else:
        plan.public_key = actual["public_key"]
        if actual["mode"] == "0600":
            plan.unchanged += 1
        else:
            plan.update("key", path, before, dict(before, mode="0600"))
            plan.work = "ensure"
    return plan
