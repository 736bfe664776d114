# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which top-level definitions of the shared code a user's run can reach, read from the sources alone.

Roots: every file under plugins/ and extensions/ that is not shared code (modules, filters, action, connection, inventory and callback
plugins, documentation fragments, event sources), and what units and services start: a module that a template names after
``plugins.module_utils.``, and one that reached code names as a string (``"_flows.node.node_agent"``), of which ``main`` runs and whatever that file
takes from it. From there names are followed through ``import``, ``from``, ``import a as b``, attributes of modules, names that a module
passes on, and getattr() with a constant. A name that a function binds itself is not the module's name.
"""

from __future__ import annotations

import ast
import pathlib
import re
import typing as t

PREFIX = ("ansible_collections", "multicluster", "network")
SHARED = ("plugins/module_utils", "plugins/plugin_utils")
CODE = ("plugins", "extensions", "roles", "playbooks")
TEXTS = (".yml", ".yaml", ".j2", ".service")
_STARTED = re.compile(r"plugins\.module_utils\.(\w+(?:\.\w+)*)", re.ASCII)
_DOTTED = re.compile(r"_\w+(?:\.\w+)+", re.ASCII)
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)


class Name(t.NamedTuple):
    """A definition at the top of a file; "" is the file itself, with loose statements that run when it is loaded."""

    path: str
    name: str


class File:
    """One source: its definitions, what its names are imported from, and the statements that define nothing."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.tree = path, ast.parse(source)
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.loose: list[ast.stmt] = []
        for node in self.tree.body:
            names = _defined(node)
            for name in names:
                self.definitions.setdefault(name, []).append(node)
            if not names:
                self.loose.append(node)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        names = [
            name.id
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        ]
        return [name for name in names if not name.startswith("__")]  # __all__ is Python's
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


