# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan's marks and clamps, answered by real packets (decision 52): what the kernel does with them under our table.

``answer`` asks one process that lives in a network namespace of its own; this file run as a program is that process. A
veth device replaces the tunnel: marking, rules and routes do not ask what a device is. Where there is no root, no
namespace or no nft, nobody answers (Unhandled).
"""

from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import sys
import time
import typing as t

Data = dict[str, t.Any]

SECONDS = 30.0
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/bin", "/bin"))
#: Per family: a destination among the targets and one that is none, one of each that is local, and where packets come from.
PLACES = {
    4: {
        "in": "10.244.3.9",
        "out": "203.0.113.9",
        "in_local": "10.244.3.1",
        "out_local": "192.0.2.11",
        "pod": "10.244.1.9",
        "targets": "10.244.3.0/24",
    },
    6: {
        "in": "fd00:244:3::9",
        "out": "2001:db8:ff::9",
        "in_local": "fd00:244:3::1",
        "out_local": "2001:db8::11",
        "pod": "fd00:244:1::9",
        "targets": "fd00:244:3::/64",
    },
}
UDP_PORT, TCP_PORT = 7777, 7778
SO_MARK, ETH_P_ALL = 36, 3
ETHER_TYPES = {4: 0x0800, 6: 0x86DD}
FLAG_BITS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32}
MSS_OPTION = 2

_HELPER: list[subprocess.Popen] = []


def answer(kind: str, vector: t.Mapping[str, t.Any]) -> Data:
    """``{mark, decided_by, table}`` of a ``mark`` question, ``{mss}`` of an ``mss`` one. Raises RuntimeError, OSError."""
    if not _HELPER:
        if os.geteuid() != 0 or not shutil.which("unshare", path=PATH) or not shutil.which("nft", path=PATH):
            raise OSError("real packets need root, network namespaces and nft")
        words = [
            shutil.which("unshare", path=PATH) or "",
            "--net",
            "--mount",
            sys.executable,
            "-B",
            str(pathlib.Path(__file__).resolve()),
        ]
        environment = dict(os.environ, PATH=PATH)
        _HELPER.append(
            subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                env=environment,
            )
        )
    helper = _HELPER[0]
    if helper.poll() is not None or not helper.stdin or not helper.stdout:
        raise OSError("this machine gives no network namespace")
    try:
        helper.stdin.write(json.dumps({"kind": kind, "vector": vector}) + "\n")
        line = helper.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        raise OSError("this machine gives no network namespace")
    found = json.loads(line)
    if "error" in found:
        raise RuntimeError(found["error"])
    return found


# --- inside of the namespace ---------------------------------------------------------------------------------------


def run(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def version_of(vector: t.Mapping[str, t.Any]) -> int:
    return 6 if str(vector.get("family", "")).endswith("6") else 4


class Host:
    """A host with an uplink (eth0), the tunnel's replacement (kubespan) and a pod behind pod0."""

    def __init__(self) -> None:
        run("ip", "link", "set", "lo", "up")
        for name in ("eth0", "kubespan", "pod0"):
            run("ip", "link", "add", name, "type", "veth", "peer", "name", name + "p")
            for end in (name, name + "p"):
                run("ip", "link", "set", end, "arp", "off", "up")
        for path, value in (
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/pod0/rp_filter", "0"),
        ):
            with pathlib.Path("/proc/sys/net/" + path).open("w", encoding="ascii") as file:
                file.write(value)
        for version, places in PLACES.items():
            option, length = f"-{version}", "/32" if version == 4 else "/128"
            for name in ("in_local", "out_local"):
                run(
                    "ip",
                    option,
                    "address",
                    "add",
                    places[name] + length,
                    "dev",
                    "eth0",
                    *(["nodad"] if version == 6 else []),
                )
            run("ip", option, "route", "add", "default", "dev", "eth0")
            run("ip", option, "route", "add", places["pod"] + length, "dev", "pod0")
        self._applied: tuple[t.Any, ...] = ()
        self.taps = {name: self._tap(name) for name in ("eth0p", "kubespanp", "lo")}
        self.pod = self._tap("pod0p")
        run(
            "nft",
            "add table inet witness; add chain inet witness before { type filter hook prerouting priority -399; }; "
            "add chain inet witness made { type filter hook output priority -399; }; "
            "add chain inet witness last { type filter hook postrouting priority 399; }; "
            "add rule inet witness made udp dport 7777 meta nftrace set 1",
        )
        self._gateway = bytes.fromhex(
            json.loads(run("ip", "-j", "link", "show", "pod0"))[0]["address"].replace(":", "")
        )
        self._trace: subprocess.Popen | None = None
        self._text = ""

    def _listen(self) -> None:
        """Trace anew: the monitor knows the rules that were there when it began."""
        self.close()
        self._text = ""
        self._trace = subprocess.Popen(
            ["stdbuf", "-oL", "nft", "monitor", "trace"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """End what would outlive us."""
        if self._trace is not None:
            self._trace.kill()
            self._trace.wait()

    @staticmethod
    def _tap(name: str) -> socket.socket:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        tap.bind((name, 0))
        return tap

    def configure(self, generation: str, mtu: int) -> None:
        """Our table, rules and routes, by the code that the modules call."""
        if self._applied == (generation, mtu):
            return
        from ansible_collections.multicluster.network.plugins.module_utils._flows.node import nft_table
        from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import routes, rules
        from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import (
            generations as kubespan_generations,
            nft as kubespan_nft,
            routing as kubespan_routing,
        )
        from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet

        layout, gen = kubespan_generations.Layout(), kubespan_generations.generation(generation)
        run("ip", "link", "set", "kubespan", "mtu", str(mtu))
        run("ip", "link", "set", "kubespanp", "mtu", str(mtu))
        steps = kubespan_routing.plan_routes(routes.read_routes(layout.route_table), layout, mtu)
        routes.write_routes(layout.route_table, 4, [step["route"] for step in steps if step["op"] == "replace"], [])
        for version in (4, 6):
            rules.apply_rules(
                kubespan_routing.without_gap(
                    kubespan_routing.plan_rule(rules.read_rules(version), version, layout, gen)
                )
            )
        table = kubespan_nft.table(layout, mtu, gen)
        targets = PrefixSet.of(ipaddress.ip_network(places["targets"]) for places in PLACES.values())
        for item in table["sets"]:
            item["elements"] = targets.spans(item["version"])
        desired = {"table": table, "owner": "multicluster.network/vectors"}
        actual = nft_table.gather(desired)
        nft_table.apply(desired, actual, nft_table.plan(desired, actual))
        self._applied = (generation, mtu)
        self._listen()

    def mark(self, vector: t.Mapping[str, t.Any]) -> Data:
        """One UDP packet: the mark it leaves with, the rule that decided, and by which table it was routed."""
        version = version_of(vector)
        places = PLACES[version]
        side = "in" if vector["destination_in_targets"] else "out"
        target = places[side + "_local" if vector.get("oif") == "lo" else side]
        mark = int(str(vector["packet_mark"]), 0)
        if vector["hook"] == "prerouting":
            rule = f"add rule inet witness before udp dport {UDP_PORT} meta mark set {mark} meta nftrace set 1\n"
            run("nft", "-f", "-", stdin="flush chain inet witness before\n" + rule)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:  # the monitor may not listen yet, and a packet may be lost in it
            if vector["hook"] == "prerouting":
                packet = ip_packet(
                    version, places["pod"], target, socket.IPPROTO_UDP, struct.pack("!HHHH", 7, UDP_PORT, 8, 0)
                )
                self.pod.send(self._gateway + bytes(6) + struct.pack("!H", ETHER_TYPES[version]) + packet)
            else:
                with socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as sender:
                    sender.setsockopt(socket.SOL_SOCKET, SO_MARK, struct.pack("=I", mark))  # an int would have a sign
                    sender.sendto(b"", (target, UDP_PORT))
            found = self._follow()
            if found:
                return found
        raise OSError("the packet was not seen again")

    def _follow(self) -> Data | None:
        """One packet's way through the chains, as the kernel traces it."""
        decided = device = ""
        until = time.monotonic() + 2
        while time.monotonic() < until:
            line = self._line(until)
            if " inet talos_kubespan " in line and " packet: " not in line:
                decided = decided_by(line) or decided
            elif " inet witness last packet: " in line:
                device = line.split('oif "', maxsplit=1)[1].split('"', maxsplit=1)[0]
            elif " inet witness last " in line and "policy accept" in line and device:
                mark = int(line.split("meta mark ", maxsplit=1)[1].split()[0], 0) if "meta mark " in line else 0
                while self._line(time.monotonic() + 0.05):
                    pass
                return {"mark": mark, "decided_by": decided, "device": device}
        return None

    def _line(self, until: float) -> str:
        stream = self._trace.stdout if self._trace is not None else None
        assert stream is not None
        while "\n" not in self._text:
            if not select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]:
                return ""
            self._text += os.read(stream.fileno(), 65536).decode()
        line, self._text = self._text.split("\n", maxsplit=1)
        return line

    def mss(self, vector: t.Mapping[str, t.Any]) -> Data:
        """One TCP segment with an MSS option: the option it leaves with."""
        version = version_of(vector)
        places = PLACES[version]
        side = "in" if vector.get("destination_in_targets", True) else "out"
        target = places[side + "_local" if vector.get("oif") == "lo" else side]
        forwarded = vector.get("hook") == "prerouting"
        source = places["pod"] if forwarded else places["out_local"]
        flags = sum(FLAG_BITS[name.lower()] for name in vector.get("tcp_flags") or ("syn",))
        option = b"" if vector.get("syn_mss") is None else struct.pack("!BBH", MSS_OPTION, 4, vector["syn_mss"])
        segment = (
            struct.pack("!HHIIBBHHH", 40000, TCP_PORT, 1, 0, (20 + len(option)) // 4 << 4, flags, 65535, 0, 0) + option
        )
        packet = ip_packet(version, source, target, socket.IPPROTO_TCP, segment)
        for tap in self.taps.values():  # lo shows every segment twice
            while select.select([tap], [], [], 0)[0]:
                tap.recv(65536)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if forwarded:
                self.pod.send(self._gateway + bytes(6) + struct.pack("!H", ETHER_TYPES[version]) + packet)
            else:
                with socket.socket(
                    socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW
                ) as sender:
                    sender.sendto(packet, (target, 0))
            found = self._capture(version, target, time.monotonic() + 1)
            if found is not None:
                return {"mss": found.get("mss")}
        raise OSError("the segment was not seen again")

    def _capture(self, version: int, target: str, until: float) -> Data | None:
        desired = socket.inet_pton(socket.AF_INET if version == 4 else socket.AF_INET6, target)
        while time.monotonic() < until:
            for tap in select.select(list(self.taps.values()), [], [], max(0.0, until - time.monotonic()))[0]:
                frame = tap.recv(65536)[14:]
                header, destination = (20, frame[16:20]) if version == 4 else (40, frame[24:40])
                segment = frame[header:]
                if destination != desired or len(segment) < 20 or struct.unpack_from("!H", segment, 2)[0] != TCP_PORT:
                    continue
                options = segment[20 : (segment[12] >> 4) * 4]
                return {"mss": struct.unpack_from("!H", options, 2)[0] if options[:1] == bytes([MSS_OPTION]) else None}
        return None


def decided_by(line: str) -> str:
    """The vectors' name of the rule (or policy) that a line of the trace shows."""
    if " policy accept" in line:
        return "policy_accept"
    if "(verdict accept)" not in line:
        return ""
    if "meta mark set" in line:
        return "set_mark"
    return "accept_oif_lo" if 'oifname "lo"' in line else "accept_wireguard_mark"


def ip_packet(version: int, source: str, target: str, protocol: int, payload: bytes) -> bytes:
    """A packet with its header; checksums that the way asks for."""
    if version == 6:
        ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target)
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + ends + payload
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + ends
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:] + payload


def main() -> None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import tree

    tree.mount()
    host: Host | None = None
    for line in sys.stdin:
        ask = json.loads(line)
        vector = ask["vector"]
        try:
            host = host or Host()
            host.configure("v1.3" if vector.get("generation") == "seed" else "current", vector.get("mtu") or 1420)
            found = host.mark(vector) if ask["kind"] == "mark" else host.mss(vector)
        except Exception as error:  # pylint: disable=broad-except
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)
    if host is not None:  # whoever asked has gone
        host.close()


if __name__ == "__main__":
    main()
