# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where examples run: a lab of the two clusters that they name, its nodes, and a controller with files of its own.

The controller is a process in the lab's underlay, where the API servers, the addresses 10.0.0.1 to 10.0.0.3 and a provider's
API are found, over copies of /etc, /usr/local and /var that are gone with it. So examples may name the paths that people use.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import typing as t

import examples
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError

HERE = pathlib.Path(__file__).parent
LAB = examples.REPOSITORY / "tests" / "lab" / "lab.py"
STATE = pathlib.Path(os.environ.get("MCN_LAB_STATE", "/var/lib/multicluster-network-lab"))
TOKEN = "token-of-the-double"
POST = "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], sys.argv[2].encode(), {'Content-Type': 'application/json'}, method='POST'))"


class Double(t.NamedTuple):
    """Somebody's API that cannot be had here; ``has`` is what was put there before, by paths below /_double."""

    name: str
    address: str
    folder: str
    arguments: t.Sequence[str]
    has: t.Sequence[tuple[str, t.Mapping[str, t.Any]]]


DOUBLES = (
    Double(
        "metal.example.net",
        "127.0.0.2",
        "equinix_metal",
        (),
        [
            ("/devices", {"hostname": "aws-node-1", "number": 1}),
            ("/devices", {"hostname": "aws-node-2", "number": 2}),
        ],
    ),
    Double(
        "awx.example.com",
        "127.0.0.3",
        "awx",
        (TOKEN,),
        [
            (
                "",
                {
                    "add": {
                        "projects": [{"name": "Multicluster", "organization": 1}],
                        "inventories": [{"name": "Multicluster", "organization": 1}],
                        "credentials": [{"name": "Multicluster clusters"}],
                    }
                },
            )
        ],
    ),
)
#: Names of kubeconfigs that are not the first cluster's.
SECOND = ("gcp", "gcp-admin", "us", "fabric")
GATEWAY = "10.66.23.1"
SCRIPT = """
mount -t tmpfs tmpfs {scratch}/memory
for folder in etc usr/local var; do
    mkdir -p {scratch}/memory/$folder/upper {scratch}/memory/$folder/work
    mount -t overlay overlay -o lowerdir=/$folder,upperdir={scratch}/memory/$folder/upper,workdir={scratch}/memory/$folder/work /$folder
done
ip link set lo up
for address in 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.100; do ip address replace $address/32 dev lo; done
mkdir -p /etc/multicluster /var/www /var/lib/prometheus/node-exporter
cp {home}/.kube/aws /etc/multicluster/aws.kubeconfig
cp {home}/.kube/gcp /etc/multicluster/gcp.kubeconfig
printf '{hosts}' >> /etc/hosts
printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/move-address
chmod 755 /usr/local/bin/move-address
echo ready
exec sleep 3600
"""


