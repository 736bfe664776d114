# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where settings come from besides the options: files and the environment of the process."""

from __future__ import annotations

import os
import typing as t

from .._values.refused import ValueRefused

LONGEST = 1048576


def read_text(path: str) -> str:
    """A file of settings. Raises ValueRefused ``config_parse``, which never quotes what it holds."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(LONGEST + 1)
    except OSError as error:
        raise ValueRefused("config_parse", "{0}: {1}".format(path, error.strerror)) from None
    except UnicodeDecodeError:
        raise ValueRefused("config_parse", "{0} is no text".format(path)) from None
    if len(text) > LONGEST:
        raise ValueRefused("config_parse", "{0} is longer than {1} characters".format(path, LONGEST))
    return text


def environment(prefixes: t.Sequence[str]) -> t.Dict[str, str]:
    """The variables of this process that begin like one of these."""
    return {name: value for name, value in os.environ.items() if name.startswith(tuple(prefixes))}
