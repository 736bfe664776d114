# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules and roles of load balancing as a user runs them: through ansible-playbook, over a real API server."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict
from equinix_cloud import PROJECT, TOKEN as DOUBLES_TOKEN, double

__all__ = ["double"]
SPACE = "lb-books"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"
PASSWORD, OTHER, TOKEN = "Bgp-Secret-0123", "Other-Secret-456", "metal-token-of-the-test"


@pytest.fixture
def inventory(server, tmp_path):
    client = server.client()
    with contextlib.suppress(Conflict):
        client.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}, "kubectl"
        )
    client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "book-1"}}, "kubelet")
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]}
    client.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}, "kubectl"
    )
    access = server.access()
    access.pop("name")
    ca = tmp_path / "ca.crt"
    ca.write_text(access.pop("ca_data"))
    settings = {"load_balancer": "kube-vip://", "pool": ["203.0.113.0/29"], "publish_bgp_password": True}
    tree = {
        "all": {
            "children": {
                "clusters": {
                    "hosts": {"aws": dict(access, ca_cert=str(ca), load_balancers_settings=settings)},
                    "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
                },
                "aws_nodes": {
                    "hosts": {"book-1": {}},
                    "vars": {
                        "multicluster_cluster": "aws",
                        "bgp_speaker_source_ip": "10.66.0.1",
                        "ansible_connection": "local",
                        "bgp_speaker_neighbors": [{"address": "169.254.255.1", "asn": 65530, "password": PASSWORD}],
                    },
                },
            }
        }
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(tree))
    yield tmp_path
    client.delete(SERVICES + "/web")
    client.delete("/api/v1/nodes/book-1")
    client.delete("/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool")


def play(folder, book, *arguments, **variables):
    environment = dict(os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_HOME=str(folder / "ansible"), **variables)
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    words = [
        "ansible-playbook",
        "-i",
        str(folder / "hosts.yml"),
        book,
        "-e",
        "ansible_python_interpreter=" + sys.executable,
        *arguments,
    ]
    done = subprocess.run(
        words, env=environment, cwd=str(folder), capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_playbook_and_its_secrets(server, inventory):
    """The whole playbook but the nodes: -vvv and the diff show neither the token nor a password."""
    limit = ("--limit", "clusters,localhost")
    mark = server.mark()
    code, out = play(inventory, "multicluster.network.load_balancers", "--check", "--diff", "-vvv", *limit)
    assert code == 0 and "203.0.113.0" in out and server.writes(mark) == [], out[-3000:]
    code, more = play(inventory, "multicluster.network.load_balancers", "--diff", "-vvv", *limit)
    assert code == 0, more[-3000:]
    client = server.client()
    assert client.get(SERVICES + "/web")["spec"]["loadBalancerIP"] == "203.0.113.0"
    assert "metal.equinix.com/bgp-peers-0-bgp-pass" in client.get("/api/v1/nodes/book-1")["metadata"]["annotations"]
    published = client.get("/api/v1/nodes/book-1")["metadata"]["annotations"]["metal.equinix.com/bgp-peers-0-bgp-pass"]
    for secret in (PASSWORD, published, server.access()["token"]):
        assert secret not in out + more
    mark = server.mark()
    code, out = play(inventory, "multicluster.network.load_balancers", *limit)
    assert code == 0 and "changed=0" in out and server.writes(mark) == []
    # another controller's address is given up for one of the pool: the table of old and new ones, before anything is done
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "loadBalancerIP": "147.75.10.1"}
    client.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "moving"}, "spec": spec}, "kubectl"
    )
    try:
        renumber = ("-e", '{"load_balancers_renumber": ["147.75.0.0/16"]}')
        code, out = play(inventory, "multicluster.network.load_balancers", "--check", "--diff", *renumber, *limit)
        assert code == 0 and "-  address: 147.75.10.1" in out and "+  address: 203.0.113.1" in out, out[-3000:]
    finally:
        client.delete(SERVICES + "/moving")
    # the last one: its address stays, and the end of the run has the line that releases it
    client.merge_patch(SERVICES + "/web", {"spec": {"type": "ClusterIP"}}, "kubectl")
    code, out = play(inventory, "multicluster.network.load_balancers", *limit)
    assert code == 0 and "load_balancers_confirm_empty: [aws]" in " ".join(
        out.partition("Release addresses that no node announces")[2].split()
    ), out[-3000:]
    client.merge_patch(SERVICES + "/web", {"spec": {"type": "LoadBalancer"}}, "kubectl")
    code, out = play(inventory, "multicluster.network.load_balancers", "-e", "load_balancers_state=absent", *limit)
    assert code == 0 and "loadBalancerIP" not in client.get(SERVICES + "/web")["spec"], out[-3000:]
    assert not client.get("/api/v1/nodes/book-1")["metadata"].get("annotations")


