# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether somebody on this host sends the packets of Services to their endpoints: kube-proxy, or a replacement of it."""

from __future__ import annotations

import os
import typing as t

from ..._values.text import is_digits
from ..netlink.links import link_names
from .processes import stat_fields

#: Programs by the kernel's name of their processes (15 signs); all of them are in the host's network namespace.
_PROGRAMS = {
    "kube-proxy": "kube-proxy",
    "cilium-agent": "Cilium",
    "k3s": "k3s",
    "k3s-server": "k3s",
    "k3s-agent": "k3s",
    "rke2": "rke2",
    "k0s": "k0s",
    "kube-router": "kube-router",
    "antrea-agent": "Antrea",
    "kubelite": "MicroK8s",
    "ovnkube": "OVN-Kubernetes",
    "hyperkube": "hyperkube",
}
#: Devices that some leave behind when they end.
_DEVICES = {
    "kube-ipvs0": "kube-proxy with IPVS",
    "cilium_host": "Cilium",
    "bpfin.cali": "Calico's eBPF",
    "ovn-k8s-mp0": "OVN-Kubernetes",
    "antrea-gw0": "Antrea",
}


def read() -> dict[str, t.Any]:
    """``{running: True|False|None, how: text}``. None: something that may do it is there, and nobody can tell from outside."""
    own = _namespace("self")
    found = []
    for name in sorted(os.listdir("/proc")):
        if is_digits(name):
            fields = stat_fields(int(name))
            if fields is not None and fields[0] in _PROGRAMS and fields[1][0] not in "ZX" and _namespace(name) == own:
                found.append(fields[0])
    if "kube-proxy" in found:
        return {"running": True, "how": "a process kube-proxy runs"}
    if found:
        return {"running": None, "how": f"{_PROGRAMS[found[0]]} runs, which may do it"}
    left = sorted(_DEVICES[name] for name in link_names() & set(_DEVICES))
    if left:
        return {"running": None, "how": f"no process of it is seen, and a device of {left[0]} is there"}
    return {"running": False, "how": "no process kube-proxy runs"}


def _namespace(process: str) -> str | None:
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None
