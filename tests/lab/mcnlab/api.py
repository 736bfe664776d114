# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client for one API server: JSON over verified TLS with a token. Standard library only."""

from __future__ import annotations

import json
import pathlib
import ssl
import typing as t
import urllib.error
import urllib.request

from .errors import LabError


class ApiError(LabError):
    def __init__(self, method: str, path: str, status: int, text: str):
        super().__init__(f"{method} {path}: {status} {text[:300]}")
        self.status = status


class Api:
    def __init__(self, server: str, ca: pathlib.Path, token: str):
        self.server, self.ca, self.token = server, ca, token

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", timeout: float = 15.0
    ) -> t.Any:
        """Send one request; return the decoded answer. An HTTP error becomes ApiError, no answer becomes OSError."""
        request = urllib.request.Request(
            self.server + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": content_type,
                "Accept": "application/json",
            },
        )
        # No proxy of the environment: the server is on this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.ca))),
        )
        try:
            with opener.open(request, timeout=timeout) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise ApiError(method, path, error.code, error.read().decode(errors="replace")) from error
        return json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path: str) -> t.Any:
        return self.request("GET", path)

    def get_or_none(self, path: str) -> t.Any:
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def post(self, path: str, body: object) -> t.Any:
        return self.request("POST", path, body)

    def merge(self, path: str, body: object) -> t.Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")
