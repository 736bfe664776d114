# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real pods of the lab, the parts that boot nothing: images, settings of containerd, CNI and kubelet, DNS, the topology's key."""

from __future__ import annotations

import asyncio
import hashlib
import json
import pathlib
import re
import socket
import sys
import tarfile

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "lab"))
from mcnlab import (  # pylint: disable=wrong-import-position
    cgroups,
    cluster_dns,
    egress,
    images,
    kubernetes,
    nodes,
    own_images,
    pod_parts,
    pod_runtime,
    topology,
)
from mcnlab.errors import LabError  # pylint: disable=wrong-import-position

TWO = json.loads((REPO / "tests" / "lab" / "topologies" / "two.json").read_text(encoding="utf-8"))
DUAL = json.loads((REPO / "tests" / "lab" / "topologies" / "dual.json").read_text(encoding="utf-8"))


# --- images ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,long",
    [
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("alpine/socat:1.7.4.4", "docker.io/alpine/socat:1.7.4.4"),
        ("registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.10.1"),
        ("localhost/a/b", "localhost/a/b:latest"),
        ("registry:5000/a", "registry:5000/a:latest"),
    ],
)
def test_names_as_containerd_keeps_them(name, long):
    assert images.reference(name) == long


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "busybox").write_bytes(b"program")
    (folder / "bin" / "busybox").chmod(0o755)
    (folder / "bin" / "sh").symlink_to("busybox")
    return folder


def test_a_layer_is_the_same_whoever_made_it(tree, tmp_path):
    first = images.layer(tree)
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.touch()
    assert images.layer(tree) == first
    (tmp_path / "layer.tar").write_bytes(first)
    with tarfile.open(tmp_path / "layer.tar") as archive:
        entries = {entry.name: entry for entry in archive}
    assert sorted(entries) == ["bin", "bin/busybox", "bin/sh"]
    assert entries["bin/busybox"].mode == 0o755 and entries["bin/sh"].linkname == "busybox"
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}


def test_the_layout_names_every_image_and_holds_what_it_refers_to(tree, tmp_path):
    table = images.table("1.14.7")
    layer = images.layer(tree)
    images.write_layout(tmp_path / "images.tar", [(image, layer) for image in table])
    with tarfile.open(tmp_path / "images.tar") as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(files["index.json"])

    def blob(descriptor):
        content = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert (
            len(content) == descriptor["size"]
            and descriptor["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
        )
        return content

    found = {}
    for descriptor in index["manifests"]:
        manifest = json.loads(blob(descriptor))
        config = json.loads(blob(manifest["config"]))
        assert [blob(one) for one in manifest["layers"]] == [layer]
        assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]], "the layer is not compressed"
        found[descriptor["annotations"]["io.containerd.image.name"]] = config["config"]
    assert set(found) == {images.reference(name) for image in table for name in image.names}
    assert found["docker.io/alpine/socat:1.7.4.4"]["Entrypoint"] == ["socat"]
    assert found["registry.k8s.io/coredns/coredns:v1.14.7"]["Entrypoint"] == ["/coredns"]
    assert found["docker.io/nicolaka/netshoot:v0.15"]["Cmd"] == ["/bin/sh"]
    assert len([name for name in files if name.startswith("blobs/")]) < 3 * len(table), (
        "a layer of several images is there once"
    )


def test_every_image_has_a_tag_and_the_readme_names_it():
    readme = (REPO / "tests" / "lab" / "README.md").read_text(encoding="utf-8")
    for image in images.table("X.Y.Z"):
        assert image.holds and bool(image.packages) != bool(image.program)
        for name in image.names:
            assert re.search(r":[^/]+\Z", name), "without a tag a kubelet would pull it"
            assert f"`{name}`" in readme, name


def test_an_image_of_ones_own_is_its_program_and_has_a_tag(tmp_path):
    program = tmp_path / "controller"
    program.write_bytes(b"program")
    made = own_images.image("quay.io/metallb/controller:v0.13.5", program)
    assert made.names == ("quay.io/metallb/controller:v0.13.5",)
    assert images.configuration(made, "sha256:0")["config"]["Entrypoint"] == ["/controller"]
    with pytest.raises(LabError, match="without a tag"):
        own_images.image("quay.io:5000/metallb/controller", program)
    with pytest.raises(LabError, match="there is no program"):
        own_images.image("a:1", tmp_path / "nothing")


def test_the_version_of_coredns_is_the_modules():
    module = (REPO / "tests" / "coredns" / "newest" / "go.mod").read_text(encoding="utf-8")
    version = pod_parts.coredns_version(module)
    assert tuple(map(int, version.split("."))) >= (1, 12, 2), "older ones do not know clusterset.local"
    with pytest.raises(LabError):
        pod_parts.coredns_version("module m\n")


# --- settings -------------------------------------------------------------------------------------------------------


def node_of(source, name):
    return topology.parse(source).node(name)


