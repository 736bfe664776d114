# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A vendor's API: what is asked again, after how long, and what is said of a failure (ccm 13)."""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.providers import MANNERS
from ansible_collections.multicluster.network.plugins.module_utils._io.json_api import Answer, ApiFailed, JsonApi
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

TOKEN = "token-of-the-test"


class Vendor:
    """Gives its answers one after the other; the last one again and again. Time passes only in sleep."""

    def __init__(self, *answers):
        self.answers, self.asked, self.slept = list(answers), [], []

    def send(self, method, url, headers, body, seconds):
        self.asked.append((method, url, seconds))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def api(self, **more):
        return JsonApi(
            "https://metal.example.net/v1/",
            {"X-Auth-Token": TOKEN},
            MANNERS,
            self.send,
            sleep=self.slept.append,
            clock=lambda: float(sum(self.slept)),
            **more,
        )


def said(status, text="no", **headers):
    return Answer(status, headers, json.dumps({"errors": [text]}).encode())


GOOD = Answer(200, {}, b'{"a": 1}')


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    "failure", [said(429), said(502), said(503), said(504), Answer(None, reason="Connection reset by peer")]
)
def test_asked_again_with_growing_pauses(method, failure):
    vendor = Vendor(failure, failure, failure, GOOD)
    assert vendor.api().call(method, "/ips/1") == {"a": 1} and vendor.slept == [1.0, 2.0, 4.0]
    vendor = Vendor(failure)
    with pytest.raises(ApiFailed) as raised:
        vendor.api().call(method, "/ips/1")
    assert raised.value.reason == "api" and len(vendor.asked) == 5


@pytest.mark.parametrize(
    ("method", "failure"),
    [
        *(("POST", one) for one in (said(429), said(502), said(503), said(504), Answer(None))),
        ("PATCH", said(503)),
        *(
            (method, said(status))
            for method in ("GET", "DELETE", "POST")
            for status in (301, 400, 401, 403, 404, 409, 422, 500)
        ),
    ],
)
def test_asked_once(method, failure):
    vendor = Vendor(failure, GOOD)
    with pytest.raises(ApiFailed) as raised:
        vendor.api().call(method, "/projects/p/ips")
    assert len(vendor.asked) == 1 and vendor.slept == [] and raised.value.status == failure.status
    desired = (
        "auth" if failure.status in (401, 403) else "quota" if (method, failure.status) == ("POST", 422) else "api"
    )
    assert raised.value.reason == desired


def test_the_server_sets_how_long():
    vendor = Vendor(said(429, **{"retry-after": "7"}), said(503, **{"retry-after": "soon"}), GOOD)
    assert vendor.api().call("GET", "/x") == {"a": 1} and vendor.slept == [7.0, 2.0]
    # longer than there is time: reported at once, and not waited for
    vendor = Vendor(said(429, **{"retry-after": "600"}), GOOD)
    with pytest.raises(ApiFailed):
        vendor.api(total_s=60.0).call("GET", "/x")
    assert vendor.slept == []


def test_no_try_outlasts_the_whole():
    vendor = Vendor(said(503))
    with pytest.raises(ApiFailed):
        vendor.api(total_s=5.0, request_s=30.0).call("GET", "/x")
    assert all(seconds <= 5.0 for unused, unused2, seconds in vendor.asked) and sum(vendor.slept) < 5


@pytest.mark.parametrize("text", ["no " + TOKEN, TOKEN + "\x1b[31m" + TOKEN, "a\nb" + TOKEN, "x" * 9000 + TOKEN])
def test_messages_have_no_token_and_no_control_characters(text):
    with pytest.raises(ApiFailed) as raised:
        Vendor(said(400, text)).api().call("GET", "/x")
    assert TOKEN not in raised.value.message and raised.value.message.isprintable() and len(raised.value.message) < 3000


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b'{"a": ', b"[" * 100000])
def test_what_is_no_json(body):
    with pytest.raises(ApiFailed) as raised:
        Vendor(Answer(200, {}, body)).api().call("GET", "/x")
    assert raised.value.reason == "api"
    with pytest.raises(ApiFailed):
        Vendor(Answer(500, {}, body)).api().call("GET", "/x")


@pytest.mark.parametrize(
    "url",
    [
        "http://metal.example.net",
        "ftp://x",
        "metal.example.net",
        "https://user@x/",
        "https://x/?a=b",
        "https://x/#a",
        "",
    ],
)
def test_urls_that_are_none(url):
    with pytest.raises(ValueRefused):
        JsonApi(url, {}, MANNERS)
    if url.startswith("http://"):
        assert JsonApi(url, {}, MANNERS, plain_http=True)
