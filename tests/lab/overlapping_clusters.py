#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make demo MODE=overlap` shows: two clusters with the same pod and Service ranges, and a pod that asks a mirrored Service of the other by name.

Usage: overlapping_clusters.py FOLDER-OF-THE-LAB deploy|ask
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

from multicluster_services import CLUSTERS, NAME, PATIENCE, SPACE, TIMES, deploy, kubectl

MIRRORED = {"mirror.semaphore.uw.io/mirror-service": "true"}


def share(folder):
    """The pods of the other demo, and the label by which their Service is mirrored."""
    deploy(folder)
    for cluster in CLUSTERS:
        kubectl(
            folder,
            cluster,
            "-n",
            SPACE,
            "label",
            "--overwrite",
            "service/" + NAME,
            *("=".join(item) for item in MIRRORED.items()),
        )


def address(folder, cluster):
    """The address of the pod that asks, as its own cluster has it."""
    return json.loads(kubectl(folder, cluster, "-n", SPACE, "get", "pod", "client", "-o", "json"))["status"]["podIP"]


def ends(folder, cluster, other):
    """The addresses behind the mirror of the other cluster's Service."""
    rows = json.loads(kubectl(folder, cluster, "-n", "sys-semaphore", "get", "endpointslices", "-o", "json"))["items"]
    return sorted(
        address
        for row in rows
        if row["metadata"]["name"].startswith(other + "-")
        for end in row.get("endpoints") or ()
        for address in end["addresses"]
    )


def ask(folder):
    """From each cluster, until every question is answered by pods of the other; what was not answered before is counted and shown."""
    for cluster, other in zip(CLUSTERS, reversed(CLUSTERS)):
        host = f"{NAME}.{SPACE}.svc.cluster.{other}"
        script = f"for i in $(seq {TIMES}); do curl -s -S -m 5 http://{host}/ 2>&1 || true; done"
        begun, lost = time.monotonic(), 0
        while True:
            shown = kubectl(folder, cluster, "-n", SPACE, "exec", "client", "--", "sh", "-c", script, check=False)
            good = [line for line in shown.splitlines() if line.endswith(" of cluster " + other)]
            if len(good) == TIMES:
                break
            lost += TIMES - len(good)
            if time.monotonic() - begun > PATIENCE:
                raise SystemExit(f"{host} was not answered by pods of {other}: {shown}")
        if lost:
            print(f"   a pod of {cluster} had no answer {lost} times until CoreDNS knew the name")
        print(f"   {address(folder, cluster)}, a pod of {cluster}, asks {host} {TIMES} times; answered by")
        for line in sorted(set(good)):
            print(f"   {good.count(line):>6} x {line}")
        print(f"   which {cluster} sees at {', '.join(ends(folder, cluster, other))}")


if __name__ == "__main__":
    {"deploy": share, "ask": ask}[sys.argv[2]](pathlib.Path(sys.argv[1]))
