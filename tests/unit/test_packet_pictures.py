# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of guide_packets have what ``trace`` showed over real network plugins; recorded by tests/run cni CNI=DIR RECORD=1."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "cni"))

import pictures

RECORDED = json.loads((TESTS / "fixtures" / "cni" / "traces.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_picture_has_the_devices_and_routes_of_a_recorded_trace(name):
    hops = RECORDED[name]
    assert {hop["verdict"] for hop in hops} == {"ok"} and len(hops) == 6
    assert any(hop["where"].partition("-")[0] in pictures.PICTURES for hop in hops)
    assert pictures.missing(hops) == []


def test_a_picture_without_a_device_of_a_trace_is_found():
    (hop, *dummy) = [one for one in RECORDED["flannel to plain"] if one["where"] == "flannel-1"]
    changed = dict(hop, observed=hop["observed"].replace("cni0", "br0"))
    assert pictures.missing([changed]) == [("flannel-1", "br0")]
    (target,) = [one for one in RECORDED["flannel to plain"] if one["where"] == "flannel-1" and one["what"] == "target"]
    other = {
        name: text.replace("10.244.0.", "10.244.1.").replace("flannel-1", "flannel-2") for name, text in target.items()
    }
    assert pictures.missing([other]) == []
    wide = dict(target, expected=target["expected"].replace("/24", "/16"))
    assert pictures.missing([wide]) == [("flannel-1", "/16 dev cni0")]
    assert pictures.missing([dict(target, observed="not seen")]) == [("flannel-1", "not seen")]


def test_the_guide_shows_each_picture():
    guide = (TESTS.parent / "docs" / "docsite" / "rst" / "guide_packets.rst").read_text(encoding="utf-8")
    assert all(f"images/{picture}" in guide for picture in pictures.PICTURES.values())
