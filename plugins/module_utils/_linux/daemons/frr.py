# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bgpd of our own: checked before it is started, spoken to through its own socket. The user's FRR is never touched.

It neither listens nor knows the node's zebra: it opens sessions to routers, announces, and puts no route into the kernel.

BFD is bfdd's work, which learns of interfaces by a zebra, and a second zebra would take routes of the first for its own leftovers. So this one lives in
a user namespace of its own: it reads what the kernel has, as every user may, and the kernel refuses whatever it would change.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
import typing as t

from ..._values.refused import ValueRefused
from ..._values.text import mapping
from . import command

UNIT = "multicluster-bgp.service"
#: What runs alongside it where a router is to be watched by BFD.
ZEBRA_UNIT, BFD_UNIT = "multicluster-bgp-zebra.service", "multicluster-bgp-bfd.service"
RUN = "/run/multicluster-bgp"
#: What runs: written by whatever configured the daemon.
CONFIG = RUN + "/bgpd.conf"
_SUMMARY = "show bgp summary json"
_UNICAST, _BOTH_WAYS = ("ipv4Unicast", "ipv6Unicast"), {"advertisedAndReceived": True}


def config_file() -> str:
    """What bgpd reads."""
    return CONFIG


def programs() -> tuple[str, str]:
    """Paths of bgpd and vtysh. Raises ValueRefused ``frr_missing``."""
    found = [command.find(name) for name in ("bgpd", "vtysh")]
    if not all(found):
        raise ValueRefused("frr_missing", "bgpd and vtysh were not found; install the package frr")
    return str(found[0]), str(found[1])


def group() -> int:
    """The number of FRR's group, so that its daemon can read the file that others must not. Raises ValueRefused."""
    try:
        return pwd.getpwnam("frr").pw_gid
    except KeyError:
        raise ValueRefused("frr_missing", "there is no user frr; install the package frr") from None


def words(bfd: bool = False) -> list[str]:
    """The command of the daemon."""
    zebra = ["--socket", _socket()] if bfd else ["--no_zebra"]
    return [
        programs()[0],
        *zebra,
        "--no_kernel",
        "--bgp_port",
        "0",
        "--vty_port",
        "0",
        "--config_file",
        CONFIG,
        "--vty_socket",
        RUN,
        "--pid_file",
        RUN + "/bgpd.pid",
    ]


def zebra_words() -> list[str]:
    """Of the zebra that changes nothing. In the profile ``datacenter`` a router may lie behind the default route; it never looks for leftovers."""
    return [
        command.absolute("zebra"),
        "--profile",
        "datacenter",
        "--graceful_restart",
        "2000000000",
        "--retain",
        "--user",
        "frr",
        "--group",
        "frr",
        *_companion("zebra"),
    ]


def bfdd_words() -> list[str]:
    """The command line of the BFD daemon."""
    return [command.absolute("bfdd"), "--bfdctl", RUN + "/bfdd.sock", *_companion("bfdd")]


def _companion(name: str) -> list[str]:
    return [
        "--socket",
        _socket(),
        "--vty_port",
        "0",
        "--vty_socket",
        RUN,
        "--config_file",
        "/dev/null",
        "--pid_file",
        f"{RUN}/{name}.pid",
    ]


def _socket() -> str:
    return RUN + "/zserv.api"


def unit_texts(code: str, bfd: bool) -> dict[str, str]:
    """The units by name, in the order in which they start: bgpd with what ``code`` (speaker_agent) writes just before it starts."""
    found = {}
    if bfd:
        found[ZEBRA_UNIT] = _companion_unit(
            "Interfaces for BFD",
            "User=frr\nGroup=frr\nPrivateUsers=yes\nAmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN\n",
            zebra_words(),
        )
        found[BFD_UNIT] = _companion_unit("BFD", f"ExecStartPre={_WAIT.format(_socket())}\n", bfdd_words())
    wait = f"ExecStartPre={_WAIT.format(_socket())}\n" if bfd else ""
    text = unit(code, words(bfd), "frr").replace("ExecStart=", wait + "ExecStart=", 1)
    found[UNIT] = (
        text.replace("Wants=network-online.target", f"Wants=network-online.target {ZEBRA_UNIT} {BFD_UNIT}")
        if bfd
        else text
    )
    return found


#: A daemon that does not find zebra looks again much later.
_WAIT = "/bin/sh -c 'for turn in $$(seq 100); do [ -S {0} ] && exit 0; sleep 0.1; done'"


