# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Where a device's private key lives, and what to do with what is found there (semaphore 3.3)."""

from __future__ import annotations

import typing as t

from .._values.names import check_interface_name
from .._values.private_keys import decode_key_text
from .._values.refused import ValueRefused

#: Where the original keeps its keys; an installation of it is adopted in place.
KEY_DIRECTORY = "/var/lib/semaphore-wireguard"

GENERATE, USE, ERROR = "generate", "use", "error"


def key_path(device: str, directory: str = KEY_DIRECTORY) -> str:
    """``<directory>/<device>.key``. Raises ValueRefused when the device's name is none."""
    return "{0}/{1}.key".format(directory.rstrip("/"), check_interface_name(device))


def key_action(state: str) -> str:
    """What to do with a key file that is ``absent``, a ``key`` or ``unusable``: a file that exists is never written."""
    return {"absent": GENERATE, "key": USE}.get(state, ERROR)


def key_load(file: t.Optional[str]) -> t.Dict[str, t.Any]:
    """``{"action": generate | use | error, "writes_file": bool}`` for a key file's text.

    file: None or the word ``absent`` for no file, ``unreadable`` for one that cannot be read, else its text.
    """
    if file is None or file == "absent":
        state = "absent"
    else:
        try:
            decode_key_text(file)
            state = "key"
        except ValueRefused:
            state = "unusable"
    action = key_action(state)
    return {"action": action, "writes_file": action == GENERATE}
