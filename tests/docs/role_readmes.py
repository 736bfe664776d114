# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the list of variables at the end of every role's README from its argument specification and defaults. Run: tests/run role_readmes."""

from __future__ import annotations

import json
import pathlib
import re
import textwrap
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN = "<!-- Variables: written by tests/run role_readmes from meta/argument_specs.yml and defaults/main.yml -->"
#: Longer defaults are not read in a list.
LONGEST = 200
END = "<!-- End of variables -->"


def roles() -> list[pathlib.Path]:
    """Folders of the roles."""
    return sorted(path for path in (ROOT / "roles").iterdir() if (path / "meta" / "argument_specs.yml").is_file())


def options(role: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    """Every option of every entry point, by name; what the first entry point that has it describes of it, required where one requires it."""
    found: dict[str, dict[str, t.Any]] = {}
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text("utf-8"))["argument_specs"]
    for entry in specs.values():
        for name, option in (entry.get("options") or {}).items():
            kept = found.setdefault(name, dict(option))
            kept["required"] = bool(kept.get("required") or option.get("required"))
    return dict(sorted(found.items()))


def markup(text: str) -> str:
    """Ansible's markup as Markdown: C(x), V(x), O(x), I(x) and M(x) are code, L(text,url) is a link."""
    text = re.sub(r"L\(([^,()]*),\s*([^)]*)\)", r"[\1](\2)", text)
    return re.sub(r"\b(?:RV|[CVOIMEU])\(([^()]*)\)", r"`\1`", text)


def meaning(option: t.Mapping[str, t.Any]) -> str:
    """The first sentence of the option's description, and its choices."""
    about = option.get("description") or ""
    first = " ".join((about if isinstance(about, str) else about[0]).split())
    first = re.split(r"(?<=[a-z0-9)`])\. (?=[A-Z`])", markup(first), maxsplit=1)[0].rstrip(".") + "."
    if option.get("choices"):
        first += " One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + "."
    return first


def default(name: str, option: t.Mapping[str, t.Any], defaults: t.Mapping[str, t.Any]) -> str:
    """What counts where nobody sets anything; an expression as it is."""
    if option.get("required") and name not in defaults:
        return "required"
    if name not in defaults and "default" not in option:
        return ""
    value = defaults[name] if name in defaults else option["default"]
    text = " ".join(value.split()) if isinstance(value, str) and value else json.dumps(value)
    return f"`{text}`" if len(text) <= LONGEST else "an expression: see [defaults](defaults/main.yml)"


def section(role: pathlib.Path) -> str:
    """The list of variables, with the comments around it."""
    file = role / "defaults" / "main.yml"
    defaults = (yaml.safe_load(file.read_text("utf-8")) if file.is_file() else None) or {}
    lines = [BEGIN, "", "## Variables", ""]
    for name, option in options(role).items():
        said = default(name, option, defaults)
        row = f"* `{name}`{(f' ({said})' if said else '')}: {meaning(option)}"
        lines += textwrap.wrap(row, 140, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, "", END])


def page(role: pathlib.Path) -> str:
    """The whole README, with the list as it has to be: in its place, or at the end where there is none yet."""
    text = (role / "README.md").read_text("utf-8")
    if BEGIN not in text:
        return text.rstrip() + "\n\n" + section(role) + "\n"
    head, rest = text.split(BEGIN, 1)
    return head + section(role) + rest.split(END, 1)[1]


if __name__ == "__main__":
    for folder in roles():
        (folder / "README.md").write_text(page(folder), encoding="utf-8")
        print(folder / "README.md")
