# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of files in the archive of a release: of their contents alone, with what is alike next to each other."""

from __future__ import annotations

import importlib.util
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("release_pack", ROOT / "tests" / "release" / "pack.py")
pack = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pack)


def contents():
    """Two kinds of files with names that alternate."""
    chosen = random.Random(1)
    kinds = [[chosen.randrange(10**6) for dummy in range(400)] for dummy in range(2)]
    return {f"{number}.txt": " ".join(map(str, [number, *kinds[number % 2][number:]])).encode() for number in range(8)}


def test_files_that_are_alike_are_next_to_each_other():
    order = pack.likeness_order(contents())
    assert order[0] == "0.txt" and sorted(order) == sorted(contents())
    assert [int(name[0]) % 2 for name in order] == [0] * 4 + [1] * 4


def test_the_order_is_of_the_contents_alone():
    files = contents()
    turned = dict(reversed(files.items()))
    assert pack.likeness_order(turned) == pack.likeness_order(files)
    assert pack.likeness_order({}) == []
    assert pack.likeness_order({"a": b"", "b": b""}) == ["a", "b"]
