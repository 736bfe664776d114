# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that somebody wrote by hand, with some items of its lists changed and every other byte as it was.

Works on the lines of items in lists at the first level. Whatever it makes is read again and must mean what was desired;
where the text is written in a way that cannot be edited so, the whole of it is written anew.
"""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted

#: A ConfigMap holds no more; aliases must not make a small text large (T21).
LONGEST, MOST_NODES = 1_000_000, 100_000
#: Reading brackets in brackets takes time by the square of their depth.
DEEPEST = 64
Document = dict[str, t.Any]


def parse_document(text: object) -> Document:
    """One mapping; nothing is {}. Raises ValueRefused ``config_parse``, without quoting the text, which holds passwords."""
    root = _compose(text)
    if root is None:
        return {}
    return t.cast(Document, _construct(root))


def edit(text: str, desired: t.Mapping[str, t.Any], lists: t.Sequence[str]) -> str:
    """The text with the named lists as in ``desired``. Unchanged meaning gives the same bytes. Raises as parse_document."""
    before = parse_document(text)
    if _same(before, desired):
        return text
    for attempt in (_edited(text, before, desired, lists), _dumped(dict(desired))):
        try:
            if attempt is not None and _same(parse_document(attempt), desired):
                return attempt
        except ValueRefused:
            continue
    message = "the configuration cannot be written so that it is read again as it was meant, in at most {0} characters"
    raise ValueRefused("config_parse", message.format(LONGEST))


def _same(first: t.Any, second: t.Any) -> bool:
    """Equality in which 1 is neither 1.0 nor true, and an absent list is an empty one only at the first level."""

    def plain(document: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
        return sorted((repr(key), _canonical(value)) for key, value in document.items() if value not in (None, []))

    return plain(first) == plain(second)


def _canonical(value: t.Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(sorted(repr(key) + ":" + _canonical(item) for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_canonical(item) for item in value) + "]"
    return repr(value)


def _loader() -> t.Any:
    import yaml

    base: t.Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times faster, where it was built
    resolvers = {
        first: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
        for first, rows in base.yaml_implicit_resolvers.items()
    }
    # dates stay text: no field of this document is a date
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


def _too_deep(text: str) -> bool:
    depth = 0
    for char in text:
        if char in "[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif char in "]}" and depth:
            depth -= 1
    return False


def _compose(text: object) -> t.Any:
    import yaml

    if not isinstance(text, str) or len(text) > LONGEST or _too_deep(text):
        raise ValueRefused(
            "config_parse", f"the configuration is not text of at most {LONGEST} characters, or too deep"
        )
    try:
        root = yaml.compose(text, Loader=_loader())
        if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"):
            return None
        if not isinstance(root, yaml.MappingNode):
            raise ValueRefused("config_parse", "the configuration is no mapping")
        _size(root, {}, ())
        return root
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ValueRefused):
            raise
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ValueRefused("config_parse", f"the configuration is no YAML{where}") from None


def _size(node: t.Any, known: dict[int, int], above: tuple[int, ...]) -> int:
    """How many nodes there are once aliases are followed; refuses too many, circles and keys that occur twice."""
    import yaml

    if id(node) in above or len(above) > 100:
        raise ValueRefused("config_parse", "the configuration holds itself, or is too deep")
    if id(node) not in known:
        count, inner = 1, above + (id(node),)
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _value in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(node.value):
                twice = next((key for key in keys if keys.count(key) > 1), "a key that is no text")
                raise ValueRefused("config_parse", f"{quoted(twice)} occurs twice, or is no key")
            count += sum(_size(part, known, inner) for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            count += sum(_size(part, known, inner) for part in node.value)
        known[id(node)] = count
        if count > MOST_NODES:
            raise ValueRefused("config_parse", "the configuration is too large")
    return known[id(node)]


def _construct(root: t.Any) -> t.Any:
    import yaml

    loader = _loader()("")
    try:
        return loader.construct_document(root)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise ValueRefused(
            "config_parse", f"the configuration has values that cannot be read: {type(error).__name__}"
        ) from None
    finally:
        loader.dispose()


def _dumped(value: t.Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """No anchors: MetalLB's users do not expect them."""

        def ignore_aliases(self, data: t.Any) -> bool:
            return True

    return yaml.dump(value, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=4096, allow_unicode=True)


def _item_lines(item: t.Any, column: int, newline: str) -> list[str]:
    return [" " * column + line + newline for line in _dumped([item]).splitlines()]


