# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loopback ports of control planes: each belongs to one lab of this machine, whether its servers listen yet or not.

That a port can be bound is no evidence for a lab which has chosen it and has servers that only start, or are stopped. So every
choice is a file in one folder of the machine: the port's number is its name, the path of the file that records the choice its
content. A claim with its record gone, or names other ports, is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import socket
import typing as t

from .errors import LabError

#: Emptied by a reboot, as the ports are; the records in the labs' folders then claim theirs again.
REGISTRY = pathlib.Path("/run/multicluster-network-lab/ports")
FIRST, LAST = 21001, 31999  # below the range that the kernel hands out by itself


def ensure(names: tuple[str, ...], record: pathlib.Path, registry: pathlib.Path = REGISTRY) -> dict[str, int]:
    """The ports {name: number} in the file ``record``; chosen and written there when it is new or another lab has one of them."""
    with _locked(registry):
        ports = _read(record)
        if set(ports) != set(names) or any(_holder(registry, port) not in (None, record) for port in ports.values()):
            ports = _choose(names, record, registry)
            record.write_text(json.dumps(ports))
        for port in ports.values():
            (registry / str(port)).write_text(f"{record}\n")
        return ports


def release(folder: pathlib.Path, registry: pathlib.Path = REGISTRY) -> None:
    """Forget every claim with a record below ``folder``."""
    with _locked(registry):
        for claim in registry.iterdir():
            if claim.name.isdigit() and folder in pathlib.Path(claim.read_text().strip()).parents:
                claim.unlink()


def _choose(names: tuple[str, ...], record: pathlib.Path, registry: pathlib.Path) -> dict[str, int]:
    ports: dict[str, int] = {}
    candidates = iter(range(FIRST, LAST + 1))
    for name in names:
        for candidate in candidates:
            if _holder(registry, candidate) in (None, record) and _is_free(candidate):
                ports[name] = candidate
                break
        else:
            raise LabError(f"no free port between {FIRST} and {LAST}")
    return ports


def _holder(registry: pathlib.Path, port: int) -> pathlib.Path | None:
    """The record that a port belongs to; None for a claim that nothing backs any more."""
    try:
        record = pathlib.Path((registry / str(port)).read_text().strip())
    except OSError:
        return None
    return record if port in _read(record).values() else None


def _read(record: pathlib.Path) -> dict[str, int]:
    try:
        found = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _locked(registry: pathlib.Path) -> t.Iterator[None]:
    registry.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(registry, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
