# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that has no room: the file is named, the old one stays, and nothing is left alongside it."""

from __future__ import annotations

import resource

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import (
    FileState,
    read_state,
    write_state,
)


def test_a_file_that_cannot_be_written_is_named_and_stays_as_it_was(tmp_path):
    path = str(tmp_path / "dataplane.json")
    write_state(path, FileState("file", 0o600, b"old"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # the kernel itself refuses each further byte
    try:
        with pytest.raises(OSError) as caught:
            write_state(path, FileState("file", 0o600, b"new"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value).endswith(f"File too large: '{path}'")
    assert read_state(path) == FileState("file", 0o600, b"old")
    assert [file.name for file in tmp_path.iterdir()] == ["dataplane.json"]


@pytest.mark.parametrize(
    "state", [FileState("file", 0o600, b"new"), FileState("link", 0o777, b"elsewhere")], ids=["file", "link"]
)
def test_where_nothing_can_be_made_the_file_itself_is_named(state):
    """Not the spare one, of which nobody has heard. In /proc nobody makes files, root neither."""
    with pytest.raises(OSError) as caught:
        write_state("/proc/self/dataplane.json", state)
    assert str(caught.value).endswith(": '/proc/self/dataplane.json'"), caught.value
