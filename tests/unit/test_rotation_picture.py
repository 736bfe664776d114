# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the guide on new keys is what its program draws, and has every step of the playbook."""

from __future__ import annotations

import pathlib
import runpy

from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore import rotation

DRAWN = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[1] / "docs" / "rotation_picture.py"))


def test_the_picture_is_drawn_by_its_program() -> None:
    assert DRAWN["PICTURE"].read_text("utf-8") == DRAWN["svg"](), "run tests/run rotation_picture"


def test_it_has_every_step() -> None:
    assert tuple(text.split(":")[0] for text in DRAWN["STEPS"]) == rotation.STEPS
