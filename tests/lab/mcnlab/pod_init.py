# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn ourselves into the first process of a node's container runtime: namespaces, private mounts, then containerd and kubelet.

They run in the node's network namespace and see the machine's files, its cgroup hierarchies above all, which a node's own root does not
show. Of the node's own files they have /var/lib and /etc, so that a pod with a folder of its node sees what the node has there.
Their processes and their mounts live in namespaces of their own, so all of it ends with this process: containers, shims, mounts of
volumes and snapshots, network namespaces of pods. Their namespace of processes is inside the node's, so that the node sees pods as a real one
does. Run as a program with the path of a settings file; returns once the first process exists, with its id in ``init.pid`` in the folder
of the settings. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from mcnlab.node_init import (  # run as a program, so found by its path
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    libc_call,
    mount,
)

MS_SHARED = 1 << 20
#: What they share with the node itself.
SHARED = ("/var/lib", "/etc")
_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same numbers on all architectures
_CLONE_TREE, _RECURSIVE, _EMPTY_PATH, _CURRENT = 1 | os.O_CLOEXEC, 0x8000, 4, -100
#: Where programs look for things by fixed paths, each onto a folder of the node's own, since an overlay of containerd's cannot be on the node's.
KEPT = {
    "var/lib/kubelet": "kubelet",
    "var/lib/containerd": "containerd",
    "var/lib/cni": "cni",
    "var/log/pods": "log/pods",
    "var/log/containers": "log/containers",
}


