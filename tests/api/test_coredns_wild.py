# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Corefiles as they are found, in a real CoreDNS on port 53 of a network of its own: it comes up with our section, and answers what it answered before.

Each runs twice, without and with our section, next to an upstream that answers every name, and with a /etc/resolv.conf that leads back to this very
CoreDNS, as with systemd-resolved's stub or a node's cache, wherever the Corefile has an upstream of its own. No API server is reached here: what
kubernetes answers is tests/api/test_coredns_queries.py. Needs tests/coredns/build; ``COREDNS`` is ``oldest`` or ``newest``, as in ``tests/run coredns``.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_merge as merging
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    accepts,
    owned_blocks,
    parse_version,
)

TESTS = pathlib.Path(__file__).resolve().parents[1]
WILD = yaml.safe_load((TESTS / "fixtures" / "corefiles.yml").read_text("utf-8"))
OWN_NAME = "web.shop.svc.cluster.aws"
#: What each CoreDNS is asked in the network of its own, before and after; the upstream has all but the first.
NAMES = (
    "nothing.cluster.local",
    "www.example.org",
    "host.corp.example",
    "a.static.example",
    "x.lab.example",
    "registry.example",
)
SERVFAIL = [2, 0]
#: Side by side; each waits some seconds for an API server that is not there.
AT_ONCE = 12

pytestmark = pytest.mark.skipif(
    not os.environ.get("COREDNS"), reason="NOT RUN: a real CoreDNS over each Corefile is tests/run coredns"
)
#: Runs in the namespaces: an upstream at every address of the fixtures, then CoreDNS, then the questions. Prints what came of it.
INSIDE = textwrap.dedent("""
    import json, os, socket, struct, subprocess, sys, threading, time
    program, corefile, resolv, port, names = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
    subprocess.run(["mount", "--bind", resolv, "/etc/resolv.conf"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    os.makedirs("/run/secrets/kubernetes.io/serviceaccount")  # the access of a pod, to an API server that is not there
    with open("/run/secrets/kubernetes.io/serviceaccount/token", "w") as token:
        token.write("none")
    for last in range(53, 100):
        subprocess.run(["ip", "address", "add", "192.0.2.%d/32" % last, "dev", "lo"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def answer_to(data):
        name_end = data.index(b"\\0", 12) + 5
        answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + socket.inet_aton("198.51.100.7")
        is_a = data[name_end - 4 : name_end] == b"\\0\\1\\0\\1"
        counts = b"\\0\\1" + (b"\\0\\1" if is_a else b"\\0\\0") + b"\\0\\0\\0\\0"
        return data[:2] + b"\\x81\\x80" + counts + data[12:name_end] + (answer if is_a else b"")

    def with_size(data):
        return struct.pack("!H", len(data)) + data

    def upstream(address, port):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as CoreDNS, which has port 53 of every address; the nearer one is asked
        one.bind((address, port))
        while True:
            data, who = one.recvfrom(4096)
            one.sendto(answer_to(data), who)

    def upstream_by_tcp(address, port):
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((address, port))
        server.listen()
        while True:
            threading.Thread(target=stream, args=(server.accept()[0],), daemon=True).start()  # CoreDNS keeps connections for later

    def stream(one):
        try:
            with one, one.makefile("rb") as data:
                while size := data.read(2):
                    one.sendall(with_size(answer_to(data.read(struct.unpack("!H", size)[0]))))
        except OSError:
            pass

    for address, number in [("192.0.2.%d" % last, 53) for last in (53, 54, 55)] + [("192.0.2.54", 1053)]:
        threading.Thread(target=upstream, args=(address, number), daemon=True).start()
        threading.Thread(target=upstream_by_tcp, args=(address, number), daemon=True).start()

    def ask(name):
        question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\\0\\0\\1\\0\\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(3)
            one.sendto(b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + question, ("127.0.0.1", port))
            data = one.recvfrom(4096)[0]
        return [data[3] & 15, struct.unpack("!H", data[6:8])[0]]

    environment = dict(os.environ, DNS_PORT="53", UPSTREAM="192.0.2.53", KUBERNETES_SERVICE_HOST="192.0.2.99", KUBERNETES_SERVICE_PORT="1")
    process = subprocess.Popen([program, "-conf", corefile], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    log = []
    threading.Thread(target=lambda: log.extend(process.stdout), daemon=True).start()
    answers, deadline = {}, time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            ask(names[1])
            break
        except OSError:
            time.sleep(0.2)
    time.sleep(4)  # the plugin loop asks itself a little later, and ends the server then
    for name in names:
        try:
            answers[name] = ask(name)
        except OSError as error:
            answers[name] = [str(error), 0]
    lives = process.poll() is None
    process.kill()  # some would wait for half a minute, as lameduck has it
    process.wait()
    print(json.dumps({"lives": lives, "answers": answers, "log": "".join(log)[-3000:]}))
""")


