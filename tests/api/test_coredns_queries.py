# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real CoreDNS (tests/coredns/build) over a real API server loads what we render, and answers as we say."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    corefile_text,
    owned_blocks,
    whole_corefile,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_merge import (
    merge,
    root_binds,
    root_forwards,
    root_ports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_rules import (
    legal,
    rewrite_name,
    rewrite_rules,
)
from api_server import free_port, slices_version
from dns_client import ask, encode
from set_kinds import namespace

TESTS = pathlib.Path(__file__).resolve().parents[1]
HOSTILE = json.loads((TESTS / "fixtures" / "hostile" / "dns_names.json").read_text("utf-8"))
#: What replaces the resolvers of the node: whatever is forwarded gets this address.
FORWARDED = "192.0.2.99"
FLUENTD = "10.3.184.192"
SERVICES = {
    ("sys-semaphore", "aws-sys-log-73736d-fluentd"): (FLUENTD, [("forward", 8888), ("metrics", 8889)]),
    ("sys-semaphore", "aws-web-73736d-api"): ("10.3.0.11", [("http", 80)]),
    ("sys-semaphore", "aws-2-web-73736d-api"): ("10.3.0.12", [("http", 80)]),
    ("sys-semaphore", "aws-default-73736d-nginx"): ("None", [("http", 80)]),
    ("sys-semaphore", "gl-web-73736d-shop"): ("10.3.0.13", [("http", 80)]),
    ("sys-log", "sink"): ("10.3.0.14", [("http", 80)]),
}


def program():
    key = hashlib.sha256(
        (TESTS / "coredns" / "go.mod").read_bytes() + (TESTS / "coredns" / "main.go").read_bytes()
    ).hexdigest()[:12]
    path = pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network")) / ("coredns-" + key) / "coredns"
    if not path.exists():
        pytest.skip(
            "there is no CoreDNS here; tests/coredns/build makes one (RE2 judges the rules in tests/unit all the same)"
        )
    return str(path)


def make_services(client):
    namespace(client, "sys-semaphore")
    namespace(client, "sys-log")
    for (space, name), (address, ports) in SERVICES.items():
        spec = {
            "clusterIP": address,
            "ports": [{"name": port, "port": number, "protocol": "TCP"} for port, number in ports],
        }
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": space}, "spec": spec}
        client.apply(f"/api/v1/namespaces/{space}/services/{name}", body, "tests")
    endpoints = [{"addresses": [f"10.2.3.{n}"], "hostname": f"web-{n}", "conditions": {"ready": True}} for n in (0, 1)]
    name = "aws-default-73736d-nginx"
    metadata = {"name": name + "-4-0", "namespace": "sys-semaphore", "labels": {"kubernetes.io/service-name": name}}
    body = {
        "apiVersion": slices_version(),
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    client.apply(f"/apis/{slices_version()}/namespaces/sys-semaphore/endpointslices/{metadata['name']}", body, "tests")


def remove_services(client):
    """The API server is shared: other tests begin with an empty mirror namespace."""
    for space, name in SERVICES:
        client.delete(f"/api/v1/namespaces/{space}/services/{name}")
    client.delete(f"/apis/{slices_version()}/namespaces/sys-semaphore/endpointslices/aws-default-73736d-nginx-4-0")


def for_this_machine(text, folder, server):
    """The rendered text with what a pod would have: the way to the API server and to resolvers, and ports that are free."""
    ca = base64.b64encode(server.ca.encode()).decode()
    (folder / "kubeconfig").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": ca}}],
                "users": [{"name": "u", "user": {"token": server.access()["token"]}}],
            }
        )
    )
    upstream = free_port()
    text = text.replace(
        "        pods insecure\n", f"        pods insecure\n        kubeconfig {folder / 'kubeconfig'} c\n"
    )
    text = text.replace("/etc/resolv.conf", f"127.0.0.1:{upstream}")
    for plugin in ("health", "ready"):
        text = text.replace(f"    {plugin}\n", f"    {plugin} 127.0.0.1:{free_port()}\n")
    text = text.replace("prometheus :9153", f"prometheus 127.0.0.1:{free_port()}")
    return (
        text
        + f'\n.:{upstream} {{\n    template IN A {{\n        answer "{{{{ .Name }}}} 60 IN A {FORWARDED}"\n    }}\n}}\n'
    )


def start(folder, text):
    (folder / "Corefile").write_text(text)
    log = (folder / "coredns.log").open("wb")  # closed with the process
    return subprocess.Popen(
        [program(), "-conf", str(folder / "Corefile")],
        stdout=log,
        stderr=log,
        cwd=str(folder),
        env=dict(os.environ, GOMAXPROCS="1"),
    )


