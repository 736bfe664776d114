# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A double of the discovery service: a real gRPC server with the public protocol and keeps its limits, with a clock to move.

server.py [--address HOST:PORT] [--certificate FILE --key FILE] [--log FILE] [--control FILE]

Prints ``listening PORT``. It knows the messages by a table of its own, not by the collection's. ``--log``: every message that clients send, one line of hex
each. ``--control``: a file of JSON that is read before every answer: {skew: seconds that the clock is ahead, hello_delay, list_delay: seconds,
redirect: host:port, refuse: true, extra: [{id, data, endpoints}] in hex, per cluster id; flood, flood_bytes: number and size of
records in each answer; client_ip; drop: true ends watches}.
"""

from __future__ import annotations

import argparse
import binascii
import json
import pathlib
import queue
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory

MAX_ID, MAX_DATA, MAX_ENDPOINT, MAX_ENDPOINTS, MAX_AFFILIATES, MAX_TTL = 256, 2048, 32, 64, 1024, 1800
NAME = "sidero.discovery.server"
TEXT, BYTES, BOOL, MESSAGE = 9, 12, 8, 11
#: message -> (name, number, type, repeated, message of that type)
FIELDS = {
    "HelloRequest": [("cluster_id", 1, TEXT, 0, ""), ("client_version", 2, TEXT, 0, "")],
    "RedirectMessage": [("endpoint", 1, TEXT, 0, "")],
    "HelloResponse": [("redirect", 1, MESSAGE, 0, f".{NAME}.RedirectMessage"), ("client_ip", 2, BYTES, 0, "")],
    "AffiliateUpdateRequest": [
        ("cluster_id", 1, TEXT, 0, ""),
        ("affiliate_id", 2, TEXT, 0, ""),
        ("affiliate_data", 3, BYTES, 0, "optional"),
        ("affiliate_endpoints", 4, BYTES, 1, ""),
        ("ttl", 5, MESSAGE, 0, ".google.protobuf.Duration"),
    ],
    "AffiliateUpdateResponse": [],
    "AffiliateDeleteRequest": [("cluster_id", 1, TEXT, 0, ""), ("affiliate_id", 2, TEXT, 0, "")],
    "AffiliateDeleteResponse": [],
    "ListRequest": [("cluster_id", 1, TEXT, 0, "")],
    "ListResponse": [("affiliates", 1, MESSAGE, 1, f".{NAME}.Affiliate")],
    "WatchRequest": [("cluster_id", 1, TEXT, 0, "")],
    "WatchResponse": [("affiliates", 1, MESSAGE, 1, f".{NAME}.Affiliate"), ("deleted", 2, BOOL, 0, "")],
    "Affiliate": [("id", 1, TEXT, 0, ""), ("data", 2, BYTES, 0, ""), ("endpoints", 3, BYTES, 1, "")],
}


def messages():
    file = descriptor_pb2.FileDescriptorProto(
        name="cluster.proto", package=NAME, syntax="proto3", dependency=["google/protobuf/duration.proto"]
    )
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, other in fields:
            row = message.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if other == "optional":
                message.oneof_decl.add(name="_" + field)
                row.oneof_index, row.proto3_optional = 0, True
            elif other:
                row.type_name = other
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {name: make(pool.FindMessageTypeByName(f"{NAME}.{name}")) for name in FIELDS}


M = messages()


class Double:
    """Clusters in memory: id -> affiliates: {data, until, endpoints: {bytes: until}}."""

    def __init__(self, log=None, control=None):
        self.clusters, self.watchers = {}, {}
        self.lock = threading.RLock()
        self.log, self.control = log, control

    def orders(self):
        try:
            return json.loads(pathlib.Path(self.control).read_text("utf-8")) if self.control else {}
        except (OSError, ValueError):
            return {}

    def now(self):
        return time.time() + self.orders().get("skew", 0)

    def noted(self, request, context):
        if self.log:
            sent = [
                request.SerializeToString(),
                *(f"{key}={value}".encode() for key, value in context.invocation_metadata()),
            ]
            with self.lock, pathlib.Path(self.log).open("ab") as file:
                file.writelines(binascii.hexlify(part) + b"\n" for part in sent)

    def refuse(self, context, message):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)

    def check(self, request, context):
        self.noted(request, context)
        orders = self.orders()
        if orders.get("refuse"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not here")
        if not 0 < len(request.cluster_id.encode()) <= MAX_ID:
            self.refuse(context, "cluster ID is required")
        return orders

    def hello(self, request, context):
        orders = self.check(request, context)
        time.sleep(orders.get("hello_delay", 0))
        if orders.get("redirect"):
            return M["HelloResponse"](redirect=M["RedirectMessage"](endpoint=orders["redirect"]))
        peer = context.peer()
        raw = bytes(map(int, peer.split(":")[1].split("."))) if peer.startswith("ipv4:") else b""
        return M["HelloResponse"](
            client_ip=bytes(map(int, orders["client_ip"].split("."))) if orders.get("client_ip") else raw
        )

    def update(self, request, context):
        self.check(request, context)
        ttl = request.ttl.seconds
        if not 0 < len(request.affiliate_id.encode()) <= MAX_ID:
            self.refuse(context, "affiliate ID is required")
        if len(request.affiliate_data) > MAX_DATA or any(
            len(row) > MAX_ENDPOINT for row in request.affiliate_endpoints
        ):
            self.refuse(context, "affiliate data or endpoint is too big")
        if ttl <= 0 or ttl > MAX_TTL:
            self.refuse(context, "ttl out of range")
        with self.lock:
            cluster = self.clusters.setdefault(request.cluster_id, {})
            if request.affiliate_id not in cluster and len(cluster) >= MAX_AFFILIATES:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many affiliates")
            row = cluster.setdefault(request.affiliate_id, {"data": b"", "until": 0, "endpoints": {}})
            before = (row["data"], sorted(row["endpoints"]))
            row["until"] = max(row["until"], self.now() + ttl)
            if request.HasField("affiliate_data"):
                row["data"] = request.affiliate_data
            for endpoint in request.affiliate_endpoints:
                row["endpoints"][endpoint] = self.now() + ttl
            if len(row["endpoints"]) > MAX_ENDPOINTS:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many endpoints")
            if before != (row["data"], sorted(row["endpoints"])):
                self.tell(request.cluster_id, [self.shown(request.affiliate_id, row)], False)
        return M["AffiliateUpdateResponse"]()

    def delete(self, request, context):
        self.check(request, context)
        with self.lock:
            if self.clusters.get(request.cluster_id, {}).pop(request.affiliate_id, None):
                self.tell(request.cluster_id, [M["Affiliate"](id=request.affiliate_id)], True)
        return M["AffiliateDeleteResponse"]()

    def shown(self, name, row):
        return M["Affiliate"](id=name, data=row["data"], endpoints=list(row["endpoints"]))

    def affiliates(self, cluster_id):
        orders, now = self.orders(), self.now()
        with self.lock:
            cluster = self.clusters.get(cluster_id, {})
            for name in [name for name, row in cluster.items() if row["until"] <= now]:
                del cluster[name]
            for row in cluster.values():
                row["endpoints"] = {raw: until for raw, until in row["endpoints"].items() if until > now}
            found = [self.shown(name, row) for name, row in cluster.items()]
        for row in orders.get("extra", {}).get(cluster_id, ()):
            raws = [bytes.fromhex(text) for text in row.get("endpoints", ())]
            found.append(M["Affiliate"](id=row["id"], data=bytes.fromhex(row["data"]), endpoints=raws))
        found += [
            M["Affiliate"](id=f"flood{number}", data=b"x" * orders.get("flood_bytes", 100))
            for number in range(orders.get("flood", 0))
        ]
        return found

    def list(self, request, context):
        orders = self.check(request, context)
        time.sleep(orders.get("list_delay", 0))
        return M["ListResponse"](affiliates=self.affiliates(request.cluster_id))

    def tell(self, cluster_id, rows, deleted):
        for waiting in self.watchers.get(cluster_id, ()):
            waiting.put(M["WatchResponse"](affiliates=rows, deleted=deleted))

    def watch(self, request, context):
        self.check(request, context)
        waiting = queue.Queue()
        with self.lock:
            self.watchers.setdefault(request.cluster_id, []).append(waiting)
            first = self.affiliates(request.cluster_id)
        known = {row.id for row in first}
        try:
            yield M["WatchResponse"](affiliates=first)
            while context.is_active():
                if self.orders().get("drop"):
                    context.abort(grpc.StatusCode.UNAVAILABLE, "shutting down")
                try:
                    message = waiting.get(timeout=0.2)
                except queue.Empty:
                    now = {row.id for row in self.affiliates(request.cluster_id)}
                    if known - now:  # expired
                        yield M["WatchResponse"](
                            affiliates=[M["Affiliate"](id=name) for name in known - now], deleted=True
                        )
                    known = now
                    continue
                ids = {row.id for row in message.affiliates}
                known = known - ids if message.deleted else known | ids
                yield message
        finally:
            with self.lock:
                self.watchers[request.cluster_id].remove(waiting)


def serve(address="127.0.0.1:0", certificate=None, key=None, log=None, control=None):
    """(server, port, double), started."""
    double = Double(log, control)
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    out = {"response_serializer": lambda message: message.SerializeToString()}
    handlers = {
        "Hello": unary(double.hello, M["HelloRequest"].FromString, **out),
        "AffiliateUpdate": unary(double.update, M["AffiliateUpdateRequest"].FromString, **out),
        "AffiliateDelete": unary(double.delete, M["AffiliateDeleteRequest"].FromString, **out),
        "List": unary(double.list, M["ListRequest"].FromString, **out),
        "Watch": stream(double.watch, M["WatchRequest"].FromString, **out),
    }
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=24), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{NAME}.Cluster", handlers),))
    if certificate:
        pair = [(pathlib.Path(key).read_bytes(), pathlib.Path(certificate).read_bytes())]
        port = server.add_secure_port(address, grpc.ssl_server_credentials(pair))
    else:
        port = server.add_insecure_port(address)
    server.start()
    return server, port, double


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("address", "certificate", "key", "log", "control"):
        parser.add_argument("--" + name)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value}
    server, port, _double = serve(**given)
    sys.stdout.write(f"listening {port}\n")
    sys.stdout.flush()
    server.wait_for_termination()
