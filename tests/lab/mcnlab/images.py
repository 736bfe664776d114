# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of real pods, made on this machine under the names that manifests use: an OCI layout in one tar, which containerd imports.

Nothing is pulled. A manifest with an image of a present tag is never asked for elsewhere, so what we make replaces the
image of that name: the same programs, by Debian instead of by whoever publishes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pathlib
import tarfile
import typing as t

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Not the static one, which may not look up names: the C library loads code for that at run time. And busybox's own wget ends by a
# segmentation fault when it is given a time limit, which is how probes ask.
SHELL = ("busybox", "wget")
# busybox's shell runs some of its applets (ip) even where another program of that name is there: with tools, the shell is dash.
TOOLS = (
    "bind9-dnsutils",
    "busybox",
    "curl",
    "dash",
    "iproute2",
    "iputils-ping",
    "ncat",
    "netcat-openbsd",
    "socat",
    "wget",
)
# All that a pod of the role node_access needs, and wireguard-go where the kernel has no WireGuard.
NODE_POD = ("busybox", "nftables", "python3", "wireguard-go")
# A sandbox's first process ends when it is asked to and takes in the orphans of pods that share their process ids.
PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")


@dataclasses.dataclass(frozen=True)
class Image:
    """One image: ``packages`` of Debian with what they depend on, or ``program``, one program of our own as ``/NAME``."""

    names: tuple[str, ...]  # as manifests write them, each with a tag
    holds: str
    packages: tuple[str, ...] = ()
    program: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ("/bin/sh",)


PAUSE_NAME = "registry.k8s.io/pause:3.10.1"
NODE_POD_NAMES = ("example.com/node-pod:1", "example.com/node-pod:2")
COREDNS_NAME = "registry.k8s.io/coredns/coredns:v{version}"


def table(coredns: str) -> tuple[Image, ...]:
    """Every image that real pods can use, with the version of the CoreDNS that was built."""
    return (
        Image((PAUSE_NAME,), "the sandbox of every pod", ("busybox-static",), entrypoint=PAUSE, command=()),
        Image(
            ("busybox:1.35", "busybox:1.36"),
            "busybox 1.35 with all its applets: sh, httpd, nslookup, ...; wget is GNU's",
            SHELL,
        ),
        Image(
            ("alpine/socat:1.7.4.4",),
            "socat 1.7.4.4 as its entry point, busybox's applets",
            ("busybox", "socat"),
            entrypoint=("socat",),
            command=(),
        ),
        Image(
            ("nicolaka/netshoot:v0.15",),
            "nslookup, dig, curl, wget, ncat, nc (OpenBSD's), ip, ping, socat, busybox's applets",
            TOOLS,
        ),
        Image(
            NODE_POD_NAMES,
            "Python 3, nft, wireguard-go, busybox's applets: for the pods of the role node_access",
            NODE_POD,
        ),
        Image(
            (COREDNS_NAME.format(version=coredns),),
            "CoreDNS, built of its Go module",
            program="coredns",
            entrypoint=("/coredns",),
            command=(),
        ),
    )


def reference(name: str) -> str:
    """A name of a manifest in the long form by which containerd keeps it: registry, folder, tag."""
    head, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ("." in head or ":" in head or head == "localhost"):
        name = f"docker.io/{head}/{rest}"
    return name if ":" in name.rpartition("/")[2] else name + ":latest"


def layer(folder: pathlib.Path) -> bytes:
    """A file tree as an image's layer: the same bytes for the same content, whoever owned it and whenever it was made."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(str(path), arcname=str(path.relative_to(folder)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = "root"
            if entry.isreg():
                with path.open("rb") as stream:
                    archive.addfile(entry, stream)
            else:
                archive.addfile(entry)
    return text.getvalue()


def configuration(image: Image, diff_id: str) -> dict[str, t.Any]:
    """An image's configuration as the OCI image specification has it."""
    run: dict[str, t.Any] = {"Env": [f"PATH={PATH}"], "WorkingDir": "/"}
    if image.entrypoint:
        run["Entrypoint"] = list(image.entrypoint)
    if image.command:
        run["Cmd"] = list(image.command)
    return {"architecture": "amd64", "os": "linux", "config": run, "rootfs": {"type": "layers", "diff_ids": [diff_id]}}


def write_layout(file: pathlib.Path, images: list[tuple[Image, bytes]]) -> None:
    """Write an OCI layout of ``[(Image, layer)]`` as a tar; images with the same layer share it."""
    blobs: dict[str, bytes] = {}
    manifests = []

    def blob(content: bytes, kind: str) -> dict[str, t.Any]:
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest, "size": len(content)}

    for image, content in images:
        body = blob(content, "layer.v1.tar")
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(_json(configuration(image, body["digest"])), "config.v1+json"),
            "layers": [body],
        }
        described = blob(_json(manifest), "manifest.v1+json")
        for name in image.names:
            annotations = {
                "io.containerd.image.name": reference(name),
                "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            }
            manifests.append({**described, "annotations": annotations})
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(
            {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
        ),
        **{"blobs/" + digest.replace(":", "/"): content for digest, content in blobs.items()},
    }
    with tarfile.open(file, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
