# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of upstream programs, as an inventory: every key has its fate, and nothing that is secret or a template comes along."""

from __future__ import annotations

import copy
import json
import pathlib
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.multicluster.network.plugins.module_utils._upstream.document import scalar, text
from ansible_collections.multicluster.network.plugins.module_utils._upstream.programs import (
    LOST,
    MAPPED,
    PROGRAMS,
    UNKNOWN,
)
from ansible_collections.multicluster.network.plugins.module_utils._upstream.proposal import MOST_CLUSTERS
from ansible_collections.multicluster.network.plugins.module_utils._upstream.reading import (
    Given,
    Seen,
    objects_of,
    propose,
)
from ansible_collections.multicluster.network.plugins.module_utils._upstream.workloads import (
    desired_config_maps,
    processes,
)
from hypothesis import HealthCheck, given, settings, strategies as st

CONFIGURED = yaml.safe_load(
    (pathlib.Path(__file__).resolve().parents[4] / "originals" / "settings.yml").read_text("utf-8")
)
SECRET = "s3cr3t-0123456789"


def seen(name: str, **more: t.Any) -> Seen:
    """A cluster of the file of objects, changed as the test likes."""
    one = objects_of(name, copy.deepcopy(CONFIGURED[name]))
    return one._replace(**more)


def inventory(proposal: t.Any) -> t.Any:
    class Loader(yaml.SafeLoader):
        """Marks of Ansible."""

    Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
    return yaml.load(text(proposal), Loader)


def both() -> t.Any:
    return propose([seen("aws"), seen("gcp")], [], ["aws", "gcp"])[0]


def test_two_clusters_of_semaphore_become_an_inventory():
    assert inventory(both()) == CONFIGURED["expected"]


def test_the_same_objects_give_the_same_bytes():
    assert text(both()) == text(both())


def test_a_neighbour_without_access_gets_it_with_the_secrets_in_a_vault():
    proposal, unused = propose([seen("aws")], [], ["aws"])
    host = inventory(proposal)["clusters"]["hosts"]["gcp"]
    assert host["api_url"] == "https://lb.gcp.example.net" and host["token"] == "{{ vault_gcp_token }}"
    places = proposal.secrets["vault_gcp_token"].split("; or ")
    assert places == [
        "Secret kube-system/target-kube-token, key token",
        "Secret kube-system/semaphore-wireguard-token-gcp, key token",
    ]
    assert "kubeconfig" not in host
    assert "ca_unpinned" in {row.reason for row in proposal.findings}


def test_the_config_maps_that_are_mounted_are_asked_for_and_no_other():
    found = processes("aws", seen("aws").objects)
    assert desired_config_maps(found) == [
        ("kube-system", "semaphore-wireguard-config"),
        ("sys-semaphore", "semaphore-service-mirror-config"),
    ]


def test_every_key_that_was_set_has_its_row():
    rows = {(row.program, row.key): row.fate for row in both().rows}
    assert (
        rows["semaphore-wireguard", "remotes[].podSubnet"] == MAPPED
        and rows["semaphore-policy", "SP_TARGET_CLUSTER_NAME"] == MAPPED
    )
    assert (
        rows["semaphore-wireguard", "remotes[].colour"] == UNKNOWN
        and rows["semaphore-policy", "KPS_TARGET_CLUSTER_NAME"] == UNKNOWN
    )
    assert "remotes[].colour" in text(both())


def test_a_name_that_is_not_the_inventorys_is_named():
    proposal, unused = propose([seen("aws")._replace(cluster="production")], [], ["production"])
    assert ("name_differs", "it calls its cluster aws") in {
        (row.reason, row.message.partition(",")[0]) for row in proposal.findings
    }