def test_a_provider_that_fails_shows_no_token(server, inventory):
    tree = yaml.safe_load((inventory / "hosts.yml").read_text())
    settings = {
        "provider": "equinix_metal",
        "base_url": "https://127.0.0.1:1/metal/v1",
        "api_key": TOKEN,
        "project_id": "p",
        "metro": "da",
        "load_balancer": "kube-vip://",
        "bgp_pass": OTHER,
    }
    tree["all"]["children"]["clusters"]["hosts"]["aws"]["load_balancers_settings"] = settings
    tree["all"]["children"]["clusters"]["hosts"]["aws"]["load_balancers_timeout"] = 6
    (inventory / "hosts.yml").write_text(yaml.safe_dump(tree))
    mark = server.mark()
    code, out = play(
        inventory, "multicluster.network.load_balancers", "-vvv", "--diff", "--limit", "clusters,localhost"
    )
    assert code != 0 and "[api]" in out and server.writes(mark) == []
    assert TOKEN not in out and OTHER not in out


def test_a_wrong_variable_of_one_cluster_leaves_the_others_their_run(server, inventory):
    """The healthy cluster gets its addresses; the run ends with the cluster, the variable and the fix; fixed, the next run is green."""
    tree = yaml.safe_load((inventory / "hosts.yml").read_text())
    hosts = tree["all"]["children"]["clusters"]["hosts"]
    limit = ("--limit", "clusters,localhost")
    for wrong, reported in (
        (
            {"load_balancers_settings": {"load_balancer": "kube-vip://", "pol": ["198.51.100.0/29"]}},
            "did you mean pool?",
        ),
        (
            {"load_balancers_settings": {"load_balancer": "kube-vip://", "max_prefixes": "many"}},
            "argument 'max_prefixes'",
        ),
        (
            {"load_balancers_settings": {}, "pod_cidrs": ["10.2.0.0/33"]},
            "pod_cidrs of gcp: '10.2.0.0/33' has a prefix longer than 32 bits",
        ),
    ):
        hosts["gcp"] = dict(hosts["aws"], **wrong)
        (inventory / "hosts.yml").write_text(yaml.safe_dump(tree))
        code, out = play(inventory, "multicluster.network.load_balancers", *limit)
        said = " ".join(out.split()).replace("\\", "")
        assert (
            code != 0
            and "cluster gcp: cannot read the settings: " in said
            and reported in said
            and "1 failed in gcp" in said
        ), out[-3000:]
        assert server.client().get(SERVICES + "/web")["spec"]["loadBalancerIP"] == "203.0.113.0"
        server.client().merge_patch(SERVICES + "/web", {"spec": {"loadBalancerIP": None}}, "kubectl")
    hosts.pop("gcp")
    (inventory / "hosts.yml").write_text(yaml.safe_dump(tree))
    code, out = play(inventory, "multicluster.network.load_balancers", "-e", "load_balancers_state=absent", *limit)
    assert code == 0, out[-3000:]


