# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A further image for the real pods of a running lab: one program that links nothing, under the name that its manifest uses."""

from __future__ import annotations

import pathlib
import shutil
import tempfile

from . import images, pod_parts, process
from .errors import LabError
from .pod_runtime import INSIDE, PodRuntime, commands

FILE = "own-image.tar"


def image(name: str, program: pathlib.Path) -> images.Image:
    """The image: the program as ``/NAME`` is its entry point."""
    if ":" not in name.rpartition("/")[2]:
        raise LabError(f"{name}: without a tag a kubelet would ask a registry for it; say {name}:TAG")
    if not program.is_file():
        raise LabError(f"there is no program {program}")
    return images.Image(
        (name,), "a program of its own", program=program.name, entrypoint=(f"/{program.name}",), command=()
    )


def add(runtimes: list[PodRuntime], name: str, program: pathlib.Path) -> None:
    """Into the store of every node's containerd, which keeps it over reboots."""
    made = image(name, program)
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work) / "tree"
        tree.mkdir()
        shutil.copyfile(program, tree / made.program)
        (tree / made.program).chmod(0o755)
        pod_parts.furnish(tree)
        layer = images.layer(tree)
    for runtime in runtimes:
        file = runtime.folder / FILE
        try:
            images.write_layout(file, [(made, layer)])
            process.run(runtime.enter([*commands(runtime.node)["import"][:-1], f"{INSIDE}/{FILE}"]))
        finally:
            file.unlink(missing_ok=True)
