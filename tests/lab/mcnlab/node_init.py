# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn ourselves into a node's init: namespaces, overlay root, private mounts, then exec systemd, or a shell that waits.

Run as a program with the path of a settings file. Returns once the init process exists; its process id is then in
``init.pid`` of the node's folder. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import typing as t

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

# Where the collection keeps state, keys and programs on a node. No node begins with what the machine has there.
OWNED_FOLDERS = ("var/lib/semaphore-wireguard",) + tuple(
    f"{top}/multicluster-network{part}" for top in ("var/lib", "usr/local/lib") for part in ("", "-bgp", "-layer2")
)

# Of everything that the machine's own units pull in, a node keeps its message bus, its journal and its temporary folders.
KEPT_UNITS = {
    "dbus.socket",
    "systemd-journald.service",
    "systemd-journald.socket",
    "systemd-journald-dev-log.socket",
    "systemd-tmpfiles-setup.service",
}

SSHD_UNIT = """\
[Unit]
Description=SSH server of the lab's node
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/ssh/lab_sshd_config
RuntimeDirectory=sshd
Restart=on-failure
KillMode=process
[Install]
WantedBy=multi-user.target
"""

SSHD_CONFIG = """\
{listen}
HostKey /etc/ssh/lab_host_key
AuthorizedKeysFile /etc/ssh/lab_authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
MaxStartups 100
PidFile none
Subsystem sftp internal-sftp
"""

# A light node's process 1: it ends nothing and starts nothing, it only reaps what is left to it.
LIGHT_INIT = "while :; do sleep 86400 & wait $!; done"
# What Ansible starts there counts for the node and not for the controller, so that both can be measured. Nothing else is different.
LIGHT_PYTHON = "/usr/local/sbin/lab-python"
LIGHT_PYTHON_TEXT = """\
#!/bin/sh
echo 0 > /sys/fs/cgroup/cgroup.procs
exec /usr/bin/python3 "$@"
"""

_libc = ctypes.CDLL(None, use_errno=True)


