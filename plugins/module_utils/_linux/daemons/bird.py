# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BIRD of our own, spoken to through its own socket. The user's BIRD or FRR is never touched. The same names as in frr.py."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import typing as t

from ..._values.refused import ValueRefused
from . import command, frr

CONFIG = frr.RUN + "/bird.conf"
_SOCKET = "bird.ctl"
_SESSION = re.compile(r"^\s+(BGP state|Neighbor address):\s+(\S+)", re.MULTILINE | re.ASCII)
#: The state of the channel of a family, and the families of networks that the other end takes with a next hop of IPv6.
_CHANNEL = re.compile(r"^  Channel ipv([46])\n    State: +(\S+)", re.MULTILINE | re.ASCII)
_PROTOCOL = re.compile(r"^(?=router_\S+ )", re.MULTILINE | re.ASCII)
_EXTENDED = re.compile(r"^ +(?:IPv6|Extended) next ?hop: .*ipv4", re.MULTILINE | re.ASCII | re.IGNORECASE)


def config_file() -> str:
    """What BIRD reads."""
    return CONFIG


def programs() -> tuple[str, str]:
    """Paths of bird and birdc. Raises ValueRefused ``bird_missing``."""
    found = [command.find(name) for name in ("bird", "birdc")]
    if not all(found):
        raise ValueRefused(
            "bird_missing", "bird and birdc were not found; install the package bird2, or set bgp_speaker_daemon: frr"
        )
    return str(found[0]), str(found[1])


def group() -> int:
    """The number of BIRD's group. Raises ValueRefused."""
    try:
        return pwd.getpwnam("bird").pw_gid
    except KeyError:
        raise ValueRefused(
            "bird_missing", "there is no user bird; install the package bird2, or set bgp_speaker_daemon: frr"
        ) from None


def words() -> list[str]:
    """The command of the daemon. It asks routers for what they have kept for it (-R) where graceful restart is on."""
    return [programs()[0], "-f", "-R", "-u", "bird", "-g", "bird", "-c", CONFIG, "-s", os.path.join(frr.RUN, _SOCKET)]


def unit_texts(code: str, unused: bool) -> dict[str, str]:
    """The unit by its name: BIRD, which has BFD itself, with what ``code`` (speaker_agent) writes just before it starts."""
    return {frr.UNIT: frr.unit(code, words(), "bird")}


def check_config(text: str, secrets: t.Iterable[str] = ()) -> None:
    """Raises ValueRefused ``config_refused`` with BIRD's words."""
    with command.candidate(text) as path:
        done = command.run([programs()[0], "-p", "-c", path])
    if done.returncode:
        raise ValueRefused("config_refused", f"BIRD does not take the configuration: {_without(secrets, done)}")


def _without(secrets: t.Iterable[str], done: subprocess.CompletedProcess[str]) -> str:
    said = done.stdout + done.stderr
    for secret in secrets:
        said = said.replace(secret, "<masked>")
    return said.strip()[:500] or "no reason given"


def _birdc(*words: str) -> subprocess.CompletedProcess[str]:
    return command.run([programs()[1], "-s", os.path.join(frr.RUN, _SOCKET), *words])


def tell(lines: t.Sequence[str]) -> None:
    """Commands for the running speaker. Raises ValueRefused ``speaker_failed``."""
    for line in lines:
        done = _birdc(*line.split())
        if done.returncode or ("Reconfigur" if line == "configure" else "restarted") not in done.stdout:
            raise ValueRefused("speaker_failed", f"the speaker refused a change: {_without((), done)}")


def alive() -> bool:
    """Whether the daemon answers."""
    return "BIRD" in _birdc("show", "status").stdout


def sessions() -> dict[str, str]:
    """Router -> the state of its session, in BIRD's words; nothing where the daemon does not answer."""
    found: dict[str, str] = {}
    state = ""
    for key, value in _SESSION.findall(_birdc("show", "protocols", "all").stdout):
        if key == "BGP state":
            state = value
        else:
            found[value] = state
    return found


def carries() -> dict[str, list[int]]:
    """Router -> the families, 4 and 6, of the networks that its session carries, as both ends agreed; nothing of sessions that are not established."""
    found: dict[str, list[int]] = {}
    for part in _PROTOCOL.split(_birdc("show", "protocols", "all").stdout):
        pairs = _SESSION.findall(part)
        address = next((value for key, value in pairs if key == "Neighbor address"), "")
        if not address or ("BGP state", "Established") not in pairs:
            continue
        extended = bool(_EXTENDED.search(part.partition("Neighbor capabilities")[2].partition("Session:")[0]))
        up = {int(version) for version, state in _CHANNEL.findall(part) if state == "UP"}
        found[address] = sorted(up if extended or ":" not in address else up - {4})
    return found


def announces() -> list[str]:
    """The networks that it announces to routers."""
    rows = [line.split()[:1] for line in _birdc("show", "route").stdout.splitlines() if "unreachable" in line]
    return sorted(row[0] for row in rows if "/" in row[0])
