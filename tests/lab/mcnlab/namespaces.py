# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named network namespaces and batches of ip commands inside them."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import typing as t

from . import process

FOLDER = pathlib.Path("/run/netns")


def path(name: str) -> pathlib.Path:
    return FOLDER / name


def exists(name: str) -> bool:
    """A namespace exists if its file is a mount, not the bare file that a half-done deletion leaves."""
    try:
        return pathlib.Path(path(name)).stat().st_dev != FOLDER.stat().st_dev
    except OSError:
        return False


def named(prefix: str) -> list[str]:
    return sorted(entry.name for entry in FOLDER.glob(prefix + "*")) if FOLDER.is_dir() else []


def create(name: str) -> None:
    if not exists(name):
        if path(name).exists():
            path(name).unlink()
        process.run(["ip", "netns", "add", name])
        process.run(["ip", "-n", name, "link", "set", "lo", "up"])


def delete(name: str) -> None:
    """End whatever still runs inside and delete the namespace; a missing one is fine."""
    if exists(name):
        pids = process.run(["ip", "netns", "pids", name], check=False).stdout.split()
        process.end([int(pid) for pid in pids], patience=0)
        process.run(["ip", "netns", "delete", name])
    elif path(name).exists():
        path(name).unlink()


def batch(name: str, commands: list[str], force: bool = False) -> str:
    """Run ip commands (without the leading ``ip``) in one process; ``force`` goes on after a failure and ignores it."""
    if not commands:
        return ""
    words = ["ip", "-n", name, *(["-force"] if force else []), "-batch", "-"]
    return process.run(words, check=not force, input="\n".join(commands) + "\n").stdout


def hardware(seed: str) -> str:
    """A hardware address that stays the same over reboots, as a machine's does: neighbours keep their entries."""
    digest = hashlib.sha256(seed.encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def links(name: str) -> set[str]:
    """The names of the links inside a namespace."""
    output = process.run(["ip", "-n", name, "-o", "link", "show"]).stdout
    return {line.split(": ")[1].split("@")[0] for line in output.splitlines()}


def sysctl(name: str, settings: dict[str, int]) -> None:
    """Write settings below /proc/sys/net inside a namespace."""
    script = "".join(f"echo {value} > /proc/sys/net/{key}\n" for key, value in settings.items())
    process.run(["nsenter", f"--net={path(name)}", "/bin/sh", "-e"], input=script)


def run(name: str, command: t.Sequence[str | pathlib.Path], **options: t.Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["nsenter", f"--net={path(name)}", *command], check=False, **options)


def load(name: str, tables: str) -> None:
    """Load nft tables inside a namespace; a failure becomes a LabError."""
    process.run(["nsenter", f"--net={path(name)}", "nft", "-f", "-"], input=tables)