def program():
    """(CoreDNS, its version)."""
    newest = os.environ.get("COREDNS") == "newest"
    folder = TESTS / "coredns" / "newest" if newest else TESTS / "coredns"
    cache = pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network"))
    key = hashlib.sha256((folder / "go.mod").read_bytes() + (folder / "main.go").read_bytes()).hexdigest()[:12]
    path = cache / ("coredns-" + key) / "coredns"
    if not path.exists():
        pytest.skip("NOT RUN: there is no CoreDNS here; tests/coredns/build makes one")
    version = re.search(r"github.com/coredns/coredns v([0-9.]+)", (folder / "go.mod").read_text())[1]
    return str(path), parse_version(version)


def loads(text, version):
    """The file as this CoreDNS could have it: without what came later."""
    if not accepts(version, "ready"):
        text = text.replace("    ready\n", "")
    return text


def with_section(text, version):
    around = {
        "ports": merging.root_ports(text, "t"),
        "forwards": merging.root_forwards(text, "t"),
        "binds": merging.root_binds(text, "t"),
    }
    options = Options("gcp", ("aws",), "sys-semaphore", version=version, **around)
    return merging.merge(text, "t", owned_blocks(options))


def run(folder, path, corefile, resolv, port):
    folder.mkdir()
    (folder / "Corefile").write_text(corefile)
    (folder / "custom").mkdir()
    (folder / "resolv.conf").write_text(resolv)
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "--mount",
            sys.executable,
            "-c",
            INSIDE,
            path,
            str(folder / "Corefile"),
            str(folder / "resolv.conf"),
            port,
            *NAMES,
            OWN_NAME,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return yaml.safe_load(done.stdout)


@pytest.fixture(scope="module", name="seen")
def before_and_after(tmp_path_factory):
    """{name: (what came of the Corefile as it is, what came of it with our section)}."""
    path, version = program()
    folder, found = tmp_path_factory.mktemp("wild"), {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for number, (name, row) in enumerate(sorted(WILD.items())):
            text = loads(row["corefile"], version)
            # with an upstream of its own, the way of the pod's resolver is a circle
            resolv = "nameserver 192.0.2.53\n" if "/etc/resolv.conf" in text else "nameserver 127.0.0.1\n"
            port = next((text for text in row["ports"] if text.isdigit()), "53")
            jobs = [
                pool.submit(run, folder / f"{number}-{part}", path, one, resolv, port)
                for part, one in enumerate((text, with_section(text, version)))
            ]
            found[name] = jobs
    return {name: [job.result() for job in jobs] for name, jobs in found.items()}


@pytest.mark.parametrize("name", sorted(WILD))
def test_it_comes_up_and_answers_as_before(name, seen):
    before, after = seen[name]
    if not before["lives"]:
        pytest.fail("the Corefile itself does not run in this CoreDNS: " + before["log"])
    assert after["lives"], after["log"]
    for one in NAMES:
        assert after["answers"][one] == before["answers"][one], (one, before, after)
    assert after["answers"][OWN_NAME] == SERVFAIL, (
        f"our zone answers where the root is asked, without an API server: {after}"
    )
    assert before["answers"][OWN_NAME] in ([0, 1], before["answers"]["www.example.org"]), (
        "the root sent it on, where it sends anything on"
    )
