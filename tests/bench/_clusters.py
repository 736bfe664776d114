# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What benchmarks over real API servers share: the servers, a bare client, timed processes, rows."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "api"))

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import in_flight
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.objects import WRITES
from api_server import TOKEN, ApiServer

#: A flow in a fresh interpreter, as a module runs in one. Python and its imports have started when the clock does:
#: Ansible pays for them whatever a module does, and they are shown by themselves.
DRIVER = """
import importlib, json, sys, time
ask = json.load(sys.stdin)
flow = importlib.import_module("ansible_collections.multicluster.network.plugins.module_utils._flows." + ask["flow"])
import concurrent.futures, urllib3
started = time.perf_counter()
result = flow.run(ask["request"], **ask["more"])
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "result": {key: result[key] for key in ("changed", "failures", "refused", "stats")},
                  "plan": {key: value for key, value in result["plan"].items() if key != "changes"}}))
"""

#: The least that has to happen: the same requests, as many at a time, from a program that knows them beforehand.
BARE = """
import concurrent.futures, json, ssl, sys, time
import urllib3
ask = json.load(sys.stdin)
batches = [[(method, path, json.dumps(body).encode(), kind) for method, path, body, kind in batch] for batch in ask["batches"]]
context = ssl.create_default_context(cadata=ask["ca"])
started = time.perf_counter()
pool = urllib3.PoolManager(ssl_context=context, maxsize=ask["parallel"])
def send(one):
    method, path, body, kind = one
    answer = pool.request(method, ask["url"] + path, body=body, headers={"Authorization": "Bearer " + ask["token"], "Content-Type": kind})
    assert answer.status < 300, (path, answer.status, answer.data[:300])
with concurrent.futures.ThreadPoolExecutor(ask["parallel"]) as pool_of_threads:
    for batch in batches:
        list(pool_of_threads.map(send, batch))
print(json.dumps({"seconds": time.perf_counter() - started}))
"""


#: The same lists, read and decoded by the same client, and nothing else.
LISTS = """
import json, sys, time
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import Clusters
from ansible_collections.multicluster.network.plugins.module_utils._values.gc_pause import gc_paused
import urllib3
ask = json.load(sys.stdin)
def lists():
    clusters = Clusters(ask["clusters"], 120.0)
    def read(name, client):
        return [client.list(path, label_selector=labels) for path, labels in ask["lists"][name]]
    assert set(clusters.read("list", read)) == set(ask["lists"]) and not clusters.failures
with gc_paused():
    started = time.perf_counter()
    lists()
    seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds}))
"""


@contextlib.contextmanager
def api_server(users=()):
    """A fresh API server; gone afterwards. ``users``: as of ApiServer."""
    with tempfile.TemporaryDirectory() as folder:
        server = ApiServer(pathlib.Path(folder), users=users)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def python(text, ask):
    """The answer of a small program, with the wall clock of its whole process."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-B", "-c", text], input=json.dumps(ask), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr.strip()[-3000:])
    return dict(json.loads(done.stdout), process=time.perf_counter() - started)


def run_flow(name, request, **more):
    """One run of a flow, which must not have failed. ``more``: what its module gives it besides the options."""
    answer = python(DRIVER, {"flow": name, "request": request, "more": more})
    if answer["result"]["failures"]:
        raise SystemExit(f"the run failed: {answer['result']['failures'][:3]}")
    return answer


def lists_alone(clusters, lists):
    """Seconds of complete lists and nothing else: {cluster: [(path, label selector)]}."""
    return python(LISTS, {"clusters": clusters, "lists": lists})["seconds"]


def bare(server, batches):
    """The bare client: batches of (method, path, body, content type), one batch after the other."""
    return python(BARE, {"ca": server.ca, "url": server.url, "token": TOKEN, "batches": batches, "parallel": WRITES})


def together(tasks):
    """Prepare something with a few requests at a time."""
    for answer in in_flight([lambda task=task: caught(task) for task in tasks], WRITES):
        if isinstance(answer, Exception):
            raise answer


def caught(task):
    try:
        return task()
    except Exception as error:  # raised again by together()
        return error


def play(tasks, folder, variables=None):
    """Wall clock of ansible-playbook with these tasks on localhost."""
    book, extra = folder / "play.json", folder / "vars.json"
    book.write_text(json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]))
    extra.write_text(json.dumps(variables or {}))
    environment = dict(
        os.environ, ANSIBLE_STDOUT_CALLBACK="minimal", ANSIBLE_DISPLAY_OK_HOSTS="no", ANSIBLE_LOCALHOST_WARNING="0"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "localhost,",
            str(book),
            "-e",
            "@" + str(extra),
            "-e",
            "ansible_python_interpreter=" + sys.executable,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr).strip()[-3000:])
    return time.perf_counter() - started


def median(values):
    return statistics.median(values)


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)
