# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into a bundle for strangers' eyes: no secret, in any spelling. Pure.

Three nets, each for what the others miss: names of fields that hold secrets; shapes that secrets have (PEM, JWT, keys that are no
known public key, passwords in configurations and URLs); and every secret that is known, as text, base64, hexadecimal digits and
percent-encoded, wherever it is.
"""

from __future__ import annotations

import base64
import json
import re
import typing as t

from .._values.text import is_alnum

MARK = "[redacted]"
#: Shorter known secrets would blank half of every text.
SHORTEST = 6

_NAMES = re.compile(
    r"(?:private|preshared|pre_shared|shared|client)[-_]?key(?:[-_]?data)?$|(?:^|[-_])psk$|secret|token|passw|(?:^|[-_])pass$|api[-_]?key|"
    r"credential|bearer|kubeconfig|(?:^|[-_])auth$|authorization",
    re.IGNORECASE | re.ASCII,
)
#: Fields with such names that hold no secret: paths and whether there is one.
_HARMLESS = re.compile(r"(?:_file|_path|_ref|_name|_count)$|^preshared$|^private_key_file$", re.IGNORECASE | re.ASCII)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?", re.ASCII)
_BASE64_KEY = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}=(?![A-Za-z0-9+/=])")
_HEX_KEY = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])")
_SAID = re.compile(
    r"(?i)\b(password|passwd|secret|token|api[-_]?key|private[-_]?key|preshared[-_]?key|authorization:? +bearer|bearer)"
    r"(\s*[:=]\s*[\"']?|[\s\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+[\"']?)(?:[0-9]\s+)?([^\s\"',;<]+)",
    re.ASCII,
)
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s:@]+:[^/\s@]+@", re.ASCII)


class Redactor:
    """Redacts values and texts. ``known``: secrets; ``public``: public keys, which stay. ``count`` is how much was taken out."""

    def __init__(self, known: t.Iterable[str] = (), public: t.Iterable[str] = ()) -> None:
        self.count = 0
        self._public = {text for text in public if text}
        # with the longest first, no secret hides the end of another
        spellings = {text for secret in known for text in spellings_of(secret)} - self._public
        self._known = (
            re.compile("|".join(re.escape(text) for text in sorted(spellings, key=lambda text: (-len(text), text))))
            if spellings
            else None
        )

    def value(self, given: t.Any, name: str = "") -> t.Any:
        if (
            name
            and _NAMES.search(name)
            and not _HARMLESS.search(name)
            and given not in (None, "", [], {})
            and not isinstance(given, bool)
        ):
            self.count += 1
            return MARK
        if isinstance(given, t.Mapping):
            return {self.text(str(key)): self.value(inner, str(key)) for key, inner in given.items()}
        if isinstance(given, (list, tuple)):
            return [self.value(inner) for inner in given]
        return self.text(given) if isinstance(given, str) else given

    def text(self, given: str) -> str:
        if self._known is not None:
            given = self._known.sub(self._gone, given)
        given = _PEM.sub(self._gone, given)
        given = _JWT.sub(self._gone, given)
        given = _URL.sub(self._user, given)
        given = _SAID.sub(self._said, given)
        given = _BASE64_KEY.sub(self._key, given)
        return _HEX_KEY.sub(self._key, given)

    def _gone(self, match: re.Match[str]) -> str:
        self.count += 1
        return MARK

    def _key(self, match: re.Match[str]) -> str:
        return match.group(0) if match.group(0) in self._public else self._gone(match)

    def _said(self, match: re.Match[str]) -> str:
        if match.group(3) == MARK or match.group(3) in self._public:
            return match.group(0)
        self.count += 1
        return match.group(1) + match.group(2) + MARK

    def _user(self, match: re.Match[str]) -> str:
        self.count += 1
        return match.group(1) + MARK + "@"


def spellings_of(secret: str) -> set[str]:
    """A secret as it may be written somewhere: itself, what its base64 or hexadecimal digits decode to, and these encoded once more."""
    found: set[str] = set()
    plain = {secret, secret.strip()}
    for raw in {text.encode("utf-8", "replace") for text in plain} | {raw for text in plain for raw in _decoded(text)}:
        if len(raw) < SHORTEST:
            continue
        found |= {raw.hex(), raw.hex().upper()}
        for shift in range(3):  # base64 of a longer text that it is a part of
            coded = base64.b64encode(b"\0" * shift + raw).decode("ascii")
            first, last = (0, 2, 3)[shift], len(coded) - (4 if (len(raw) + shift) % 3 else 0)
            found |= {coded[first:last], coded[first:last].replace("+", "-").replace("/", "_")}
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
        found |= {text, _percent(raw), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    found |= plain
    return {text for text in found if len(text) >= SHORTEST}


def _percent(raw: bytes) -> str:
    """As in a URL, with nothing but unreserved characters as they are."""
    return "".join(chr(byte) if is_alnum(chr(byte)) or chr(byte) in "_.-~" else f"%{byte:02X}" for byte in raw)


def _decoded(text: str) -> t.Iterator[bytes]:
    """What a text decodes to when it is base64 or hexadecimal digits."""
    if re.match(r"(?:[0-9A-Fa-f]{2}){8,}\Z", text):
        yield bytes.fromhex(text)
    if re.match(r"[A-Za-z0-9+/_-]{16,}={0,2}\Z", text) and len(text) % 4 == 0:
        try:
            yield base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:
            return


def public_keys(document: t.Mapping[str, t.Any]) -> set[str]:
    """The keys that a status document shows."""
    found = {str(row["public_key"]) for row in document.get("tunnels") or ()}
    return found | {
        str(device["public_key"])
        for node in document.get("nodes") or ()
        for device in node.get("devices") or ()
        if device.get("public_key")
    }


def secrets_of(variables: t.Any, name: str = "", depth: int = 12) -> set[str]:
    """Texts in variables that have names of secrets, with every text below such a name."""
    if depth == 0:
        return set()
    secret = bool(name and _NAMES.search(name) and not _HARMLESS.search(name))
    if isinstance(variables, t.Mapping):
        # the keys of a secret mapping are no secrets, and of a kubeconfig only some of the values are
        return {text for key, inner in variables.items() for text in secrets_of(inner, str(key), depth - 1)}
    if isinstance(variables, (list, tuple)):
        return {text for inner in variables for text in secrets_of(inner, name, depth - 1)}
    if secret and isinstance(variables, str) and len(variables) >= SHORTEST and not variables.startswith(("/", "~")):
        return {variables}
    return set()