def _companion_unit(what: str, more: str, words: t.Sequence[str]) -> str:
    return (
        "[Unit]\nDescription={0} of the BGP speaker of multicluster.network\n\n"
        "[Service]\nExecStartPre=+{1} -d -o frr -g frr -m 0750 {2}\n{3}ExecStart={4}\nRestart=always\nRestartSec=1\n"
    ).format(what, command.absolute("install"), RUN, more, " ".join(words))


def unit(code: str, words: t.Sequence[str], user: str) -> str:
    """The unit of a daemon that starts as root and goes on as ``user``."""
    return (
        "[Unit]\nDescription=BGP speaker of multicluster.network\nAfter=network-online.target\nWants=network-online.target\n\n"
        "[Service]\nExecStartPre={0} -d -o {4} -g {4} -m 0750 {1}\nExecStartPre=/usr/bin/python3 {3} start\nExecStart={2}\n"
        "Restart=on-failure\nRestartSec=2\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    ).format(command.absolute("install"), RUN, " ".join(words), code, user)


def forget_everything() -> None:
    """Sockets, numbers of processes and the configuration."""
    shutil.rmtree(RUN, ignore_errors=True)


def alive() -> bool:
    """Whether the daemon answers."""
    return ask(_SUMMARY) is not None


def check_config(text: str, secrets: t.Iterable[str] = ()) -> None:
    """Raises ValueRefused ``config_refused`` with FRR's words: vtysh knows the grammar, bgpd what the lines mean."""
    with command.candidate(text) as path:
        for place, mode in ((path, 0o640), (os.path.dirname(path), 0o750)):
            # bgpd reads it as its own user, and takes an unreadable file for an empty one
            os.chown(place, -1, group())
            os.chmod(place, mode)
        said = _checked(path)
    if said is not None:
        for secret in secrets:
            said = said.replace(secret, "<masked>")
        raise ValueRefused(
            "config_refused", f"FRR does not take the configuration: {said.strip()[:500] or 'no reason given'}"
        )


def _checked(path: str) -> str | None:
    """FRR's errors about a file, None when it has none."""
    bgpd, vtysh = programs()
    done = command.run([vtysh, "--dryrun", "--inputfile", path])
    if done.returncode == 0:
        done = command.run([bgpd, "--dryrun", "--config_file", path])
        # it reports that a line failed, and ends with success
        if (
            done.returncode == 0
            and "%" not in done.stdout + done.stderr
            and "Config Failed" not in done.stdout + done.stderr
        ):
            return None
    return done.stdout + done.stderr


def tell(lines: t.Sequence[str]) -> None:
    """Lines for the running speaker, by a file, since passwords are no arguments. Raises ValueRefused ``speaker_failed``."""
    unused, vtysh = programs()
    handle, path = tempfile.mkstemp(prefix=".change-", dir=RUN)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write("\n".join(lines) + "\n")
        done = command.run([vtysh, "--vty_socket", RUN, "--inputfile", path])
    finally:
        os.unlink(path)
    said = done.stdout + done.stderr
    if done.returncode or "%" in said or "failed" in said:
        raise ValueRefused("speaker_failed", f"the speaker refused a change: {said.strip()[:500] or 'no reason given'}")


def ask(question: str) -> t.Any:
    """The JSON that a command of the running speaker gives; None when it does not run or returns nothing."""
    unused, vtysh = programs()
    done = command.run([vtysh, "--vty_socket", RUN, "-c", question])
    try:
        return json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        return None


def sessions() -> dict[str, str]:
    """Router -> the state of its session, in FRR's words; nothing where the daemon does not answer."""
    found: dict[str, str] = {}
    for part in mapping(ask(_SUMMARY)).values():
        for address, row in mapping(part, "peers").items():
            found[str(address)] = str(row.get("state")) if isinstance(row, dict) else ""
    return found


def carries() -> dict[str, list[int]]:
    """Router -> the families, 4 and 6, of the networks that its session carries, as both ends agreed; nothing of sessions that are not established."""
    found: dict[str, list[int]] = {}
    for address, row in mapping(ask("show bgp neighbors json")).items():
        if mapping(row).get("bgpState") != "Established":
            continue
        said = mapping(row, "neighborCapabilities")
        families = mapping(said, "multiprotocolExtensions")
        agreed = {int(name[3]) for name, how in families.items() if name in _UNICAST and how == _BOTH_WAYS}
        if ":" in str(address) and said.get("extendedNexthop") not in ("advertisedAndReceived",):
            agreed.discard(4)  # the router takes no IPv4 network that has an IPv6 next hop
        found[str(address)] = sorted(agreed)
    return found


def announces() -> list[str]:
    """The networks that it announces to routers."""
    found: list[str] = []
    for family in ("ipv4", "ipv6"):
        found += sorted((ask(f"show bgp {family} unicast json") or {}).get("routes") or ())
    return found
