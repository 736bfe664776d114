# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Alert rules and the dashboard: what they ask for is what the status writes. promtool itself runs in tests/run monitoring."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import typing as t

import jsonschema
import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._status import prometheus

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "extensions" / "monitoring"
ALERTS = [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
SCHEMA = json.loads((ROOT / "tests" / "monitoring" / "dashboard.schema.json").read_text())

TABLES = (
    "tunnels",
    "nodes",
    "clusters",
    "services",
    "imports",
    "sets",
    "addresses",
    "pools",
    "drift",
    "refused",
    "failures",
)


class Anything(dict):
    """A row that has every field, so that every family is written with its labels."""

    def __missing__(self, key: str) -> t.Any:
        return [] if key in ("allowed_ips", "announced_by", "devices") else 1


def written() -> dict[str, set[str]]:
    """{metric: its labels} of the Prometheus text."""
    device = Anything(name="wireguard.gcp", public_key="k")
    document: t.Any = Anything({name: [Anything()] for name in TABLES})
    node = Anything(devices=[device], key_age=1, preshared={"gcp": 1})
    document.update(
        nodes=[node],
        next_failure={"node": Anything(), "cluster": Anything()},
        tunnels=[Anything(allowed_ips=["10.0.0.0/24"])],
    )
    document.update(clusters=[Anything(pods_outside={"count": 1})])
    document.update(fabric="f", generated_epoch=1, verdict={"value": "proven"})
    found: dict[str, set[str]] = {}
    for line in prometheus.text(document).splitlines():
        match = re.match(r"([a-z_]+)(?:\{(.*)\})? \S+$", line)
        if match and not line.startswith("#"):
            found[match.group(1)] = set(re.findall(r'([a-z_]+)="', match.group(2) or ""))
    return found


METRICS = written()
EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in ALERTS}
EXPRESSIONS.update({panel["title"]: target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]})


def test_every_family_of_the_status_is_among_the_written_ones():
    document: t.Any = Anything({name: [] for name in TABLES}, fabric="f", verdict={"value": ""})
    families = re.findall(r"(?m)^# TYPE (\S+)", prometheus.text(document))
    assert set(families) == set(METRICS)


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_an_expression_asks_for_metrics_and_labels_that_are_written(name):
    asked = set(re.findall(r"(?:multicluster|semaphore)_[a-z_]+", EXPRESSIONS[name]))
    assert asked and asked <= set(METRICS)
    for labels in re.findall(r"by \(([^)]*)\)", EXPRESSIONS[name]):
        assert set(re.split(r",\s*", labels)) <= set.union(*(METRICS[metric] for metric in asked))


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_states_what_it_is_and_what_to_do(rule):
    assert rule["labels"]["severity"] in ("critical", "warning") and re.fullmatch(r"\d+m|\d+h", rule["for"])
    text = rule["annotations"]["summary"] + rule["annotations"]["description"]
    metric = re.search(r"(?:multicluster|semaphore)_[a-z_]+", rule["expr"]).group(0)
    assert set(re.findall(r"\$labels\.([a-z_]+)", text)) <= METRICS[metric]
    assert rule["annotations"]["description"].endswith(".")


def test_alerts_have_names_of_their_own_and_are_in_the_guide_and_in_their_test():
    names = [rule["alert"] for rule in ALERTS]
    assert len(set(names)) == len(names)
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_monitoring.rst").read_text("utf-8")
    tested = (ROOT / "tests" / "monitoring" / "alerts_test.yml").read_text("utf-8")
    for name in names:
        assert name in guide and re.search(rf'alertname(="|: ){name}\b', tested), name


def test_the_dashboard_is_what_grafana_imports():
    jsonschema.validate(DASHBOARD, SCHEMA)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_panels_do_not_cover_each_other():
    cells = [
        (x, y)
        for spot in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(spot["x"], spot["x"] + spot["w"])
        for y in range(spot["y"], spot["y"] + spot["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, dummy in cells) < 24


@pytest.mark.parametrize(
    "spoil",
    [
        lambda board: board.update(id=7),
        lambda board: board["panels"][0].pop("targets"),
        lambda board: board["panels"][0].update(type="graph"),
        lambda board: board["panels"][0]["targets"][0]["datasource"].update(uid="P1"),
        lambda board: board.update(panels=[]),
    ],
)
def test_the_schema_refuses_what_grafana_would_not_show(spoil):
    board = copy.deepcopy(DASHBOARD)
    spoil(board)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(board, SCHEMA)