class Place:
    """A lab and a controller; everything ends with close()."""

    def __init__(self, folder):
        self.folder = folder
        self.name = os.environ.get("MCN_LAB_PREFIX", "") + "examples"
        self.state = STATE / self.name
        self.home = folder / "home"
        self._processes = []

    # --- the lab ------------------------------------------------------------------------------------------------

    def lab(self, command, *arguments):
        done = subprocess.run(
            ["/usr/bin/python3", str(LAB), command, "--name", self.name, *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def client(self, cluster):
        """A client of the collection for a cluster of the lab."""
        return Client(parse_access({"name": cluster, "kubeconfig": str(self.state / cluster / "kubeconfig")}))

    def put(self, cluster, objects):
        """Objects as somebody else made them, a status after them; a text is a file of the collection with more of them."""
        client = self.client(cluster)
        for obj in objects:
            if isinstance(obj, str):
                more = yaml.safe_load((examples.REPOSITORY / obj).read_text("utf-8"))
                self.put(cluster, more if isinstance(more, list) else more.get("items", [more]))
                continue
            path = self._kind(client, obj).path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
            client.apply(path, {key: value for key, value in obj.items() if key != "status"}, "the-user", force=True)
            if obj.get("status"):
                client.merge_patch(path + "/status", {"status": obj["status"]}, "kubelet")

    @staticmethod
    def _kind(client, obj):
        """The kind as it is served, which a new definition takes some time for."""
        deadline = time.monotonic() + 60
        found = client.resource(obj["apiVersion"], obj["kind"])
        while found is None:
            assert time.monotonic() < deadline, "{apiVersion} {kind} is not served".format(**obj)
            time.sleep(0.1)
            found = client.resource(obj["apiVersion"], obj["kind"], refresh=True)
        return found

    def report_ready(self, ended):
        """What a node's agent of the network side does: it reports of every interface that it is there."""
        path = "/apis/core.apinet.api.onmetal.de/v1alpha1/namespaces/apinet-system/networkinterfaces"
        client = self.client("gcp")
        while not ended.wait(1):
            try:
                for item in client.list(path).items:
                    if (item.get("status") or {}).get("state") != "Ready":
                        client.merge_patch(
                            f"{path}/{item['metadata']['name']}/status", {"status": {"state": "Ready"}}, "agent"
                        )
            except KubeError:
                continue  # not served yet, or gone meanwhile

    # --- the controller -----------------------------------------------------------------------------------------

    def up(self):
        self.lab("down")
        self.lab("up", "--topology", str(HERE / "topology.json"))
        self._kubeconfigs()
        scratch = self.folder / "scratch"
        (scratch / "memory").mkdir(parents=True)
        script = SCRIPT.format(
            scratch=scratch, home=self.home, hosts="".join(f"{one.address} {one.name}\\n" for one in DOUBLES)
        )
        namespace = f"/run/netns/{json.loads(self.lab('status'))['namespaces']}underlay"
        self._leader = self._start(
            ["nsenter", "--net=" + namespace, "unshare", "--mount", "--propagation", "private", "sh", "-euc", script],
            "ready\n",
        )
        self._doubles()
        port = self._server("aws").rpartition(":")[2]
        for number in (1, 2, 100):
            self._start(
                self.command(sys.executable, str(HERE / "front.py"), "10.0.0.%d" % number, port, GATEWAY, port),
                "listens\n",
            )
        self._inventory()

    def _start(self, command, line):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        assert process.stdout.readline() == line, command
        return process.pid

    def command(self, *words):
        """The words of a command that runs on the controller."""
        return ["nsenter", "-t", str(self._leader), "--net", "--mount", "--", *words]

    def _server(self, cluster):
        return yaml.safe_load((self.state / cluster / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]

    def _kubeconfigs(self):
        """Every one that an example names, of the lab's clusters as their nodes reach them."""
        (self.home / ".kube").mkdir(parents=True)
        topology = json.loads((HERE / "topology.json").read_text())["clusters"]
        for name in examples.kubeconfigs():
            cluster = "gcp" if name in SECOND else "aws"
            config = yaml.safe_load((self.state / cluster / "kubeconfig").read_text())
            gateway = topology[cluster]["node_cidrs"][0].rpartition(".")[0] + ".1"
            config["clusters"][0]["cluster"]["server"] = f"https://{gateway}:{self._server(cluster).rpartition(':')[2]}"
            (self.home / ".kube" / name).write_text(yaml.safe_dump(config))
            (self.home / ".kube" / name).chmod(0o600)

    def _doubles(self):
        """Other people's APIs, behind TLS under the names that examples use."""
        pair = [str(self.folder / "doubles.crt"), str(self.folder / "doubles.key")]
        names = ",".join("DNS:" + double.name for double in DOUBLES)
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=doubles",
                "-addext",
                "subjectAltName=" + names,
                "-out",
                pair[0],
                "-keyout",
                pair[1],
            ],
            check=True,
            capture_output=True,
        )
        for double in DOUBLES:
            port = self.folder / (double.name + ".port")
            program = examples.REPOSITORY / "tests" / "doubles" / double.folder / "server.py"
            process = subprocess.Popen(
                self.command(sys.executable, str(program), str(port), *double.arguments), stdin=subprocess.DEVNULL
            )
            self._processes.append(process)
            deadline = time.monotonic() + 60
            while not (port.exists() and port.read_text()):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            front = [str(HERE / "front.py"), double.address, "443", "127.0.0.1", port.read_text(), *pair]
            self._start(self.command(sys.executable, *front), "listens\n")
            for path, body in double.has:
                url = f"http://127.0.0.1:{port.read_text()}/_double{path}"
                subprocess.run(self.command(sys.executable, "-c", POST, url, json.dumps(body)), check=True, timeout=60)

    def _inventory(self):
        tree = yaml.safe_load((self.state / "inventory" / "hosts.yml").read_text())
        for name, host in tree["all"]["children"]["clusters"]["hosts"].items():
            host["kubeconfig"] = "~/.kube/" + name
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        tree["all"]["hosts"] = {"controller": local}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(tree))

    # --- running ------------------------------------------------------------------------------------------------

    def environment(self, record):
        inherited = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH")
            if name in os.environ
        }
        return dict(
            inherited,
            HOME=str(self.home),
            ANSIBLE_HOME=str(self.folder / "ansible"),
            ANSIBLE_NOCOWS="1",
            ANSIBLE_LOCALHOST_WARNING="0",
            ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callback_plugins"),
            ANSIBLE_CALLBACKS_ENABLED="mcn_record",
            MCN_RECORD=str(record),
            ANSIBLE_NOCOLOR="1",
            SSL_CERT_FILE=str(self.folder / "doubles.crt"),
            CONTROLLER_OAUTH_TOKEN=TOKEN,
        )

    def run(self, label, plays, *arguments):
        """Run plays on the controller; (records of their tasks, what was printed)."""
        book, record = self.folder / (label + ".yml"), self.folder / (label + ".jsonl")
        book.write_text(yaml.safe_dump(plays, sort_keys=False, width=1000))
        record.touch()
        words = self.command("ansible-playbook", "-i", str(self.folder / "hosts.yml"), *arguments, str(book))
        done = subprocess.run(
            words,
            env=self.environment(record),
            cwd=str(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500,
            check=False,
        )
        return [json.loads(line) for line in record.read_text().splitlines()], done.stdout

    def inventory_of(self, files):
        """What ansible-inventory makes of these files."""
        for name, text in files.items():
            path = self.folder / "given" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        words = self.command("ansible-inventory", "-i", str(path.parent), "--list")
        done = subprocess.run(
            words,
            env=self.environment(self.folder / "unused"),
            cwd=str(self.folder),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    def close(self):
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(20)
            if process.stdout:
                process.stdout.close()
        self.lab("down")
        shutil.rmtree(self.home, ignore_errors=True)
