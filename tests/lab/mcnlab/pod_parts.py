# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real pods need and nobody else: kubelet and kube-scheduler, containerd, runc and CNI plugins of Debian, CoreDNS, images.

Each is an entry of the cache of its own, made on first need. Debian's packages are unpacked there, not installed: no service of theirs
is enabled on the machine, and a machine with a container engine of its own keeps it as it is.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import images, packages, process
from .errors import LabError
from .progress import phase

LAB = pathlib.Path(__file__).resolve().parent.parent
COREDNS = LAB.parent / "coredns"
DEFAULT_CACHE = "/var/cache/multicluster-network"
RUNTIME_PACKAGES = ("containerd", "containernetworking-plugins", "libseccomp2", "runc")
# Folders of packages that no program reads.
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion")


@dataclasses.dataclass(frozen=True)
class PodParts:
    node: pathlib.Path  # folder with kubelet and kube-scheduler
    runtime: (
        pathlib.Path
    )  # folder with `root` (the unpacked containerd, runc, CNI plugins) and images.tar (an OCI layout of every image)
    coredns: str  # the version in it, such as 1.14.7


def ensure() -> PodParts:
    """All of it, from the cache; what is missing is built (progress goes to our standard error)."""
    node = pathlib.Path(_said([str(LAB / "build-kubernetes"), "--node"]))
    coredns = pathlib.Path(_said([str(COREDNS / "build"), "newest"]))
    version = coredns_version((COREDNS / "newest" / "go.mod").read_text())
    cache = pathlib.Path(os.environ.get("MCN_CACHE") or DEFAULT_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    desired = images.table(version)
    target = cache / f"pods-{_key(desired, coredns)}"
    with (cache / ".pods.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.glob("pods.*"):  # of somebody who was killed: we hold the lock
            shutil.rmtree(left)
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix="pods.", dir=cache) as work:
                _make(pathlib.Path(work), desired, coredns)
                (pathlib.Path(work) / "done").rename(target)
    return PodParts(node, target, version)


def coredns_version(module: str) -> str:
    """The release of CoreDNS that a go.mod names."""
    found = re.search(r"github\.com/coredns/coredns v(\d+\.\d+\.\d+)\s", module)
    if not found:
        raise LabError("tests/coredns/newest/go.mod names no release of CoreDNS")
    return found.group(1)


def _key(desired: tuple[images.Image, ...], coredns: pathlib.Path) -> str:
    """Changes with what would be made, so that a cache of another clone's is not taken for our own."""
    text = (
        repr((desired, RUNTIME_PACKAGES, LEFT_OUT, coredns.parent.name)).encode()
        + pathlib.Path(images.__file__).read_bytes()
    )
    return hashlib.sha256(text + pathlib.Path(__file__).read_bytes()).hexdigest()[:12]


def _said(command: list[str]) -> str:
    """The last line that a builder prints; what it prints meanwhile goes to our standard error."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = result.stdout.split()
    if result.returncode or not lines:
        raise LabError(f"{' '.join(command)} failed; see above")
    return lines[-1]


def _make(work: pathlib.Path, desired: tuple[images.Image, ...], coredns: pathlib.Path) -> None:
    """Into ``work``/done: the folder ``root`` and ``images.tar``."""
    done = work / "done"
    done.mkdir()
    done.chmod(0o755)
    with phase("real pods: getting Debian's containerd, runc, CNI plugins, and what images hold"):
        unpack(work, RUNTIME_PACKAGES, done / "root", depends=False)
    layers: dict[tuple[str, ...] | str, bytes] = {}
    with phase(f"real pods: making {len(desired)} images"):
        for image in desired:
            content = image.packages or image.program
            if content not in layers:
                tree = work / f"tree-{len(layers)}"
                if image.program:
                    tree.mkdir()
                    shutil.copyfile(coredns, tree / image.program)
                    (tree / image.program).chmod(0o755)
                else:
                    unpack(work, image.packages, tree)
                furnish(tree)
                layers[content] = images.layer(tree)
        images.write_layout(
            done / "images.tar", [(image, layers[image.packages or image.program]) for image in desired]
        )


def unpack(work: pathlib.Path, names: tuple[str, ...], root: pathlib.Path, depends: bool = True) -> None:
    """Unpack Debian packages, with all they depend on, into a new folder; nothing of the machine's dpkg changes."""
    archives = work / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    work.chmod(0o755)
    nothing = work / "status"
    nothing.write_text("")
    options = ["-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root"]
    if depends:
        # As on a machine that has nothing yet.
        words = [
            *options,
            "-o",
            f"Dir::State::status={nothing}",
            "--download-only",
            "-y",
            "--no-install-recommends",
            "install",
            *names,
        ]
    else:
        words = [*options, "download", *names]
    packages.apt_get(words, folder=archives)
    root.mkdir()
    for archive in sorted(archives.glob("*.deb")):
        process.run(["dpkg-deb", "--extract", archive, root])
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)


def furnish(root: pathlib.Path) -> None:
    """What an image has alongside its packages: accounts, name lookup, folders, and busybox's applets where no other program is."""
    for name in ("etc", "tmp", "root", "proc", "sys", "dev", "run", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    if (root / "bin/nc.openbsd").exists():  # Debian's alternatives would have made it
        (root / "bin/nc").symlink_to("nc.openbsd")
    busybox = root / "bin/busybox"
    if busybox.exists():
        there = {path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).glob("*")}
        for applet in process.run(["chroot", root, "/bin/busybox", "--list"]).stdout.split():
            if applet not in there:
                (root / "bin" / applet).symlink_to("busybox")
