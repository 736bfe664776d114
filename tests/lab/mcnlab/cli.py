# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of lab.py."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import typing as t

from . import generate, probes, topology
from .errors import LabError
from .lab import Lab
from .progress import phase, say

Command = t.Callable[[Lab, argparse.Namespace], t.Optional[int]]


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return options.function(Lab(options.name), options) or 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab.py", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--name", default=os.environ.get("MCN_LAB", "demo"), help="which lab (default: $MCN_LAB or demo)"
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, parents=[common])
        command.set_defaults(function=function)
        return command

    command = add("up", _up, "start the lab, or repair and extend a running one")
    command.add_argument("--topology", help="a JSON file, or two, three, dual")
    command.add_argument(
        "--pods",
        choices=topology.PODS,
        help="real: a kubelet and containerd on every node (default: as in the topology)",
    )
    command.add_argument("--nodes", type=int, help="generate a topology of so many nodes")
    command.add_argument("--clusters", type=int, help="into so many clusters (2)")
    command.add_argument(
        "--light",
        action="store_true",
        help="nodes of namespaces and mounts, without systemd; as many as memory carries",
    )
    add("down", lambda lab, o: lab.down(), "end the lab and remove all of it")
    add("status", _status, "print what runs, as JSON; fails if something is missing")
    command = add(
        "node-stop", _timed("node-stop", lambda lab, o: lab.node_stop(o.node)), "power cut of a node; its files stay"
    )
    command.add_argument("node")
    command = add(
        "node-rebuild",
        _timed("node-rebuild", lambda lab, o: lab.node_rebuild(o.node)),
        "reboot a node over its kept files",
    )
    command.add_argument("node")
    command = add("api-stop", _timed("api-stop", lambda lab, o: lab.api_stop(o.cluster)), "stop a cluster's API server")
    command.add_argument("cluster")
    command = add("api-start", _timed("api-start", lambda lab, o: lab.api_start(o.cluster)), "start it again")
    command.add_argument("cluster")
    command = add("kube-proxy-start", lambda lab, o: lab.kube_proxy_start(o.node), "run kube-proxy inside a node")
    command.add_argument("node")
    command = add("kube-proxy-stop", lambda lab, o: lab.kube_proxy_stop(o.node), "end it and remove its rules")
    command.add_argument("node")
    command = add(
        "image",
        _timed("image", lambda lab, o: lab.image(o.image, o.program)),
        "make a program an image of every node's, for real pods",
    )
    command.add_argument("image", help="the name with its tag, as a manifest writes it")
    command.add_argument("program", type=pathlib.Path, help="one that links nothing; it becomes the entry point")
    command = add("exec", _exec, "run a command inside a node: exec NODE -- COMMAND...")
    command.add_argument("node")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command = add("pod-exec", _pod_exec, "run a command in a pod's network: pod-exec POD -- COMMAND...")
    command.add_argument("pod")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command = add("kubectl", _kubectl, "kubectl as a cluster's administrator: kubectl CLUSTER -- ARGUMENTS...")
    command.add_argument("cluster")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command = add("ssh", _ssh, "log into a node over the underlay: ssh NODE [-- COMMAND...]")
    command.add_argument("node")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command = add("ping-matrix", _ping_matrix, "every pod to every pod; fails naming those that do not answer")
    command.add_argument("--cross-only", action="store_true", help="only between clusters")
    command.add_argument("--json", action="store_true")
    command = add("capture", _capture, "capture the underlay's bridge for some seconds")
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.add_argument("--seconds", type=float, required=True)
    command.add_argument("--filter", default="", help="a tcpdump expression")
    command = add(
        "capture-start", lambda lab, o: lab.capture.start(o.out, o.filter), "start a capture in the background"
    )
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.add_argument("--filter", default="", help="a tcpdump expression")
    add("capture-stop", lambda lab, o: say(lab.capture.stop()), "end it")
    command = add("snapshot", _snapshot, "print a node's or a cluster's state as stable JSON")
    command.add_argument("target")
    return top


def _up(lab: Lab, options: argparse.Namespace) -> None:
    if options.nodes is None:
        if options.clusters is not None or options.light:
            raise LabError(
                '--clusters and --light are about a generated topology: say --nodes as well (a file has "nodes": "light" itself)'
            )
        lab.up(options.topology, options.pods)
        return
    if options.topology:
        raise LabError("--topology names what there is and --nodes generates it: choose one")
    lab.up(
        None,
        options.pods,
        generate.topology(options.nodes, 2 if options.clusters is None else options.clusters, options.light),
    )


def _timed(text: str, function: Command) -> Command:
    def call(lab: Lab, options: argparse.Namespace) -> None:
        with phase(text):
            function(lab, options)

    return call


def _status(lab: Lab, options: argparse.Namespace) -> int:
    status = lab.status()
    print(json.dumps(status, indent=2))
    alive = all(all(v for k, v in c.items() if isinstance(v, bool)) for c in status["clusters"].values())
    return (
        0
        if alive
        and status["underlay"]
        and all(node["leader"] and node.get("pod_runtime", True) for node in status["nodes"].values())
        else 1
    )


def _words(words: list[str], default: list[str] | None = None) -> list[str]:
    words = words[1:] if words[:1] == ["--"] else words
    if not words and default is None:
        raise LabError("which command?")
    return words or default or []


def _exec(lab: Lab, options: argparse.Namespace) -> None:
    command = lab.machine(options.node).enter(_words(options.command, ["/bin/bash"]))
    os.execvp(command[0], command)


def _pod_exec(lab: Lab, options: argparse.Namespace) -> None:
    command = lab.enter_pod(options.pod, _words(options.command, ["/bin/bash"]))
    os.execvp(command[0], command)


def _kubectl(lab: Lab, options: argparse.Namespace) -> None:
    command = lab.kubectl_command(options.cluster, _words(options.command))
    os.execvp(command[0], command)


def _ssh(lab: Lab, options: argparse.Namespace) -> None:
    node = lab.topology.node(options.node)
    os.execvp(
        "ssh",
        [
            "ssh",
            "-F",
            "none",
            "-i",
            str(lab.ssh.client_key),
            *lab.ssh.options(),
            f"root@{node.address}",
            *_words(options.command, []),
        ],
    )


def _ping_matrix(lab: Lab, options: argparse.Namespace) -> int:
    rows = lab.ping_matrix(options.cross_only)
    failed = [row for row in rows if not row["ok"]]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print(probes.table(rows))
        print(f"{len(rows) - len(failed)} of {len(rows)} pairs answer")
        for row in failed:
            print(f"FAIL {row['source']} -> {row['target']} ({row['address']}): {row['error']}")
    return 1 if failed else 0


def _capture(lab: Lab, options: argparse.Namespace) -> None:
    with phase(f"capturing for {options.seconds:g} s into {options.out}"):
        say(lab.capture.take(options.out, options.seconds, options.filter))


def _snapshot(lab: Lab, options: argparse.Namespace) -> None:
    print(json.dumps(lab.snapshot(options.target), indent=1, sort_keys=True))
