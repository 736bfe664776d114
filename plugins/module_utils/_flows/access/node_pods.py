# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node reached through its cluster's API server: its pod, and commands in it."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes import errors, exec_stream
from ..._kubernetes.access import parse_access
from ..._kubernetes.client import Client
from ..._kubernetes.session import Limits
from ..._plan.node_pod_choice import choose_pod
from ..._plan.node_pod_manifests import CONTAINER, LABEL, PROOF, NodePod, command_words, object_name
from ..._values.refused import ValueRefused, quoted

#: How often a pod is looked for that does not run yet.
_PAUSE_SECONDS = 1.0


class NodeLost(Exception):
    """The node is not reached: a message that names object, reason and what to do."""


class Proof:
    """The output of a command behind the line by which a pod proves that it is the one that was asked for."""

    def __init__(self, out: exec_stream.Sink) -> None:
        self._out, self._begin = out, b""

    def __call__(self, data: bytes) -> None:
        missing = len(PROOF) - len(self._begin)
        self._begin += data[:missing]
        if not PROOF.startswith(self._begin):
            raise ValueError("the output does not begin as that of a node pod")
        if data[missing:]:
            self._out(data[missing:])

    def given(self) -> bool:
        """Whether the pod has proven itself."""
        return self._begin == PROOF


class Place(t.NamedTuple):
    """Which node of which cluster.

    ``access``: an entry of the option ``clusters``; ``machine_id`` and ``image``: what the inventory expects of node and pod, or empty.
    """

    access: t.Mapping[str, t.Any]
    fabric: str
    namespace: str
    node: str
    machine_id: str = ""
    image: str = ""


class NodePods:
    """Commands on one node. The pod is looked for once; it is the same connection that asks for it and runs the first command."""

    def __init__(self, place: Place, seconds: float, wait_seconds: float) -> None:
        self._place, self._wait = place, wait_seconds
        try:
            self._namespace = place.namespace or object_name(place.fabric)
            self._client = Client(parse_access(place.access), Limits(request_seconds=seconds, tries=2), connections=2)
        except ValueRefused as error:
            raise NodeLost(f"{error.message} [{error.reason}]") from None
        self._seconds = seconds
        self._pod: NodePod | None = None

    def find(self) -> NodePod:
        """The pod, once it runs. Raises NodeLost."""
        deadline = time.monotonic() + self._wait
        while self._pod is None:
            path = f"/api/v1/namespaces/{self._namespace}/pods"
            try:
                items = self._client.list(
                    path, f"{LABEL}={self._place.fabric}", f"spec.nodeName={self._place.node}"
                ).items
                self._pod, why = choose_pod(items, self._place.fabric, self._place.node, self._place.image)
            except errors.KubeError as error:
                raise NodeLost(f"{error} [{error.reason}]") from None
            except ValueRefused as error:
                raise NodeLost(f"cluster {self._client.cluster}: {error.message} [{error.reason}]") from None
            if self._pod is None:
                if time.monotonic() >= deadline:
                    raise NodeLost(
                        f"cluster {self._client.cluster}, namespace {quoted(self._namespace)}: {why}; "
                        "the role node_access makes the pods, and kubectl describes why one does not run [no_node_pod]"
                    )
                time.sleep(_PAUSE_SECONDS)
        return self._pod

    def forget(self) -> None:
        """Look for the pod again before the next command: it may have been replaced."""
        self._pod = None

    def run(
        self,
        command: str,
        feed: t.BinaryIO | None,
        size: int | None,
        out: exec_stream.Sink,
        err: exec_stream.Sink,
    ) -> int:
        """The exit code of a shell's command line. ``size``: bytes of ``feed``. Raises NodeLost."""
        pod = self.find()
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod.name}"
        words = command_words(pod, command, size, self._place.machine_id)
        proof = Proof(out)

        try:
            code = exec_stream.run(
                self._client,
                exec_stream.Command(path, CONTAINER, words, size is not None),
                feed,
                proof,
                err,
                self._seconds,
                proof.given,
            )
        except errors.KubeError as error:
            self.forget()
            raise NodeLost(f"{error} [{error.reason}]") from None
        if not proof.given():
            self.forget()
            raise NodeLost(
                f"cluster {self._client.cluster}: the server's answer for the pod {pod.name} comes from another pod, or the node "
                f"{quoted(pod.node)} has another machine id than the variable node_machine_id [not_the_node]"
            )
        return code
