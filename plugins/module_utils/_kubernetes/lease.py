# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One runner at a time on a cluster: a Lease that is held while something is written, and gone afterwards (decision 40).

Nobody's clock is compared with anybody else's (T30): a Lease counts as abandoned once it was watched for its whole
duration and did not change. It is made, renewed and removed under preconditions, so two can never hold it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
import typing as t

from .._values.refused import quoted
from .._values.text import mapping
from .client import Client, segment
from .errors import Conflict, KubeError, NotFound

#: Seconds after which a Lease that nobody renews is free; it is renewed three times in that time.
SECONDS = 15.0
_POLL = 0.5
_NOWHERE = 20
#: How often a renewal is tried at once when somebody else writes the Lease at the same time, and leaves us its holder.
_TRIES = 5
#: A holder may say that it needs longer between two renewals than we do; it is believed up to so many seconds.
LONGEST = 3600.0


class LeaseHeld(KubeError):
    """Another runner is at work."""

    reason, retryable = "lease_held", True


class LeaseLost(KubeError):
    """The Lease could not be renewed in time, or someone else has it: nothing more may be written."""

    reason, retryable = "lease_lost", True


class Lease:
    """A lock on one API server. ``acquire`` once, ``check`` before each write, ``release`` at the end.

    ``is_dead(holder)``: whether that holder is surely no more, so that its Lease is taken over at once. Several may hold it under one
    ``holder``, such as the jobs of one workflow: each joins, and ``leave`` renews it a last time where ``release`` would remove it.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        manager: str,
        seconds: float = SECONDS,
        is_dead: t.Callable[[str], bool] = lambda holder: False,
        renew_every: float | None = None,
    ) -> None:
        self._client, self._manager, self._seconds, self._is_dead = client, manager, seconds, is_dead
        self._every = seconds / 3 if renew_every is None else renew_every
        self.namespace, self._name = namespace, name
        self._base = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"
        self._path = f"{self._base}/{segment(name)}"
        self._operation = f"take the lease {namespace}/{name}"
        self.holder = f"{socket.gethostname()[:100]}/{os.getpid()}/{random.getrandbits(32):08x}"
        self._lease: dict[str, t.Any] = {}
        self._renewed = 0.0
        self._lost = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """True from a successful acquire on."""
        return self._thread is not None

    def acquire(self, wait: float = 0.0, stop: threading.Event | None = None) -> None:
        """Take the Lease, waiting at most so many seconds and until ``stop`` is set. Raises LeaseHeld and other KubeErrors."""
        stop = stop or threading.Event()
        deadline = time.monotonic() + wait
        seen, since, nowhere, dead, patience = "", 0.0, 0, False, self._seconds
        while True:
            begun = time.monotonic()
            lease = self._take(seen if seen and (dead or begun - since >= patience) else "")
            if lease is not None:
                break
            found = self._client.find(self._path)
            nowhere = nowhere + 1 if found is None else 0
            if nowhere >= _NOWHERE:
                # once or twice it is given back between our two questions; a webhook can say so for ever
                raise KubeError(
                    self._client.cluster,
                    self._operation,
                    "the server reports both that it exists and that there is none",
                )
            if found is not None and (found.get("spec") or {}).get("holderIdentity") == self.holder:
                lease = found  # it was made, and only the answer was lost
                break
            version = found.get("metadata", {}).get("resourceVersion", "") if found else ""
            if version != seen:
                seen, since = version, time.monotonic()
                patience = max(self._seconds, _duration(found))
            if found is not None and not dead and self._is_dead(str((found.get("spec") or {}).get("holderIdentity"))):
                dead = True
                continue
            dead = False
            if found is not None and (stop.is_set() or time.monotonic() >= deadline):
                raise LeaseHeld(self._client.cluster, self._operation, "another run is at work: " + holder_of(found))
            if found is not None:
                stop.wait(min(_POLL, max(0.01, deadline - time.monotonic())))
            else:
                stop.wait(0.05)
        self._lease, self._renewed, self._lost = lease, begun, ""
        self._stop.clear()
        self._thread = threading.Thread(target=self._keep, name="mcn-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises LeaseLost unless the Lease is surely held."""
        if self._thread is None:
            raise LeaseLost(self._client.cluster, self._operation, "it was not taken")
        if not self._lost and time.monotonic() - self._renewed >= self._seconds:
            self._lost = f"it could not be renewed for {self._seconds:.0f} s"
        if self._lost:
            raise LeaseLost(self._client.cluster, self._operation, self._lost)

    def leave(self) -> None:
        """Renew the Lease a last time and leave it for others of the same holder. Does not raise."""
        if self._end() and not self._lost:
            with contextlib.suppress(KubeError):
                self._renew()

    def _end(self) -> bool:
        """Stop renewing; False where it was not held."""
        if self._thread is None:
            return False
        self._stop.set()
        self._thread.join()
        self._thread = None
        return True

    def release(self) -> None:
        """Remove the Lease, if it is still held. Does not raise: what stays behind runs out by itself."""
        if not self._end() or self._lost:
            return
        meta = self._lease["metadata"]
        with contextlib.suppress(KubeError):
            self._client.request_deletion(self._path, meta["uid"], meta["resourceVersion"])

    # -- inside

    def _take(self, abandoned: str) -> dict[str, t.Any] | None:
        """Make the Lease, or take the one of this resource version over; None when somebody else has it."""
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(1, int(self._seconds)),
            "acquireTime": _now(),
            "renewTime": _now(),
        }
        meta: dict[str, t.Any] = {"namespace": self.namespace, "name": self._name}
        try:
            if abandoned:
                return self._client.merge_patch(
                    self._path, {"metadata": {"resourceVersion": abandoned}, "spec": spec}, self._manager
                )
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            return self._client.create(self._base, body, self._manager)
        except Conflict:
            return None
        except NotFound:
            if abandoned:
                return None  # it was released meanwhile
            raise

    def _keep(self) -> None:
        while not self._stop.wait(self._every):
            with contextlib.suppress(KubeError):  # check() raises when it has been too long
                self._renew()
            if self._lost:
                return

    def _renew(self) -> None:
        for dummy in range(_TRIES):
            begun = time.monotonic()
            version = self._lease["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"renewTime": _now()}}
            try:
                self._lease = self._client.merge_patch(self._path, body, self._manager)
                self._renewed = begun
                return
            except (Conflict, NotFound):
                found = self._client.find(self._path)
            if found is None:
                self._lost = "somebody removed it"
                return
            if (found.get("spec") or {}).get("holderIdentity") != self.holder:
                self._lost = "another run has it now: " + holder_of(found)
                return
            self._lease = found  # somebody labelled it, which is no reason to stop


def _duration(lease: t.Mapping[str, t.Any] | None) -> float:
    """How long, by its holder, a Lease holds without a renewal."""
    given = mapping(lease, "spec").get("leaseDurationSeconds")
    return min(float(given), LONGEST) if isinstance(given, int) and not isinstance(given, bool) else 0.0


def holder_of(lease: t.Mapping[str, t.Any]) -> str:
    """Who has a Lease and since when, as its own words; another program's text, so it is quoted and cut."""
    spec = mapping(lease, "spec")
    return f"{str(spec.get('holderIdentity', ''))[:200]!r} since {quoted(str(spec.get('acquireTime', '?'))[:40])}"


def _now() -> str:
    # for people who look at it; nothing compares it
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
