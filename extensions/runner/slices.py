# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow "Everything in slices" without AWX: its jobs by ansible-runner on execution nodes, over SSH.

    python3 slices.py FOLDER HOST [HOST ...]

FOLDER is a private data directory of ansible-runner (inventory, env, project). Every job is one pipe,
``ansible-runner transmit | ssh HOST ansible-runner worker | ansible-runner process``, and no file is shared: what a job hands on are the statistics
of its run, and the next one gets them as extra variables. The nodes that the plan names are cut by name, every n-th, as AWX cuts hosts.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import getpass
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing as t

# Installed or in a clone, this file is extensions/runner/slices.py of ansible_collections/multicluster/network.
sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[5]))

from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

Data = dict[str, t.Any]
PLAN, NEWS = "__multicluster_workflow_plan", "__multicluster_workflow_news"
#: Of the statistics of a run only these are passed on.
JOB_OUTPUT = re.compile(r"multicluster_workflow\Z|__multicluster_workflow_[a-z0-9_]+\Z")
#: So many lines of a job that failed are shown; all of it is in its folder of artifacts.
SHOWN = 25


class Job(t.NamedTuple):
    """How a job ended: whether well, what it hands on, and what it printed."""

    good: bool
    job_output: Data
    text: str


class Workflow:
    """The jobs of one workflow. folder: the private data directory, which keeps the artifacts; copy: what is transmitted, without them."""

    def __init__(self, arguments: argparse.Namespace, copy: pathlib.Path) -> None:
        self.folder, self.copy = pathlib.Path(arguments.folder), copy
        self.hosts, self.slices = list(arguments.hosts), arguments.slices or len(arguments.hosts)
        self.limit, self.worker, self.rsh = arguments.limit, arguments.worker, shlex.split(arguments.rsh)
        self.name = (
            arguments.workflow or f"{getpass.getuser()}@{socket.gethostname()} {time.strftime('%Y-%m-%d %H:%M:%S')}"
        )
        self.ident = re.sub(r"[^A-Za-z0-9.-]+", "-", self.name)
        self.job_output: Data = {"multicluster_workflow": self.name}
        self.began = time.monotonic()
        self.running: list[subprocess.Popen[bytes]] = []
        shutil.copytree(
            self.folder,
            copy,
            symlinks=True,
            ignore=shutil.ignore_patterns("artifacts", "daemon.log"),
            dirs_exist_ok=True,
        )
        for name in ("project", "env"):
            (copy / name).mkdir(exist_ok=True)
        # Ansible runs in the folder "project". Alongside what the user has there already.
        given = copy / "env" / "cmdline"
        given.write_text(
            f"{given.read_text('utf-8').strip() if given.exists() else ''} -e @../job_output.json".strip(), "utf-8"
        )

    def say(self, text: str) -> None:
        """A line with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def job(self, stage: str, label: str, host: str, limit: str = "") -> Job:
        """One playbook on one execution node, through its end."""
        ident, begun = f"{self.ident}.{label}", time.monotonic()
        kept = self.folder / "artifacts" / ident
        shutil.rmtree(kept, ignore_errors=True)
        send = [
            "ansible-runner",
            "transmit",
            str(self.copy),
            "--ident",
            ident,
            "-p",
            "multicluster.network.slices." + stage,
        ]
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as far:
            sent = subprocess.Popen(
                send + (["--limit", limit] if limit else []),
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
            )
            work = subprocess.Popen(
                [*self.rsh, host, self.worker], stdin=sent.stdout, stdout=subprocess.PIPE, stderr=far
            )
            take = ["ansible-runner", "process", str(self.folder), "--ident", ident]
            taken = subprocess.Popen(take, stdin=work.stdout, stdout=subprocess.DEVNULL, stderr=errors)
            self.running += [sent, work, taken]
            for stream in (sent.stdout, work.stdout):
                if stream:
                    stream.close()  # so that whoever writes learns that its reader is gone
            codes = [process.wait() for process in (sent, work, taken)]
            # Where a machine is not reached, the two programs on this side only tell that the pipe broke.
            said = _said(far) or _said(errors)
        good = codes == [0, 0, 0] and _text(kept / "status") == "successful" and _text(kept / "rc") == "0"
        job = Job(good, _read_job_output(kept / "job_events"), (_text(kept / "stdout") + "\n" + said).strip())
        self.say(f"{label} on {host}: {'ok' if good else 'FAILED'} in {time.monotonic() - begun:.1f} s")
        if not good:
            print("\n".join(job.text.splitlines()[-SHOWN:]), flush=True)
        return job

    def stop(self) -> None:
        """End what runs here; what runs on an execution node ends when it finds its connection gone."""
        for process in self.running:
            if process.poll() is None:
                process.terminate()

    def once(self, stage: str, label: str) -> Job:
        """A job that is not sliced: on the first execution node."""
        self._extra_variables()
        job = self.job(stage, label, self.hosts[0])
        self.job_output.update(job.job_output)
        return job

    def sliced(self, label: str) -> bool:
        """The job that converges nodes, its slices side by side. What they hand on comes together in the order in which they ended."""
        self._extra_variables()
        parts = [part for part in (self._nodes()[number :: self.slices] for number in range(self.slices)) if part]
        running, good = {}, True
        with concurrent.futures.ThreadPoolExecutor(max(1, len(parts))) as pool:
            for number, part in enumerate(parts, 1):
                (self.copy / f"slice-{number}").write_text("\n".join(part) + "\n", "utf-8")
                host = self.hosts[(number - 1) % len(self.hosts)]
                running[pool.submit(self.job, "converge", f"{label}-{number}", host, f"@../slice-{number}")] = number
            for future in concurrent.futures.as_completed(running):
                job = future.result()
                self.job_output.update(job.job_output)
                good = good and job.good
        return good

    def run(self) -> bool:
        """All jobs. A failure keeps nobody from the rest, and the last one gives the lock back and is red where nothing was proven."""
        if self.once("plan", "plan").good:
            self.say(f"{len(self._nodes())} nodes in {self.slices} slices")
            self.sliced("converge")
            self.once("publish", "publish")
            if self.job_output.get(NEWS) == []:
                self.say("no cluster has news")
            else:
                self.sliced("news")
            self.once("capabilities", "capabilities")
            proof = self.once("verify", "proof")
            if proof.good:
                print("\n".join(proof.text.splitlines()[-SHOWN:]), flush=True)
        return self.once("end", "end").good

    def _extra_variables(self) -> None:
        (self.copy / "job_output.json").write_text(json.dumps(self.job_output), "utf-8")

    def _nodes(self) -> list[str]:
        """Hosts of the plan by name, those that --limit leaves."""
        try:
            names = sorted(packed.unpack(str(self.job_output[PLAN]))["nodes"])
        except (ValueRefused, KeyError, TypeError) as error:
            raise SystemExit(f"the plan of the job output cannot be read: {error}") from None
        patterns = [name for name in self.limit.split(",") if name]
        return [
            name for name in names if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        ]


def _text(file: pathlib.Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _said(file: t.IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()


def _read_job_output(events: pathlib.Path) -> Data:
    """The statistics of a run, out of its last event."""
    found: Data = {}
    for file in events.glob("*.json"):
        try:
            event = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(event, dict) and event.get("event") == "playbook_on_stats":
            found.update((event.get("event_data") or {}).get("artifact_data") or {})
    return {name: value for name, value in found.items() if JOB_OUTPUT.match(name)}


def _arguments(words: t.Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description='The workflow "Everything in slices" by ansible-runner on execution nodes, over SSH.'
    )
    parser.add_argument("folder", help="private data directory of ansible-runner: inventory, env, project")
    parser.add_argument(
        "hosts", nargs="+", help="execution nodes, as ssh knows them; the first one also runs what is not sliced"
    )
    parser.add_argument(
        "--slices", type=int, default=0, help="how many slices; as many as there are execution nodes by default"
    )
    parser.add_argument(
        "--limit",
        default="",
        help="names of nodes with commas between, * matches anything: the others are not converged",
    )
    parser.add_argument(
        "--workflow",
        default="",
        help="text of this workflow alone, under which it holds the lock; user, machine and time by default",
    )
    parser.add_argument(
        "--worker", default="ansible-runner worker --keepalive-seconds 10", help="what runs on an execution node"
    )
    parser.add_argument("--rsh", default="ssh", help="what reaches an execution node")
    arguments = parser.parse_args(words)
    if arguments.slices < 0:
        parser.error("--slices is a number from 1")
    if not (pathlib.Path(arguments.folder) / "inventory").is_dir():
        parser.error(f"{arguments.folder} has no folder inventory, so it is no private data directory")
    for program in ("ansible-runner", *shlex.split(arguments.rsh)[:1]):
        if shutil.which(program) is None:
            parser.error(f"{program} is not in PATH")
    return arguments


def _forget_killed(artifacts: pathlib.Path) -> None:
    """Remove what a workflow that was killed left behind."""
    for left in artifacts.glob(".workflow-*"):
        try:
            os.kill(int(left.name.split("-")[1]), 0)
        except (ValueError, ProcessLookupError):
            shutil.rmtree(left, ignore_errors=True)
        except OSError:
            pass  # has another owner, and runs


def main(words: t.Sequence[str]) -> int:
    """0 when all of it was proven."""
    arguments = _arguments(words)
    artifacts = pathlib.Path(arguments.folder) / "artifacts"
    artifacts.mkdir(mode=0o700, exist_ok=True)
    _forget_killed(artifacts)
    # Alongside what it is a copy of, and for this user alone: it may have keys.
    with tempfile.TemporaryDirectory(prefix=f".workflow-{os.getpid()}-", dir=artifacts) as copy:
        workflow = Workflow(arguments, pathlib.Path(copy))

        def stop(*unused: t.Any) -> None:
            workflow.stop()
            raise KeyboardInterrupt

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        try:
            return 0 if workflow.run() else 1
        except KeyboardInterrupt:
            print(
                "stopped. Jobs that ran end with their connections; the lock of this workflow holds until multicluster_workflow_between seconds after them"
            )
            return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
