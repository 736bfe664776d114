# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several kubeconfigs at once, as KUBECONFIG lists them: merged as kubectl merges them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import AccessRefused, parse_access
from api_server import find_program

FILES = ("full", "other", "parts", "none")


@pytest.fixture
def folder(tmp_path):
    """Files that share names, one with a relative path and without a current-context, and one that is not there."""

    def write(name, current, token, **more):
        user = {"token": token} if token else {"tokenFile": "token"}
        made = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": current,
            "clusters": [{"name": "k", "cluster": {"server": f"https://{name}.example:6443"}}],
            "contexts": [
                {"name": "c-" + name, "context": {"cluster": "k", "user": "u-" + name}},
                {"name": "c", "context": {"cluster": "k", "user": "u"}},
            ],
            "users": [{"name": "u-" + name, "user": user}, {"name": "u", "user": user}],
        }
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(json.dumps(dict(made, **more)))
        (tmp_path / name / "token").write_text("token-of-" + name)

    write("full", "c", "token-of-full")
    write("other", "c-other", "token-of-other")
    write("parts", "", None, clusters=[])
    return tmp_path


def kubectl(folder, listed):
    """(server, token) of the current context, None where there is none."""
    command = [find_program("kubectl"), "config", "view", "--raw", "--minify", "-o", "json"]
    done = subprocess.run(command, env=dict(os.environ, KUBECONFIG=listed), capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    seen = json.loads(done.stdout)
    if not seen["clusters"]:
        return None
    user = seen["users"][0]["user"]
    return seen["clusters"][0]["cluster"]["server"], user.get("token") or (
        folder / "parts" / user["tokenFile"]
    ).read_text()


def owned(given):
    """The same of our reader."""
    try:
        access = parse_access({"name": "aws", "kubeconfig": given, "allow": ["file_references"]})
    except AccessRefused:
        return None
    return access.server, access.token


@pytest.mark.parametrize(
    "names", [names for count in (1, 2, 3, 4) for names in itertools.permutations(FILES, count)], ids="-".join
)
def test_several_files_are_merged_as_kubectl_does(folder, names):
    paths = [str(folder / name / "config") for name in names]
    expected = kubectl(folder, os.pathsep.join(paths))
    assert owned(os.pathsep.join(paths)) == owned(paths) == expected
    assert (expected is None) == (set(names) <= {"parts", "none"})