def test_ports_that_differ_become_exceptions():
    config = json.loads(seen("aws").config_maps["kube-system", "semaphore-wireguard-config"]["config.json"])
    third = {**config, "local": {"name": "az"}, "remotes": [{**config["remotes"][0], "wgListenPort": 51999}]}
    file = Given(PROGRAMS["semaphore-wireguard"], "", "az.json", json.dumps(third))
    hosts = inventory(propose([seen("aws")], [file], ["aws", "gcp", "az"])[0])["clusters"]["hosts"]
    assert (
        hosts["az"]["wireguard_ports"] == {"gcp": 51999}
        and hosts["aws"]["wireguard_ports"] == {"gcp": 51821}
        and "wireguard_port" not in hosts["gcp"]
    )


EQUINIX = {
    "apiKey": SECRET,
    "projectID": "0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11",
    "metro": "da",
    "loadbalancer": "metallb:///metallb-system?crdConfiguration=true",
    "bgpPass": SECRET,
    "localASN": 65000,
    "annotationLocalASN": "x/y",
    "nonsense": {"deep": SECRET},
}


def test_the_cloud_controllers_file_keeps_its_secrets():
    proposal, unused = propose([], [Given(PROGRAMS["equinix"], "aws", "cloud-sa.json", json.dumps(EQUINIX))], ["aws"])
    assert SECRET not in text(proposal)
    assert inventory(proposal)["clusters"]["hosts"]["aws"]["load_balancers_settings"] == {
        "provider": "equinix_metal",
        "identity": "cloud-provider-equinix-metal",
        "api_key": "{{ vault_aws_api_key }}",
        "project_id": EQUINIX["projectID"],
        "metro": "da",
        "load_balancer": EQUINIX["loadbalancer"],
        "local_asn": 65000,
        "bgp_pass": "{{ vault_aws_bgp_pass }}",
    }
    fates = {row.key: row.fate for row in proposal.rows}
    assert fates["nonsense"] == UNKNOWN and fates["annotationLocalASN"] == LOST


def test_the_cloud_controllers_variables_and_its_secret():
    one = inventory(propose([seen("metal")], [], ["metal"])[0])["clusters"]["hosts"]["metal"]["load_balancers_settings"]
    assert (
        one["config_secret"] == "metal-cloud-config"
        and one["load_balancer"] == "kube-vip://"
        and one["api_key"] == "{{ vault_metal_api_key }}"
    )
    assert SECRET not in text(propose([seen("metal")], [], ["metal"])[0])
    assert one["identity"] == "cloud-provider-equinix-metal" and "adopt_identities" not in one
    assert one["publish_bgp_password"] is True, "kube-vip reads it there"


def test_the_oldest_cloud_controllers_have_a_name_of_their_own():
    """What we reserve carries the name that it looks for, so that it finds it when it comes back."""
    given = seen("metal")
    objects = json.loads(
        json.dumps(given.objects).replace(
            "quay.io/equinix-oss/cloud-provider-equinix-metal", "docker.io/packethost/packet-ccm"
        )
    )
    one = inventory(propose([given._replace(objects=objects)], [], ["metal"])[0])["clusters"]["hosts"]["metal"][
        "load_balancers_settings"
    ]
    assert one["identity"] == "packet-ccm"


def test_kilo_and_its_meshes():
    proposal, unused = propose([seen("kilo")], [], ["eu", "kilo"])
    found = inventory(proposal)
    assert (
        found["clusters"]["hosts"]["eu"]["pod_cidrs"] == ["10.20.0.0/16"]
        and found["all"]["vars"]["clustermesh_name"] == "prod"
    )
    assert found["clusters"]["hosts"]["us"]["kubeconfig"] == "{{ vault_us_kubeconfig }}"
    assert found["clusters"]["hosts"]["kilo"] == {
        "wireguard_cidrs": ["100.66.0.0/16"],
        "wireguard_port": 51820,
        "service_cidrs": ["10.96.0.0/12"],
    }
    assert "clustermesh_group_locations" not in found["all"]["vars"]


