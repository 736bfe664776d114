# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network sets of the real semaphore-policy: taken over, changed in every way, given back, and it starts again."""

from __future__ import annotations

from program import Program
from recorded import keep
from set_kinds import LABEL, serve, withdraw
from sets_life import KIND, live, nets, said, sets, take_pods

NAME = "semaphore-policy"


class Running:
    """The program in aws, which reads the pods of gcp, and what it has written at which time."""

    def __init__(self, aws, gcp, program):
        self.aws, self.gcp, self.program = aws, gcp, program
        self.stages = {}

    def desired(self):
        """{name of a set: addresses} that it makes of the pods."""
        found = {}
        for obj in self.gcp.client().list("/api/v1/pods", label_selector=LABEL).items:
            meta = obj["metadata"]
            found.setdefault(f"gcp-{meta['namespace']}-{meta['labels'][LABEL]}", []).append(
                obj["status"]["podIP"] + "/32"
            )
        return {name: sorted(addresses) for name, addresses in found.items()}

    def _run(self, stage):
        arguments = [
            "-local-kube-config",
            self.program.kubeconfig("aws"),
            "-target-kube-config",
            self.program.kubeconfig("gcp"),
        ]
        self.program.start(*arguments, "-target-cluster-name", "gcp")
        try:
            self.program.until(
                "sets of all pods",
                lambda: {name: nets(self.aws, name) for name in said(sets(self.aws))} == self.desired(),
            )
        finally:
            self.program.stop()
        self.stages[stage] = {"aws": sets(self.aws)}

    def begin(self):
        self._run("begun")

    def again(self):
        self._run("returned")


def test_taken_over_and_given_back(original, server, second, tmp_path, recording):
    one = Running(server, second, Program(original(NAME), tmp_path, {"aws": server, "gcp": second}))
    serve(server.client(), KIND)
    try:
        live(server, second, one)
    finally:
        take_pods(second)
        withdraw(server.client(), KIND)
    if recording:
        keep(NAME, one.stages)
