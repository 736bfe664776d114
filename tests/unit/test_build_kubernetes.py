# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Kubernetes the lab and the tests take, and what is said where there is none; nothing is downloaded or built."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

LAB = pathlib.Path(__file__).resolve().parents[1] / "lab"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kubectl")
DEBIAN = "kubernetes-1.20.2"
NEWEST = "kubernetes-" + re.search(
    r"k8s\.io/kubernetes v([0-9.]+)", (LAB / "kubernetes-newest" / "go.mod").read_text("utf-8")
).group(1)


def fill(folder, programs=PROGRAMS):
    folder.mkdir(parents=True)
    for name in programs:
        (folder / name).write_text("#!/bin/sh\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder


def ask(tmp_path, *arguments, **environment):
    """What the script prints with this environment and no release to download."""
    if not (tmp_path / "bin").exists():
        fill(tmp_path / "bin", ["curl"])
        (tmp_path / "bin" / "curl").write_text("#!/bin/sh\nexit 6\n", encoding="ascii")
    kept = {
        key: value for key, value in os.environ.items() if key not in ("KUBERNETES", "KUBEBUILDER_ASSETS", "MCN_GO")
    }
    kept.update(environment, MCN_CACHE=str(tmp_path / "cache"), PATH=f"{tmp_path / 'bin'}:{kept['PATH']}")
    return subprocess.run(
        [str(LAB / "build-kubernetes"), *arguments], capture_output=True, text=True, check=False, env=kept
    )


@pytest.mark.parametrize(
    "there,desired,found",
    [
        ((DEBIAN,), "", DEBIAN),
        ((NEWEST,), "", NEWEST),
        ((DEBIAN, NEWEST), "", DEBIAN),
        ((DEBIAN, NEWEST), "newest", NEWEST),
        ((DEBIAN, NEWEST), "debian", DEBIAN),
    ],
)
def test_what_is_in_the_cache(tmp_path, there, desired, found):
    for name in there:
        fill(tmp_path / "cache" / name)
    done = ask(tmp_path, KUBERNETES=desired)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'cache' / found}\n")
    assert found.split("-")[1] in done.stderr, "it names it"


def test_a_folder(tmp_path):
    fill(tmp_path / "cache" / DEBIAN)
    other = fill(tmp_path / "other")
    assert (
        ask(tmp_path, KUBERNETES=str(other)).stdout
        == ask(tmp_path, KUBEBUILDER_ASSETS=str(other)).stdout
        == f"{other}\n"
    )
    assert ask(tmp_path, KUBERNETES="debian", KUBEBUILDER_ASSETS=str(other)).stdout.endswith(DEBIAN + "\n")
    (other / "kube-proxy").unlink()
    done = ask(tmp_path, KUBERNETES=str(other))
    assert (done.returncode, done.stdout) == (1, "") and "does not hold all of" in done.stderr


@pytest.mark.parametrize(
    "arguments,desired,words",
    [
        (["--cached"], "", "run tests/lab/build-kubernetes"),
        (["--cached"], "newest", "run KUBERNETES=newest tests/lab/build-kubernetes"),
        ([], "1.31", "KUBERNETES is debian (1.20.2), newest"),
        ([], "newest", "cannot be had: its release cannot be downloaded, and "),
    ],
)
def test_words_where_there_is_none(tmp_path, arguments, desired, words):
    fill(tmp_path / "cache" / DEBIAN, PROGRAMS[:2])  # of a build that was killed
    done = ask(
        tmp_path,
        *arguments,
        KUBERNETES=desired,
        GOPROXY="off",
        GOMODCACHE=str(tmp_path / "modules"),
        GOFLAGS="-modcacherw",
    )
    assert (done.returncode, done.stdout) == (1, "") and words in done.stderr
    assert not list((tmp_path / "cache").glob("build.*")), "nothing is left"


def test_the_programs_of_real_pods_are_an_entry_of_their_own(tmp_path):
    """Nobody who has no real pods waits for them, and they are of the same release as the API server alongside them."""
    node = NEWEST + "-node"
    fill(tmp_path / "cache" / NEWEST)
    assert ask(tmp_path, KUBERNETES="newest").stdout == f"{tmp_path / 'cache' / NEWEST}\n", "they are not asked for"
    done = ask(tmp_path, "--cached", "--node")
    assert (done.returncode, done.stdout) == (1, "") and "run tests/lab/build-kubernetes --node" in done.stderr
    fill(tmp_path / "cache" / node, ("kubelet", "kube-scheduler"))
    for desired in ("", "newest"):
        assert ask(tmp_path, "--node", KUBERNETES=desired).stdout == f"{tmp_path / 'cache' / node}\n"
    done = ask(tmp_path, "--node", KUBERNETES="debian")
    assert (done.returncode, done.stdout) == (1, "") and "real pods need the newest Kubernetes" in done.stderr
    done = ask(tmp_path, "--node", KUBERNETES=str(tmp_path / "cache" / NEWEST))
    assert (done.returncode, done.stdout) == (1, "") and "does not hold all of kubelet kube-scheduler" in done.stderr
    done = ask(tmp_path, "--nodes")
    assert done.returncode == 1 and "--nodes" in done.stderr
