# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A keepalived of our own, with its own file, unit and folder. The user's keepalived is never touched.

It runs its VRRP part alone. A changed file is read again while it runs (SIGHUP), and groups that stay keep their addresses meanwhile.
"""

from __future__ import annotations

import shutil

from ..._values.refused import ValueRefused
from . import command

UNIT = "multicluster-layer2.service"
FOLDER = "/etc/multicluster-network/layer2"
CONFIG = FOLDER + "/keepalived.conf"
RUN = "/run/multicluster-layer2"
#: A file for each group: 0 where this node can deliver what the group has.
TRACK = RUN + "/groups"
#: What keepalived has read: the digest of its file.
LOADED = RUN + "/loaded"
_UNIT_TEXT = """\
[Unit]
Description=Layer 2 speaker of multicluster.network
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStartPre=/usr/bin/python3 {code} start
ExecStart={program}
ExecReload=/bin/kill -HUP $MAINPID
ExecStopPost=/usr/bin/python3 {code} clean
Restart=always
RestartSec=0.2
KillMode=mixed
TimeoutStopSec=10

[Install]
WantedBy=multi-user.target
"""


def program() -> str:
    """Raises ValueRefused ``keepalived_missing``."""
    found = command.find("keepalived")
    if not found:
        raise ValueRefused("keepalived_missing", "keepalived was not found; install the package keepalived")
    return found


def words() -> list[str]:
    """The command of the daemon."""
    return [
        program(),
        "--dont-fork",
        "--vrrp",
        "--use-file=" + CONFIG,
        f"--pid={RUN}/keepalived.pid",
        f"--vrrp_pid={RUN}/vrrp.pid",
    ]


def unit_text(code: str) -> str:
    """The daemon between what ``code`` (layer2_agent) does just before it starts and once it has ended, however that came."""
    return _UNIT_TEXT.format(code=code, program=" ".join(words()))


def check_config(text: str) -> None:
    """Raises ValueRefused ``config_refused`` with keepalived's words."""
    with command.candidate(text) as path:
        done = command.run([program(), "--config-test", "--use-file=" + path])
    if done.returncode:
        said = (done.stdout + done.stderr).replace(path, "line").strip()
        raise ValueRefused(
            "config_refused", f"keepalived does not take the configuration: {said[:500] or 'no reason given'}"
        )


def active(unit: str = UNIT) -> bool:
    """Whether systemd has it running."""
    return command.systemctl("is-active", "--quiet", unit)


def forget_everything() -> None:
    """Numbers of processes and the groups' files."""
    shutil.rmtree(RUN, ignore_errors=True)
