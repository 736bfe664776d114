# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of upstream settings and the collection's: every upstream one is in it, and every one of the collection exists."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import settings_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import ACCESS_OPTIONS
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.settings import SETTINGS
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import CLUSTER_VARIABLES
from ansible_collections.multicluster.network.plugins.module_utils._upstream.programs import MAPPED, PROGRAMS
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables, role_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = re.sub(r"(?m)^\.\. _\S+:\n\n", "", (ROOT / "docs" / "docsite" / "rst" / "guide_settings.rst").read_text("utf-8"))
UPSTREAM = yaml.safe_load((ROOT / "tests" / "fixtures" / "original_settings.yml").read_text("utf-8"))
CONTROLLER = "Cloud controller (packet-ccm, metal-ccm, cloud-provider-equinix-metal)"
#: Of a node's host, as the description of the role's option lists them.
KUBESPAN = set(
    re.findall(r"C\((kubespan_\w+)\)", str(role_options()["node_dataplane"]["node_dataplane_kubespan"]["description"]))
) | {"kubespan_config"}
VARIABLES = (
    known_variables().names
    | set(CLUSTER_VARIABLES)
    | set(ACCESS_OPTIONS)
    | KUBESPAN
    | {"load_balancers_settings." + name for name in settings_spec()}
)


def tables():
    """Section -> rows of the three cells' texts."""
    found = {}
    for title, body in re.findall(r"(?m)^(.+)\n-{4,}\n((?:(?!^.+\n-{4,}\n)[\s\S])*)", PAGE):
        cells = [[cell.strip() for cell in row.split("\n     - ")] for row in re.split(r"\n   \* - ", body)[1:]]
        found[title] = [row for row in cells if row[0] != "Original"]
    return found


TABLES = tables()


def names(cell):
    return re.findall(r"``([^`]+)``", cell)


@pytest.mark.parametrize("system", UPSTREAM)
def test_every_setting_of_an_original_is_in_its_table_once(system):
    assert sorted(name for row in TABLES[system] for name in names(row[0])) == sorted(UPSTREAM[system])


@pytest.mark.parametrize("system", UPSTREAM)
def test_every_setting_of_the_collection_exists(system):
    for theirs, owned, remark in TABLES[system]:
        assert set(names(owned)) <= VARIABLES, theirs
        assert names(owned) or (owned == "none" and remark), theirs


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.name)
def test_the_reader_of_configurations_knows_every_row(program):
    """The same keys in the same rows, the same variables, and for what has none the same reason."""
    rows = [(tuple(names(row[0])), tuple(names(row[1])), row[2].replace("``", "")) for row in TABLES[program.title]]
    said = [
        (key.names, key.owned, key.remark if key.fate == MAPPED else f"{key.fate}: {key.remark}")
        for key in program.keys
    ]
    assert rows == said


def test_every_table_has_a_reader():
    assert sorted(program.title for program in PROGRAMS.values()) == sorted(UPSTREAM)


def test_there_are_no_other_tables_but_the_one_of_levels():
    assert set(TABLES) - set(UPSTREAM) == {"Log levels"} and len(TABLES["Log levels"]) == 4


def test_what_the_controllers_settings_are_read_from_is_listed():
    """The code that reads them has the same names."""
    read = {name for item in SETTINGS for name in item.variables + item.keys}
    assert read == {name for name in UPSTREAM[CONTROLLER] if not name.startswith("--")}