@pytest.fixture(scope="module", params=["whole", "merged"])
def dns(request, server, tmp_path_factory):
    """The port of a CoreDNS with our Corefile, or with our blocks merged into another owner's."""
    program()
    make_services(server.client())
    folder, port = tmp_path_factory.mktemp("coredns"), free_port()
    options = Options("gcp", ("aws", "aws-2"), "sys-semaphore", global_zone=True, port=port, ready=True)
    if request.param == "whole":
        text = corefile_text(whole_corefile(options))
    else:
        theirs = ".:{0} {{\n    errors\n    kubernetes cluster.local {{\n        pods insecure\n    }}\n    forward . /etc/resolv.conf\n    reload\n}}\n"
        theirs = theirs.format(port)
        around = {
            "ports": root_ports(theirs, "t"),
            "forwards": root_forwards(theirs, "t"),
            "binds": root_binds(theirs, "t"),
        }
        text = merge(theirs, "t", owned_blocks(options._replace(**around)))
    process = start(folder, for_this_machine(text, folder, server))
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if all(
                    ask(port, name).answer
                    for name in (
                        "sink.sys-log.svc.cluster.local",
                        "sink.sys-log.svc.cluster.gcp",
                        "fluentd.sys-log.svc.cluster.aws",
                    )
                ):
                    break
            except OSError:
                pass
            assert process.poll() is None and time.monotonic() < deadline, (folder / "coredns.log").read_text()
            time.sleep(0.3)
        yield port
    finally:
        process.terminate()
        process.wait(15)
        remove_services(server.client())


@pytest.mark.parametrize(
    "name,address",
    [
        ("fluentd.sys-log.svc.cluster.aws", FLUENTD),
        ("FluentD.Sys-Log.SVC.Cluster.AWS", FLUENTD),
        ("api.web.svc.cluster.aws", "10.3.0.11"),
        ("api.web.svc.cluster.aws-2", "10.3.0.12"),
        ("shop.web.svc.cluster.global", "10.3.0.13"),
        ("web-1.nginx.default.svc.cluster.aws", "10.2.3.1"),
        ("sink.sys-log.svc.cluster.gcp", "10.3.0.14"),
        ("sink.sys-log.svc.cluster.local", "10.3.0.14"),
    ],
)
def test_addresses_come_under_the_name_that_was_asked_for(dns, name, address):
    found = ask(dns, name)
    assert found.code == "NOERROR" and found.question == name + "."
    assert [(record.name.lower(), record.value) for record in found.answer] == [(name.lower() + ".", address)]


def test_headless_services_have_all_their_pods(dns):
    assert sorted(record.value for record in ask(dns, "nginx.default.svc.cluster.aws").answer) == [
        "10.2.3.0",
        "10.2.3.1",
    ]


def test_srv_records_name_what_a_client_can_ask_for(dns):
    found = ask(dns, "_forward._tcp.fluentd.sys-log.svc.cluster.aws", "SRV")
    assert [(r.name, r.value) for r in found.answer] == [
        ("_forward._tcp.fluentd.sys-log.svc.cluster.aws.", "8888 fluentd.sys-log.svc.cluster.aws.")
    ]
    assert ("fluentd.sys-log.svc.cluster.aws.", "A", FLUENTD) in found.additional
    found = ask(dns, "_http._tcp.nginx.default.svc.cluster.aws", "SRV")
    assert sorted(r.value for r in found.answer) == [f"80 web-{n}.nginx.default.svc.cluster.aws." for n in (0, 1)]
    assert ask(dns, "_none._tcp.fluentd.sys-log.svc.cluster.aws", "SRV").code == "NXDOMAIN"


def test_what_is_not_mirrored_does_not_exist(dns):
    assert ask(dns, "nothing.sys-log.svc.cluster.aws").code == "NXDOMAIN"


def encodable(case):
    try:
        encode(case["query"])
    except ValueError:
        return False
    return "cluster.gcp" not in case["query"]


@pytest.mark.parametrize(
    "case", [case for case in HOSTILE["cases"] if encodable(case)], ids=lambda case: ascii(case["query"])
)
def test_hostile_names(dns, case):
    rules = rewrite_rules(["aws", "aws-2"], "sys-semaphore", True)
    owned = rewrite_name(rules, case["query"])
    assert (owned.name, owned.rcode) == (case["name"], case.get("rcode")) or "gcp" in str(case["name"])
    found = ask(dns, case["query"])
    addresses = [record.value for record in found.answer]
    if case.get("rcode"):
        assert found.code == case["rcode"]
    elif case["name"] is None:
        # forwarded as it is; below cluster.local Kubernetes answers that there is no such thing
        assert addresses == [FORWARDED] or (found.code == "NXDOMAIN" and case["query"].endswith(".local"))
    else:
        assert FORWARDED not in addresses and legal(owned.name)


def test_the_rule_that_coredns_refuses_is_the_one_that_we_refuse(tmp_path):
    rule = r"rewrite continue name regex ([\w-]*)\.svc\.cluster\.aws {1}{2}.svc.cluster.local answer name a b"
    process = start(tmp_path, f".:{free_port()} {{\n    {rule}\n}}\n")
    assert process.wait(30) != 0 and "subexpressions" in (tmp_path / "coredns.log").read_text()
