# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The double itself: that it behaves as in the API's description, asked without any code of the collection."""

from __future__ import annotations

import ipaddress
import json
import urllib.error
import urllib.request

import pytest
from equinix_answers import RECORDED, converse, judge, shape
from equinix_cloud import PROJECT, TOKEN, double

__all__ = ["double"]
BASE = "/projects/" + PROJECT


@pytest.fixture
def ask(double):
    double.ask("/reset")

    def call(method, path, body=None, token=TOKEN):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(double.root + "/metal/v1" + path, data, {"X-Auth-Token": token}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    return call


def order(**more):
    return dict(
        {"type": "public_ipv4", "quantity": 1, "metro": "da", "tags": ["t"], "fail_on_approval_required": True}, **more
    )


def test_tokens_and_unknown_ids(ask):
    assert ask("GET", BASE + "/ips", token="wrong") == (401, {"error": "Invalid authentication token"})
    for path in ("/projects/other/ips", "/devices/none", "/ips/none", "/nothing"):
        assert ask("GET", path)[0] == 404
    assert ask("DELETE", "/ips/none")[0] == 404


def test_bgp_of_a_project_and_of_a_device(ask, double):
    device = double.ask("/devices", hostname="n", number=1)["id"]
    assert ask("GET", BASE + "/bgp-config") == (200, {})
    assert ask("POST", f"/devices/{device}/bgp/sessions", {"address_family": "ipv4"})[0] == 422
    for body in (
        {},
        {"deployment_type": "local"},
        {"deployment_type": "local", "asn": True},
        {"deployment_type": "local", "asn": 65000, "md5": "nodigitsHere"},
    ):
        assert ask("POST", BASE + "/bgp-configs", body)[0] == 422
    assert ask(
        "POST", BASE + "/bgp-configs", {"deployment_type": "local", "asn": 65000, "use_case": "x", "md5": "Abcdef1234"}
    ) == (204, None)
    found = ask("GET", BASE + "/bgp-config")[1]
    assert (found["status"], found["asn"], found["md5"], found["max_prefix"]) == (
        "enabled",
        65000,
        "Abcdef1234",
        10,
    ) and found["id"]
    assert ask("POST", BASE + "/bgp-configs", {"deployment_type": "local", "asn": 65001})[0] == 422
    assert ask("GET", BASE + "/bgp-config") == (200, found)  # and nothing of it is another one
    assert ask("GET", f"/devices/{device}/bgp/neighbors") == (
        200,
        {"bgp_neighbors": []},
    )  # not before there is a session
    status, session = ask("POST", f"/devices/{device}/bgp/sessions", {"address_family": "ipv4"})
    assert status == 201 and session["address_family"] == "ipv4"
    for family in ("ipv9", "", None, 4):
        assert ask("POST", f"/devices/{device}/bgp/sessions", {"address_family": family})[0] == 422
    status, said = ask("POST", f"/devices/{device}/bgp/sessions", {"address_family": "ipv4"})
    assert (status, said) == (422, {"errors": ["Address family already has session with ipv4"]})
    (row,) = ask("GET", f"/devices/{device}/bgp/neighbors")[1]["bgp_neighbors"]
    assert (row["address_family"], row["customer_as"], row["peer_as"], row["md5_password"]) == (
        4,
        65000,
        65530,
        "Abcdef1234",
    )
    assert row["peer_ips"] == ["169.254.255.1", "169.254.255.2"]
    assert (
        ask("DELETE", "/bgp/sessions/" + session["id"]) == (204, None)
        and ask("DELETE", "/bgp/sessions/" + session["id"])[0] == 404
    )
    assert ask("GET", f"/devices/{device}/bgp/neighbors")[1] == {"bgp_neighbors": []}


def test_an_empty_password_is_none(ask, double):
    """Upstream always sends one."""
    assert ask("POST", BASE + "/bgp-configs", {"deployment_type": "local", "asn": 65000, "md5": ""}) == (204, None)
    device = double.ask("/devices", hostname="n", number=1)["id"]
    for family in ("ipv4", "ipv6"):
        assert ask("POST", f"/devices/{device}/bgp/sessions", {"address_family": family})[0] == 201
    rows = ask("GET", f"/devices/{device}/bgp/neighbors")[1]["bgp_neighbors"]
    assert [(row["address_family"], row["md5_enabled"], row["md5_password"], row["customer_ip"]) for row in rows] == [
        (4, False, None, "10.66.1.5"),
        (6, False, None, "2001:db8::1"),
    ]


def test_blocks(ask, double):
    """So many addresses as were ordered, side by side; each is assigned by itself."""
    taken = []
    for many, length, mask in (
        (1, 32, "255.255.255.255"),
        (4, 30, "255.255.255.252"),
        (1, 32, "255.255.255.255"),
        (8, 29, "255.255.255.248"),
    ):
        status, made = ask("POST", BASE + "/ips", order(quantity=many))
        block = ipaddress.ip_network("{network}/{cidr}".format(**made))
        assert (status, made["cidr"], made["netmask"]) == (201, length, mask) and "quantity" not in made
        assert not any(block.overlaps(other) for other in taken)
        taken.append(block)
    device = double.ask("/devices", hostname="n", number=1)["id"]
    for host in taken[1]:
        status, assigned = ask("POST", f"/devices/{device}/ips", {"address": str(host)})
        assert (status, assigned["parent_block"]["cidr"]) == (201, 30)
        assert ask("POST", f"/devices/{device}/ips", {"address": str(host)})[0] == 422
    double.ask("/options", quota=100, network="192.0.2.0/30")
    assert ask("POST", BASE + "/ips", order(quantity=8))[0] == 422  # there is no such block left


def test_orders_that_are_refused(ask, double):
    for wrong in (
        {"metro": None},
        {"metro": "xx"},
        {"metro": 5},
        {"quantity": 0},
        {"quantity": 3},
        {"quantity": "1"},
        {"quantity": 512},
        {"quantity": True},
        {"type": "public_ipv6"},
        {"type": None},
        {"facility": "da11"},
        {"tags": "t"},
        {"tags": [1]},
        {"customdata": "x"},
    ):
        body = {key: value for key, value in order(**wrong).items() if value is not None}
        status, said = ask("POST", BASE + "/ips", body)
        assert status == 422 and said["errors"], wrong
    double.ask("/options", facilities=True)
    place = {key: value for key, value in order(facility="da11").items() if key != "metro"}
    status, made = ask("POST", BASE + "/ips", place)
    assert (status, made["facility"]["code"], made["metro"]["code"]) == (201, "da11", "da")
    assert (
        ask("POST", BASE + "/ips", dict(place, facility="xx11"))[0] == 422
        and ask("POST", BASE + "/ips", dict(place, facility="da"))[0] == 422
    )
    assert len(double.held()) == 1


def test_answers_have_the_fields_that_were_recorded(double):
    """Those which clients of others decode; who changes one decodes and records them anew (tests/doubles/README.md)."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    rows = converse(double)
    assert [row["name"] for row in rows] == [row["name"] for row in recorded] and len(
        {row["name"] for row in rows}
    ) == len(rows)
    for now, then in zip(rows, recorded):
        assert (now["operation"], now["status"], shape(now["answer"])) == (
            then["operation"],
            then["status"],
            shape(then["answer"]),
        ), now["name"]
    operations = {row["operation"] for row in rows if row["status"] < 300}
    assert len(operations) == 16 and {row["status"] for row in rows} == {200, 201, 204, 401, 404, 422, 429, 500, 503}


def test_a_program_that_prints_nothing_decodes_nothing(double, tmp_path):
    rows = [
        {"name": "a", "operation": "x"},
        {"name": "b", "operation": "x"},
        {"name": "c", "operation": "x"},
        {"name": "d", "operation": ""},
    ]
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\nprintf \'%s\\n\' \'{"name": "a", "problem": ""}\' \'{"name": "b", "problem": "wrong"}\'\n'
    )
    program.chmod(0o755)
    found = judge(str(program), rows)
    assert set(found) == {"b", "c"} and found["b"] == "wrong" and found["c"].startswith("nothing was said of it")


def test_orders_quota_and_approval(ask, double):
    assert (
        ask("POST", BASE + "/ips", {"type": "public_ipv4"})[0] == 422
        and ask("POST", BASE + "/ips", order(facility="da11"))[0] == 422
    )
    status, made = ask("POST", BASE + "/ips", order())
    assert (
        status == 201
        and made["state"] == "created"
        and made["address"]
        and made["cidr"] == 32
        and made["metro"]["code"] == "da"
    )
    assert ask("PATCH", "/ips/" + made["id"], {"tags": ["u"], "address": "1.2.3.4"})[1]["tags"] == ["u"]
    assert ask("GET", "/ips/" + made["id"])[1]["address"] == made["address"]
    double.ask("/options", quota=1)
    status, said = ask("POST", BASE + "/ips", order())
    assert status == 422 and "insufficient" in said["errors"][0]
    status, waiting = ask("POST", BASE + "/ips", order(fail_on_approval_required=False))
    assert status == 201 and waiting["state"] == "pending" and "address" not in waiting
    double.ask("/approve")
    assert ask("GET", "/ips/" + waiting["id"])[1]["address"]
    assert ask("DELETE", "/ips/" + made["id"]) == (204, None) and ask("GET", "/ips/" + made["id"])[0] == 404


def test_reservation_assignment_and_devices_addresses(ask, double):
    first, second = (
        double.ask("/devices", hostname=name, number=number)["id"] for name, number in (("a", 1), ("b", 2))
    )
    made = ask("POST", BASE + "/ips", order())[1]
    status, assigned = ask("POST", f"/devices/{first}/ips", {"address": made["address"] + "/32"})
    assert status == 201 and assigned["id"] != made["id"] and assigned["assigned_to"]["href"].endswith(first)
    assert made["address"] in [row["address"] for row in ask("GET", "/devices/" + first)[1]["ip_addresses"]]
    assert ask("GET", f"/devices/{first}/ips")[1]["ip_addresses"][-1]["id"] == assigned["id"]
    assert ask("POST", f"/devices/{second}/ips", {"address": made["address"]})[0] == 422  # it is assigned elsewhere
    assert ask("POST", f"/devices/{second}/ips", {"address": "198.18.0.1"})[0] == 422  # it is nobody's
    (row,) = [row for row in ask("GET", BASE + "/ips")[1]["ip_addresses"] if row["id"] == made["id"]]
    assert row["assignments"] == [{"href": "/metal/v1/ips/" + assigned["id"]}]  # links only, unless asked for more
    (row,) = [
        row for row in ask("GET", BASE + "/ips?include=assignments")[1]["ip_addresses"] if row["id"] == made["id"]
    ]
    assert row["assignments"][0]["address"] == made["address"]
    assert (
        ask("DELETE", "/ips/" + assigned["id"]) == (204, None)
        and ask("GET", "/ips/" + made["id"])[1]["assignments"] == []
    )
    assert made["address"] not in [row["address"] for row in ask("GET", "/devices/" + first)[1]["ip_addresses"]]
    ask("POST", f"/devices/{second}/ips", {"address": made["address"]})
    assert ask("DELETE", "/ips/" + made["id"]) == (204, None)  # given back for good, and taken from its device
    assert made["address"] not in [row["address"] for row in ask("GET", "/devices/" + second)[1]["ip_addresses"]]


def test_pages(ask, double):
    for number in range(12):
        double.ask("/devices", hostname="n%d" % number, number=number + 1)
        double.ask("/reservations", tags=["t"])
    first, second = (ask("GET", BASE + f"/devices?page={page}")[1] for page in (1, 2))
    assert (len(first["devices"]), len(second["devices"])) == (10, 2)  # ten, unless asked for more
    assert (
        first["meta"]["total"],
        first["meta"]["last_page"],
        first["meta"]["next"] is None,
        second["meta"]["next"],
    ) == (12, 2, False, None)
    found = ask("GET", BASE + "/ips?per_page=5&page=3")[1]
    assert (
        len(found["ip_addresses"]) == 3 and found["meta"]["current_page"] == 3
    )  # with the project's own private block
    assert len(ask("GET", BASE + "/ips")[1]["ip_addresses"]) == 13


def test_faults_and_the_log(ask, double):
    double.ask("/faults", method="GET", path="/ips$", status=503, headers={"Retry-After": "1"}, body={"error": "later"})
    assert ask("GET", BASE + "/ips") == (503, {"error": "later"}) and ask("GET", BASE + "/ips")[0] == 200
    double.ask("/faults", method="POST", path="/ips$", status=504, body={"error": "late"}, after=True)
    assert ask("POST", BASE + "/ips", order())[0] == 504 and len(double.held()) == 1  # done, and nobody was notified
    assert [(row["method"], row["body"]) for row in double.ask("/log")][-1] == ("POST", order())
