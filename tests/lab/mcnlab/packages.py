# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the distribution's packages that the lab needs, without letting any of their services start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import subprocess
import typing as t

from .errors import LabError
from .progress import phase

LIST = pathlib.Path(__file__).resolve().parent.parent / "packages.txt"
TURN = pathlib.Path("/run/lock/multicluster-network-packages")
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
# Services which a package enables for the next boot of the machine; the lab wants the programs only.
SERVICES = {"etcd-server": "etcd.service", "openssh-server": "ssh.service"}


def desired() -> list[str]:
    lines = (line.strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def missing() -> list[str]:
    result = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", *desired()],
        text=True,
        capture_output=True,
        check=False,
    )
    installed = {line.split()[0] for line in result.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in desired() if name not in installed]


def ensure() -> None:
    """Install what is missing; a machine that has everything costs one dpkg-query."""
    names = missing()
    if not names:
        return
    if os.geteuid() != 0:
        raise LabError(f"packages are missing and we are not root: {' '.join(names)}")
    with phase(f"installing {len(names)} packages: {' '.join(names)}"), _turn(), _no_services():
        if _apt("install", "-y", "--no-install-recommends", *names).returncode:
            _apt("update")
            result = _apt("install", "-y", "--no-install-recommends", *names)
            if result.returncode:
                raise LabError("apt-get install: " + "\n".join(result.stdout.splitlines()[-15:]))
        for package, service in SERVICES.items():
            if package in names:
                subprocess.run(["systemctl", "disable", service], capture_output=True, check=False)


def apt_get(words: list[str], folder: pathlib.Path) -> None:
    """Run apt-get for what installs nothing, in ``folder``; with fresh lists where the machine's do not serve."""
    with _turn():
        if _apt(*words, folder=folder).returncode:
            _apt("update")
            result = _apt(*words, folder=folder)
            if result.returncode:
                raise LabError(f"apt-get {words[-1]}: " + "\n".join(result.stdout.splitlines()[-15:]))


def _apt(*words: str, folder: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=900", "-o", "Acquire::Retries=3", *words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        cwd=folder,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


@contextlib.contextmanager
def _turn() -> t.Iterator[None]:
    """One of us at a time, as tests/run does: two runs that install at once would end each other's ban on services."""
    with TURN.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _no_services() -> t.Iterator[None]:
    """Forbid maintainer scripts to start services while we install (the distribution's own switch for that)."""
    owned = not POLICY.exists()
    if owned:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if owned:
            POLICY.unlink(missing_ok=True)
