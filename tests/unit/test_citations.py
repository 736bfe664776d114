# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every citation of code, tests and documents leads to a section of docs/specs; those pages cite each other and themselves too."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
SPECS = REPO / "docs" / "specs"
PLACES = ("plugins", "extensions", "roles", "playbooks", "tests", "docs", "meta")
FILES = ("README.md", "CONTRIBUTING.md", "tests/run", "Makefile")
KINDS = (".py", ".yml", ".yaml", ".md", ".rst", ".j2", ".toml")
#: What is cited by number, and the page it is on
PAGES = {name: name for name in ("semaphore", "kubespan", "kilo", "ccm", "apinet", "mcs", "translation", "pod_ranges")}
PAGES.update({"module contract": "module_contract", "decision": "decisions"})

_NUMBERS = r"(\d+(?:\.\d+)*(?:(?:,? and |, | to )\d+(?:\.\d+)*)*)(?![\w%-])"
_NUMBERED = re.compile(rf"(?i)(?<![\w/.-])({'|'.join(PAGES)})s? {_NUMBERS}")
_SECTION = re.compile(r"(?i)(?<!\w)sections? " + _NUMBERS)
_THREAT = re.compile(r"(?:(?<=\()|(?<=[Tt]hreat )|(?<=[Tt]hreats )|(?<=, )|(?<=and )|(?<=to ))T([1-9]\d?)\b")
_GAP = re.compile(r"(?:(?<=gap )|(?<=gaps )|(?<=Gap ))(G\d+(?:(?:, | and | to )G\d+)*)")
#: What cites a document that is not here
_ELSEWHERE = re.compile(r"§|\b[Rr]ulings? \d|\bDESIGN \d|\b[Gg]uide,? (?:section )?\d|\b[Ff]inding F\d")


def sections(page: str) -> set[str]:
    """Numbers that can be cited: of headings with their anchors, and of the items of a numbered list in a section, as 24.3."""
    found: set[str] = set()
    heading, anchors = "", set()
    for line in (SPECS / (page + ".md")).read_text().splitlines():
        anchor = re.match(r'<a id="[sd]([\d.]+)"></a>$', line)
        if anchor:
            assert anchor[1] not in anchors, f"{page}.md has two sections {anchor[1]}"
            anchors.add(anchor[1])
        title = re.match(r"#{2,4} (\d+(?:\.\d+)*)[. ]", line)
        item = re.match(r"(\d+)\. ", line)
        if title:
            heading = title[1]
            assert heading in anchors, f"{page}.md, section {heading}: no anchor before it"
            found.add(heading)
        elif item and heading:
            found.add(f"{heading}.{item[1]}")
    return found


KNOWN = {page: sections(page) for page in set(PAGES.values())}
THREATS = set(re.findall(r'^\| <a id="T(\d+)"></a>T\1 \|', (SPECS / "threats.md").read_text(), re.M))
GAPS = set(re.findall(r"^\| (G\d+) \|", (SPECS / "kilo.md").read_text(), re.M))


def texts() -> t.Iterator[tuple[str, str]]:
    """(path, text) of everything that may cite; vectors, go's checksums and what tests leave behind cite nothing."""
    for place in PLACES:
        for path in sorted((REPO / place).rglob("*")):
            name = path.relative_to(REPO).as_posix()
            if (
                path.suffix in KINDS
                and path.is_file()
                and not re.match(r"tests/(?:output|conformance/vectors|unit/test_citations)", name)
            ):
                yield name, path.read_text()
    for name in FILES:
        if (REPO / name).exists():
            yield name, (REPO / name).read_text()


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)*", text)


def lost(name: str, text: str) -> list[str]:
    """The citations of a text that lead nowhere."""
    found = []
    plain = re.sub(r"\s*\n[ \t]*(?:#:?[ \t])?", " ", text)
    for match in _NUMBERED.finditer(plain):
        page = PAGES[match[1].lower()]
        found += [match[0] for number in numbers(match[2]) if number not in KNOWN[page]]
    found += ["T" + number for number in _THREAT.findall(plain) if number not in THREATS]
    for match in _GAP.finditer(plain):
        found += [gap for gap in re.findall(r"G\d+", match[1]) if gap not in GAPS]
    found += [match[0] for match in _ELSEWHERE.finditer(plain)]
    if name.startswith("docs/specs/"):
        page = Path(name).stem
        for match in _SECTION.finditer(plain):
            found += [match[0] for number in numbers(match[1]) if number not in KNOWN.get(page, ())]
    return found


def test_citations_lead_somewhere() -> None:
    found = {name: lost(name, text) for name, text in texts()}
    assert {name: citations for name, citations in found.items() if citations} == {}


def test_what_is_cited_is_found_at_all() -> None:
    """The pattern sees the citations: hundreds of them, of every page."""
    seen: dict[str, int] = {}
    for name, text in texts():
        if not name.startswith("docs/"):
            for match in _NUMBERED.finditer(text):
                seen[match[1].lower()] = seen.get(match[1].lower(), 0) + 1
            seen["threat"] = seen.get("threat", 0) + len(_THREAT.findall(text))
    assert (
        seen["decision"] > 50
        and seen["semaphore"] > 30
        and seen["kubespan"] > 30
        and seen["ccm"] > 30
        and seen["kilo"] > 10
    )
    assert seen["threat"] > 30 and seen["module contract"] > 3


@pytest.mark.parametrize(
    "text",
    [
        "as in semaphore 99.1",
        "(decision 999)",
        "decisions 1 and 999",
        "(T99)",
        "threats T1 to T99",
        "gap G99",
        "gaps G1, G99",
        "Ruling 5",
        "guide 5.8",
        "see §3",
        "kubespan 3\n    and 99",
    ],
)
def test_a_citation_of_nothing_is_found(text: str) -> None:
    assert len(lost("plugins/x.py", text)) == 1


def test_every_page_is_in_the_list() -> None:
    listed = set(re.findall(r"\]\((\w+\.md)\)", (SPECS / "README.md").read_text()))
    assert listed == {path.name for path in SPECS.glob("*.md")} - {"README.md"}
