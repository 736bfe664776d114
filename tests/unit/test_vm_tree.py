# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guest of the kernel run gets a part of the tree: what its tests read must be in it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]


def test_the_guest_gets_everything_that_its_tests_are_collected_from(tmp_path):
    parts = re.search(r'-cf "\$results/tree\.tar" (.*)', (REPO / "tests" / "vm" / "run").read_text())
    home = tmp_path / "ansible_collections" / "multicluster" / "network"
    home.mkdir(parents=True)
    packed = subprocess.run(["tar", "-C", str(REPO), "--exclude=__pycache__", "-cf", "-", *parts.group(1).split()], check=True, capture_output=True)
    subprocess.run(["tar", "-C", str(home), "-xf", "-"], input=packed.stdout, check=True)
    words = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests/kernel"]
    done = subprocess.run(words, cwd=str(home), env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