def libc_call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def mount(source: str, target: pathlib.Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    target.mkdir(parents=True, exist_ok=True) if not target.exists() else None
    libc_call("mount", source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())


def main(settings_file: str) -> None:
    settings = json.loads(pathlib.Path(settings_file).read_text())
    folder = pathlib.Path(settings["folder"])
    root = folder / "root"

    with pathlib.Path(settings["netns"]).open("rb") as namespace:
        libc_call("setns", namespace.fileno(), CLONE_NEWNET)
    cgroup = pathlib.Path(settings["cgroup"])
    cgroup.mkdir(exist_ok=True)
    (cgroup / "cgroup.procs").write_text("0")
    libc_call("unshare", CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)
    mount("none", pathlib.Path("/"), flags=MS_REC | MS_PRIVATE)
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(exist_ok=True)
    mount("overlay", root, "overlay", 0, f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work")
    socket.sethostname(settings["name"])
    if not (folder / "furnished").exists():
        hide_owned_folders(root)
        (identify if settings["light"] else furnish)(root, settings)
        (folder / "furnished").touch()

    console = os.open(folder / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # Opened before the fork: the child's pivot_root moves the root of its parent too.
    pid_file = os.open(folder / "init.pid", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    libc_call("unshare", CLONE_NEWPID | CLONE_NEWCGROUP)
    pid = os.fork()
    if pid:
        os.write(pid_file, f"{pid}\n".encode())
        os._exit(0)
    try:
        become_init(root, settings, console)
    except Exception as error:
        os.write(console, f"init: {error!r}\n".encode())
        os._exit(1)


def hide_owned_folders(root: pathlib.Path) -> None:
    """Remove them from the overlay: the machine keeps its own."""
    for name in OWNED_FOLDERS:
        if (root / name).exists():
            shutil.rmtree(root / name)


def furnish(root: pathlib.Path, settings: dict[str, t.Any]) -> None:
    """The node's own files, once, at its first boot: identity, no services of others, an SSH server."""
    etc = root / "etc"
    for units in (etc / "systemd/system", root / "usr/lib/systemd/system"):
        for wants in units.glob("*.wants"):
            for link in wants.iterdir():
                if link.name not in KEPT_UNITS:
                    link.unlink()
    # Generators would bring the machine's mounts, its consoles and its old-style services back.
    (etc / "systemd/system-generators").mkdir(exist_ok=True)
    for generators in ("usr/lib/systemd/system-generators", "usr/local/lib/systemd/system-generators"):
        for generator in (root / generators).glob("*"):
            mask = etc / "systemd/system-generators" / generator.name
            if not mask.is_symlink():
                mask.symlink_to("/dev/null")
    (etc / "systemd/journald.conf.d").mkdir(exist_ok=True)
    (etc / "systemd/journald.conf.d/lab.conf").write_text(
        "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\nReadKMsg=no\n"
    )

    identify(root, settings)
    keys = pathlib.Path(settings["ssh"])
    shutil.copyfile(keys / "hosts" / settings["name"], etc / "ssh/lab_host_key")
    (etc / "ssh/lab_host_key").chmod(0o600)
    shutil.copyfile(keys / "id_ed25519.pub", etc / "ssh/lab_authorized_keys")
    listen = "\n".join(f"ListenAddress {address}" for address in settings["addresses"])
    (etc / "ssh/lab_sshd_config").write_text(SSHD_CONFIG.format(listen=listen))
    (etc / "systemd/system/lab-sshd.service").write_text(SSHD_UNIT)
    (etc / "systemd/system/multi-user.target.wants").mkdir(exist_ok=True)
    (etc / "systemd/system/multi-user.target.wants/lab-sshd.service").symlink_to("/etc/systemd/system/lab-sshd.service")


def identify(root: pathlib.Path, settings: dict[str, t.Any]) -> None:
    """The owner of these files: all that a light node has of its own, alongside the program that Ansible starts there."""
    etc = root / "etc"
    _write(etc / "hostname", settings["name"] + "\n")
    _write(etc / "machine-id", settings["machine_id"])
    _write(etc / "hosts", f"127.0.0.1 localhost\n::1 localhost\n{settings['addresses'][0]} {settings['name']}\n")
    if settings["light"]:
        program = pathlib.Path(f"{root}{LIGHT_PYTHON}")
        program.write_text(LIGHT_PYTHON_TEXT)
        program.chmod(0o755)


def _write(file: pathlib.Path, text: str) -> None:
    if file.is_symlink():
        file.unlink()
    file.write_text(text)


def become_init(root: pathlib.Path, settings: dict[str, t.Any], console: int) -> None:
    """In the child, process 1 of its namespace: private mounts, then the overlay as the root, then systemd or what is there."""
    os.setsid()
    os.umask(0o022)
    mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # The machine's settings are read-only, those of the node's own network namespace are not.
    mount(str(root / "proc/sys"), root / "proc/sys", flags=MS_BIND)
    mount(str(root / "proc/sys/net"), root / "proc/sys/net", flags=MS_BIND)
    mount("none", root / "proc/sys", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    mount("sysfs", root / "sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("none", root / "sys", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", root / "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m")
    mount("tmpfs", root / "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=256m")
    mount("tmpfs", root / "dev", "tmpfs", MS_NOSUID, "mode=755,size=4m")
    devices(root / "dev", console)
    # The lab's own state (kubeconfigs, other nodes' files) is none of a node's business.
    mount("tmpfs", pathlib.Path(str(root) + settings["hide"]), "tmpfs", MS_RDONLY, "mode=000,size=4k")

    old = root / "run/.old"
    old.mkdir()
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "run/.old"], check=True)
    os.chroot(".")
    os.chdir("/")
    libc_call("umount2", b"/run/.old", MNT_DETACH)
    pathlib.Path("/run/.old").rmdir()
    (pathlib.Path("/run") / "lock").mkdir(exist_ok=True)

    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(console, 1)
    os.dup2(console, 2)
    os.closerange(3, 256)
    mark, owner = settings["mark"]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "container": "lab",
        mark: owner,
    }
    if settings["light"]:
        os.execve("/bin/sh", ["sh", "-c", LIGHT_INIT], environment)
    arguments = [
        "systemd",
        "--unit=multi-user.target",
        "--show-status=false",
        "--log-target=console",
        "--log-level=warning",
    ]
    os.execve("/lib/systemd/systemd", arguments, environment)


def devices(dev: pathlib.Path, console: int) -> None:
    """The few device files a node needs; /dev/net/tun is for wireguard-go."""
    numbers = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
    for name, (major, minor) in numbers.items():
        _device(dev / name, major, minor)
    (dev / "net").mkdir()
    _device(dev / "net/tun", 10, 200)
    for name, target in {
        "fd": "/proc/self/fd",
        "stdin": "fd/0",
        "stdout": "fd/1",
        "stderr": "fd/2",
        "ptmx": "pts/ptmx",
    }.items():
        (dev / name).symlink_to(target)
    mount("devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    mount("tmpfs", dev / "shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    (dev / "console").touch()
    mount(f"/proc/self/fd/{console}", dev / "console", flags=MS_BIND)


def _device(file: pathlib.Path, major: int, minor: int) -> None:
    os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    file.chmod(0o666)


if __name__ == "__main__":
    main(sys.argv[1])
