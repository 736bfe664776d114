# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide on rotation promises of passwords only what the configurations have that we write for the daemons.

What happens when both ends change is in tests/kernel/test_bgp_contract.py::test_a_password_that_changes_at_both_ends_cuts_its_session_alone.
"""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = " ".join((ROOT / "docs" / "docsite" / "rst" / "guide_rotation.rst").read_text("utf-8").split())
WRITERS = ROOT / "plugins" / "module_utils" / "_loadbalancers"


def test_the_seconds_of_a_retry_are_those_of_both_daemons():
    (seconds,) = re.findall(r"tries again every (\d+) seconds", GUIDE)
    assert f"timers connect {seconds}" in (WRITERS / "bgp" / "frr_config.py").read_text("utf-8")
    assert f"connect retry time {seconds};" in (WRITERS / "bgp" / "bird_config.py").read_text("utf-8")


def test_vrrp_has_no_password():
    text = (WRITERS / "layer2" / "keepalived_config.py").read_text("utf-8")
    assert "vrrp_version 3" in text and "auth" not in text.partition('"""')[2]
    assert "VRRP of the role ``layer2_speaker``: nothing, since version 3 has no password" in GUIDE


def test_the_test_that_the_guide_relies_on_exists():
    name = "test_a_password_that_changes_at_both_ends_cuts_its_session_alone"
    assert f"def {name}(" in (ROOT / "tests" / "kernel" / "test_bgp_contract.py").read_text("utf-8")
    assert "Other sessions of the node carry on" in GUIDE