def test_several_meshes_stay_where_they_are():
    one = seen("kilo")
    proposal, unused = propose([one._replace(meshes=[*one.meshes, *one.meshes])], [], ["kilo"])
    assert (
        inventory(proposal)["all"]["vars"]["clustermesh_management"] == {"cluster": "kilo"}
        and "eu" not in proposal.clusters
    )


def test_apinetlet():
    variables = inventory(propose([seen("tenants")], [], ["tenants"])[0])["all"]["vars"]
    assert variables.pop("multicluster_capabilities") == ["tenants"]
    assert variables == {
        "tenants_apinet_namespace": "apinet",
        "tenants_watch_filter": "blue",
        "tenants_source": "tenants",
    }


def test_kubespan_of_a_machine_configuration():
    documents = CONFIGURED["talos"]
    proposal, unused = propose([], [Given(PROGRAMS["kubespan"], "", "controlplane.yaml", "", documents)], [])
    assert inventory(proposal)["all"]["vars"] == {
        "mesh_id": "{{ vault_mesh_id }}",
        "mesh_secret": "{{ vault_mesh_secret }}",
        "multicluster_mesh": "kubespan",
        "kubespan_config": {
            "advertiseKubernetesNetworks": False,
            "allowDownPeerBypass": True,
            "mtu": 1380,
            "filters": {"endpoints": ["0.0.0.0/0", "!10.0.0.0/8"]},
        },
        "kubespan_registries": ["inventory", "discovery"],
        "kubespan_discovery_url": "https://discovery.example.net/",
    }
    assert SECRET not in text(proposal) and "machine" not in {row.key for row in proposal.rows}


def test_kubespan_of_the_documents_of_newer_releases():
    """As Talos 1.14 writes them: one document for each matter, and a row for each that is of no known kind."""
    documents = [
        {"apiVersion": "v1alpha1", "kind": "KubeSpanConfig", "enabled": True, "mtu": 1380},
        {
            "apiVersion": "v1alpha1",
            "kind": "KubeSpanEndpointsConfig",
            "extraAnnouncedEndpoints": ["198.51.100.7:51820"],
        },
        {
            "apiVersion": "v1alpha1",
            "kind": "DiscoveryIdentityConfig",
            "clusterID": "an-id",
            "clusterSecret": SECRET,
            "more": 1,
        },
        {
            "apiVersion": "v1alpha1",
            "kind": "DiscoveryServiceConfig",
            "name": "default",
            "endpoint": "https://discovery.example.org/",
        },
        {"apiVersion": "v1alpha1", "kind": "LinkConfig", "name": "enp0s3"},
        {"kind": "A kind\nwith a line"},
        {"kind": 7},
    ]
    given = [Given(PROGRAMS["kubespan"], "", "worker.yaml", "", documents)]
    proposal, unused = propose([], given, [])
    assert inventory(proposal)["all"]["vars"] == {
        "mesh_id": "{{ vault_mesh_id }}",
        "mesh_secret": "{{ vault_mesh_secret }}",
        "multicluster_mesh": "kubespan",
        "kubespan_config": {
            "advertiseKubernetesNetworks": False,
            "mtu": 1380,
            "extraAnnouncedEndpoints": ["198.51.100.7:51820"],
        },
        "kubespan_registries": ["inventory", "discovery"],
        "kubespan_discovery_url": "https://discovery.example.org/",
    }
    rows = {row.key: row.fate for row in proposal.rows}
    assert (
        rows["DiscoveryServiceConfig.endpoint"] == "mapped"
        and rows["extraAnnouncedEndpoints"] == rows["DiscoveryIdentityConfig.clusterSecret"] == "mapped"
    )
    unknown = {key for key, fate in rows.items() if fate == "unknown"}
    assert len(unknown) == 4 and {key for key in unknown if "LinkConfig" in key or "more" in key} == {
        "kind.LinkConfig",
        "DiscoveryIdentityConfig.more",
    }
    assert "discovery" not in {finding.reason for finding in proposal.findings} and SECRET not in text(proposal)
    alone = propose([], [given[0]._replace(documents=documents[:3])], [])[0]
    assert "kubespan_registries" not in inventory(alone)["all"]["vars"]
    two = [*documents, {**documents[3], "name": "other", "endpoint": "https://other.example.org/"}]
    several = propose([], [given[0]._replace(documents=two)], [])[0]
    assert "discovery" in {finding.reason for finding in several.findings}
    assert inventory(several)["all"]["vars"]["kubespan_discovery_url"] == "https://discovery.example.org/"


