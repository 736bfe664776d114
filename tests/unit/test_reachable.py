# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Code that only tests reach is a defect: every definition of the shared code is reached by something that users run.

What counts as a root, and how names are followed, is said in reach.py. There is no list of exceptions. Code of a capability that is not
built yet is not kept in advance: it comes back from history with its capability. And what proves the product has to go through the
product: the vectors' adapters take nothing from the shared code but what users reach.
"""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.tests.unit.reach import Name, Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADAPTERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "conformance" / "adapters").glob("*.py"))


@pytest.fixture(scope="module", name="tree")
def _tree() -> Tree:
    return Tree(ROOT, ADAPTERS)


def test_users_reach_every_definition(tree: Tree) -> None:
    unreached = tree.unreached()
    assert not unreached, "only tests reach:\n" + "\n".join(unreached)


@pytest.mark.parametrize("path", ADAPTERS)
def test_adapters_take_only_what_users_reach(tree: Tree, path: str) -> None:
    unowned = tree.unreached_by(path)
    assert not unowned, f"{path} takes what no user reaches: {', '.join(unowned)}"


# --- the walk itself ---------------------------------------------------------------------------------------------

UTILS = "plugins/module_utils/"
PACKAGE = "ansible_collections.multicluster.network.plugins.module_utils"


def unreached(folder: pathlib.Path, sources: t.Mapping[str, str]) -> list[str]:
    for path, source in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(source, "utf-8")
    return [line.rpartition(" (")[0].replace(UTILS, "") for line in Tree(folder).unreached()]


TWO = "def used():\n    pass\n\n\ndef unused():\n    pass\n"


@pytest.mark.parametrize(
    "code",
    [
        "from {0}._a.b import used\nused()",
        "from {0}._a.b import used as other\nother()",
        "from {0}._a import b\nb.used()",
        "import {0}._a.b as c\nc.used()",
        "from {0}._a import b as c\n\ndef main():\n    c.used()",
        "def main():\n    from {0}._a.b import used\n    used()",
        "from {0}._a import b\ngetattr(b, 'used')()",
        "import importlib\none = importlib.import_module('x.' + '_a.b')\none.used()",
        "from {0}._a import c\nc.used()",
        "from {0}._a import d\nd.Table",
        "from {0}._a import e\ne.call()",
    ],
)
def test_a_name_is_reached_however_it_is_taken(tmp_path: pathlib.Path, code: str) -> None:
    further = {
        UTILS + "_a/c.py": "from .b import used\n",  # passes the name on
        UTILS + "_a/d.py": "from . import b as other\n\nTable = {'x': other.used}\n",
        UTILS + "_a/e.py": "from .._a.b import used\n\n\ndef call(of=used):\n    return of()\n",
    }
    used = {path: source for path, source in further.items() if f"import {path[-4]}\n" in code}
    assert unreached(tmp_path, {UTILS + "_a/b.py": TWO, "plugins/modules/m.py": code.format(PACKAGE), **used}) == [
        "_a/b.py: unused"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "from {0}._a.b import used",  # imported and never named
        "from {0}._a.b import used\n\n\ndef main(used):\n    return used",
        "from {0}._a import b\n\n\ndef main():\n    b = 1\n    return b.used",
        "from {0}._a import b\n\nTEXT = 'b.used'",
        "import _a.b as b\nb.used()",
    ],
)
def test_a_name_that_merely_looks_alike_reaches_nothing(tmp_path: pathlib.Path, code: str) -> None:
    assert unreached(tmp_path, {UTILS + "_a/b.py": TWO, "plugins/modules/m.py": code.format(PACKAGE)}) == [
        "_a/b.py: used",
        "_a/b.py: unused",
    ]


def test_what_units_start_runs_as_a_program(tmp_path: pathlib.Path) -> None:
    program = TWO + "\n\ndef main():\n    used()\n\n\nif __name__ == '__main__':\n    main()\n"
    assert unreached(tmp_path, {UTILS + "_a/b.py": program}) == ["_a/b.py: used", "_a/b.py: unused", "_a/b.py: main"]
    unit = f"ExecStart=python3 -m {PACKAGE}._a.b\n"
    assert unreached(tmp_path, {"roles/r/templates/s.j2": unit}) == ["_a/b.py: unused"]


def test_what_an_archive_is_entered_by(tmp_path: pathlib.Path) -> None:
    sources = {
        UTILS + "_a/b.py": TWO + "\n\ndef main():\n    used()\n",
        UTILS + "_a/c.py": "def archive():\n    return build('_a.b')\n\n\ndef build(entry):\n    return entry\n",
        "plugins/modules/m.py": f"from {PACKAGE}._a.c import archive\narchive()\n",
    }
    assert unreached(tmp_path, sources) == ["_a/b.py: unused"]


def test_code_that_only_reaches_itself_is_not_reached(tmp_path: pathlib.Path) -> None:
    ring = "def one():\n    return two()\n\n\ndef two():\n    return one() or LIMIT\n\n\nLIMIT: int = 3\n__all__ = ['one']\n"
    assert unreached(tmp_path, {UTILS + "_a/b.py": ring}) == ["_a/b.py: one", "_a/b.py: two", "_a/b.py: LIMIT"]


def test_an_adapter_that_takes_a_twin_is_found(tmp_path: pathlib.Path) -> None:
    sources = {
        UTILS + "_a/b.py": TWO,
        UTILS + "_a/c.py": "from . import b\n\n\ndef go():\n    b.used()\n",
        "plugins/modules/m.py": f"from {PACKAGE}._a import c\nc.go()\n",
        "tests/adapter.py": f"from {PACKAGE}._a import b, c\n\n\ndef answer():\n    return b.used(), c.b, b.unused()\n",
    }
    assert unreached(tmp_path, sources) == ["_a/b.py: unused"]
    assert Tree(tmp_path, ["tests/adapter.py"]).unreached_by("tests/adapter.py") == [
        "plugins/module_utils/_a/b.py: unused"
    ]
    assert Tree(tmp_path, ["tests/adapter.py"]).unreached() == Tree(tmp_path).unreached()


def test_getattr_that_nobody_can_follow_is_refused(tmp_path: pathlib.Path) -> None:
    code = f"from {PACKAGE}._a import b\n\n\ndef main(name):\n    return getattr(b, name)\n"
    with pytest.raises(AssertionError, match="m.py:5"):
        unreached(tmp_path, {UTILS + "_a/b.py": TWO, "plugins/modules/m.py": code})


def test_the_boot_program_and_the_watcher_are_reached_through_their_units(tree: Tree) -> None:
    """Were they not, everything that only nodes run would be in the list above, or the walk would be blind to it."""
    reached = tree.reached()
    assert Name(UTILS + "_flows/node/node_agent.py", "main") in reached
    assert Name(UTILS + "_flows/reconciler/program.py", "main") in reached
    assert Name(UTILS + "_plan/runs.py", "Runs") in reached  # by the name of its file, in a string of the event source
