# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic between all pods of different clusters while keys change, counted where it arrives."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

WITNESS = pathlib.Path(__file__).with_name("sequence_witness.py")
#: Packets a second and direction of each pair, and TCP streams of each pair and direction.
RATE = int(os.environ.get("MCN_ROTATION_RATE", "1000"))
LEAST = 60
STREAMS = int(os.environ.get("MCN_ROTATION_STREAMS", "10"))


class Counted:
    """What a time of traffic came to, once it is over."""

    sent = lost = records = 0

    def __init__(self):
        self.rows, self.broken = {}, []

    def __repr__(self):
        return f"{self.sent} sent, {self.lost} lost {self.rows}, {len(self.broken)} streams broken {self.broken[:5]}, {self.records} records"


def pods_of(fabric):
    """{pod: (its cluster's name, address)}, from the matrix of the lab."""
    found = {}
    for row in fabric.reaches():
        if ":" not in row["address"]:
            found[row["target"]] = row["address"]
    return {pod: (pod.partition("-")[0], address) for pod, address in found.items()}


@contextlib.contextmanager
def traffic(fabric, rate=RATE, streams=STREAMS, without=()):
    """Packets from each pod to each pod of other clusters meanwhile. ``without``: pods that do not take part."""
    counted = Counted()
    pods = {pod: row for pod, row in pods_of(fabric).items() if pod not in without}
    running = {}
    folder = fabric.state / "traffic"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for pod, (cluster, _address) in pods.items():
        out = folder / f"{pod}.json"
        targets = [address for other, address in pods.values() if other != cluster]
        command = ["/usr/bin/python3", str(WITNESS), str(out), pod, str(rate), str(streams), *targets]
        running[pod] = subprocess.Popen(
            ["/usr/bin/python3", str(fabric.lab_program), "pod-exec", "--name", fabric.name, pod, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    end = time.monotonic() + 60
    while not all((folder / f"{pod}.json.ready").exists() for pod in pods):
        assert time.monotonic() < end, "a witness did not start"
        time.sleep(0.1)
    (folder / "go").touch()
    time.sleep(2)
    try:
        yield counted
    finally:
        time.sleep(1)
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        said = {pod: process.communicate(timeout=60)[0] for pod, process in running.items()}
    results = {}
    for pod in pods:
        out = folder / f"{pod}.json"
        assert out.exists(), f"{pod}: {said[pod]}"
        results[pod] = json.loads(out.read_text())
    for pod, (cluster, _address) in pods.items():
        for other, (place, address) in pods.items():
            if place == cluster:
                continue
            sent, received = results[pod]["sent"][address], results[other]["received"].get(pod, 0)
            counted.sent += sent
            counted.lost += sent - received
            if sent != received:
                counted.rows[f"{pod} -> {other}"] = (sent - received, sent, results[other]["missing"].get(pod, [])[:3])
        counted.broken += [f"{pod}: {text}" for text in results[pod]["streams"]["broken"]]
        counted.records += results[pod]["streams"]["records"]


def steady_rate(fabric, seconds=6):
    """The rate at which this machine loses nothing while no key changes: RATE, or what is left of it where the machine is busy with other work."""
    rate = RATE
    while rate >= LEAST:
        with traffic(fabric, rate=rate) as counted:
            time.sleep(seconds)
        fabric.ran(f"without a rotation, {rate} packets/s: {counted}")
        if not counted.lost:
            return rate
        rate //= 2
    raise AssertionError(f"without a rotation packets are lost at {LEAST} packets/s, too")