def test_words_of_a_program_without_a_file():
    words = "--internal-cidr=10.0.0.0/8 --service-cidr=10.96.0.0/12 --subnet 100.64.0.0/16 --mesh-granularity=full --cni=false"
    proposal, unused = propose([], [Given(PROGRAMS["kilo"], "eu", "kg.txt", words)], ["eu"])
    assert "unknown" not in {row.fate for row in proposal.rows}
    assert proposal.clusters["eu"]["wireguard_cidrs"] == ["100.64.0.0/16"] and proposal.clusters["eu"][
        "service_cidrs"
    ] == ["10.96.0.0/12"]


# --- hostile -------------------------------------------------------------------------------------------------------


def changed(text_of_config: str, name: str = "semaphore-wireguard-config", namespace: str = "kube-system") -> t.Any:
    one = seen("aws")
    return propose(
        [
            one._replace(config_maps={**one.config_maps, (namespace, name): {"config.json": text_of_config}}),
            seen("gcp"),
        ],
        [],
        ["aws", "gcp"],
    )[0]


@pytest.mark.parametrize(
    "config",
    [
        "",
        "null",
        "[]",
        "{",
        "[" * 100_000,
        '{"local": {"name": "aws"}, "remotes": {"gcp": 1}}',
        '{"local": [], "remotes": 7}',
        '{"local": {"name": "{{ lookup(\'pipe\', \'id\') }}"}, "remotes": []}',
        '{"local": {"name": "aws"}, "remotes": [null, 1, "x", []]}',
        json.dumps({"local": {"name": "aws"}, "remotes": [{"name": f"n{i}"} for i in range(5000)]}),
    ],
)
def test_a_configuration_that_is_none_keeps_nobody_out(config):
    proposal = changed(config)
    assert "gcp" in proposal.clusters and len(proposal.clusters) <= MOST_CLUSTERS and "lookup" not in text(proposal)
    inventory(proposal)


@pytest.mark.parametrize(
    "key",
    [
        "name",
        "kubeConfigPath",
        "remoteAPIURL",
        "remoteCAURL",
        "remoteSATokenPath",
        "podSubnet",
        "wgDeviceMTU",
        "wgListenPort",
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        SECRET + " {{ x }}",
        {"a": SECRET},
        [SECRET],
        f"https://user:{SECRET}@example.net/",
        "{% raw %}" + SECRET,
        -1,
        10**30,
    ],
)
def test_a_value_that_cannot_be_used_is_left_out_without_being_shown(key, value):
    config = {
        "local": {"name": "aws"},
        "remotes": [{"name": "gcp", "podSubnet": "10.4.0.0/16", "kubeConfigPath": "/x", key: value}],
    }
    proposal = changed(json.dumps(config))
    shown = text(proposal)
    assert SECRET not in shown and "{% raw" not in shown and "{{ x" not in shown
    assert any(row.message.startswith(f"remotes[].{key} has a value that cannot be used") for row in proposal.findings)


