# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The linter of words finds what docs/specs/words.md replaces, names what to say, and lets counts only go down."""

from __future__ import annotations

import importlib.util
import json
import pathlib

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("words_linter", REPO / "tests" / "words.py")
words = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(words)

LIST = """\
| word | say | where |
|---|---|---|
| wanted, somebody else's | desired (state) | everywhere |
| look | inspect | file names |
| red | failed | headings |

| not | but |
|---|---|
| beside | next to |
"""


@pytest.fixture
def finder():
    return words.Finder(words.terms(LIST))


def found(finder, text, name="a.py"):
    return [(use.word, use.line) for use in finder.uses(pathlib.PurePath(name), text)]


def test_the_first_table_is_the_list_of_words():
    assert [term.word for term in words.terms(LIST)] == ["wanted", "somebody else's", "look", "red"]
    with pytest.raises(ValueError, match="has no table"):
        words.terms("# Words\n")
    with pytest.raises(ValueError, match="'somewhere' is neither"):
        words.terms(LIST.replace("file names", "somewhere"))


@pytest.mark.parametrize(
    "text",
    [
        "what is wanted",
        "Wanted is",
        "is_wanted = 1",
        "wanted_2",
        "class WantedState:",
        "isWanted()",
        "_WANTED",
        "it is somebody else's",
    ],
)
def test_a_word_is_found_in_sentences_and_in_names(finder, text):
    assert [line for _word, line in found(finder, f"first\n{text}\n")] == [2]


@pytest.mark.parametrize("text", ["unwanted", "wantedly", "UNWANTED", "curl --wanted", "desired", "Ünwanted"])
def test_a_part_of_another_word_and_an_option_are_none(finder, text):
    assert found(finder, text) == []


def test_headings_and_file_names_are_their_own_places(finder):
    assert found(finder, "red\n") == []
    assert found(finder, "# It is red\nred\n", "a.md") == [("red", 1)]
    assert found(finder, "It is red\n=========\n\nred\n----\n", "a.rst") == [("red", 1), ("red", 4)]
    assert found(finder, "- name: Red\n  red: 1\n", "a.yml") == [("red", 1)]
    assert found(finder, "look\n", "look.py") == [("look", 0)]
    assert sorted(found(finder, "", "look_wanted.py")) == [("look", 0), ("wanted", 0)]


def test_more_than_the_count_of_a_file_is_refused_with_what_to_say(finder):
    uses = {"a.py": finder.uses(pathlib.PurePath("a.py"), "wanted\n\nwanted\n")}
    assert words.problems(uses, {"a.py": {"wanted": 2}}, finder) == []
    assert words.problems(uses, {"a.py": {"wanted": 3}}, finder) == []
    for allowed, most in (({"a.py": {"wanted": 1}}, 1), ({"b.py": {"wanted": 2}}, 0)):
        (message,) = words.problems(uses, allowed, finder)
        assert message == (
            f"a.py: 'wanted' is used 2 times and {most} are allowed; say: desired (state) (uses in lines 1, 3)"
        )


def tree(folder, monkeypatch, **texts):
    for name, text in {"docs/specs/words.md": LIST, **texts}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(words, "REPO", folder)
    return folder / "tests" / "words.json"


def test_counts_are_written_lower_and_moved_but_never_higher(tmp_path, monkeypatch, capsys):
    counts = {"plugins/a.py": {"wanted": 2}}
    before = {"plugins/a.py": "wanted wanted", "tests/words.json": json.dumps(counts)}
    file = tree(tmp_path, monkeypatch, **before)
    assert words.main([]) == 0
    (tmp_path / "plugins" / "a.py").rename(tmp_path / "plugins" / "b.py")
    assert words.main([]) == 1 and "plugins/b.py: 'wanted' is used 2 times and 0 are allowed" in capsys.readouterr().err
    assert words.main(["--write"]) == 0 and words.main([]) == 0
    assert json.loads(file.read_text()) == {"plugins/b.py": {"wanted": 2}}
    (tmp_path / "plugins" / "b.py").write_text("wanted")
    assert words.main(["--write"]) == 0
    assert json.loads(file.read_text()) == {"plugins/b.py": {"wanted": 1}}
    (tmp_path / "plugins" / "b.py").write_text("wanted wanted")
    assert words.main(["--write"]) == 1 and "counts only go down" in capsys.readouterr().err
    assert json.loads(file.read_text()) == {"plugins/b.py": {"wanted": 1}}


def test_the_tree_has_no_more_of_any_word_than_is_noted(capsys):
    assert words.main([]) == 0, capsys.readouterr().err
