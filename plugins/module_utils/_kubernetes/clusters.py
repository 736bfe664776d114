# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of one call: their clients, what each was asked, and which of them failed.

The same work is done for many clusters at once: a dead one costs its own time, once, and nobody else's.
"""

from __future__ import annotations

import collections
import pathlib
import threading
import time
import traceback
import typing as t
import urllib.parse

from .._plan.plan import Plan
from .._values.refused import ValueRefused, quoted
from .access import AccessRefused, parse_access
from .argspec import limits
from .client import Client
from .errors import BadAnswer, KubeError, TimedOut


def seconds_of(request: t.Mapping[str, t.Any], option: str = "timeout", default: float = 120.0) -> float:
    """A limit of time that an option sets. Raises ValueRefused: in no time nothing can be read, and 0 does not mean the default."""
    given = request.get(option)
    if given is None:
        return default
    if float(given) > 0:  # which is not so of what is no number at all either
        return float(given)
    raise ValueRefused("value_range", f"the option {option} is {given} and should be a number of seconds above 0")


class Outcome(t.NamedTuple):
    """``value`` or ``error`` (a KubeError), and how many seconds it took."""

    value: t.Any
    error: KubeError | None
    seconds: float


def fan_out(
    tasks: t.Mapping[str, t.Callable[[], t.Any]],
    seconds: float | None = None,
    parallel: int = 16,
    operation: str = "read",
) -> dict[str, Outcome]:
    """Run every task (cluster -> function without arguments), at most ``parallel`` at a time; outcomes in the same order.

    ``seconds`` is the limit of each task from its own start; one that overruns counts as TimedOut and its place goes to
    the next. It cannot be stopped (a system call may hold it), so give a limit only to work that reads; None waits.
    KubeErrors are outcomes; any other exception is a bug and is raised here, after all tasks ended.
    """
    outcomes: dict[str, Outcome] = {}
    bugs: list[BaseException] = []
    waiting = collections.deque(tasks)
    running: dict[str, float] = {}
    changed = threading.Condition()

    def work(name: str) -> None:
        started = time.monotonic()
        done: tuple[t.Any, KubeError | None] = None, None
        try:
            done = tasks[name](), None
        except KubeError as caught:
            done = None, caught
        except BaseException as caught:  # raised again in the caller's thread
            bugs.append(caught)
        with changed:
            if running.pop(name, None) is not None:
                outcomes[name] = Outcome(*done, time.monotonic() - started)
            changed.notify()
        del done  # an error knows this frame, and through it all that the others read

    if len(tasks) == 1 and seconds is None:  # nothing to run alongside
        name = waiting.popleft()
        running[name] = time.monotonic()
        work(name)
    with changed:
        while waiting or running:
            now = time.monotonic()
            for name in [name for name, begun in running.items() if seconds is not None and now - begun >= seconds]:
                begun = running.pop(name)
                error = TimedOut(name, operation, f"not done after {seconds or 0:.3g} s")
                outcomes[name] = Outcome(None, error, now - begun)
            while waiting and len(running) < max(1, parallel):
                name = waiting.popleft()
                running[name] = time.monotonic()
                # daemon: an overdue thread must not hold the process at its end
                threading.Thread(target=work, args=(name,), name="mcn-" + name, daemon=True).start()
            if running:
                left = None if seconds is None else max(0.0, min(running.values()) + seconds - time.monotonic())
                changed.wait(left)
    if bugs:
        raise bugs[0]
    return {name: outcomes.pop(name) for name in tasks}  # see work: none of it may stay there


def at_once(*tasks: t.Callable[[], t.Any]) -> list[t.Any]:
    """Run a few functions of one cluster side by side; results in order. The first KubeError is raised once all have ended."""
    outcomes = list(fan_out({str(index): task for index, task in enumerate(tasks)}).values())
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        outcomes.clear()  # an error knows this frame, and through it all that was read
        raise errors.pop(0)
    return [outcome.value for outcome in outcomes]


def in_flight(tasks: t.Sequence[t.Callable[[], t.Any]], parallel: int = 8) -> list[t.Any]:
    """Run functions with at most ``parallel`` at once, results in order. They must not raise."""
    if len(tasks) <= 1:
        return [task() for task in tasks]
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(max_workers=parallel) as pool:
        return list(pool.map(lambda task: task(), tasks))


def contained(name: str, what: str, function: t.Callable[[], t.Any]) -> t.Any:
    """What a server sends against its own schema fails its cluster alone, wherever it is found out; the place is reported."""
    try:
        return function()
    except (AttributeError, IndexError, KeyError, TypeError, ArithmeticError, ValueError) as error:
        if isinstance(error, ValueRefused):
            raise  # it has its own words
        place = traceback.extract_tb(error.__traceback__)[-1]
        file = pathlib.PurePath(place.filename).name
        text = f"an object has a form that no API server sends ({type(error).__name__} {quoted(error)}, {file} line {place.lineno})"
    raise BadAnswer(name, what, text)


class Clusters:
    """Clients by name. ``failures`` rows {cluster, operation, reason, message, status}; a failed cluster is left out."""

    def __init__(self, given: t.Sequence[t.Mapping[str, t.Any]], timeout: float = 120.0) -> None:
        self._begin(timeout)
        for entry in given:
            name = str(entry.get("name"))
            if name in self.clients:
                raise ValueRefused("duplicate_remote_name", f"clusters names {name} twice")
            try:
                self.clients[name] = Client(parse_access(entry), limits(timeout))
            except AccessRefused as refused:
                self.fail_for(name, "use the access", refused.reason, refused.message)

    @classmethod
    def of(cls, clients: t.Mapping[str, Client], timeout: float = 120.0) -> Clusters:
        """The same over clients that live longer than one call."""
        self = cls.__new__(cls)
        self._begin(timeout)
        self.clients.update(clients)
        return self

    def _begin(self, timeout: float) -> None:
        self.timeout = timeout
        self.clients: dict[str, Client] = {}
        self.failures: list[dict[str, t.Any]] = []
        self._started = time.monotonic()

    def read(
        self, what: str, function: t.Callable[[str, Client], t.Any], names: t.Iterable[str] | None = None
    ) -> dict[str, t.Any]:
        """function(name, client) for every cluster, or the named ones, side by side; values of those that answered."""
        return self._run(what, function, self.clients if names is None else names, self.timeout + 5)

    def write(self, what: str, names: t.Iterable[str], function: t.Callable[[str, Client], t.Any]) -> dict[str, t.Any]:
        """As read, for the named clusters and without a limit: a write in progress must not be left behind unseen."""
        return self._run(what, function, list(names), None)

    def _run(
        self,
        what: str,
        function: t.Callable[[str, Client], t.Any],
        names: t.Iterable[str],
        seconds: float | None,
    ) -> dict[str, t.Any]:
        tasks = {
            name: (lambda name=name: contained(name, what, lambda: function(name, self.clients[name])))
            for name in sorted(names)
        }
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
        """Note a failure that no API server reported."""
        self.failures.append(
            {"cluster": cluster, "operation": operation, "reason": reason, "message": message, "status": None}
        )

    def server_hosts(self) -> list[str]:
        """The hosts of the API servers, as the accesses name them: addresses or names."""
        return [urllib.parse.urlsplit(client.access.server).hostname or "" for client in self.clients.values()]

    def result(self, plan: Plan, diff: bool = True, **more: t.Any) -> dict[str, t.Any]:
        """A module's result: that of the plan of all clusters, which of them failed, and what they were asked."""
        found = dict(plan.result(), failures=self.failures, stats=self.stats(), warnings=plan.warnings)
        if diff:
            found["diff"] = plan.diff()
        return {**found, **more}

    def stats(self) -> dict[str, t.Any]:
        return {
            "requests": {name: dict(sorted(client.stats.items())) for name, client in sorted(self.clients.items())},
            "seconds": round(time.monotonic() - self._started, 3),
        }