def test_variables_of_the_environment_count_where_that_is_asked_for(server, inventory, double):
    """Without the switch they do nothing, and the error states it; with it they are the settings, and the token is shown nowhere."""
    double.ask("/reset")
    tree = yaml.safe_load((inventory / "hosts.yml").read_text())
    settings = {
        "provider": "equinix_metal",
        "base_url": double.root + "/metal/v1",
        "allow_plain_http": True,
        "load_balancer": "kube-vip://",
        "bgp_node_selector": "none=here",
    }
    tree["all"]["children"]["clusters"]["hosts"]["aws"]["load_balancers_settings"] = settings
    (inventory / "hosts.yml").write_text(yaml.safe_dump(tree))
    variables = {"METAL_API_KEY": DOUBLES_TOKEN, "METAL_PROJECT_ID": PROJECT, "METAL_METRO_NAME": "da"}
    arguments = ("multicluster.network.load_balancers", "-vvv", "--diff", "--limit", "clusters,localhost")
    code, out = play(inventory, *arguments, **variables)
    assert code != 0 and "api_key is not set" in out and "load_balancers_use_environment: true" in out, out[-3000:]
    assert double.held() == [] and DOUBLES_TOKEN not in out
    code, out = play(inventory, *arguments, "-e", "load_balancers_use_environment=true", **variables)
    assert code == 0 and DOUBLES_TOKEN not in out, out[-3000:]
    (held,) = double.held()
    assert (
        server.client().get(SERVICES + "/web")["spec"]["loadBalancerIP"] == held["address"]
        and held["metro"]["code"] == "da"
    )
    code, out = play(
        inventory,
        *arguments,
        "-e",
        "load_balancers_use_environment=true",
        "-e",
        "load_balancers_state=absent",
        **variables,
    )
    assert code == 0 and double.held() == [], out[-3000:]
    server.client().delete("/api/v1/namespaces/kube-system/configmaps/metal-ccm-reservations")


def test_nodes_are_initialised_by_the_playbook(server, inventory, double):
    """The role over two clusters, of which one has a provider with devices; names that differ, check mode, twice."""
    client = server.client()
    double.ask("/reset")
    device = double.ask("/devices", hostname="the-machine", number=7)
    taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    client.create(
        "/api/v1/nodes",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "book-2"}, "spec": {"taints": [taint]}},
        "kubelet",
    )
    try:
        tree = yaml.safe_load((inventory / "hosts.yml").read_text())
        hosts = tree["all"]["children"]["clusters"]["hosts"]
        hosts["own"] = dict(hosts["aws"])
        hosts["aws"]["load_balancers_settings"] = {
            "provider": "equinix_metal",
            "base_url": double.root + "/metal/v1",
            "allow_plain_http": True,
            "api_key": DOUBLES_TOKEN,
            "project_id": PROJECT,
        }
        hosts["aws"]["ccm_nodes_node_devices"] = {"book-2": device["id"]}
        (inventory / "hosts.yml").write_text(yaml.safe_dump(tree))
        mark = server.mark()
        code, out = play(
            inventory, "multicluster.network.ccm.nodes", "--check", "--diff", "-vvv", "--limit", "clusters,localhost"
        )
        assert code == 0 and device["id"] in out and server.writes(mark) == [] and DOUBLES_TOKEN not in out, out[-3000:]
        code, out = play(inventory, "multicluster.network.ccm.nodes", "--limit", "clusters,localhost")
        assert code == 0, out[-3000:]
        node = client.get("/api/v1/nodes/book-2")
        assert node["spec"]["providerID"] == "equinixmetal://" + device["id"] and "uninitialized" not in json.dumps(
            node["spec"]
        )
        code, out = play(inventory, "multicluster.network.ccm.nodes", "--limit", "clusters,localhost")
        assert code == 0 and out.count("changed=0") == 2 and "skipped=1" in out
    finally:
        client.delete("/api/v1/nodes/book-2")


def test_the_timer_is_rendered_and_checked(server, inventory):
    """What systemd has of the units, without installing them."""
    from jinja2 import Environment

    folder = pathlib.Path(__file__).parents[2] / "roles" / "playbook_timer"
    values = yaml.safe_load((folder / "defaults" / "main.yml").read_text(encoding="utf-8"))
    values.update(
        playbook_timer_inventory="/etc/ansible/inventory",
        playbook_timer_command="/bin/true",
        playbook_timer_arguments=["-e", json.dumps({"a": "b $c 100%"})],
        playbook_timer_environment={"X": '1 "2"'},
    )
    for name in ("service", "timer"):
        text = (folder / "templates" / f"{name}.j2").read_text(encoding="utf-8")
        (inventory / ("multicluster-load_balancers." + name)).write_text(
            Environment(keep_trailing_newline=True).from_string(text).render(values)
        )
    units = [str(inventory / ("multicluster-load_balancers." + name)) for name in ("service", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert "multicluster-load_balancers" not in done.stderr, done.stderr
    assert '"{\\"a\\": \\"b $$c 100%%\\"}"' in (inventory / "multicluster-load_balancers.service").read_text()
