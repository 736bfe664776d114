# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of one call: their clients, what each was asked, and which of them failed."""

from __future__ import annotations

import os
import time
import traceback
import typing as t
import urllib.parse

from .._plan.plan import Plan
from .._values.refused import ValueRefused, quoted
from .access import AccessRefused, parse_access
from .argspec import limits
from .client import Client
from .errors import BadAnswer, KubeError
from .fanout import fan_out


def contained(name: str, what: str, function: t.Callable[[], t.Any]) -> t.Any:
    """What a server sends against its own schema fails its cluster alone, wherever it is found out; the place is told."""
    try:
        return function()
    except (AttributeError, IndexError, KeyError, TypeError, ArithmeticError, ValueError) as error:
        if isinstance(error, ValueRefused):
            raise  # it has its own words
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = "an object has a form that no API server sends ({0} {1}, {2} line {3})".format(
            type(error).__name__, quoted(error), os.path.basename(place.filename), place.lineno
        )
    raise BadAnswer(name, what, text)


class Clusters:
    """Clients by name. ``failures`` rows {cluster, operation, reason, message, status}; a failed cluster is left out."""

    def __init__(self, given: t.Sequence[t.Mapping[str, t.Any]], timeout: float = 120.0) -> None:
        self._begin(timeout)
        for entry in given:
            name = str(entry.get("name"))
            if name in self.clients:
                raise ValueRefused("duplicate_remote_name", "clusters names {0} twice".format(name))
            try:
                self.clients[name] = Client(parse_access(entry), limits(timeout))
            except AccessRefused as refused:
                self.fail_for(name, "use the access", refused.reason, refused.message)

    @classmethod
    def of(cls, clients: t.Mapping[str, Client], timeout: float = 120.0) -> "Clusters":
        """The same over clients that live longer than one call."""
        self = cls.__new__(cls)
        self._begin(timeout)
        self.clients.update(clients)
        return self

    def _begin(self, timeout: float) -> None:
        self.timeout = timeout
        self.clients: t.Dict[str, Client] = {}
        self.failures: t.List[t.Dict[str, t.Any]] = []
        self._started = time.monotonic()

    def read(
        self, what: str, function: t.Callable[[str, Client], t.Any], names: t.Optional[t.Iterable[str]] = None
    ) -> t.Dict[str, t.Any]:
        """function(name, client) for every cluster, or the named ones, side by side; values of those that answered."""
        return self._run(what, function, self.clients if names is None else names, self.timeout + 5)

    def write(self, what: str, names: t.Iterable[str], function: t.Callable[[str, Client], t.Any]) -> t.Dict[str, t.Any]:
        """As read, for the named clusters and without a limit: a write in progress must not be left behind unseen."""
        return self._run(what, function, list(names), None)

    def _run(
        self,
        what: str,
        function: t.Callable[[str, Client], t.Any],
        names: t.Iterable[str],
        seconds: t.Optional[float],
    ) -> t.Dict[str, t.Any]:
        tasks = {name: (lambda name=name: contained(name, what, lambda: function(name, self.clients[name]))) for name in sorted(names)}
        values = {}
        for name, outcome in fan_out(tasks, seconds, operation=what).items():
            if outcome.error is not None:
                self.fail(outcome.error)
            else:
                values[name] = outcome.value
        return values

    def fail(self, error: KubeError) -> None:
        self.failures.append(error.failure())

    def fail_for(self, cluster: str, operation: str, reason: str, message: str) -> None:
        """Note a failure that no API server told."""
        self.failures.append({"cluster": cluster, "operation": operation, "reason": reason, "message": message, "status": None})

    def server_hosts(self) -> t.List[str]:
        """The hosts of the API servers, as the accesses name them: addresses or names."""
        return [urllib.parse.urlsplit(client.access.server).hostname or "" for client in self.clients.values()]

    def result(self, plan: Plan, **more: t.Any) -> t.Dict[str, t.Any]:
        """A module's result: that of the plan of all clusters, which of them failed, and what they were asked."""
        return dict(plan.result(), failures=self.failures, stats=self.stats(), diff=plan.diff(), warnings=plan.warnings, **more)

    def stats(self) -> t.Dict[str, t.Any]:
        return {
            "requests": {name: dict(sorted(client.stats.items())) for name, client in sorted(self.clients.items())},
            "seconds": round(time.monotonic() - self._started, 3),
        }