def main(settings_file: str) -> None:
    settings = json.loads(pathlib.Path(settings_file).read_text())
    folder = pathlib.Path(settings["folder"])
    log = os.open(folder / "init.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    join_cgroups(settings)
    with pathlib.Path(settings["netns"]).open("rb") as namespace:
        libc_call("setns", namespace.fileno(), CLONE_NEWNET)
    shared = trees_of(settings["leader"])
    libc_call("unshare", CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)
    mount("none", pathlib.Path("/"), flags=MS_REC | MS_PRIVATE)
    socket.sethostname(settings["name"])
    enter_processes(settings["leader"], folder / "init.pid")
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        private_mounts(folder, settings, shared)
        os.closerange(3, 256)
        supervise(settings, folder)
    except Exception as error:
        print(f"init: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def trees_of(leader: int) -> dict[str, int]:
    """Path -> open mount of what the node has there, which no namespace shows yet."""
    with (
        pathlib.Path("/proc/self/ns/mnt").open("rb") as own,
        pathlib.Path(f"/proc/{leader}/ns/mnt").open("rb") as other,
    ):
        libc_call("setns", other.fileno(), CLONE_NEWNS)
        found = {path: kernel_call(_OPEN_TREE, _CURRENT, path.encode(), _CLONE_TREE | _RECURSIVE) for path in SHARED}
        libc_call("setns", own.fileno(), CLONE_NEWNS)
    return found


def kernel_call(number: int, *arguments: int | bytes) -> int:
    """A system call that the C library may not have."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def enter_processes(leader: int, pid_file: pathlib.Path) -> None:
    """Go on as the first process of a namespace inside the leader's; who called ends once the file has our process id as the machine has it."""
    reader, writer = os.pipe()
    with pathlib.Path(f"/proc/{leader}/ns/pid").open("rb") as namespace:
        libc_call("setns", namespace.fileno(), CLONE_NEWPID)
    # Opened before: the first process shares our mounts, and may have covered the folder by the time that its id is known.
    with pathlib.Path(pid_file).open("w", encoding="ascii") as known:
        if os.fork():
            os.close(writer)
            with os.fdopen(reader, encoding="ascii") as pipe:
                known.write(pipe.read() + "\n")
            known.close()
            os._exit(0)
    libc_call("unshare", CLONE_NEWPID)  # only now: a namespace is made inside that of who asks for it
    if os.fork():
        os._exit(0)
    os.write(writer, os.fsencode(pathlib.Path("/proc/self").readlink()))
    os.close(writer)
    os.close(reader)


def join_cgroups(settings: dict[str, t.Any]) -> None:
    """Into a group of our own in every hierarchy, which is the root of all groups for whoever runs below us.

    So containers of several nodes do not meet under the one name that containerd has for them, and what is left has our own. Processes go one
    level deeper: version 2 wants no process alongside groups with limits.
    """
    groups = [pathlib.Path(hierarchy["folder"]) / settings["cgroup"] for hierarchy in settings["hierarchies"]]
    for group in groups:
        for folder in (group, group / "init"):
            folder.mkdir(exist_ok=True)
            for knob in ("cpuset.cpus", "cpuset.mems"):
                # Version 1 refuses processes in a group that has none; a parent's are not inherited.
                if (folder / knob).exists() and not (folder / "cgroup.controllers").exists():
                    (folder / knob).write_text((folder.parent / knob).read_text())
        weigh(group)
        (group / "cgroup.procs").write_text("0")
    libc_call("unshare", CLONE_NEWCGROUP)
    for group in groups:
        (group / "init" / "cgroup.procs").write_text("0")


def weigh(group: pathlib.Path) -> None:
    """Give a group the weight that its starter has: a node's pods and its other processes share the processors alike."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        own = group.parent / path.lstrip("/") / "cpu.shares"
        if "cpu" in controllers.split(",") and (group / "cpu.shares").exists() and own.exists():
            (group / "cpu.shares").write_text(own.read_text())


def own_cgroups(hierarchies: list[dict[str, str]]) -> None:
    """Mount the hierarchies anew, from our groups on; others are out of sight."""
    root = pathlib.Path("/sys/fs/cgroup")
    if all(pathlib.Path(hierarchy["folder"]) != root for hierarchy in hierarchies):
        mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m")
    for hierarchy in hierarchies:
        mount(
            hierarchy["type"],
            pathlib.Path(hierarchy["folder"]),
            hierarchy["type"],
            MS_NOSUID | MS_NODEV | MS_NOEXEC,
            hierarchy["options"],
        )


def private_mounts(folder: pathlib.Path, settings: dict[str, t.Any], shared: dict[str, int]) -> None:
    """Own /proc, cgroups, /run, /tmp, what is shared with the node, and own folders for what containerd, CNI plugins and kubelet keep."""
    mount("proc", pathlib.Path("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    own_cgroups(settings["hierarchies"])
    # The node's folder and the programs, to where no cover covers them.
    for name, source in settings["programs"].items():
        (folder / "programs" / name).mkdir(parents=True, exist_ok=True)
        mount(source, folder / "programs" / name, flags=MS_BIND)
    kept = pathlib.Path("/mnt")
    mount(str(folder), kept, flags=MS_BIND | MS_REC)
    tmpfs("/run", "mode=755,size=256m")
    tmpfs("/tmp", "mode=1777,size=64m")
    tmpfs("/var/log", "mode=755,size=16m")
    for path, tree in shared.items():
        kernel_call(_MOVE_MOUNT, tree, b"", _CURRENT, path.encode(), _EMPTY_PATH)
    for target, source in KEPT.items():
        (kept / source).mkdir(parents=True, exist_ok=True)
        mount(str(kept / source), pathlib.Path("/") / target, flags=MS_BIND)
    for name in ("lock", "netns", "containerd"):
        (pathlib.Path("/run") / name).mkdir()
    # Volumes that pods share with the node, and the kubelet's own mounts, have to reach containerd's view and back.
    mount("none", pathlib.Path("/"), flags=MS_REC | MS_SHARED)


def tmpfs(target: str, data: str) -> None:
    mount("tmpfs", pathlib.Path(target), "tmpfs", MS_NOSUID | MS_NODEV, data)


def supervise(settings: dict[str, t.Any], folder: pathlib.Path) -> None:
    """Start both programs, start again what ends, and take in the orphans: shims are nobody's children."""
    mark, owner = settings["mark"]
    environment = {"PATH": settings["path"], "HOME": "/root", "container": "lab", mark: owner}
    running: dict[int, str] = {}

    def start(name: str) -> None:
        with pathlib.Path(f"/mnt/{name}.log").open("ab") as output:
            child = subprocess.Popen(
                settings["commands"][name], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        running[child.pid] = name

    start("containerd")
    import_images(settings, environment)
    while not pathlib.Path("/run/containerd/containerd.sock").exists():
        time.sleep(0.05)
    start("kubelet")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        pid, status = os.wait()
        name = running.pop(pid, None)
        if name:
            print(
                f"init: {name} has ended with {os.waitstatus_to_exitcode(status)}: starting it again",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(1)
            start(name)


def import_images(settings: dict[str, t.Any], environment: dict[str, str]) -> None:
    """All images into containerd's store, once for each set of them: a reboot finds them there."""
    done = pathlib.Path("/mnt/imported")
    deadline = time.monotonic() + 600
    while not (done.exists() and done.read_text() == settings["images"]):
        result = subprocess.run(
            settings["commands"]["import"], capture_output=True, text=True, check=False, env=environment
        )
        if result.returncode == 0:
            done.write_text(settings["images"])
        elif time.monotonic() > deadline:
            raise RuntimeError(f"images: {result.stderr.strip()}")
        else:
            time.sleep(0.2)  # containerd does not answer yet


if __name__ == "__main__":
    main(sys.argv[1])
