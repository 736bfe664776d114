# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a page for each distribution and managed service, docs/docsite/rst/guide_on_NAME.rst. Run: tests/run distribution_pages."""

from __future__ import annotations

import pathlib
import textwrap
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FACTS = pathlib.Path(__file__).with_name("distributions.yml")
PAGES = ROOT / "docs" / "docsite" / "rst"
DOCSITE = "ansible_collections.multicluster.network.docsite"
#: (field, head of its row)
ROWS = (
    ("kubeconfig", "kubeconfig"),
    ("pods", "``pod_cidrs``, default"),
    ("services", "``service_cidrs``, default"),
    ("network", "network, default"),
    ("coredns", "name server"),
    ("names", "names of Nodes"),
    ("way", "way to the nodes"),
)


def facts() -> dict[str, t.Any]:
    """The table that all pages are made of."""
    return yaml.safe_load(FACTS.read_text("utf-8"))


def file_of(name: str) -> pathlib.Path:
    """Where a page is."""
    return PAGES / f"guide_on_{name}.rst"


def page(name: str, row: dict[str, t.Any], read: t.Any) -> str:
    """One page. Nothing in it is known but what the row has."""
    title = f"{row['title']}: what to set"
    group = "prod"  # names of clusters have five characters
    host = yaml.safe_dump(row["example"], default_flow_style=True, width=1000).strip().strip("{}")
    texts = [
        f".. _{DOCSITE}.guide_on_{name}:",
        "",
        title,
        "=" * len(title),
        "",
        ".. This page is written by tests/run distribution_pages from tests/docs/distributions.yml.",
        "",
        *_text(f"**What ran here:** {row['ran']}"),
        "",
        *_text(
            "Nothing else on this page was tested. It comes from the documents that are listed at its end. The guide to "
            f":ref:`real clusters <{DOCSITE}.guide_clusters>` lists the network plugins that ran, and how."
        ),
        "",
        "Defaults",
        "--------",
        "",
        ".. list-table::",
        "   :widths: 26 74",
        "",
    ]
    for field, head in ROWS:
        texts += [f"   * - {head}", f"     - {row[field]}"]
    texts += [
        "",
        "The inventory",
        "-------------",
        "",
        *_text(
            "Two clusters of one kind have the same ranges by default. ``validate`` names them, and the guide to "
            f":ref:`overlap <{DOCSITE}.guide_overlap>` has the inventory for this case."
        ),
        "",
        ".. code-block:: yaml",
        "",
        "    clusters:",
        "      hosts:",
        f"        {group}: {{kubeconfig: ~/.kube/{name}, {host}}}",
        '      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}',
        f"    {group}_nodes: {{vars: {{multicluster_cluster: {group}}}, hosts: {{{group}-1: {{}}, {group}-2: {{}}}}}}",
        "",
        ".. code-block:: console",
        "",
        "    $ ansible-playbook -i inventory multicluster.network.validate",
        "    $ ansible-playbook -i inventory multicluster.network.preflight",
        "",
    ]
    if "node pods" in row["way"]:
        texts += [
            *_text(
                f"The collection reaches nodes without SSH by a pod on each of them, see :ref:`node pods <{DOCSITE}.guide_node_pods>`."
            ),
            "",
        ]
    texts += ["Differences", "-----------", ""]
    for note in row["notes"]:
        lines = _text(note)
        texts += [f"* {lines[0]}", *(f"  {line}" for line in lines[1:])]
    texts += ["", "Sources", "-------", ""]
    texts += [f"* {url} (read on {read})" for url in row.get("sources", ())]
    texts += [f"* {url}" for url in row.get("documentation", ())]
    texts += [""]
    return "\n".join(texts)


def _text(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 155, break_long_words=False, break_on_hyphens=False)


def pages() -> dict[pathlib.Path, str]:
    """All pages."""
    given = facts()
    return {file_of(name): page(name, row, given["read"]) for name, row in given["distributions"].items()}


def main() -> None:
    """Write what differs, and remove pages that the table has no more."""
    desired = pages()
    for path in PAGES.glob("guide_on_*.rst"):
        if path not in desired:
            path.unlink()
    for path, text in desired.items():
        path.write_text(text, "utf-8")
        print(path)


if __name__ == "__main__":
    main()
