# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's version: MAJOR.MINOR.PATCH of a release, MAJOR.MINOR.PATCH-dev.N between releases, with N that grows with the commits.

ansible-galaxy installs over an older version and leaves the same one alone, so a clone that was updated needs another N.

version.py: refuse a version that is none, that some file does not agree with, or that is more than a hundred commits behind.
version.py --write: take the next N, in galaxy.yml and execution-environment.yml.
version.py --release X.Y.Z: take the version of a release, that of the development versions before it.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.compile(r"(?P<core>(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2})(?:-dev\.(?P<number>0|[1-9]\d*))?")
#: Commits after which a clone has to have another version.
BEHIND = 100
#: What clients send; the archive of a node has no other file to read it from.
AGENT = re.compile(r'USER_AGENT = "multicluster\.network/([0-9.]+) ')
AGENTS = ("plugins/module_utils/_io/json_api.py", "plugins/module_utils/_kubernetes/transport.py")


def current(repo: pathlib.Path) -> str:
    """The version in galaxy.yml, whatever it is."""
    found = re.search(r"^version: (\S+)$", (repo / "galaxy.yml").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


def commits(repo: pathlib.Path) -> int | None:
    """How many commits HEAD has; None where that is not known: no repository, or not all of its history."""
    git = ["git", "-C", str(repo), "rev-parse", "--is-shallow-repository"]
    shallow = subprocess.run(git, capture_output=True, text=True, check=False)
    if shallow.returncode or shallow.stdout.strip() != "false":
        return None
    return int(subprocess.check_output([*git[:3], "rev-list", "--count", "HEAD"], text=True))


def following(version: str, count: int) -> str:
    """The next development version after one, in a history with so many commits."""
    found = VERSION.fullmatch(version)
    if found is None or found["number"] is None:
        raise ValueError(f"{version or 'nothing'} is no development version: write the first one, X.Y.Z-dev.0, by hand")
    return f"{found['core']}-dev.{max(int(found['number']) + 1, count)}"


def released(version: str, new: str) -> str:
    """The version of a release after a development version of it."""
    found = VERSION.fullmatch(version)
    if found is None or found["number"] is None or found["core"] != new:
        raise ValueError(f"{version or 'nothing'} is no development version of {new or 'nothing'}")
    return new


def wrong(repo: pathlib.Path, count: int | None) -> list[str]:
    """What is wrong with the version, as sentences."""
    version = current(repo)
    found = VERSION.fullmatch(version)
    if found is None:
        return [f"galaxy.yml: the version {version or '(none)'} is neither X.Y.Z nor X.Y.Z-dev.N"]
    sentences = []
    image = (repo / "execution-environment.yml").read_text("utf-8")
    if set(re.findall(r"multicluster-network-(\S+)\.tar\.gz", image)) != {version}:
        sentences.append(f"execution-environment.yml names another archive than that of {version}")
    sentences += [
        f"{path}: the user agent has another version than {found['core']}"
        for path in AGENTS
        if AGENT.findall((repo / path).read_text("utf-8")) != [found["core"]]
    ]
    if found["number"] is not None and count is not None and count - int(found["number"]) > BEHIND:
        sentences.append(f"galaxy.yml: {version} is {count - int(found['number'])} commits behind: tests/run version")
    return sentences


def main(arguments: list[str]) -> int:
    """Check the version, or write another one."""
    if arguments[:1] in (["--write"], ["--release"]):
        old = current(REPO)
        asked = "".join(arguments[1:])
        new = released(old, asked) if arguments[0] == "--release" else following(old, (commits(REPO) or 0) + 1)
        for name in ("galaxy.yml", "execution-environment.yml"):
            path = REPO / name
            path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
        sys.stdout.write(f"{new}\n")
        return 0
    sentences = wrong(REPO, commits(REPO))
    sys.stderr.writelines(f"{sentence}\n" for sentence in sentences)
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
