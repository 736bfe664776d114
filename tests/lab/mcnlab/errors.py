# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error that the command line shows without a traceback."""

from __future__ import annotations


class LabError(Exception):
    """Something the person at the keyboard can act upon."""
