# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who keeps a Corefile as he made it, and where our section is then."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_places as places
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_merge import (
    key_of,
    root_forwards,
    server_blocks,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures"
WILD = yaml.safe_load((FIXTURES / "corefiles.yml").read_text("utf-8"))
MARKS: dict[str, tuple[dict[str, t.Any], str]] = {
    "k3s": (
        {"annotations": {"objectset.rio.cattle.io/id": "", "objectset.rio.cattle.io/owner-name": "coredns"}},
        "k3s",
    ),
    "AKS": ({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile", "k8s-app": "kube-dns"}}, "add-on manager"),
    "RKE2": (
        {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "rke2-coredns"},
        },
        "Helm",
    ),
    "EKS": ({"managedFields": [{"manager": "eks", "operation": "Apply"}]}, "EKS"),
    "OpenShift": ({"ownerReferences": [{"kind": "DNS", "name": "default", "controller": True}]}, "DNS"),
}
NOBODY: list[dict[str, t.Any]] = [
    {},
    {"labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"}},
    {"labels": None, "annotations": 7, "managedFields": ["x"], "ownerReferences": [1]},
    {"managedFields": [{"manager": "kubeadm"}], "ownerReferences": [{"kind": "X", "name": "x"}]},
    {"labels": {"addonmanager.kubernetes.io/mode": 7}},
]


def config(text: str, **metadata: t.Any) -> dict[str, t.Any]:
    return {
        "metadata": dict({"name": "coredns", "uid": "u", "resourceVersion": "7"}, **metadata),
        "data": {"Corefile": text},
    }


def request(**more: t.Any) -> dict[str, t.Any]:
    asked = {
        "fabric": "t",
        "clusters": [{"name": "gcp"}],
        "members": ["aws", "gcp"],
        "mirror_namespace": "sys-semaphore",
        "namespace": "kube-system",
    }
    return dict(asked, **more)


def planned(read: t.Any, **more: t.Any) -> tuple[dict[tuple[str, str], t.Any], list[tuple[str, str]], list[str]]:
    """({(map, key): text}, the order of writes, warnings) of one cluster."""
    asked, whole = request(**more), Plan()
    place = places.place_of(asked, "gcp")
    edits, _zone = coredns.plan_places(asked, "gcp", coredns.options_of(asked)["gcp"], place, read, whole)
    return (
        {(one.place.name, one.place.key): one.text for one in edits},
        [(one.place.name, one.place.key) for one in edits],
        whole.warnings,
    )


@pytest.mark.parametrize("kind", sorted(MARKS))
def test_owners(kind: str) -> None:
    metadata, name = MARKS[kind]
    owner = places.owner_of(config("", **metadata))
    assert owner is not None and name in owner.name and owner.when


@pytest.mark.parametrize("metadata", NOBODY)
def test_nobody_keeps_it(metadata: dict[str, t.Any]) -> None:
    assert places.owner_of({"metadata": metadata}) is None and places.owner_of(None) is None


@pytest.mark.parametrize("kind", ["k3s", "AKS"])
def test_the_section_is_among_the_users_files(kind: str) -> None:
    text = WILD[kind]["corefile"]
    read = coredns.Read(config(text, **MARKS[kind][0]), None, {})
    texts, _order, warned = planned(read)
    made = texts["coredns-custom", "multicluster.server"]
    assert list(texts) == [("coredns-custom", "multicluster.server")] and warned == []
    assert root_forwards(text, "t") and all(
        " ".join(("forward",) + line.arguments) in made for line in root_forwards(text, "t")
    )
    custom = {"metadata": {"uid": "c", "resourceVersion": "1"}, "data": {"multicluster.server": made}}
    assert planned(coredns.Read(read.config, None, custom)) == ({}, [], [])
    # what was in the Corefile before is taken out first
    (before,) = planned(coredns.Read(config(text), None))[0].values()
    texts, order, _warned = planned(coredns.Read(config(before, **MARKS[kind][0]), None, {}))
    assert order == [("coredns", "Corefile"), ("coredns-custom", "multicluster.server")]
    assert texts["coredns", "Corefile"] == text and texts["coredns-custom", "multicluster.server"] == made
    # and taken away everywhere
    texts, _order, warned = planned(coredns.Read(config(before, **MARKS[kind][0]), None, custom), state="absent")
    assert texts == {("coredns", "Corefile"): text, ("coredns-custom", "multicluster.server"): None} and warned == []
    # nobody keeps it any more: back into the Corefile
    texts, order, _warned = planned(coredns.Read(config(text), None, custom))
    assert (
        order == [("coredns-custom", "multicluster.server"), ("coredns", "Corefile")]
        and texts["coredns", "Corefile"] == before
    )


def test_users_files_count_as_coredns_reads_them() -> None:
    """The root's forwards and ports, and zones that other files have already."""
    text = WILD["k3s"]["corefile"].replace("    forward . /etc/resolv.conf\n", "").replace(".:53 {", ".:1053 {")
    data = {"up.override": "forward . 192.0.2.9 {\n  max_concurrent 5\n}", "notes": "forward . 192.0.2.1"}
    files = {"data": data, "metadata": {"uid": "c", "resourceVersion": "1"}}
    texts, _order, _warned = planned(coredns.Read(config(text, **MARKS["k3s"][0]), None, files))
    made = texts["coredns-custom", "multicluster.server"]
    assert "forward . 192.0.2.9 {" in made and "max_concurrent 5" in made and "192.0.2.1" not in made
    assert {key_of(address) for block in server_blocks(made) for address in block.addresses} == {
        ("cluster.aws", "1053"),
        ("cluster.gcp", "1053"),
    }
    data["hand.server"] = "cluster.aws:1053 {\n  errors\n}"
    with pytest.raises(ValueRefused, match="not_ours"):
        planned(coredns.Read(config(text, **MARKS["k3s"][0]), None, files))


def test_who_writes_it_back_is_said() -> None:
    for kind in ("RKE2", "EKS", "OpenShift"):
        texts, _order, warned = planned(coredns.Read(config(WILD[kind]["corefile"], **MARKS[kind][0]), None))
        assert list(texts) == [("coredns", "Corefile")]
        (said,) = [text for text in warned if "loses our section" in text]
        assert said.startswith("gcp: ConfigMap kube-system/coredns is that of ") and MARKS[kind][1] in said
    # one that the user chose: it stays, and the better place is named
    read = coredns.Read(config(WILD["k3s"]["corefile"], **MARKS["k3s"][0]), None)
    texts, _order, warned = planned(read, name="coredns", key="Corefile")
    assert (
        list(texts) == [("coredns", "Corefile")] and "goes to coredns-custom, which this Corefile imports" in warned[0]
    )
    assert planned(read, state="absent")[2] == []


def test_places() -> None:
    asked = request(
        name="",
        key="",
        places={
            "aws": {"key": "multicluster.server", "cluster_domain": "c.example"},
            "x": {"name": "coredns-custom"},
            "y": 7,
        },
    )
    assert places.place_of(asked, "gcp") == places.Place() and places.place_of(asked, "y") == places.Place()
    assert places.place_of(asked, "aws")[1:] == ("coredns-custom", "multicluster.server", "coredns", "c.example", True)
    assert places.place_of(asked, "x")[1:3] == ("coredns-custom", "multicluster.server")
    assert places.place_of(request(name="mine"), "gcp")[1:3] == ("mine", "Corefile")
    options = coredns.options_of(request(places={"gcp": {"cluster_domain": "c.example"}}))
    assert options["gcp"].cluster_domain == "c.example"


TEXTS = st.text(st.sampled_from("import /etc/coredns/custom/*.server\n\t{}.#x"), max_size=80)


@given(TEXTS, st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.none()))
def test_texts_of_others_are_read_without_error(text: str, files: dict[str, t.Any]) -> None:
    assert isinstance(places.with_imports(text, files), str)
    if not places.imports(text, "multicluster.server"):
        assert places.with_imports(text, {"multicluster.server": "\\1 not there"}) == text
