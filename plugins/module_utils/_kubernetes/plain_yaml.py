# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of others: plain data only, without aliases, since a YAML bomb is made of them."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused


def plain_documents(raw: str | bytes) -> list[t.Any]:
    """Every document of a text. Raises ValueRefused ``no_plain_yaml`` with a message that never quotes the text; ImportError without PyYAML."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain data only."""

        def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases are refused")
            return super().compose_node(parent, index)

    found = []
    try:
        # not yaml.load: the loader is our own subclass of SafeLoader
        loader = Loader(raw)
        try:
            while loader.check_data():  # type: ignore[no-untyped-call]  # of PyYAML's stubs
                found.append(loader.get_data())
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        # the error's text would quote the file, tokens included
        mark = getattr(error, "problem_mark", None)
        line = f" near line {mark.line + 1}" if mark is not None else ""
        alias = ": aliases are refused" if "aliases are refused" in str(error) else ""
        raise ValueRefused("no_plain_yaml", f"no plain YAML{line}{alias}") from None
    return found
