# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reaches whom: one echo from every pod to every address of every other pod."""

from __future__ import annotations

import concurrent.futures
import subprocess
import typing as t

from . import namespaces

if t.TYPE_CHECKING:
    from .lab import Lab
    from .topology import Pod


def ping_matrix(lab: Lab, cross_only: bool = False, count: int = 1, wait: float = 1.0) -> list[dict[str, t.Any]]:
    """Ping in parallel; returns dicts ``{source, target, address, cross, ok, error}`` in a stable order."""
    jobs = []
    cluster_of = {node.name: node.cluster for node in lab.topology.nodes}
    for source in lab.topology.pods:
        families = {":" in address for address in source.addresses}
        for target in lab.topology.pods:
            cross = cluster_of[source.node] != cluster_of[target.node]
            if source.name == target.name or (cross_only and not cross):
                continue
            seen = lab.topology.cluster(cluster_of[target.node]).seen if cross else str
            jobs += [
                (source, target, seen(address), cross) for address in target.addresses if (":" in address) in families
            ]

    def probe(job: tuple[Pod, Pod, str, bool]) -> dict[str, t.Any]:
        source, target, address, cross = job
        row = {
            "source": source.name,
            "target": target.name,
            "address": address,
            "cross": cross,
            "ok": False,
            "error": None,
        }
        try:
            result = namespaces.run(
                lab.namespace(source.name),
                ["ping", "-n", "-q", "-c", str(count), "-i", "0.2", "-W", str(wait), address],
                capture_output=True,
                text=True,
                timeout=wait + count + 10,
            )
        except subprocess.TimeoutExpired:
            row["error"] = "ping did not end"
            return row
        row["ok"] = result.returncode == 0
        if not row["ok"]:
            lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
            row["error"] = lines[-1] if lines else f"exit code {result.returncode}"
        return row

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        return list(pool.map(probe, jobs))


def table(rows: list[dict[str, t.Any]]) -> str:
    """The matrix as text: sources down, targets across; ``ok``, ``FAIL`` or both families as ``ok/FAIL``."""
    names = sorted({row["source"] for row in rows} | {row["target"] for row in rows})
    cells: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        cells.setdefault((row["source"], row["target"]), []).append("ok" if row["ok"] else "FAIL")
    width = max((len(name) for name in names), default=0)
    lines = [" " * width + "  " + "  ".join(name.rjust(width) for name in names)]
    for source in names:
        lines.append(
            source.ljust(width)
            + "  "
            + "  ".join("/".join(cells.get((source, target), ["-"])).rjust(width) for target in names)
        )
    return "\n".join(lines)
