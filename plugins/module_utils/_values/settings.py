# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Settings that come from a flag, the environment or a file, in this order (semaphore 2.5, 3.1, 4.1, 6.1)."""

from __future__ import annotations

import typing as t


class Setting(t.NamedTuple):
    """One setting of a program. ``missing`` is the reason word when it is required and not given."""

    flag: str
    variable: str
    default: t.Optional[str] = None
    missing: t.Optional[str] = None


Texts = t.Optional[t.Mapping[str, t.Optional[str]]]


def effective(setting: Setting, flags: Texts = None, env: Texts = None, file_value: t.Optional[str] = None) -> str:
    """The value that counts. What is set but empty counts as unset; a variable of another name is not looked at."""
    return (flags or {}).get(setting.flag) or (env or {}).get(setting.variable) or file_value or setting.default or ""


def mentioned(settings: t.Iterable[Setting], flags: Texts, env: Texts) -> t.List[Setting]:
    """The settings that flags or environment name at all, also with an empty value."""
    return [item for item in settings if item.flag in (flags or {}) or item.variable in (env or {})]


def first_missing(settings: t.Iterable[Setting], flags: Texts = None, env: Texts = None) -> t.Optional[str]:
    """The reason word of the first required setting that nobody gives, or None."""
    for setting in settings:
        if setting.missing and not effective(setting, flags, env):
            return setting.missing
    return None
