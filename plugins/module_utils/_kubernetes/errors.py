# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong with an API server, each with its reason."""

from __future__ import annotations

import sys
import typing as t


class KubeError(Exception):
    """A request that did not do what it was for.

    ``reason`` as in results; ``cluster``; ``operation`` (``list nodes``); ``status`` HTTP status or None; ``retryable`` True
    when the same run may work later; ``message`` a sentence without credentials, with the server's text cut to 200
    printable characters; ``retry_after`` seconds or None.
    """

    reason = "request_failed"
    retryable = False

    def __init__(
        self,
        cluster: str,
        operation: str,
        message: str,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.cluster = cluster
        self.operation = operation
        self.status = status
        self.message = message
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable
        super().__init__(f"cluster {cluster}: cannot {operation}: {message}")

    def failure(self) -> dict[str, t.Any]:
        """The row of a module's ``failures``: cluster, operation, reason, message, status."""
        return {
            "cluster": self.cluster,
            "operation": self.operation,
            "reason": self.reason,
            "message": self.message,
            "status": self.status,
        }


class LibraryMissing(KubeError):
    """A Python library is not installed for this interpreter: urllib3, certifi, PySocks for SOCKS proxies, kubernetes for credential plugins."""

    reason = "library_missing"

    def __init__(self, cluster: str, error: ImportError) -> None:
        text = "the Python library {0} is missing for {1} ({2}); install it there, or point ansible_python_interpreter at a Python that has it"
        name = (error.name or "").split(".")[0]
        name = "PySocks" if "socks" in str(error) or "SOCKS" in str(error) else name or "kubernetes"
        super().__init__(cluster, "start", text.format(name, sys.executable, error.name or error))


class Unreachable(KubeError):
    """No connection, or it broke."""

    reason, retryable = "unreachable", True


class TimedOut(KubeError):
    """The server was too slow, as a whole or for one request."""

    reason, retryable = "timed_out", True


class Untrusted(KubeError):
    """The server's certificate is not one that the cluster's CA and name allow, or a certificate of the client is unusable."""

    reason = "tls_untrusted"


class Redirected(KubeError):
    """The server answered with a redirect; following it would hand our credential to someone else (T22)."""

    reason = "redirect_refused"


class TooLarge(KubeError):
    """The answer passed a limit on bytes, objects, pages or depth (T21)."""

    reason = "answer_too_large"


class BadAnswer(KubeError):
    """The answer is not what an API server sends."""

    reason = "bad_answer"


class CredentialFailed(KubeError):
    """The allowed exec or auth-provider credential could not be obtained."""

    reason = "credential_failed"


class Unauthorized(KubeError):
    """401."""

    reason = "unauthorized"


class Forbidden(KubeError):
    """403."""

    reason = "forbidden"


class NotFound(KubeError):
    """404."""

    reason = "not_found"


class Conflict(KubeError):
    """409: a precondition does not hold, or another field manager owns a field. ``cause`` is what the server calls it."""

    reason = "conflict"
    cause = ""


class Expired(KubeError):
    """410: a continue token or resource version is too old."""

    reason, retryable = "expired", True


class Invalid(KubeError):
    """400 or 422: the server refuses the object."""

    reason = "invalid"


class Busy(KubeError):
    """429 or 5xx after all tries."""

    reason, retryable = "server_busy", True


class ListIncomplete(KubeError):
    """A list of which not every page arrived. Nothing may be concluded from what is missing (T14).

    ``cause`` is the reason of what went wrong (``unreachable``, ``forbidden``, ``timed_out``, ...).
    """

    reason = "source_incomplete"

    def __init__(self, why: KubeError) -> None:
        self.cause = why.reason
        super().__init__(why.cluster, why.operation, f"{why.message} [{why.reason}]", why.status, why.retryable)

    def failure(self) -> dict[str, t.Any]:
        """As every failure's, with the cause."""
        return dict(super().failure(), cause=self.cause)


BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Busy,
}
