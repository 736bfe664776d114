# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an adapter may say besides an answer, and the words that results are counted under (decision 52)."""

from __future__ import annotations

import typing as t

#: Every vector is counted under exactly one result.
WORDS = (
    "passed",  # the answer is what the vector expects
    "failed",  # it is not, or the adapter crashed
    "unhandled",  # no adapter answers this operation
    "internal",  # it tests the inside of a daemon that a converge run does not have
    "ruled",  # a decision makes the expected answer impossible
    "preferred",  # quirk: the answer is what the specification prefers
    "upstream",  # quirk: the answer is what upstream does
    "deviates",  # quirk without a preferred answer: the answer differs from upstream on purpose
    "optional_failed",  # an optional vector with another answer
)


class Unhandled(Exception):
    """Nobody answers this operation (yet)."""


class Internal(Exception):
    """The operation is the inside of a daemon."""


class Ruled(Exception):
    """A decision forbids the expected answer; the text names its number."""


class Verdict(t.NamedTuple):
    """One vector's result and, where it did not pass, why."""

    result: str
    message: str = ""
