# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process is which: its number and when it began name it for ever."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import threading
import typing as t

_PROC = "/proc"


def stat_fields(pid: int) -> tuple[str, list[str]] | None:
    """(name, fields of /proc/PID/stat from the state on); None for a process that is no more."""
    try:
        with open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as source:
            head, _bracket, tail = source.read().rpartition(")")
    except OSError:
        return None
    return head.partition("(")[2], tail.split()


def birth(pid: int) -> str:
    """When a process began, in the kernel's ticks; "" when it is no more or only waits to be forgotten."""
    found = stat_fields(pid)
    return "" if found is None or found[1][0] in "ZX" else found[1][19]


def lives(pid: t.Any, born: t.Any) -> bool:
    """Whether that very process still runs. Takes what a file has of it, whatever that is."""
    return isinstance(pid, int) and pid > 0 and isinstance(born, str) and bool(born) and birth(pid) == born


def identity() -> str:
    """This process among all of all machines: the host, the boot and the namespace that its number is of, number and start time."""
    return f"{socket.gethostname()[:100]} {_numbered_by()} {os.getpid()} {birth(os.getpid())}"


def has_ended(shown: str) -> bool:
    """Whether what ``identity`` once said is of a process of this very machine and namespace that is no more. Takes any text."""
    words = shown.split(" ")
    number = len(words) == 4 and re.match(r"[0-9]{1,9}\Z", words[2])
    return bool(number) and words[1] == _numbered_by() != "?" and not lives(int(words[2]), words[3])


def _numbered_by() -> str:
    try:
        with open(_PROC + "/sys/kernel/random/boot_id", encoding="ascii") as source:
            boot = source.read().strip()
        return f"{boot}/{os.stat(_PROC + '/self/ns/pid').st_ino}"
    except OSError:
        return "?"


def outlive(pid: int, born: str, stop: threading.Event, pause: float = 0.25) -> None:
    """Return, with ``stop`` set, when the process has ended or somebody else set ``stop``."""
    handle = open_process(pid)
    try:
        # the handle first: it refers to what lives now, and its number cannot come to another one unseen
        if lives(pid, born):
            if handle is None:
                while lives(pid, born) and not stop.wait(pause):
                    continue
            else:
                waiting = select.poll()
                waiting.register(handle, select.POLLIN)
                while not stop.is_set() and not waiting.poll(pause * 1000):
                    continue
    finally:
        if handle is not None:
            os.close(handle)
        stop.set()


def end(pid: int, born: str) -> bool:
    """SIGKILL for that very process and never for a later one of its number. True when it was sent."""
    if not isinstance(pid, int) or pid < 2 or pid == os.getpid():
        return False
    handle = open_process(pid)
    try:
        if not lives(pid, born):
            return False
        if handle is not None and hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def open_process(pid: int) -> int | None:
    """A handle of a process; None where the kernel (before 5.3) or Python has none, or there is no such process."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return t.cast(int, opener(pid))
    except (OSError, OverflowError):
        return None


def command(pid: int) -> str:
    """The first words of a process, for people; "" when it is no more. Arguments may hold secrets, so no more than two."""
    try:
        with open(f"{_PROC}/{pid}/cmdline", "rb") as source:
            words = source.read(4096).split(b"\0")
    except OSError:
        return ""
    return " ".join(os.path.basename(part.decode("utf-8", "replace")) for part in words[:2] if part)[:80]


def descends(pid: t.Any, ancestor: int) -> bool:
    """Whether a living process was started by another, itself or through others."""
    for _generation in range(64):
        if not isinstance(pid, int) or pid <= 1:
            return False
        if pid == ancestor:
            return True
        found = stat_fields(pid)
        pid = int(found[1][1]) if found is not None else None
    return False
