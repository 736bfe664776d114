# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""One run on a fabric at a time: a lock on the controller, and, for fabrics that are run from several, a Lease in every cluster.

It has to be taken before the first read, since a run writes what it planned from what it read. So a Lease costs its three
requests in each cluster also where the run then changes nothing; the lock on the controller costs none.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import typing as t

from .._io import local_lock
from .._kubernetes.clusters import Clusters
from .._kubernetes.errors import KubeError, NotFound
from .._kubernetes.lease import Lease, LeaseHeld, LeaseLost, holder_of
from .._plan.objects import field_manager
from .._values.names import parse_subdomain
from .._values.refused import ValueRefused, quoted

Data = t.Dict[str, t.Any]
Report = t.Callable[[Data], None]
#: A Lease of a run that was killed is free after so many seconds. It is renewed three times in that time.
LEASE_SECONDS = 30.0
#: A cluster that does not answer for so long gets no Lease; the run will say what is wrong with it.
LOOK_SECONDS = 5.0
#: A run that is over gets so many seconds to give its Leases back before a second one calls it at work.
ENDING_SECONDS = 20.0
_POLL = 0.2


def key_of(fabric: str, clusters: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """What makes two runs runs of one fabric on one controller: its name, and the ways to its clusters."""
    ways = []
    for entry in clusters:
        way = entry.get("api_url") or entry.get("kubeconfig") or ""
        ways.append([str(entry.get("name")), os.path.realpath(os.path.expanduser(way)) if isinstance(way, str) and "://" not in way else way])
    return json.dumps([fabric, sorted(ways, key=str)], sort_keys=True, default=str)


def lease_name(fabric: str) -> str:
    """The Lease of a fabric; fabrics may have names that no object can have."""
    try:
        return parse_subdomain("multicluster-run-" + fabric)
    except ValueRefused:
        return "multicluster-run-" + hashlib.sha256(fabric.encode("utf-8")).hexdigest()[:16]


def held_by(key: str, pid: int) -> t.Optional[Data]:
    """What the lock's holder says when it is held for that very process, else None."""
    told = local_lock.ask(key)
    mine = told and told.get("pid") == pid and told.get("born") == local_lock.birth(pid)
    return told if mine else None


def take(request: t.Mapping[str, t.Any], told: t.Callable[[Data], bool]) -> None:
    """Start the process that holds the lock until ``request['pid']`` ends; ``told`` gets its rows (see ``keep``)."""
    born = local_lock.birth(request["pid"])
    local_lock.keeper(lambda report, stop: keep(dict(request, born=born), report, stop), told)


def keep(request: t.Mapping[str, t.Any], report: Report, stop: threading.Event) -> None:
    """Take the lock, hold it until the process ends, give it back.

    ``request``: {fabric, scope: controller|fabric, wait, holder, pid, born, clusters, namespace}. Rows that are reported:
    {waiting: who}, at most once; then {held: True, leases: [cluster], unlocked: [failure]} or {held: False, who}.
    """
    watch = threading.Thread(target=local_lock.outlive, args=(request["pid"], request["born"], stop), daemon=True)
    watch.start()
    keeping = _Keeping(request, report, stop)
    try:
        if keeping.locally() and keeping.in_clusters():
            report({"held": True, "leases": sorted(keeping.leases), "unlocked": keeping.unlocked})
            keeping.hold()
    finally:
        keeping.release()


class _Keeping:
    def __init__(self, request: t.Mapping[str, t.Any], report: Report, stop: threading.Event) -> None:
        self._request, self._report, self._stop = request, report, stop
        self._deadline = time.monotonic() + float(request["wait"])
        self._waiting = False
        self.leases: t.Dict[str, Lease] = {}
        self.unlocked: t.List[Data] = []
        self._key = key_of(request["fabric"], request["clusters"])
        self._local: t.Optional[local_lock.LocalLock] = None
        self._info: Data = {
            "holder": request["holder"], "since": local_lock.moment(), "pid": request["pid"], "born": request["born"],
            "keeper": os.getpid(), "scope": request["scope"], "leases": [], "unlocked": [], "lost": "",
        }  # fmt: skip

    def locally(self) -> bool:
        """The lock on this machine."""
        if not local_lock.is_supported():
            return True
        self._local = local_lock.LocalLock(self._key, self._info)
        ending = 0.0
        while not self._take_local():
            told = local_lock.ask(self._key)
            over = told is None or (told and not local_lock.lives(told.get("pid", 0), told.get("born", "")))
            if over and ending < ENDING_SECONDS and not self._stop.is_set():
                ending += _POLL  # that run is over and about to give its Leases back: nobody has to be told
                self._stop.wait(_POLL)
                continue
            told = told or {}
            if not self._wait_for("{0} since {1}".format(quoted(told.get("holder", "?")), quoted(told.get("since", "?")))):
                return False
        return not self._stop.is_set()

    def _take_local(self) -> bool:
        try:
            return t.cast(local_lock.LocalLock, self._local).take()
        except OSError as error:
            self.unlocked.append(
                {"cluster": "controller", "operation": "take the lock of this machine", "reason": "lock_unsupported", "message": str(error), "status": None}
            )
            return True

    def in_clusters(self) -> bool:
        """A Lease in every cluster that answers, in the order of their names, so that two runs never wait for each other."""
        if self._request["scope"] != "fabric":
            return True
        name, namespace = lease_name(self._request["fabric"]), self._request["namespace"]
        path = "/apis/coordination.k8s.io/v1/namespaces/{0}/leases/{1}".format(namespace, name)
        clusters = Clusters(self._request["clusters"], LOOK_SECONDS)

        def look(unused: str, client: t.Any) -> t.Any:
            try:
                return client.get(path)
            except NotFound:
                return None

        found = clusters.read("look at the lock", look)
        manager = field_manager(self._request["fabric"])
        servers: t.Set[str] = set()
        for cluster in sorted(found):
            server = clusters.clients[cluster].access.server
            if server in servers:
                continue  # one API server under two names: its Lease is ours already
            servers.add(server)
            if found[cluster] is not None:
                self._tell("cluster {0}: {1}".format(cluster, holder_of(found[cluster])))
            lease = Lease(clusters.clients[cluster], namespace, name, manager, LEASE_SECONDS)
            lease.holder = "{0} {1}".format(self._request["holder"], lease.holder)
            try:
                lease.acquire(max(0.0, self._deadline - time.monotonic()), self._stop)
            except LeaseHeld as error:
                self._report({"held": False, "who": "cluster {0}: {1}".format(cluster, error.message)})
                return False
            except KubeError as error:
                clusters.fail(error)
                continue
            self.leases[cluster] = lease
        self.unlocked += clusters.failures
        self._info.update(leases=sorted(self.leases), unlocked=self.unlocked)
        return not self._stop.is_set()

    def hold(self) -> None:
        """Until the run ends. A Lease that somebody else got is told to the run's next playbook; an outage is not."""
        while not self._stop.wait(1.0):
            for cluster, lease in self.leases.items():
                try:
                    lease.check()
                except LeaseLost as error:
                    if "another run" in error.message:
                        self._info["lost"] = "cluster {0}: {1}".format(cluster, error.message)

    def release(self) -> None:
        """Give everything back, the lock on this machine last."""
        for lease in self.leases.values():
            lease.release()
        if self._local is not None:
            self._local.release()

    def _wait_for(self, who: str) -> bool:
        """False when there is no time left for waiting."""
        if self._stop.is_set() or time.monotonic() >= self._deadline:
            self._report({"held": False, "who": who})
            return False
        self._tell(who)
        self._stop.wait(_POLL)
        return True

    def _tell(self, who: str) -> None:
        if not self._waiting and time.monotonic() < self._deadline:
            self._report({"waiting": who})
        self._waiting = True


def check_request(request: t.Mapping[str, t.Any]) -> None:
    """Raises ValueError before anything is started."""
    field_manager(str(request["fabric"]))
    parse_subdomain(str(request["namespace"]), "name_invalid")
    if float(request["wait"]) < 0:
        raise ValueRefused("value_range", "wait must not be negative")
