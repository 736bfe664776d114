# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A double of the Equinix Metal API: the calls that a cloud controller makes, with their state, in a process of its own.

The public service ended on 30 June 2026, so nothing can be tested against upstream. This is a double, written from
the API's description: reservations, assignments and device addresses apart, sessions before neighbours, pages, 422s
(refusals.py), pending approvals, quotas. Its answers have the fields of that description and no others, since clients refuse
what they do not know. Everything under /_double is for tests: what fails, how often, and the log of requests.

    server.py PORT_FILE [PROJECT TOKEN]
"""

from __future__ import annotations

import http.server
import ipaddress
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse
import uuid

import refusals

UNKNOWN = (404, {"errors": ["Not found"]})
USER = "7c0f3a52-2f0e-4a55-9d6c-0d9f3c5e1a01"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def metro(code):
    """As the API shows it; None for none."""
    if (code or "").lower() not in refusals.METROS:
        return None
    name, country = refusals.METROS[code.lower()]
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, "metro-" + code.lower())),
        "code": code.lower(),
        "name": name,
        "country": country,
    }


def facility(code):
    if not code:
        return None
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, code.lower())),
        "code": code.lower(),
        "name": code.upper(),
        "metro": metro(code[:2]),
    }


def network_of(record):
    return ipaddress.ip_network("{network}/{cidr}".format(**record))


def placed(block):
    """The fields of a reservation that has its addresses."""
    return {
        "address": str(block[0]),
        "network": str(block[0]),
        "gateway": str(block[1] if block.num_addresses > 2 else block[0]),
    }


class State:
    """One project. ``options``: quota (most reservations), pending (orders wait for approval), page (largest page), facilities (taken
    in orders, as before 2023), metadata (fields of the host's document; None: there is no such service)."""

    def __init__(self, project, token):
        self.project, self.token = project, token
        self.lock = threading.Lock()
        self.reset({})

    def reset(self, options):
        self.options = dict(
            {
                "quota": 100,
                "pending": False,
                "page": 1000,
                "network": "147.75.10.0/24",
                "max_prefix": 10,
                "facilities": False,
                "metadata": {"facility": "da11"},
            },
            **options,
        )
        self.bgp, self.sessions, self.reservations, self.devices = {}, {}, {}, {}
        self.faults, self.log = [], []

    def href(self, *parts):
        return "/metal/v1/" + "/".join(parts)

    # -- records -----------------------------------------------------------------------------------------------

    def add_device(self, name, number):
        ident = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        block = {
            "network": "10.66.%d.0" % number,
            "netmask": "255.255.255.128",
            "cidr": 25,
            "href": self.href("ips", str(uuid.uuid4())),
        }
        addresses = [
            {
                "id": str(uuid.uuid4()),
                "address": "198.51.100.%d" % number,
                "address_family": 4,
                "cidr": 31,
                "public": True,
                "management": True,
            },
            {
                "id": str(uuid.uuid4()),
                "address": "2001:db8::%d" % number,
                "address_family": 6,
                "cidr": 127,
                "public": True,
                "management": True,
            },
            {
                "id": str(uuid.uuid4()),
                "address": "10.66.%d.5" % number,
                "address_family": 4,
                "cidr": 25,
                "public": False,
                "management": True,
                "gateway": "10.66.%d.4" % number,
                "parent_block": block,
            },
        ]
        self.devices[ident] = {
            "id": ident,
            "hostname": name,
            "state": "active",
            "plan": {"slug": "c3.small.x86", "name": "c3.small.x86"},
            "metro": metro("da"),
            "facility": facility("da11"),
            "ip_addresses": addresses,
            "tags": [],
            "project": {"href": self.href("projects", self.project)},
            "href": self.href("devices", ident),
        }
        return self.devices[ident]

    def reservation(self, body, ident=None, address=None, state="created"):
        ident = ident or str(uuid.uuid4())
        block = ipaddress.ip_network(f"{address or '0.0.0.0'}/{refusals.SIZES[body.get('quantity', 1)]}")
        if address is None and state == "created":
            block, address = self.free_block(block.prefixlen), "free"
        made = {
            "id": ident,
            "type": body.get("type", "public_ipv4"),
            "address_family": 4,
            "cidr": block.prefixlen,
            "netmask": str(block.netmask),
            "public": True,
            "management": False,
            "manageable": True,
            "global_ip": body.get("type") == "global_ipv4",
            "enabled": True,
            "addon": True,
            "bill": True,
            "state": state,
            "tags": list(body.get("tags") or ()),
            "details": body.get("details"),
            "customdata": body.get("customdata") or {},
            "metro": metro(body.get("metro") or (body.get("facility") or "")[:2]),
            "facility": facility(body.get("facility")),
            "assignments": [],
            "project": {"href": self.href("projects", self.project)},
            "requested_by": {"href": self.href("users", USER)},
            "available": self.href("ips", ident, "available"),
            "created_at": now(),
            "href": self.href("ips", ident),
        }
        made.update(placed(block) if address else {})
        self.reservations[ident] = made
        return made

    def free_block(self, length):
        """The lowest one, None for none; a block of one is a host of the network."""
        taken = [network_of(item) for item in self.reservations.values() if item.get("address")]
        network = ipaddress.ip_network(self.options["network"])
        if length < network.prefixlen:
            return None
        blocks = (
            (ipaddress.ip_network(host) for host in network.hosts())
            if length == 32
            else network.subnets(new_prefix=length)
        )
        return next((block for block in blocks if not any(block.overlaps(other) for other in taken)), None)

    # -- calls -------------------------------------------------------------------------------------------------

    def answer(self, method, path, query, body):
        project = "/projects/" + self.project
        if path == project + "/bgp-config" and method == "GET":
            return 200, self.bgp
        if path == project + "/bgp-configs" and method == "POST":
            return self.enable(body)
        if path == project + "/ips" and method == "GET":
            return self.page(path, "ip_addresses", self.listed(query), query, 250)
        if path == project + "/ips" and method == "POST":
            return self.order(body)
        if path == project + "/devices" and method == "GET":
            return self.page(path, "devices", list(self.devices.values()), query, 10)
        if path == project + "/bgp/sessions" and method == "GET":
            return 200, {"bgp_sessions": [one for held in self.sessions.values() for one in held]}
        parts = path.strip("/").split("/")
        if parts[0] == "devices" and len(parts) > 1:
            return self.device(method, parts, body)
        if parts[0] == "ips" and len(parts) == 2:
            return self.address(method, parts[1], body)
        if parts[:2] == ["bgp", "sessions"] and len(parts) == 3 and method == "DELETE":
            return self.close(parts[2])
        return UNKNOWN

    def enable(self, body):
        """A second one is refused. Reports say that the service took it and erased the password: nobody may count on either."""
        wrong = refusals.bgp_config(body, self.bgp)
        if wrong:
            return 422, {"errors": wrong}
        ident = str(uuid.uuid4())
        self.bgp = {
            "id": ident,
            "status": "enabled" if body["deployment_type"] == "local" else "requested",
            "deployment_type": body["deployment_type"],
            "asn": body["asn"],
            "md5": body.get("md5") or None,
            "max_prefix": self.options["max_prefix"],
            "route_object": None,
            "ranges": [],
            "sessions": [],
            "created_at": now(),
            "requested_at": now(),
            "project": {"href": self.href("projects", self.project)},
            "href": self.href("bgp-configs", ident),
        }
        return 204, None

    def listed(self, query):
        ident = "11111111-0000-4000-8000-000000000000"
        automatic = {
            "id": ident,
            "type": "private_ipv4",
            "address": "10.66.0.0",
            "network": "10.66.0.0",
            "netmask": "255.255.255.128",
            "gateway": "10.66.0.1",
            "cidr": 25,
            "address_family": 4,
            "management": True,
            "manageable": True,
            "public": False,
            "global_ip": False,
            "enabled": True,
            "addon": False,
            "bill": False,
            "tags": [],
            "state": "created",
            "assignments": [],
            "customdata": {},
            "metro": metro("da"),
            "project": {"href": self.href("projects", self.project)},
            "created_at": now(),
            "href": self.href("ips", ident),
        }
        rows = [automatic] + list(self.reservations.values())
        if "assignments" not in query.get("include", ""):
            rows = [dict(row, assignments=[{"href": item["href"]} for item in row["assignments"]]) for row in rows]
        return rows

    def page(self, path, key, rows, query, default):
        size = max(1, min(int(query.get("per_page", default)), 1000, self.options["page"]))
        number = int(query.get("page", 1))
        last = max(1, -(-len(rows) // size))

        def link(page):
            return {"href": f"/metal/v1{path}?page={page}"} if 1 <= page <= last else None

        meta = {
            "total": len(rows),
            "current_page": number,
            "last_page": last,
            "previous": link(number - 1),
            "next": link(number + 1),
            "first": link(1),
            "last": link(last),
            "self": link(number),
        }
        return 200, {key: rows[(number - 1) * size : number * size], "meta": meta}

    def order(self, body):
        wrong = refusals.order(body, self.options["facilities"])
        if wrong:
            return 422, {"errors": wrong}
        if len(self.reservations) >= self.options["quota"] or self.free_block(refusals.SIZES[body["quantity"]]) is None:
            if body.get("fail_on_approval_required"):
                return 422, {
                    "errors": ["The specified project contains insufficient public IPv4 space to complete the request."]
                }
            return 201, self.reservation(body, state="pending")
        return 201, self.reservation(body, state="pending" if self.options["pending"] else "created")

    def device(self, method, parts, body):
        device = self.devices.get(parts[1])
        if device is None:
            return UNKNOWN
        rest = "/".join(parts[2:])
        if rest == "" and method == "GET":
            return 200, device
        if rest == "ips" and method == "GET":
            return 200, {"ip_addresses": device["ip_addresses"]}
        if rest == "ips" and method == "POST":
            return self.assign(device, body)
        if rest == "bgp/sessions" and method == "GET":
            return 200, {"bgp_sessions": self.sessions.get(device["id"], [])}
        if rest == "bgp/sessions" and method == "POST":
            held = self.sessions.setdefault(device["id"], [])
            wrong = refusals.session(body, self.bgp, held)
            if wrong:
                return 422, {"errors": wrong}
            ident = str(uuid.uuid4())
            held.append(
                {
                    "id": ident,
                    "address_family": body["address_family"],
                    "status": "up",
                    "default_route": bool(body.get("default_route")),
                    "learned_routes": [],
                    "device": {"href": device["href"]},
                    "created_at": now(),
                    "updated_at": now(),
                    "href": self.href("bgp", "sessions", ident),
                }
            )
            return 201, held[-1]
        if rest == "bgp/neighbors" and method == "GET":
            return 200, {
                "bgp_neighbors": [
                    self.neighbour(device, refusals.SESSIONS[one["address_family"]])
                    for one in self.sessions.get(device["id"], ())
                ]
            }
        return UNKNOWN

    def neighbour(self, device, family):
        own = next(
            item["address"]
            for item in device["ip_addresses"]
            if item["address_family"] == family and (family == 6 or not item["public"])
        )
        routers = (
            ["169.254.255.1", "169.254.255.2"]
            if family == 4
            else ["fc00:0000:0000:0000:0000:0000:0000:000e", "fc00:0000:0000:0000:0000:0000:0000:000f"]
        )
        return {
            "address_family": family,
            "customer_as": self.bgp.get("asn"),
            "customer_ip": own,
            "md5_enabled": bool(self.bgp.get("md5")),
            "md5_password": self.bgp.get("md5"),
            "multihop": True,
            "peer_as": 65530,
            "peer_ips": routers,
            "routes_in": [],
            "routes_out": [],
        }

    def close(self, ident):
        for held in self.sessions.values():
            for item in [item for item in held if item["id"] == ident]:
                held.remove(item)
                return 204, None
        return UNKNOWN

    def assign(self, device, body):
        address = str(body.get("address", "")).partition("/")[0]
        try:
            desired = ipaddress.ip_network(address)
        except ValueError:
            return 422, {"errors": ["The address is not valid"]}
        held = [
            item
            for item in self.reservations.values()
            if item.get("address") and desired.version == 4 and desired.subnet_of(network_of(item))
        ]
        if not held or any(one["address"] == address for item in held for one in item["assignments"]):
            return 422, {"errors": ["The address is not available"]}
        found, ident = held[0], str(uuid.uuid4())
        made = {
            "id": ident,
            "address": address,
            "cidr": 32,
            "netmask": "255.255.255.255",
            "network": address,
            "gateway": found["gateway"],
            "address_family": 4,
            "public": True,
            "management": False,
            "manageable": True,
            "enabled": True,
            "global_ip": False,
            "assigned_to": {"href": device["href"]},
            "metro": found["metro"],
            "parent_block": {
                "network": found["network"],
                "netmask": found["netmask"],
                "cidr": found["cidr"],
                "href": found["href"],
            },
            "created_at": now(),
            "href": self.href("ips", ident),
        }
        found["assignments"].append(made)
        device["ip_addresses"].append(made)
        return 201, made

    def address(self, method, ident, body):
        held = self.reservations.get(ident)
        owner = next(
            (item for item in self.reservations.values() if any(one["id"] == ident for one in item["assignments"])),
            None,
        )
        if held is None and owner is None:
            return UNKNOWN
        if method == "GET":
            return 200, held or next(one for one in owner["assignments"] if one["id"] == ident)
        if method == "PATCH" and held is not None:
            held.update({key: body[key] for key in ("tags", "details", "customdata") if key in body})
            return 200, held
        if method != "DELETE":
            return UNKNOWN
        gone = {one["id"] for one in (held or owner)["assignments"] if held is not None or one["id"] == ident}
        if held is not None:
            del self.reservations[ident]
        else:
            owner["assignments"] = [one for one in owner["assignments"] if one["id"] != ident]
        for device in self.devices.values():
            device["ip_addresses"] = [one for one in device["ip_addresses"] if one["id"] not in gone]
        return 204, None

    def metadata(self):
        """Of the host that asks, without a token (ccm 14.9)."""
        self.log.append({"method": "GET", "path": "/metadata", "query": {}, "body": {}, "agent": ""})
        if self.options["metadata"] is None:
            return UNKNOWN
        document = {
            "id": "b5a1",
            "hostname": "controller",
            "plan": "c3.small.x86",
            "class": "c3.small.x86",
            "metro": "da",
            "facility": "da11",
            "network": {"addresses": []},
            "bgp_neighbors": [],
        }
        return 200, dict(document, **self.options["metadata"])

    # -- for tests ---------------------------------------------------------------------------------------------

    def double(self, method, path, body):
        if path == "/reset":
            self.reset(body)
        elif path == "/options":
            self.options.update(body)
        elif path == "/faults":
            # {method, path (regular expression), times, status, headers, body, after: do it all the same, hang: seconds}
            self.faults.append(dict({"times": 1}, **body))
        elif path == "/devices":
            return 200, self.add_device(body["hostname"], body["number"])
        elif path == "/reservations" and method == "POST":
            return 200, self.reservation(body, body.get("id"), body.get("address"), body.get("state", "created"))
        elif path == "/approve":
            for item in self.reservations.values():
                if item["state"] == "pending":
                    item.update(state="created", **placed(self.free_block(item["cidr"])))
        elif path == "/log":
            return 200, self.log
        elif path == "/state":
            return 200, {
                "reservations": list(self.reservations.values()),
                "bgp": self.bgp,
                "sessions": self.sessions,
                "devices": list(self.devices.values()),
            }
        else:
            return UNKNOWN
        return 200, {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _handle(self):
        state = self.server.state
        path, unused, text = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text))
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else {}
        headers, hang = {}, 0
        with state.lock:
            if path == "/metadata":
                status, answer = state.metadata()
            elif path.startswith("/_double"):
                status, answer = state.double(self.command, path[len("/_double") :], body)
            else:
                status, answer, headers, hang = self._api(state, path, query, body)
        if hang:
            time.sleep(hang)
            self.close_connection = True
            return
        data = b"" if answer is None else (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _api(self, state, path, query, body):
        path = path[len("/metal/v1") :] if path.startswith("/metal/v1/") else ""
        state.log.append(
            {
                "method": self.command,
                "path": path,
                "query": query,
                "body": body,
                "agent": self.headers.get("User-Agent", ""),
            }
        )
        if self.headers.get("X-Auth-Token") != state.token:
            return 401, {"error": "Invalid authentication token"}, {}, 0
        for fault in state.faults:
            if fault["times"] and fault.get("method", self.command) == self.command and re.search(fault["path"], path):
                fault["times"] -= 1
                if fault.get("after"):
                    state.answer(self.command, path, query, body)
                return fault.get("status", 500), fault.get("body"), fault.get("headers", {}), fault.get("hang", 0)
        return (*state.answer(self.command, path, query, body), {}, 0)

    do_GET = do_POST = do_PATCH = do_DELETE = _handle

    def log_message(self, *unused):
        pass


def main(arguments):
    """Serve until killed; the port is written to a file once requests are taken."""
    defaults = ["0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11", "token-of-the-double"]
    port_file, project, token = (arguments + defaults[len(arguments) - 1 :])[:3]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.state = State(project, token)
    with pathlib.Path(port_file + ".new").open("w", encoding="ascii") as stream:
        stream.write(str(server.server_address[1]))
    pathlib.Path(port_file + ".new").replace(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
