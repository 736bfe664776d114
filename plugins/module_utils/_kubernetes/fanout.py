# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same work for many clusters at once: a dead one costs its own time, once, and nobody else's."""

from __future__ import annotations

import collections
import threading
import time
import typing as t

from .errors import KubeError, TimedOut


class Outcome(t.NamedTuple):
    """``value`` or ``error`` (a KubeError), and how many seconds it took."""

    value: t.Any
    error: t.Optional[KubeError]
    seconds: float


def fan_out(
    tasks: t.Mapping[str, t.Callable[[], t.Any]],
    seconds: t.Optional[float] = None,
    parallel: int = 16,
    operation: str = "read",
) -> t.Dict[str, Outcome]:
    """Run every task (cluster -> function without arguments), at most ``parallel`` at a time; outcomes in the same order.

    ``seconds`` is the limit of each task from its own start; one that overruns counts as TimedOut and its place goes to
    the next. It cannot be stopped (a system call may hold it), so give a limit only to work that reads; None waits.
    KubeErrors are outcomes; any other exception is a bug and is raised here, after all tasks ended.
    """
    outcomes: t.Dict[str, Outcome] = {}
    bugs: t.List[BaseException] = []
    waiting = collections.deque(tasks)
    running: t.Dict[str, float] = {}
    changed = threading.Condition()

    def work(name: str) -> None:
        started = time.monotonic()
        value, error = None, None
        try:
            value = tasks[name]()
        except KubeError as caught:
            error = caught
        except BaseException as caught:  # raised again in the caller's thread
            bugs.append(caught)
        with changed:
            if running.pop(name, None) is not None:
                outcomes[name] = Outcome(value, error, time.monotonic() - started)
            changed.notify()

    if len(tasks) == 1 and seconds is None:  # nothing to run beside
        name = waiting.popleft()
        running[name] = time.monotonic()
        work(name)
    with changed:
        while waiting or running:
            now = time.monotonic()
            for name in [name for name, begun in running.items() if seconds is not None and now - begun >= seconds]:
                begun = running.pop(name)
                error = TimedOut(name, operation, "not done after {0:.3g} s".format(seconds or 0))
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
    return {name: outcomes[name] for name in tasks}


def at_once(*tasks: t.Callable[[], t.Any]) -> t.List[t.Any]:
    """Run a few functions of one cluster side by side; results in order. The first KubeError is raised once all have ended."""
    outcomes = list(fan_out({str(index): task for index, task in enumerate(tasks)}).values())
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


def in_flight(tasks: t.Sequence[t.Callable[[], t.Any]], parallel: int = 8) -> t.List[t.Any]:
    """Run functions with at most ``parallel`` at once, results in order. They must not raise."""
    if len(tasks) <= 1:
        return [task() for task in tasks]
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(max_workers=parallel) as pool:
        return list(pool.map(lambda task: task(), tasks))
