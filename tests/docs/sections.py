# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives the site's sidebar its sections: antsibull-docs writes lists of pages below headings, and Sphinx shows captions only.

Usage: sections.py INDEX, the file index.rst that antsibull-docs has written.
"""

from __future__ import annotations

import pathlib
import re
import sys

TITLE = "Kubernetes clusters as one network"
#: Headings of antsibull-docs as people would say them.
_NAMES = {
    "Role Index": "Roles",
    "Callback Plugins": "Callbacks",
    "Connection Plugins": "Connections",
    "Filter Plugins": "Filters",
    "Inventory Plugins": "Inventory",
}
#: In the page itself the headings say the same.
PICTURE = """
.. image:: docsite/images/what_it_does.svg
    :alt: Two clusters with encrypted tunnels between all of their nodes, and a Service of the one with a name in the other, from one inventory
    :width: 100%

Pods and Services of several Kubernetes clusters reach each other as if they were in one. Begin with
:ref:`{0}guide_comparison>`, :ref:`{1}guide_start>`, or the page of your distribution below.
""".format(
    "is it for me? <ansible_collections.multicluster.network.docsite.",
    "the first steps <ansible_collections.multicluster.network.docsite.",
)
_STYLE = "\n.. raw:: html\n\n    <style>.toctree-wrapper > p.caption { display: none }</style>\n"


def with_sections(text: str) -> str:
    """The index with its own title and picture, a caption for each list of pages, and the changelog last."""
    text = re.sub(r"(?m)^Multicluster\.Network\n=+$", f"{TITLE}\n{'=' * len(TITLE)}\n{PICTURE}", text, count=1)
    text = re.sub(r"(?m)^\.\. toctree::\n {4}:maxdepth: 1\n\n(?=\S|\Z)", "", text)  # one that lists nothing
    changelog = re.search(r"(?ms)^\.\. _changelog_section_for.*?^Changelog\n-+\n.*?(?=^\S[^\n]*\n-{3,}$)", text)
    if changelog:
        text = text.replace(changelog.group(0), "") + "\n" + changelog.group(0)
    parts, heading, last = [], "", 0
    for match in re.finditer(r"(?m)^(?P<name>\S.*)\n(?:={3,}|-{3,}|~{3,})$|^\.\. toctree::\n", text):
        if match.group("name"):
            heading = match.group("name")
            continue
        parts += [text[last : match.end()], f"    :caption: {_NAMES.get(heading, heading)}\n"]
        last = match.end()
    return "".join(parts) + text[last:] + _STYLE


if __name__ == "__main__":
    INDEX = pathlib.Path(sys.argv[1])
    INDEX.write_text(with_sections(INDEX.read_text("utf-8")), encoding="utf-8")
