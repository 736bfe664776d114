# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network sets as semaphore-policy wrote them: taken over, changed in every way, given back in its own form."""

from __future__ import annotations

from mirror_clusters import other  # pylint: disable=unused-import
from recorded import load, replay
from set_kinds import serve, withdraw
from sets_life import KIND, live, said, sets, take_pods

__all__ = ["other"]


class Recorded:
    """What the program wrote at its first start, and what it leaves when it starts again after us."""

    def __init__(self, server):
        self.server = server
        self.stages = load("semaphore-policy")

    def begin(self):
        client = self.server.client()
        for obj in self.stages["begun"]["aws"]:
            replay(client, obj)

    def again(self):
        assert said(sets(self.server)) == said(self.stages["returned"]["aws"])


def test_taken_over_changed_and_given_back(server, other):
    serve(server.client(), KIND)
    try:
        live(server, other, Recorded(server))
    finally:
        take_pods(other)
        withdraw(server.client(), KIND)
