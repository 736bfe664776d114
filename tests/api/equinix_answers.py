# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every answer of the double of Equinix Metal's API, good and bad, as one conversation; and what their shapes are.

As a program it writes them down anew, in the file that the tests compare with and that programs of others are given:

    tests/run exec python tests/api/equinix_answers.py [PROGRAM]

With a PROGRAM it asks that one, which decodes answers with a client of others, for its judgement instead.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from equinix_cloud import PROJECT, TOKEN, Double

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "equinix_metal" / "answers.json"
BASE = "/projects/" + PROJECT
NOBODY = "00000000-0000-4000-8000-00000000dead"
ORDER = {
    "type": "public_ipv4",
    "quantity": 1,
    "metro": "da",
    "tags": ["usage=metal-ccm-auto"],
    "details": "a text",
    "fail_on_approval_required": True,
}


class Conversation:
    """``rows``: of every call its name, the operation as the API's description names it, method, path, body, status and answer."""

    def __init__(self, double):
        self.double, self.rows = double, []

    def call(self, name, operation, method, path, body=None, token=TOKEN):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            self.double.root + "/metal/v1" + path, data, {"X-Auth-Token": token}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as got:
                status, text = got.status, got.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        answer = json.loads(text) if text else None
        self.rows.append(
            {
                "name": name,
                "operation": operation,
                "method": method,
                "path": path,
                "body": body,
                "status": status,
                "answer": answer,
            }
        )
        return answer


def converse(double):
    """The rows, of a double that is new."""
    talk = Conversation(double)
    call = talk.call
    double.ask("/reset")
    device = double.ask("/devices", hostname="metal-1", number=1)["id"]
    sessions, ips = f"/devices/{device}/bgp/sessions", f"/devices/{device}/ips"

    call("no token", "findIPReservations", "GET", BASE + "/ips", token="wrong")
    call("another project", "findIPReservations", "GET", f"/projects/{NOBODY}/ips")
    call("BGP was never on", "findBgpConfigByProject", "GET", BASE + "/bgp-config")
    call("a session without BGP", "createBgpSession", "POST", sessions, {"address_family": "ipv4"})
    local = {"deployment_type": "local", "asn": 65000, "use_case": "kubernetes-load-balancer"}
    for name, body in (
        ("nothing is asked for", {}),
        ("no number", {"deployment_type": "local"}),
        ("a weak password", dict(local, md5="nodigitsHere")),
    ):
        call("BGP: " + name, "requestBgpConfig", "POST", BASE + "/bgp-configs", body)
    call("BGP without a password", "requestBgpConfig", "POST", BASE + "/bgp-configs", dict(local, md5=""))
    call("BGP is on, no password", "findBgpConfigByProject", "GET", BASE + "/bgp-config")
    call("BGP a second time", "requestBgpConfig", "POST", BASE + "/bgp-configs", dict(local, md5="Abcdef1234"))
    double.ask("/reset")
    double.ask("/devices", hostname="metal-1", number=1)
    call("BGP with a password", "requestBgpConfig", "POST", BASE + "/bgp-configs", dict(local, md5="Abcdef1234"))
    call("BGP is on", "findBgpConfigByProject", "GET", BASE + "/bgp-config")

    call("no neighbours", "getBgpNeighborData", "GET", f"/devices/{device}/bgp/neighbors")
    call("a session of no family", "createBgpSession", "POST", sessions, {"address_family": "ipv9"})
    first = call("a session", "createBgpSession", "POST", sessions, {"address_family": "ipv4"})
    call("a session twice", "createBgpSession", "POST", sessions, {"address_family": "ipv4"})
    call(
        "a session of the other family",
        "createBgpSession",
        "POST",
        sessions,
        {"address_family": "ipv6", "default_route": True},
    )
    call("sessions", "findBgpSessions", "GET", sessions)
    call("sessions of all devices", "findProjectBgpSessions", "GET", BASE + "/bgp/sessions")
    call("neighbours", "getBgpNeighborData", "GET", f"/devices/{device}/bgp/neighbors")
    call("a session ends", "deleteBgpSession", "DELETE", "/bgp/sessions/" + (first or {}).get("id", NOBODY))
    call("a session of nobody", "deleteBgpSession", "DELETE", "/bgp/sessions/" + NOBODY)

    for name, more in (
        ("of no metro", {"metro": None}),
        ("of an unknown metro", {"metro": "xx"}),
        ("of a facility", {"metro": None, "facility": "da11"}),
        ("of three", {"quantity": 3}),
        ("of none", {"quantity": 0}),
        ("of an unknown type", {"type": "public_ipv9"}),
        ("with wrong tags", {"tags": "usage"}),
    ):
        call(
            "an order " + name,
            "requestIPReservation",
            "POST",
            BASE + "/ips",
            {key: value for key, value in dict(ORDER, **more).items() if value is not None},
        )
    call("an order without anything", "requestIPReservation", "POST", BASE + "/ips", {})
    made = call("an order", "requestIPReservation", "POST", BASE + "/ips", ORDER)
    block = call("an order of four", "requestIPReservation", "POST", BASE + "/ips", dict(ORDER, quantity=4))
    call(
        "an order for every metro",
        "requestIPReservation",
        "POST",
        BASE + "/ips",
        {"type": "global_ipv4", "quantity": 1},
    )
    double.ask("/options", facilities=True)
    call(
        "an order of a facility, formerly",
        "requestIPReservation",
        "POST",
        BASE + "/ips",
        {"type": "public_ipv4", "quantity": 1, "facility": "da11"},
    )
    call(
        "an order of an unknown facility",
        "requestIPReservation",
        "POST",
        BASE + "/ips",
        {"type": "public_ipv4", "quantity": 1, "facility": "xx99"},
    )
    double.ask("/options", facilities=False, quota=4)
    call("an order beyond the quota", "requestIPReservation", "POST", BASE + "/ips", ORDER)
    waiting = call(
        "an order that waits",
        "requestIPReservation",
        "POST",
        BASE + "/ips",
        dict(ORDER, fail_on_approval_required=False),
    )
    call("a reservation", "findIPAddressById", "GET", "/ips/" + made["id"])
    call("a reservation that waits", "findIPAddressById", "GET", "/ips/" + waiting["id"])
    call(
        "a reservation with other tags",
        "updateIPAddress",
        "PATCH",
        "/ips/" + made["id"],
        {"tags": ["other"], "customdata": {"a": 1}},
    )
    call("no reservation", "findIPAddressById", "GET", "/ips/" + NOBODY)

    assigned = call("an assignment", "createIPAssignment", "POST", ips, {"address": made["address"] + "/32"})
    call("an assignment out of a block", "createIPAssignment", "POST", ips, {"address": block["address"]})
    call("an assignment twice", "createIPAssignment", "POST", ips, {"address": made["address"]})
    call("an assignment of nobody's", "createIPAssignment", "POST", ips, {"address": "198.18.0.1"})
    call("an assignment of no address", "createIPAssignment", "POST", ips, {"address": "x"})
    call("one assignment", "findIPAddressById", "GET", "/ips/" + assigned["id"])
    call("a device's assignments", "findIPAssignments", "GET", ips)
    call("reservations", "findIPReservations", "GET", BASE + "/ips")
    call("reservations with assignments", "findIPReservations", "GET", BASE + "/ips?include=assignments")
    call("a page of reservations", "findIPReservations", "GET", BASE + "/ips?per_page=2&page=2")
    call("an assignment ends", "deleteIPAddress", "DELETE", "/ips/" + assigned["id"])
    call("a reservation goes", "deleteIPAddress", "DELETE", "/ips/" + made["id"])
    call("it has gone", "deleteIPAddress", "DELETE", "/ips/" + made["id"])

    call("devices", "findProjectDevices", "GET", BASE + "/devices?include=ip_addresses.parent_block,parent_block")
    call("a device", "findDeviceById", "GET", "/devices/" + device)
    call("no device", "findDeviceById", "GET", "/devices/" + NOBODY)
    call("no such call", "", "GET", "/nothing")
    for status in (429, 500, 503):
        double.ask("/faults", method="GET", path="/ips$", status=status, body={"errors": ["later"]})
        call(f"an error {status}", "findIPReservations", "GET", BASE + "/ips")
    return talk.rows


