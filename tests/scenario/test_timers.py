# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs again and again without people: the role's timers under a real systemd, over a control plane of three API servers.

The host of the timers is a node of the lab. Nobody runs a playbook of the collection after the timers are there. The tests build on each other.
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError
from control_plane_lab import EIP, GATEWAY, MOVE, NET, PORT, PREFIX, SERVERS, TOKEN, Plane, ip
from harness import LAB, REPO

TOPOLOGY = str(pathlib.Path(__file__).resolve().parent / "one_node.json")
HOST, TIMERS = "hub-1", ("ccm.control_plane_address", "load_balancers")
HOME = "/opt/collections/ansible_collections/multicluster/network"
#: What a user's program does at a hoster with a failover address: one call.
HOOK = """
import sys, urllib.request
address, node, url = sys.argv[1:]
urllib.request.urlopen(urllib.request.Request(url + address + "/" + node, b"", method="POST"), timeout=30).read()
"""
SERVICES = "/api/v1/namespaces/default/services"


class Mover(http.server.ThreadingHTTPServer):
    """The hoster's side of that call. ``moves`` are the nodes that were given the address, in order."""

    daemon_threads = True

    def __init__(self, plane):
        super().__init__((GATEWAY, 0), Handler)
        (plane.folder / "move.py").write_text(MOVE)
        self.words = [sys.executable, str(plane.folder / "move.py")]
        self.moves = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://{0}:{1}/".format(*self.server_address)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        address, node = self.path.strip("/").split("/")
        done = subprocess.run(
            [*self.server.words, address, node, PREFIX, ",".join(SERVERS)], check=False, stdin=subprocess.DEVNULL
        )
        self.server.moves.append(node)
        self.send_response(500 if done.returncode else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *unused):
        pass


def until(condition, what, seconds=240.0):
    """Timers have their own time, and machines theirs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.5)


def attach(fabric):
    """A cable from the node to the API servers' bridge; it goes with the node's network."""
    port = PREFIX[:12] + "t"
    ip("link", "add", port, "type", "veth", "peer", "name", "plane0", "netns", fabric.namespace(HOST))
    ip("link", "set", port, "master", PREFIX[:13] + "br", "up")
    fabric.sh(HOST, "ip", "address", "add", NET + ".200/24", "dev", "plane0")
    fabric.sh(HOST, "ip", "link", "set", "plane0", "up")


def put(fabric, path, text):
    """A file on the node."""
    words = [
        "/usr/bin/python3",
        str(LAB),
        "exec",
        "--name",
        fabric.name,
        HOST,
        "--",
        "sh",
        "-c",
        "umask 077; mkdir -p $(dirname $0); cat >$0",
        path,
    ]
    subprocess.run(words, input=text, text=True, check=True, capture_output=True)


def install(fabric):
    """The collection, where a user has it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "plugins", "roles", "playbooks", "meta", "galaxy.yml"],
        cwd=REPO,
        check=True,
        capture_output=True,
    )
    packed = subprocess.run(
        ["tar", "-C", str(REPO), "--null", "-T", "-", "-cf", "-"], input=listed.stdout, check=True, capture_output=True
    )
    words = [
        "/usr/bin/python3",
        str(LAB),
        "exec",
        "--name",
        fabric.name,
        HOST,
        "--",
        "sh",
        "-c",
        "mkdir -p $0 && tar -C $0 -xf -",
        HOME,
    ]
    subprocess.run(words, input=packed.stdout, check=True, capture_output=True)


def journal(fabric, name):
    return fabric.sh(HOST, "journalctl", "--no-pager", "-u", f"multicluster-{name}.service", check=False)