def test_cni_gives_addresses_of_the_nodes_own_ranges():
    one = pod_runtime.cni_configuration(node_of(TWO, "aws-node-1"))["plugins"][0]
    assert (one["type"], one["ipMasq"]) == ("ptp", False)
    assert one["ipam"]["ranges"] == [[{"subnet": "10.2.3.0/24"}]] and one["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}]
    name = sorted(DUAL["clusters"]["aws"]["nodes"])[0] if "aws" in DUAL["clusters"] else None
    node = node_of(DUAL, name) if name else topology.parse(DUAL).nodes[0]
    both = pod_runtime.cni_configuration(node)["plugins"][0]["ipam"]
    assert [row[0]["subnet"] for row in both["ranges"]] == list(node.pod_cidrs) and len(both["routes"]) == 2


def test_kubelet_asks_the_clusters_dns_and_refuses_strangers():
    settings = pod_runtime.kubelet_configuration(node_of(TWO, "aws-node-1"), "10.3.0.10")
    assert settings["clusterDNS"] == ["10.3.0.10"] and settings["clusterDomain"] == "cluster.local"
    assert settings["authentication"]["anonymous"] == {"enabled": False} and settings["authorization"] == {
        "mode": "Webhook"
    }
    assert settings["failCgroupV1"] is False


def test_cgroup_hierarchies_are_chosen_again_by_what_distinguishes_them():
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n"
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,relatime,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,release_agent=/lib/x,name=systemd 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\n"
    )
    assert [(one["folder"].rpartition("/")[2], one["type"], one["options"]) for one in cgroups.hierarchies(mounts)] == [
        ("cpu,cpuacct", "cgroup", "cpu,cpuacct"),
        ("systemd", "cgroup", "name=systemd"),
        ("unified", "cgroup2", ""),
    ]


def test_a_hierarchy_that_a_chroot_mounts_once_more_counts_once():
    """Its second mount below a node's runtime would be refused as busy, and the runtime die."""
    once = "cgroup {0}/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 {0}/unified cgroup2 rw,relatime 0 0\n"
    mounts = once.format("/sys/fs/cgroup") + once.format("/other/sys/fs/cgroup")
    assert cgroups.hierarchies(mounts) == cgroups.hierarchies(once.format("/sys/fs/cgroup"))


