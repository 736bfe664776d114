# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium's agent, which puts its eBPF programs on the devices of nodes and pods: it does not run here, for the reason in the output."""

from __future__ import annotations

import gzip
import os
import pathlib

from conftest import not_run

#: What Cilium's documents require of a kernel for its default settings (system requirements): of its configuration, and of its file systems.
OPTIONS = ("BPF", "BPF_SYSCALL", "BPF_JIT", "NET_CLS_ACT", "NET_CLS_BPF", "NET_SCH_INGRESS", "CGROUP_BPF", "VXLAN")
FILE_SYSTEMS = ("bpf", "cgroup2")
PROGRAMS = ("cilium-agent", "cilium-cni")


def lacks():
    """What the agent needs and this kernel does not have; empty where it has all, or does not show its configuration."""
    shown = {line.split()[-1] for line in pathlib.Path("/proc/filesystems").read_text(encoding="utf-8").splitlines()}
    found = [f"the file system {name}" for name in FILE_SYSTEMS if name not in shown]
    config = pathlib.Path("/proc/config.gz")
    if config.exists():
        lines = set(gzip.decompress(config.read_bytes()).decode().splitlines())
        found += [f"CONFIG_{name}" for name in OPTIONS if not lines & {f"CONFIG_{name}=y", f"CONFIG_{name}=m"}]
    return found


def test_pods_of_an_agent():
    """Not written for an agent that is there: no such program was built when these tests were made, so nothing of it could be tried."""
    absent = [name for name in PROGRAMS if not (pathlib.Path(os.environ["CNI"]) / name).exists()]
    kernel = lacks()
    reasons = [f"{', '.join(absent)} not in CNI"] if absent else ["its installation is not in tests/cni/installs.py"]
    reasons.append(f"this kernel lacks {', '.join(kernel)}" if kernel else "this kernel has what it needs")
    not_run("cilium-agent", __name__, "; ".join(reasons))
