# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every role's README has every variable that the role takes, with the default that it has."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1] for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"))


@pytest.fixture(scope="module", name="generator")
def load_generator():
    spec = importlib.util.spec_from_file_location("role_readmes", ROOT / "tests" / "docs" / "role_readmes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_role_takes_part(generator):
    assert generator.roles() == ROLES and len(ROLES) > 20


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_readme_is_in_step(generator, role):
    assert (role / "README.md").read_text("utf-8") == generator.page(role), "run: tests/run role_readmes"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_variable_is_named(role):
    """Read without the program that writes them, so that an error of that one shows."""
    text = (role / "README.md").read_text("utf-8")
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text("utf-8"))["argument_specs"]
    missing = {name for entry in specs.values() for name in entry.get("options") or {} if f"`{name}`" not in text}
    assert not missing


def test_no_fabric_has_another_name(tmp_path):
    """Where nobody names the fabric all roles mean the same one."""
    files = [role / "defaults" / "main.yml" for role in ROLES if (role / "defaults" / "main.yml").is_file()]
    names = sorted(
        name for file in files for name in yaml.safe_load(file.read_text("utf-8")) or {} if name.endswith("_fabric")
    )
    shown = {name: "{{ " + name + " }}" for name in names}
    own = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "vars": own,
            "vars_files": [str(file) for file in files],
            "tasks": [
                {
                    "ansible.builtin.copy": {"dest": str(tmp_path / "said"), "content": "{{ shown | to_json }}"},
                    "vars": {"shown": shown},
                }
            ],
        }
    ]
    (tmp_path / "play.yml").write_text(json.dumps(play), "utf-8")
    environment = dict(
        os.environ, HOME=str(tmp_path), ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_LOCAL_TEMP=str(tmp_path / "local")
    )
    command = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((tmp_path / "said").read_text("utf-8"))
    assert len(said) > 15
    assert set(said.values()) == {"default"}