def test_a_template_that_is_a_value_is_no_template_here(tmp_path):
    config = {**EQUINIX, "eipTag": "{{ lookup('pipe','touch_/tmp/x') }}".replace(" ", ""), "metro": "{%x%}"}
    proposal, unused = propose([], [Given(PROGRAMS["equinix"], "aws", "cloud-sa.json", json.dumps(config))], ["aws"])
    path = tmp_path / "proposal.yml"
    path.write_text(text(proposal), "utf-8")
    assert path.read_text("utf-8").count("!unsafe") == 2
    assert inventory(proposal)["clusters"]["hosts"]["aws"]["load_balancers_settings"]["eip_tag"] == config["eipTag"]
    try:
        from ansible.template import is_trusted_as_template
    except ImportError:  # before ansible-core 2.19 such text has a type of its own
        loaded = DataLoader().load_from_file(str(path))["clusters"]["hosts"]["aws"]["load_balancers_settings"]
        assert (
            type(loaded["eip_tag"]).__name__ == "AnsibleUnsafeText"
            and type(loaded["api_key"]).__name__ != "AnsibleUnsafeText"
        )
    else:
        loaded = DataLoader().load_from_file(str(path), trusted_as_template=True)["clusters"]["hosts"]["aws"][
            "load_balancers_settings"
        ]
        assert not is_trusted_as_template(loaded["eip_tag"]) and is_trusted_as_template(loaded["api_key"])
    assert loaded["eip_tag"] == config["eipTag"]


def test_a_comment_stays_on_its_line():
    one = seen("aws")
    for obj in one.objects:
        obj["metadata"]["name"] = "x\n  evil: {{ 1 }}\n#"
        for container in obj["spec"]["template"]["spec"]["containers"]:
            container.setdefault("env", []).append({"name": "A\nall: {vars: {ansible_connection: x}}", "value": SECRET})
    shown = text(propose([one], [], ["aws"])[0])
    assert "evil" not in shown and "ansible_connection" not in shown and SECRET not in shown


def test_a_shell_is_not_read_and_said_to_be():
    one = seen("aws")
    for obj in one.objects:
        for container in obj["spec"]["template"]["spec"]["containers"]:
            container["command"] = ["/bin/sh", "-c", "exec semaphore-wireguard -x=" + SECRET]
    proposal = propose([one], [], ["aws"])[0]
    assert SECRET not in text(proposal) and any("shell" in row.message for row in proposal.findings)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def leaves(value: t.Any, at: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(inner, (*at, key))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_whatever_is_anywhere_in_an_object_nothing_falls_and_no_secret_comes_along(data):
    name = data.draw(st.sampled_from(["aws", "metal", "kilo", "tenants"]))
    documents = copy.deepcopy(CONFIGURED[name])
    places = [place for place in leaves(documents) if place]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        holder: t.Any = documents
        try:
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = data.draw(ANY)
        except (KeyError, IndexError, TypeError):
            continue
    inventory(propose([objects_of(name, documents)], [], [name])[0])


PATHS = [
    place
    for place in leaves(
        {
            "local": {"name": "aws", "kubeConfigPath": "/x"},
            "remotes": [
                {
                    "name": "gcp",
                    "kubeConfigPath": "/x",
                    "remoteAPIURL": "https://x",
                    "remoteCAURL": "https://x",
                    "remoteSATokenPath": "/t",
                    "podSubnet": "10.4.0.0/16",
                    "wgDeviceMTU": 1420,
                    "wgListenPort": 1,
                    "resyncPeriod": "1s",
                }
            ],
        }
    )
    if place
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(PATHS), ANY)
def test_whatever_is_in_a_configuration_no_secret_comes_along(place, value):
    config: t.Any = {
        "local": {"name": "aws"},
        "remotes": [{"name": "gcp", "podSubnet": "10.4.0.0/16", "remoteAPIURL": "https://x"}],
    }
    holder = config
    for step in place[:-1]:
        holder = holder[step]
    if not (
        isinstance(value, str) and value.replace("/", "").replace("-", "").isalnum()
    ):  # a text may be a name, which is no secret
        holder[place[-1]] = value
    proposal = changed(json.dumps(config))
    inventory(proposal)
    assert SECRET not in text(proposal)


@given(st.text(max_size=60))
def test_any_text_comes_back_from_yaml_as_it_was(value):
    class Loader(yaml.SafeLoader):
        """Marks of Ansible."""

    Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
    assert yaml.load("a: " + scalar(value), Loader) == {"a": value}