class Tree:
    """All sources of a clone; ``more`` are further files (paths below the clone), none of which is a root."""

    def __init__(self, root: pathlib.Path, more: t.Iterable[str] = ()) -> None:
        self.root, self._reached = root, t.cast(set[Name], set())
        paths = [path for top in CODE for path in sorted((root / top).rglob("*.py"))] + [root / path for path in more]
        self.files = {
            str(path.relative_to(root)): File(str(path.relative_to(root)), path.read_text("utf-8")) for path in paths
        }
        self.imports = {path: self._imports(file) for path, file in self.files.items()}

    # --- names ---------------------------------------------------------------------------------------------------

    def _imports(self, file: File) -> dict[str, set[Name]]:
        """Local name -> its meaning. Functions' own imports count for the whole file."""
        found: dict[str, set[Name]] = {}
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    parts = alias.name.split(".")
                    if tuple(parts[:3]) == PREFIX and alias.asname:
                        found.setdefault(alias.asname, set()).update(self._module(parts[3:]))
            elif isinstance(node, ast.ImportFrom):
                base = self._base(file.path, node)
                for alias in node.names if base is not None else ():
                    local = found.setdefault(alias.asname or alias.name, set())
                    module = self._module([*t.cast(list[str], base), alias.name])
                    local.update(
                        module or {Name(name.path, alias.name) for name in self._module(t.cast(list[str], base))}
                    )
        return found

    @staticmethod
    def _base(path: str, node: ast.ImportFrom) -> list[str] | None:
        named = node.module.split(".") if node.module else []
        if node.level:
            return [*path.split("/")[: -node.level], *named]
        return named[3:] if tuple(named[:3]) == PREFIX else None

    def _module(self, parts: t.Sequence[str]) -> set[Name]:
        path = "/".join(parts)
        return {Name(name, "") for name in (path + ".py", path + "/__init__.py") if (self.root / name).is_file()}

    def _of(self, module: Name, attribute: str) -> set[Name]:
        return {Name(module.path, attribute)} if module.path in self.files else set()

    # --- references ----------------------------------------------------------------------------------------------

    def references(self, path: str, nodes: t.Iterable[ast.AST]) -> set[Name]:
        """What code of this file refers to: definitions of its own and of others, and files."""
        found: set[Name] = set()
        for node in nodes:
            self._walk(path, node, frozenset(), found)
        return found

    def _walk(self, path: str, node: ast.AST, hidden: frozenset[str], found: set[Name]) -> None:
        if isinstance(node, _SCOPES):
            hidden = hidden | _bound(node)
        file, imports = self.files[path], self.imports[path]
        if isinstance(node, ast.Name) and node.id not in hidden:
            found.update(imports.get(node.id, ()))
            if node.id in file.definitions:
                found.add(Name(path, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.update(
                name for module in self._modules(path, node.value.id, hidden) for name in self._of(module, node.attr)
            )
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) > 1
        ):
            self._getattr(path, node, hidden, found)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            found.update(self._named(path, node.value))
        for child in ast.iter_child_nodes(node):
            self._walk(path, child, hidden, found)

    def _modules(self, path: str, local: str, hidden: frozenset[str]) -> t.Iterable[Name]:
        return () if local in hidden else [name for name in self.imports[path].get(local, ()) if not name.name]

    def _getattr(self, path: str, node: ast.Call, hidden: frozenset[str], found: set[Name]) -> None:
        of, name = node.args[:2]
        for module in self._modules(path, of.id, hidden) if isinstance(of, ast.Name) else ():
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                raise AssertionError(f"{path}:{node.lineno}: nobody can tell what getattr() takes from a module here")
            found.update(self._of(module, name.value))

    def _named(self, path: str, dotted: str) -> set[Name]:
        """A module by its name in a string: its ``main`` runs, and this file takes by attributes what it takes."""
        found = set()
        for module in self._module(["plugins", "module_utils", *dotted.split(".")]):
            taken = {node.attr for node in ast.walk(self.files[path].tree) if isinstance(node, ast.Attribute)} | {
                "main"
            }
            found.update(
                {module}, (Name(module.path, name) for name in taken & set(self.files[module.path].definitions))
            )
        return found

    # --- the walk ------------------------------------------------------------------------------------------------

    def shared(self) -> list[str]:
        """The files with definitions that have to be reached."""
        return [path for path in self.files if path.startswith(SHARED)]

    def _roots(self) -> set[Name]:
        found: set[Name] = set()
        for path, file in self.files.items():
            if path.startswith(CODE) and not path.startswith(SHARED):
                found |= self.references(path, file.tree.body)
        for top in CODE:
            for text in (self.root / top).rglob("*"):
                if text.suffix in TEXTS and text.is_file():
                    for dotted in _STARTED.findall(text.read_text("utf-8")):
                        # started as a program: all of its loose statements run, also those below __name__ == "__main__"
                        found |= self._module(["plugins", "module_utils", *dotted.split(".")])
        return found

    def reached(self) -> set[Name]:
        """Everything that a root leads to; found once."""
        if self._reached:
            return self._reached
        seen: set[Name] = set()
        todo = self._roots()
        while todo:
            name = todo.pop()
            if name in seen or name.path not in self.files:
                continue
            seen.add(name)
            file = self.files[name.path]
            nodes = file.loose if not name.name else file.definitions.get(name.name, [])
            found = self.references(name.path, nodes) | {Name(name.path, "")}
            if name.name and not nodes:
                found |= self.imports[name.path].get(name.name, set())
            todo |= found - seen
        self._reached = seen
        return seen

    def unreached_by(self, path: str) -> list[str]:
        """``path: name`` of what a file takes from the shared code though nothing that users run reaches it."""
        seen = self.reached()

        def known(name: Name) -> bool:
            if name in seen or not name.path.startswith(SHARED):
                return True
            passed_on = self.imports[name.path].get(name.name, set())  # a name that a module has by an import
            return (
                bool(passed_on)
                and name.name not in self.files[name.path].definitions
                and all(known(one) for one in passed_on)
            )

        taken = self.references(path, self.files[path].tree.body)
        return sorted(f"{name.path}: {name.name or 'all of it'}" for name in taken if not known(name))

    def unreached(self) -> list[str]:
        """``path: name (lines)`` of every definition that nothing reaches."""
        seen = self.reached()
        return [
            f"{path}: {name} ({sum((node.end_lineno or 0) - node.lineno + 1 for node in nodes)} lines)"
            for path in self.shared()
            for name, nodes in self.files[path].definitions.items()
            if Name(path, name) not in seen
        ]


def _bound(scope: ast.AST) -> frozenset[str]:
    """Names that a function or comprehension binds itself; imports and what it declares global are the module's."""
    bound: set[str] = set()
    arguments = getattr(scope, "args", None)
    if isinstance(arguments, ast.arguments):
        bound.update(one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        bound.update(one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None)
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
            continue
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.Global):
            return frozenset()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        todo.extend(ast.iter_child_nodes(node))
    return frozenset(bound)
