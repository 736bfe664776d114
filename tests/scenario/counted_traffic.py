# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic by sequence_witness.py for as long as a block runs, and what it came to at the receivers."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

WITNESS = pathlib.Path(__file__).with_name("sequence_witness.py")
#: A rate that is not reached is no rate: less than this part of it, and the machine cannot judge.
REACHED = 0.8
#: Bytes that a socket may hold of what its process has not read yet; the kernel's default is a quarter of a second of one device's packets.
ROOM = 8 << 20
_DEFAULT_ROOM = pathlib.Path("/proc/sys/net/core/rmem_default")
#: Where wireguard-go is between processes of the same control group, and the witness.
NICE = -15


@contextlib.contextmanager
def roomy_sockets():
    """Sockets that are opened meanwhile hold ROOM bytes: wireguard-go asks for no more than the default, and the kernel's WireGuard needs none.

    A machine that does not allow it keeps its default; the traffic without a rotation shows whether that is enough.
    """
    before = int(_DEFAULT_ROOM.read_text())
    if before < ROOM:
        with contextlib.suppress(OSError):
            _DEFAULT_ROOM.write_text(str(ROOM))
    try:
        yield
    finally:
        if before < ROOM:
            with contextlib.suppress(OSError):
                _DEFAULT_ROOM.write_text(str(before))


def wireguard_go(words):
    """Whether a command is wireguard-go."""
    return any(b"wireguard-go" in part for part in words)


def processes_alongside(leaders, matches):
    """Process ids in the mount namespaces of some processes. matches: whether the words of a command are meant."""
    spaces = set()
    for leader in leaders:
        with contextlib.suppress(OSError):
            spaces.add(pathlib.Path(f"/proc/{leader}/ns/mnt").readlink())
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                if matches(words) and (entry / "ns" / "mnt").readlink() in spaces:
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def packets_first(processes):
    """wireguard-go runs before other processes meanwhile, as the kernel's WireGuard does. processes: a function that returns their ids."""
    over = threading.Event()

    def work():
        while not over.wait(0.3):
            for pid in processes():
                with contextlib.suppress(OSError):
                    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                        os.setpriority(os.PRIO_PROCESS, int(task.name), NICE)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Counted:
    """What a time of traffic came to, once it is over. ``dead``: members that lost their power, and their pairs are not counted."""

    def __init__(self, rate):
        self.rate, self.dead = rate, set()
        self._result = {"seconds": 0.0, "began": 0.0, "flows": [], "streams": [], "processor": 0.0}

    def close(self, result):
        self._result = result

    def _living(self, kind):
        return [row for row in self._result[kind] if self.dead.isdisjoint((row["from"], row["to"]))]

    @property
    def flows(self):
        """{(from, to): (packets sent, packets lost, numbers of the first lost)} of the pairs that live."""
        return {
            (row["from"], row["to"]): (row["sent"], row["sent"] - row["received"], row["missing"][:3])
            for row in self._living("flows")
        }

    @property
    def began(self):
        """When the first packet was sent, by time.monotonic()."""
        return self._result["began"]

    @property
    def gaps(self):
        """{(from, to): [(begin, end, packets lost)]} in seconds of time.monotonic(), when the first and the last of a row of lost packets were sent."""
        return {
            (row["from"], row["to"]): [(self.began + one, self.began + two, count) for one, two, count in row["gaps"]]
            for row in self._living("flows")
        }

    @property
    def sent(self):
        return sum(row[0] for row in self.flows.values())

    @property
    def lost(self):
        return sum(row[1] for row in self.flows.values())

    @property
    def broken(self):
        """Streams and downloads that ended, stalled or carried other bytes."""
        return [
            "{from} -> {to}, {kind}, after {bytes} bytes: {broken}".format(**row)
            for row in self._living("streams")
            if row["broken"]
        ]

    @property
    def reached(self):
        """Packets a second of the slowest flow that lives."""
        seconds = self._result["seconds"] or 1.0
        return min((row[0] / seconds for row in self.flows.values()), default=0.0)

    @property
    def seconds(self):
        return self._result["seconds"]

    def streams(self, kind):
        return [row for row in self._living("streams") if row["kind"] == kind]

    def nothing_lost(self):
        """Fails where a packet was lost, a stream broke, or the rate was not reached."""
        assert self.lost == 0 and self.broken == [], self
        assert self.flows and all(row["bytes"] for row in self._living("streams")), self
        assert self.reached >= REACHED * self.rate, f"this machine is too busy for {self.rate} packets/s: {self}"

    def __repr__(self):
        lossy = {f"{pair[0]} -> {pair[1]}": row for pair, row in self.flows.items() if row[1]}
        downloads = self.streams("download")
        return (
            f"{self.sent} sent in {self.seconds:.0f} s by {len(self.flows)} flows ({self.reached:.0f}/s the slowest), {self.lost} lost {lossy}; "
            f"{len(self.streams('record'))} streams, {len(downloads)} downloads of {sum(row['bytes'] for row in downloads) >> 10} KiB, "
            f"{len(self.broken)} broken {self.broken[:5]}, longest pause {max((row['pause'] for row in self._living('streams')), default=0.0)} s"
        )


@contextlib.contextmanager
def counted_traffic(folder, members, flows, rate, streams=10, download=100_000):
    """Traffic meanwhile; yields the Counted that has figures when the block has ended.

    members: {name: path of its network namespace, or (path, source address)}; flows: [(from, to, address of to)]; streams of each pair; download: bytes a
    second of each pair's, 0 for none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec, out, started = folder / "spec", folder / "out", folder / "go"
    for path in (out, started, folder / "out.ready"):
        path.unlink(missing_ok=True)
    places = {name: (place, "") if isinstance(place, str) else place for name, place in members.items()}
    rows = {name: {"netns": place, "source": source} for name, (place, source) in places.items()}
    asked = {"members": rows, "flows": flows, "rate": rate, "streams": streams, "download": download}
    spec.write_text(json.dumps(asked))
    counted = Counted(rate)
    with (folder / "errors").open("w+") as errors:
        process = subprocess.Popen(
            ["nice", "-n", str(NICE), "/usr/bin/python3", str(WITNESS), str(spec), str(out)],
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + 120
            while not (folder / "out.ready").exists():
                assert process.poll() is None and time.monotonic() < end, (folder / "errors").read_text()
                time.sleep(0.05)
            started.touch()
            time.sleep(1)
            yield counted
        finally:
            time.sleep(1)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=120)
    assert out.exists(), (folder / "errors").read_text()
    counted.close(json.loads(out.read_text()))
