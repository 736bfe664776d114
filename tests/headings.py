#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse names of plays, tasks, modules and chapters that are no verb with its object, or no term (docs/specs/words.md, 2).

A play, a task, and the short description of a module or role begin with a verb of VERBS and have an object. A heading of a guide is no question and no
sentence: it is a term, or a verb with its object.
"""

from __future__ import annotations

import pathlib
import re
import sys
import typing as t

import yaml

REPO = pathlib.Path(__file__).resolve().parents[1]
#: What a task or module does, in the words of the field. A further one comes here once a reader of Ansible's own collections would use it.
_VERBS = """
Add Adopt Allocate Announce Assign Attach Build Change Check Choose Collect Compare Compute Configure Confirm Connect Converge Create Delete Detach End
Export Fail Find Follow Gather Group Import Initialise Inspect Install Join Keep List Load Make Manage Map Migrate Mirror Move Place Plan Print Probe
Publish Read Reconcile Record Refuse Reject Release Remove Repeat Replace Report Require Resolve Return Rewrite Roll Run Send Set Stop Take Trace Update
Validate Verify Withdraw Write
"""
VERBS = frozenset(_VERBS.split())
#: The pages that people look for by a question.
QUESTIONS = frozenset({"Is it for me?"})
_PLAYS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
_UNDERLINE = re.compile(r"([=\-~^*\"'`+#.])\1+")
_SENTENCE = re.compile(r"(What|How|Who(m|se)?|When|Where|Why|Which|It|They|Nobody|Everybody)\b")


class _Loader(yaml.SafeLoader):
    """Takes tags of Ansible, such as !unsafe, for nothing."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def is_named(name: str) -> bool:
    """Whether a name is a verb with its object. Templates are not judged."""
    words = name.partition(" # noqa")[0].split()
    return name.startswith("{{") or (len(words) > 1 and words[0].rstrip(",") in VERBS)


def names(document: t.Any) -> t.Iterator[str]:
    """The names of all plays and tasks of a YAML document, in their order."""
    for item in document if isinstance(document, list) else ():
        if isinstance(item, dict):
            if isinstance(item.get("name"), str):
                yield item["name"]
            for key in _PLAYS:
                yield from names(item.get(key))


def descriptions(text: str) -> t.Iterator[str]:
    """Every short description in the documentation of a module or in the options of a role."""
    yield from re.findall(r"(?m)^ *short_description: (.*)$", text)


def headings(text: str) -> t.Iterator[str]:
    """The headings of a page."""
    lines = text.split("\n")
    for line, below in zip(lines, lines[1:]):
        if line.strip() and not line.startswith(" ") and _UNDERLINE.fullmatch(below) and len(below) >= len(line):
            yield line


def is_term(heading: str) -> bool:
    """Whether a heading is neither a question nor a sentence."""
    return heading in QUESTIONS or not (_SENTENCE.match(heading) or heading.endswith("?"))


def refused(root: pathlib.Path) -> list[str]:
    """``file: name`` of each that breaks the rule, in the order of files."""
    found: list[str] = []

    def judge(path: pathlib.Path, texts: t.Iterable[str], good: t.Callable[[str], bool]) -> None:
        found.extend(f"{path.relative_to(root)}: {text}" for text in texts if not good(text))

    for path in sorted([*root.glob("playbooks/**/*.yml"), *root.glob("roles/*/tasks/**/*.yml")]):
        if not {"vars", "files"} & set(path.relative_to(root).parts):
            judge(path, names(yaml.load(path.read_text("utf-8"), _Loader)), is_named)
    for path in sorted([*root.glob("plugins/modules/*.py"), *root.glob("roles/*/meta/argument_specs.yml")]):
        judge(path, descriptions(path.read_text("utf-8")), is_named)
    for path in sorted(root.glob("docs/docsite/rst/*.rst")):
        if path.stem != "guide_faq":
            judge(path, headings(path.read_text("utf-8")), is_term)
    return found


def main() -> int:
    found = refused(REPO)
    for line in found:
        print(
            f"{line}: begin with a verb of tests/headings.py and name its object (docs/specs/words.md, 2)",
            file=sys.stderr,
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
