# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler: a service's main program. It keeps in its own process what needs API servers only, and runs playbooks for the rest.

``python -m ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program CONFIG``; CONFIG is JSON:
{fabric, inventory, capabilities: [name], clusters, watch: [{resource, selector, playbooks}], command: [argument], window, longest,
watch_seconds, limit, retry: [first, longest], every, listen: address:port, lock_namespace}.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import threading
import time
import typing as t

from ..._io import http_pages
from ..._io.settings_source import read_text
from ..._io.structured_log import Log
from ..._io.systemd_notify import notify, watchdog_seconds
from ..._values.refused import ValueRefused, quoted
from .capabilities import CAPABILITIES
from .control_loop import EVERY, ControlLoop, entries_of
from .metrics import Metrics
from .node_calls import PlaySpeaker
from .playbooks import PlaybookRunner
from .settings import POD_RANGES, SettingsReader

Data = dict[str, t.Any]
#: So often the program looks after everything, in seconds.
TICK = 0.5


class Program:
    """One life of the service. Raises ValueRefused for a configuration, or at its start an inventory, that makes no sense."""

    def __init__(self, config: t.Mapping[str, t.Any], log: Log, stop: threading.Event, reload: threading.Event) -> None:
        self._config, self._log, self._stop, self._reload = config, log, stop, reload
        self._metrics = Metrics()
        self._playbooks = PlaybookRunner(config, log, self._metrics, self._handled)
        self._desired = [name for name in (*CAPABILITIES, POD_RANGES) if name in (config.get("capabilities") or ())]
        self._settings = SettingsReader(
            config["command"], config.get("inventory") or "", self._desired, float(config.get("limit", 600)), stop
        )
        self._speaker = PlaySpeaker(config["command"], float(config.get("limit", 600)), stop, log, self._metrics)
        self._requests: dict[str, Data] = {}
        self._control_loop: ControlLoop | None = None
        self._problem, self._read_at = "", time.monotonic()

    def run(self) -> None:
        """Until ``stop`` is set."""
        server = self._serve()
        try:
            notify("STATUS=reading the inventory")
            self._use(self._settings.read())
            self._playbooks.start()
            notify("READY=1\nSTATUS=following the clusters")
            self._log.say("program", "started", capabilities=sorted(self._requests), playbooks=self._playbooks.books)
            gc.freeze()  # what was imported stays: no collection has to look at it again
            self._stay()
        finally:
            notify("STOPPING=1")
            if self._control_loop is not None:
                self._control_loop.stop()
            self._speaker.end()
            if self._playbooks.is_alive:
                self._playbooks.stop()
            if server is not None:
                server.shutdown()
            self._log.say("program", "ended")

    def _stay(self) -> None:
        pause = watchdog_seconds() or 0.0
        alive_at = 0.0
        while not self._stop.wait(TICK):
            now = time.monotonic()
            if pause and now - alive_at >= min(pause, 10.0) and not any(self._dead()):
                notify("WATCHDOG=1")
                alive_at = now
            if self._reload.is_set() or self._settings.changed():
                self._reload.clear()
                self._read_again()

    def _dead(self) -> t.Iterator[str]:
        """Threads that have ended, for which a service manager should start the program anew."""
        if not self._playbooks.is_alive:
            yield "playbooks"
        if self._control_loop is not None:
            yield from self._control_loop.dead()

    def _handled(self, cluster: str, kind: str) -> bool:
        return self._control_loop is not None and self._control_loop.handles(cluster, kind)

    # -- the settings

    def _read_again(self) -> None:
        notify("RELOADING=1\nSTATUS=reading the inventory again")
        try:
            self._use(self._settings.read())
            self._problem = ""
        except (ValueError, KeyError) as error:
            self._problem = str(error)
            self._log.say(
                "settings",
                "kept",
                message=f"the inventory cannot be used, so the settings from before it are kept: {error}",
            )
        notify(
            "READY=1\nSTATUS=following the clusters"
            + (", with the settings from before the inventory broke" if self._problem else "")
        )

    def _use(self, requests: t.Mapping[str, Data]) -> None:
        """Raises ValueRefused, with everything as before, for settings that make no sense."""
        self._read_at = time.monotonic()
        if requests == self._requests and self._requests:
            self._log.say("settings", "unchanged")
            return
        control_loop = None
        if requests:
            control_loop = ControlLoop(
                requests,
                self._log,
                self._metrics,
                float(self._config.get("every") or EVERY),
                self._playbooks.ask,
                self._config.get("lock_namespace") or "kube-system",
                self._speaker,
                self._speaker.set_ranges,
            )
        self._playbooks.follow(self._followed(requests), requests)
        before, self._control_loop, self._requests = self._control_loop, control_loop, dict(requests)
        if before is not None:
            before.stop()
        if control_loop is not None:
            control_loop.start()
            if control_loop.follows_ranges:
                self._speaker.prepare()  # a pod in a further block waits for its first packets
        self._log.say(
            "settings",
            "used",
            capabilities=sorted(requests),
            clusters=[str(entry["name"]) for entry in entries_of(requests)],
        )

    def _followed(self, requests: t.Mapping[str, Data]) -> list[t.Mapping[str, t.Any]]:
        """The clusters of which the nodes are followed: those of the inventory as it is now, with the access that the configuration names for them."""
        given = {str(entry["name"]): entry for entry in self._config["clusters"]}
        now = entries_of(requests)
        return [given.get(str(entry["name"]), entry) for entry in now] if now else list(given.values())

    # -- who asks how it goes

    def _serve(self) -> t.Any:
        listen = str(self._config.get("listen") or "")
        if not listen:
            return None
        found = re.match(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})\Z", listen)
        if found is None or int(found.group(3)) > 65535:
            raise ValueRefused(
                "choice",
                f"listen (reconciler_listen) is {quoted(listen)} and should be address:port, as in 127.0.0.1:9472",
            )
        pages = {"/metrics": self._metrics_page, "/healthz": self._health, "/readyz": self._ready}
        try:
            return http_pages.serve(found.group(1) or found.group(2), int(found.group(3)), pages)
        except OSError as error:
            raise ValueRefused(
                "choice", f"listen (reconciler_listen): cannot listen on {listen}: {error.strerror}"
            ) from None

    def _metrics_page(self) -> tuple[int, str, str]:
        return 200, "text/plain; version=0.0.4", self._metrics.text(self._gauges())

    def _gauges(self) -> t.Iterator[tuple[str, t.Mapping[str, str], float]]:
        yield "settings_age_seconds", {}, time.monotonic() - self._read_at
        yield "settings_current", {}, float(not self._problem)
        yield "queue_length", {"capability": "playbooks"}, len(self._playbooks)
        if self._control_loop is not None:
            yield from self._control_loop.gauges()

    def _health(self) -> tuple[int, str, str]:
        return _page(list(self._dead()))

    def _ready(self) -> tuple[int, str, str]:
        troubles = list(self._dead())
        if self._problem:
            troubles.append("the inventory cannot be used: " + self._problem)
        if self._control_loop is not None:
            troubles += self._control_loop.troubles()
        # what a cluster does to its own Services must not make this one unready
        return _page(troubles, list(self._control_loop.held()) if self._control_loop is not None else ())


def _page(troubles: t.Sequence[str], notices: t.Sequence[str] = ()) -> tuple[int, str, str]:
    lines = [*(troubles or ("ok",)), *notices]
    return (503 if troubles else 200), "text/plain", "".join(line + "\n" for line in lines)


def main(words: t.Sequence[str]) -> int:
    """The program."""
    if len(words) != 1:
        sys.stderr.write("usage: reconciler CONFIG\n")
        return 2
    stop, reload = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *unused: stop.set())
    signal.signal(signal.SIGHUP, lambda *unused: reload.set())
    os.umask(0o077)
    log = Log()
    try:
        Program(json.loads(read_text(words[0])), log, stop, reload).run()
    except ValueError as error:
        log.say("program", "error", message=str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
