# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For every unit test."""

from __future__ import annotations

import os

from ansible.plugins.loader import init_plugin_loader
from hypothesis import settings

# Before anything of a collection is imported: what was imported without Ansible's own loader cannot be found by it later.
init_plugin_loader()

# No property here is about time: an example that took longer depends on the machine only.
# MCN_EXAMPLES: so many of each property; `make test` takes fewer, `tests/run units` and `make test-all` all of them.
settings.register_profile("any-machine", deadline=None, max_examples=int(os.environ.get("MCN_EXAMPLES", "100")))
settings.load_profile("any-machine")
