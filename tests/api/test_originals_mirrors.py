# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors and global services as semaphore-service-mirror wrote them: taken over, changed in every way, given back in its own form."""

from __future__ import annotations

import pytest
from api_server import minor_version
from mirror_clusters import NAMESPACE, namespace, other, two  # pylint: disable=unused-import
from mirror_life import live, mirrored, said
from recorded import load, replay

__all__ = ["other", "two"]


class Recorded:
    """What the program wrote at its first start, and what it leaves when it starts again after us."""

    def __init__(self, two, shared):
        self.two, self.shared = two, shared
        self.stages = load("semaphore-service-mirror" + ("-global" if shared else ""))

    def begin(self):
        self.two.put("gcp", namespace(NAMESPACE))
        for obj in self.stages["begun"]["gcp"]:
            replay(self.two.clients["gcp"], obj)

    def again(self):
        assert said(mirrored(self.two, self.shared)) == said(self.stages["returned"]["gcp"])


@pytest.mark.parametrize("shared", [False, True] if minor_version() >= 21 else [False])
def test_taken_over_changed_and_given_back(two, shared):
    live(two, Recorded(two, shared), shared)