def test_containerd_finds_its_own_runtime_and_pulls_no_sandbox():
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads(pod_runtime.containerd_configuration())
    cri = settings["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] in [name for image in images.table("1") for name in image.names]
    assert cri["cni"] == {"bin_dir": "/mnt/programs/runtime/root/usr/lib/cni", "conf_dir": "/mnt/net.d"}
    assert cri["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "/mnt/programs/runtime/root/usr/sbin/runc"
    assert all(
        words[0].startswith("/mnt/programs/") for words in pod_runtime.commands(node_of(TWO, "aws-node-1")).values()
    ), "wherever the cache is"


def test_pods_reach_the_api_server_as_their_node():
    clusters = topology.parse(TWO)
    text = nodes.masquerade(clusters.cluster("aws"), clusters.node("aws-node-1"))
    assert "ip saddr { 10.2.3.0/24 } ip daddr 10.66.23.1 masquerade" in text
    assert text.startswith("table ip lab\ndelete table ip lab\n"), "a second run does not add a second rule"


def test_dns_is_where_everybody_looks_for_it():
    made = dict(cluster_dns.objects("10.3.0.10", False, "1.14.7"))
    service = made["/api/v1/namespaces/kube-system/services/kube-dns"]
    assert service["spec"]["clusterIP"] == "10.3.0.10" and service["spec"]["selector"] == {"k8s-app": "kube-dns"}
    deployment = made["/apis/apps/v1/namespaces/kube-system/deployments/coredns"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] in [
        n for i in images.table("1.14.7") for n in i.names
    ]
    corefile = made["/api/v1/namespaces/kube-system/configmaps/coredns"]["data"]["Corefile"]
    assert (
        "kubernetes cluster.local " in corefile
        and "forward" not in corefile
        and corefile.count("{") == corefile.count("}")
    )
    rules = made["/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns"]["rules"]
    assert {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]} in rules
    assert "serviceimports" not in str(rules), (
        "a cluster as kubeadm makes it has no rights for clusterset.local: who adds the zone adds them"
    )


def test_several_clusters_in_one_kubeconfig(tmp_path):
    yaml = pytest.importorskip("yaml")
    (tmp_path / "ca").write_text("authority", encoding="ascii")
    entries = [
        ("aws", "https://127.0.0.1:1", tmp_path / "ca", "a", "t1"),
        ("gcp", "https://127.0.0.1:2", tmp_path / "ca", "b", "t2"),
    ]
    read = yaml.safe_load(kubernetes.render_kubeconfig(entries))
    assert read["current-context"] == "aws" and [row["name"] for row in read["contexts"]] == ["aws", "gcp"]
    for row, (cluster, server, _ca, user, token) in zip(read["contexts"], entries):
        assert row["context"] == {"cluster": cluster, "user": user}
        assert [one["cluster"]["server"] for one in read["clusters"] if one["name"] == cluster] == [server]
        assert [one["user"]["token"] for one in read["users"] if one["name"] == user] == [token]


def test_the_audit_log_leaves_out_the_clusters_own_programs_and_nobody_else():
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load(kubernetes.AUDIT_POLICY)["rules"]
    unreachable = {
        user for rule in rules if rule["level"] == "None" for user in rule.get("users", []) + rule.get("userGroups", [])
    }
    assert unreachable == {
        "system:apiserver",
        "lab-manager",
        "system:kube-scheduler",
        "system:serviceaccount:kube-system:coredns",
        "system:nodes",
    }
    assert rules[-1] == {"level": "Metadata"}
    access = yaml.safe_load((REPO / "roles" / "cluster_access" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    account = f"system:serviceaccounts:{access['cluster_access_namespace']}"
    assert account not in unreachable, (
        "a proof of no writes would not see what the collection writes with its own account"
    )


# --- the topology ---------------------------------------------------------------------------------------------------


def test_pods_are_namespaces_unless_the_topology_has_real():
    assert not topology.parse(TWO).real_pods and topology.parse(TWO).pods
    real = topology.parse({**TWO, "pods": "real"})
    assert real.real_pods and not real.pods
    with pytest.raises(LabError, match="namespaces or real"):
        topology.parse({**TWO, "pods": "yes"})


def test_a_running_lab_keeps_its_kind_of_pods():
    real = topology.merge(None, {**TWO, "pods": "real"})
    assert real["pods"] == "real"
    assert topology.merge(real, TWO)["pods"] == "real", "a topology without it changes nothing"
    assert topology.merge(real, None)["pods"] == "real"
    assert topology.merge(real, {"clusters": {}, "pods": "real"}) == real
    assert "pods" not in topology.merge(None, TWO)
    for stored, desired in ((real, "namespaces"), (topology.merge(None, TWO), "real")):
        with pytest.raises(LabError, match="use another --name"):
            topology.merge(stored, {"clusters": {}, "pods": desired})


# --- the API server's way to the nodes ------------------------------------------------------------------------------


def test_egress_refuses_what_is_no_connect_and_what_it_cannot_reach(tmp_path):
    async def ask(head):
        (tmp_path / "s").unlink(missing_ok=True)
        server = asyncio.ensure_future(egress.serve(str(tmp_path / "s"), [str(tmp_path / "no-such-namespace")]))
        while not (tmp_path / "s").exists():
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(head)
        answer = await reader.read()
        writer.close()
        server.cancel()
        return answer

    for head in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT 10.0.0.1:10250 HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"CONNECT x:y:z HTTP/1.1\r\n\r\n",
    ):
        assert asyncio.run(ask(head)).startswith(b"HTTP/1.1 502 "), head


def test_egress_passes_bytes_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(egress, "socket_inside", lambda netns, family: _open(family))

    async def run():
        async def echo(reader, writer):
            writer.write(await reader.readexactly(4))
            writer.close()

        far = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = far.sockets[0].getsockname()[1]
        server = asyncio.ensure_future(egress.serve(str(tmp_path / "s"), []))
        while not (tmp_path / "s").exists():
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        answer = await reader.read()
        server.cancel()
        far.close()
        return head, answer

    head, answer = asyncio.run(run())
    assert head.startswith(b"HTTP/1.1 200 ") and answer == b"ping"


def _open(family):
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


# --- which Kubernetes a lab goes on with ------------------------------------------------------------------------------


def test_a_lab_goes_on_with_its_release_when_the_cache_moved(tmp_path, monkeypatch):
    """What another release has written may not be read; the folder it came from does not matter."""
    build = tmp_path / "build"
    monkeypatch.setattr(kubernetes, "BUILD", build)
    monkeypatch.delenv("KUBERNETES", raising=False)
    state = tmp_path / "demo"
    state.mkdir()
    (state / "kubernetes").write_text("/emptied/cache/kubernetes-1.20.2\n")
    build.write_text("#!/bin/sh\necho /new/cache/kubernetes-1.20.2\n")
    build.chmod(0o755)
    assert kubernetes.binaries(state) == pathlib.Path("/new/cache/kubernetes-1.20.2")
    build.write_text("#!/bin/sh\necho /new/cache/kubernetes-1.36.3\n")
    with pytest.raises(LabError, match="was started with kubernetes-1.20.2, not with kubernetes-1.36.3"):
        kubernetes.binaries(state)


# --- a cluster without a network --------------------------------------------------------------------------------------


def without_network(cni="none", pods="real"):
    source = json.loads(json.dumps(TWO))
    source["clusters"]["aws"]["cni"] = cni
    return topology.parse({**source, "pods": pods})


def test_a_cluster_may_be_without_a_network():
    parsed = without_network()
    assert {cluster.name: cluster.cni for cluster in parsed.clusters} == {"aws": "none", "gcp": "lab"}
    assert "/mnt/cni-bin" in pod_runtime.containerd_configuration("/mnt/cni-bin")
    for wrong in (("own", "real"), ("none", "namespaces")):
        with pytest.raises(LabError, match="cni|without a network"):
            without_network(*wrong)
