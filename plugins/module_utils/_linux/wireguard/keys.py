# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device's private key file (semaphore 3.3). Only public keys leave this file, except towards the device."""

from __future__ import annotations

import base64
import os
import stat
import typing as t

from ..._values.keys import decode_key_text
from ..._values.refused import ValueRefused
from ..._values.x25519 import clamp, public_key
from ..errors import LinuxError, os_reason
from .key_files import read_secret, read_text, set_private, sync_folder, write_new


class KeyFile:
    """One key file by its absolute path."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise LinuxError("use", path, "a key file is named by an absolute path")
        self.path = path

    def state(self) -> t.Dict[str, t.Any]:
        """``{"state": absent|key|unusable, "public_key": text|None, "mode": "0600"|None, "message": text|None}``."""
        try:
            text, status = read_text(self.path)
            if text is None or status is None:
                return {"state": "absent", "public_key": None, "mode": None, "message": None}
            mode = "{0:04o}".format(stat.S_IMODE(status.st_mode))
            public = public_key(decode_key_text(text))
            return {"state": "key", "public_key": public, "mode": mode, "message": None}
        except LinuxError as error:
            message = error.message
        except ValueRefused as error:
            message = error.message
        return {"state": "unusable", "public_key": None, "mode": None, "message": message}

    def private_key(self) -> bytes:
        """The 32 bytes, for the device's ``configure`` and nobody else."""
        return read_secret(self.path)

    def ensure(self) -> str:
        """Make the key unless the file exists, set its mode to 0600, return the public key. Raises LinuxError."""
        found = self.state()
        if found["state"] == "unusable":
            raise LinuxError("use", self.path, found["message"])
        if found["state"] == "absent":
            return self._write(replace=False)
        if found["mode"] != "0600":
            set_private(self.path)
        return found["public_key"]

    def rotate(self) -> str:
        """Put a new key in place of the old one in one step, return the new public key."""
        if self.state()["state"] == "unusable":
            raise LinuxError("rotate", self.path, "what is there is no key, and it is never overwritten")
        return self._write(replace=True)

    def remove(self) -> bool:
        """Delete the file. True when there was one."""
        try:
            os.unlink(self.path)
            sync_folder(os.path.dirname(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise LinuxError("remove", self.path, os_reason(error)) from None
        return True

    def _write(self, replace: bool) -> str:
        private = clamp(os.urandom(32))
        write_new(self.path, base64.b64encode(private).decode("ascii"), replace)
        return public_key(private)