def role(fabric, folder, **variables):
    """The role of the timers over the node, as a user's own playbook has it."""
    book = [
        {
            "hosts": HOST,
            "gather_facts": False,
            "roles": [{"role": "multicluster.network.playbook_timer", "vars": variables}],
        }
    ]
    (folder / "timer.yml").write_text(yaml.safe_dump(book))
    done = subprocess.run(
        ["ansible-playbook", "-i", str(fabric.inventory), str(folder / "timer.yml")],
        cwd=str(REPO),
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return "changed=0" not in done.stdout


def timer(fabric, folder, name, **more):
    return role(
        fabric,
        folder,
        playbook_timer_playbook=name,
        playbook_timer_inventory="/etc/ansible/plane.yml",
        playbook_timer_interval="2s",
        playbook_timer_command=shutil.which("ansible-playbook"),
        playbook_timer_environment={"ANSIBLE_COLLECTIONS_PATH": "/opt/collections", "ANSIBLE_NOCOLOR": "1"},
        **more,
    )


@pytest.fixture(scope="module")
def plane(fabric, tmp_path_factory):
    one = Plane(tmp_path_factory.mktemp("plane"))
    try:
        one.start()
        one.make_nodes()
        mover = one.mover = Mover(one)
        attach(fabric)
        install(fabric)
        settings = {"eip_tag": "control-plane", "load_balancer": "kube-vip://", "pool": ["203.0.113.0/29"]}
        host = {
            "api_url": f"https://{EIP}:{PORT}",
            "token": TOKEN,
            "ca_cert": "/etc/ansible/plane.crt",
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "load_balancers_settings": settings,
            "load_balancers_confirm_empty": ["cp"],
            "control_plane_address_ip": EIP,
            "control_plane_address_rest_seconds": 0,
            "control_plane_address_probe_interval": 0.5,
            "control_plane_address_api_urls": [f"https://{address}:{PORT}" for address in SERVERS.values()],
            "control_plane_address_assign_command": [
                "/usr/bin/python3",
                "/usr/local/bin/move-address.py",
                "{address}",
                "{node}",
                mover.url,
            ],
        }
        put(fabric, "/etc/ansible/plane.yml", json.dumps({"all": {"children": {"clusters": {"hosts": {"cp": host}}}}}))
        put(fabric, "/etc/ansible/plane.crt", one.ca())
        put(fabric, "/usr/local/bin/move-address.py", HOOK)
        yield one
        mover.shutdown()
    finally:
        one.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("books")


def held(plane, name):
    return lambda: plane.holder() == [name] and plane.healthy(EIP)


def test_the_timer_brings_the_address(fabric, plane, folder):
    assert timer(fabric, folder, "ccm.control_plane_address")
    until(held(plane, "cp-1"), lambda: journal(fabric, TIMERS[0])[-3000:])
    assert not timer(fabric, folder, "ccm.control_plane_address")  # an installed timer is left alone
    assert (
        fabric.sh(HOST, "systemctl", "is-enabled", "multicluster-ccm.control_plane_address.timer").strip() == "enabled"
    )


def test_the_holder_dies_and_nobody_runs_a_playbook(fabric, plane, folder):
    began = time.monotonic()
    plane.kill("cp-1")
    until(held(plane, "cp-2"), lambda: journal(fabric, TIMERS[0])[-3000:])
    fabric.ran(f"the address answered again after {time.monotonic() - began:.1f} s")
    plane.start_server("cp-1")
    plane.wait_for(SERVERS["cp-1"])
    assert plane.mover.moves == ["cp-1", "cp-2"]
    assert TOKEN not in journal(fabric, TIMERS[0])


def test_a_timer_of_a_former_name_goes_with_one_run_of_the_role(fabric, plane, folder):
    """As a host has it that was set up before the playbook's name changed."""
    unit = "/etc/systemd/system/multicluster-loadbalancers."
    put(fabric, unit + "service", "[Service]\nType=oneshot\nExecStart=/bin/false multicluster.network.loadbalancers\n")
    put(fabric, unit + "timer", "[Timer]\nOnActiveSec=1s\nOnUnitInactiveSec=2s\n[Install]\nWantedBy=timers.target\n")
    fabric.sh(HOST, "systemctl", "daemon-reload")
    fabric.sh(HOST, "systemctl", "enable", "--now", "multicluster-loadbalancers.timer")
    assert timer(fabric, folder, "load_balancers")
    assert "loadbalancers" not in fabric.sh(HOST, "systemctl", "list-timers", "--all", "--no-pager")
    assert fabric.sh(HOST, "sh", "-c", "find /etc/systemd /run/systemd -name '*loadbalancers*'") == ""
    assert not timer(fabric, folder, "load_balancers")


def test_services_get_and_lose_addresses_by_themselves(fabric, plane, folder):

    def asked(call):
        """An API server that takes its time is asked again."""
        try:
            return call()
        except KubeError:
            return None

    client = plane.client()
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }
    client.create(SERVICES, body, "kubectl")
    until(
        lambda: (
            (asked(lambda: client.get(SERVICES + "/web")) or {"spec": {}})["spec"].get("loadBalancerIP")
            == "203.0.113.0"
        ),
        lambda: journal(fabric, TIMERS[1])[-3000:],
    )
    client.delete(SERVICES + "/web")

    def pool():
        found = asked(lambda: client.get("/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool"))
        return found is not None and list(found["data"]) == [EIP]

    until(pool, lambda: journal(fabric, TIMERS[1])[-3000:])  # the control plane's own stays in the same record


def test_a_rebooted_host_goes_on(fabric, plane, folder):
    fabric.lab("node-rebuild", HOST)
    attach(fabric)
    plane.kill("cp-2")
    until(held(plane, "cp-1"), lambda: journal(fabric, TIMERS[0])[-3000:])
    assert plane.mover.moves == ["cp-1", "cp-2", "cp-1"]


def test_absent_leaves_no_unit(fabric, plane, folder):
    for name in TIMERS:
        assert role(fabric, folder, playbook_timer_playbook=name, playbook_timer_state="absent")
        assert not role(fabric, folder, playbook_timer_playbook=name, playbook_timer_state="absent")
    assert fabric.sh(HOST, "sh", "-c", "ls /etc/systemd/system/ | grep multicluster- || true") == ""
    assert "multicluster" not in fabric.sh(HOST, "systemctl", "list-timers", "--all", "--no-pager")
