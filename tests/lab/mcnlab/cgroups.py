# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's cgroup hierarchies (one of version 2, or that one alongside several of version 1), and the lab's groups in them."""

from __future__ import annotations

import contextlib
import pathlib
import time

from .errors import LabError

#: Of version 1.
CONTROLLERS = (
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
)


def unified() -> pathlib.Path:
    """Where the machine mounts its unified cgroup hierarchy (it may sit alongside version 1)."""
    for hierarchy in hierarchies():
        if hierarchy["type"] == "cgroup2":
            return pathlib.Path(hierarchy["folder"])
    raise LabError("this machine mounts no cgroup2; the nodes' systemd needs one")


def hierarchies(mounts: str | None = None) -> list[dict[str, str]]:
    """Every hierarchy that the machine mounts, as ``{folder, type, options}``; the options are those that choose it in another mount.

    Where one is mounted twice, as by a chroot with a /sys of its own, the first counts.
    """
    text = pathlib.Path("/proc/self/mounts").read_text() if mounts is None else mounts
    mounted: dict[str, tuple[str, str]] = {}
    for fields in (line.split() for line in text.splitlines()):
        if fields[2] in ("cgroup", "cgroup2"):
            chosen = [name for name in fields[3].split(",") if name in CONTROLLERS or name.startswith("name=")]
            options = ",".join(chosen) if fields[2] == "cgroup" else ""
            mounted[fields[1]] = (fields[2], options)
    chosen_at: dict[tuple[str, str], str] = {}
    for folder, which in mounted.items():
        chosen_at.setdefault(which, folder)
    rows = [{"folder": folder, "type": which[0], "options": which[1]} for which, folder in chosen_at.items()]
    return sorted(rows, key=lambda row: row["folder"])


def remove(pattern: str) -> None:
    """Remove the groups of a name (a pattern as of files) from every hierarchy."""
    for hierarchy in hierarchies():
        for folder in pathlib.Path(hierarchy["folder"]).glob(pattern):
            remove_folder(folder)


def remove_folder(folder: pathlib.Path) -> None:
    """Remove a cgroup and those below it; the kernel lets go of ended processes a moment later."""
    deadline = time.monotonic() + 5
    while folder.is_dir():
        for child in sorted((p for p in folder.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
            with contextlib.suppress(OSError):
                child.rmdir()
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise LabError(f"cgroup {folder} does not empty") from None
            time.sleep(0.05)