def shape(value):
    """Fields and types of an answer: what stays when ids, times and addresses are others. A list has the shapes of its entries, each once."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        found = []
        for item in value:
            one = shape(item)
            if one not in found:
                found.append(one)
        return found
    if isinstance(value, str):
        return "time" if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", value) else "text"
    return {type(None): "null", bool: "boolean", int: "number", float: "number"}[type(value)]


def fresh():
    """The rows of a double of their own."""
    with tempfile.TemporaryDirectory() as folder:
        double = Double(pathlib.Path(folder))
        try:
            return converse(double)
        finally:
            double.stop()


def judge(program, rows):
    """What a program of others, given by its path, has against the rows: names -> problems, and nothing for a row that it decodes.

    It is called with the path of a file like the recorded one, and answers one JSON object a line: ``name``, and ``problem`` or an empty text. A row
    with an operation that it does not mention was not decoded.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(json.dumps(rows))
        file.flush()
        done = subprocess.run(
            [program, file.name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    said = {one["name"]: one["problem"] for one in map(json.loads, done.stdout.splitlines())}
    problems = {
        row["name"]: said.get(row["name"], "nothing was said of it: " + done.stderr[-300:])
        for row in rows
        if row["operation"]
    }
    return {name: problem for name, problem in problems.items() if problem}


def main(arguments):
    rows = fresh()
    if not arguments:
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(
            "[\n" + ",\n".join(json.dumps(row, sort_keys=True) for row in rows) + "\n]\n", encoding="utf-8"
        )
        return
    problems = judge(arguments[0], rows)
    for name, problem in problems.items():
        print(f"{name}: {problem}")
    print(f"{len([row for row in rows if row['operation']])} answers, {len(problems)} not decoded")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