def _edited(text: str, before: Document, desired: t.Mapping[str, t.Any], lists: t.Sequence[str]) -> str | None:
    """None where the text cannot be edited by lines."""
    root = _compose(text)
    lines = text.splitlines(keepends=True) if "\x0b" not in text and "\x0c" not in text and "\x85" not in text else None
    if lines is None or any(line.startswith(("...", "---")) for line in lines):
        return None
    if (
        root.flow_style
        if root is not None
        else any(line.strip() and not line.lstrip().startswith("#") for line in lines)
    ):
        return None
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    places = (
        {key.value: (key, value, index) for index, (key, value) in enumerate(root.value)} if root is not None else {}
    )
    edits: list[tuple[int, int, list[str]]] = []
    for name in lists:
        new = desired.get(name) or []
        if _canonical(before.get(name) or []) == _canonical(new):
            continue
        if name not in places:
            edits.append(
                (
                    len(lines),
                    len(lines),
                    [f"{name}:{newline}"] + [row for item in new for row in _item_lines(item, 0, newline)],
                )
            )
            continue
        key, value, index = places[name]
        end = root.value[index + 1][0].start_mark.line if index + 1 < len(root.value) else len(lines)
        found = _list_edits(lines, key, value, end, before.get(name) or [], new, newline)
        if found is None:
            return None
        edits += found
    # from the bottom up, so that the numbers of the lines above stay right; equal places keep their order
    for _order, (first, last, rows) in sorted(enumerate(edits), key=lambda row: (-row[1][0], -row[0])):
        lines[first:last] = rows
    return "".join(lines)


def _list_edits(
    lines: list[str], key: t.Any, value: t.Any, end: int, old: list[t.Any], new: list[t.Any], newline: str
) -> list[tuple[int, int, list[str]]] | None:
    import yaml

    line = key.start_mark.line
    if not isinstance(value, yaml.SequenceNode) or value.flow_style or not value.value:
        return _from_empty(lines, key, value, old, new, newline)
    column = value.start_mark.column
    starts = [_dash_line(lines, node.start_mark.line, column, line) for node in value.value]
    if None in starts:
        return None
    firsts = t.cast(list[int], starts)
    spans = [(first, _content_end(lines, first, after)) for first, after in zip(firsts, firsts[1:] + [end])]
    if not new:
        head = lines[line].rstrip("\r\n")
        colon = key.end_mark.column + 1
        if head[key.end_mark.column : colon] != ":":
            return None
        return [(line, line + 1, [head[:colon] + " []" + head[colon:] + newline])] + [(a, b, []) for a, b in spans]
    return _matched(old, new, spans, column, newline)


def _matched(
    old: list[t.Any], new: list[t.Any], spans: list[tuple[int, int]], column: int, newline: str
) -> list[tuple[int, int, list[str]]] | None:
    """Edits for items that went, changed (found by their place among those that stay) or came at the end."""
    edits: list[tuple[int, int, list[str]]] = []
    texts = [_canonical(item) for item in new]
    at = 0
    for index, item in enumerate(old):
        text = _canonical(item)
        if at < len(new) and texts[at] == text:
            at += 1
        elif at < len(new) and text not in texts[at:] and _akin(item, new[at]):
            edits.append((spans[index][0], spans[index][1], _item_lines(new[at], column, newline)))
            at += 1
        else:
            edits.append((spans[index][0], spans[index][1], []))
    rest = [row for item in new[at:] for row in _item_lines(item, column, newline)]
    if rest:
        edits.append((spans[-1][1], spans[-1][1], rest))
    return edits


def _akin(first: t.Any, second: t.Any) -> bool:
    """Whether one item is the other, changed: they agree on what identifies an item."""
    names = [name for name in ("peer-address", "addresses", "name") if name in first or name in second]
    return any(first.get(name) == second.get(name) for name in names)


def _from_empty(
    lines: list[str], key: t.Any, value: t.Any, old: list[t.Any], new: list[t.Any], newline: str
) -> list[tuple[int, int, list[str]]] | None:
    """``peers: []`` and ``peers:`` become a list of lines; a list in brackets is written anew, alone."""
    line = key.start_mark.line
    head, tail = lines[line].rstrip("\r\n"), ""
    if value.start_mark.line != line or value.end_mark.line != line or getattr(value, "anchor", None):
        if old or value.start_mark.index != value.end_mark.index:
            return None
    elif value.end_mark.column > value.start_mark.column:
        tail = head[value.end_mark.column :]
        head = head[: value.start_mark.column].rstrip()
    rows = [row for item in new for row in _item_lines(item, key.start_mark.column, newline)]
    return [(line, line + 1, [head + tail + newline] + rows if new else [head + " []" + tail + newline])]


def _dash_line(lines: list[str], line: int, column: int, above: int) -> int | None:
    while line > above:
        text = lines[line]
        if text[:column].strip() == "" and text[column : column + 1] == "-":
            return line
        line -= 1
    return None


def _content_end(lines: list[str], first: int, after: int) -> int:
    """Behind the last line of an item: comments and empty lines below it belong to whatever follows."""
    while after > first + 1 and (not lines[after - 1].strip() or lines[after - 1].lstrip().startswith("#")):
        after -= 1
    return after
