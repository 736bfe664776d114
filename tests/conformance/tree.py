# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the collection importable under its full name from any clone path, installed or not."""

from __future__ import annotations

import pathlib
import sys
import types

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def mount() -> None:
    """Point ``ansible_collections.multicluster.network`` at this clone, unless it points there already."""
    name = "ansible_collections.multicluster.network"
    package = sys.modules.get(name)
    if package is not None and str(REPOSITORY) in map(_real, getattr(package, "__path__", ())):
        return
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        current = ".".join(parts[:depth])
        if depth == len(parts) or current not in sys.modules:
            module = types.ModuleType(current)
            module.__path__ = [str(REPOSITORY)] if depth == len(parts) else []
            sys.modules[current] = module


def _real(path: str) -> str:
    return str(pathlib.Path(path).resolve())
