# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of one node that nobody confirms: the host puts back what it had, whoever died when.

There is no systemd in these namespaces, so the dead-man is the waiting process; scenarios use the timer.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from conftest import DRIVER, MODULE_UTILS, SLOW, FlowFailed, flow_environment
from test_kubespan import MESH
from test_kubespan_example import AFFILIATES

KEY = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs="
OTHER_KEY = "TG9yVFi34isQO2aGdCKIVQTMbwk1rqUdaYkFqqe0+m8="
STATE = "/var/lib/multicluster-network/mesh"
#: Generous: what is asserted is the state, not the time it took.
PATIENCE = 60 * SLOW


def wish(port=51821, routes=("10.5.0.0/24",), peers=None, mtu=1420, **change):
    peer = {"public_key": KEY, "endpoint": "192.0.2.2:51821", "persistent_keepalive": 0, "allowed_ips": ["10.5.0.0/24"]}
    device = {
        "name": "wireguard.b",
        "remote": "b",
        "node": "a",
        "mtu": mtu,
        "txqueuelen": 1000,
        "listen_port": port,
        "private_key_file": "/var/lib/wg/key",
        "implementation": "auto",
        "routes": list(routes),
        "peers": [peer] if peers is None else peers,
    }
    return dict(
        {"fabric": "mesh", "persist": True, "max_deletes": -1, "rollback_seconds": 0, "devices": [device]}, **change
    )


#: Everything about the link, its routes and its peers is different.
CHANGED = {
    "port": 51999,
    "mtu": 1300,
    "routes": ["10.5.0.0/24", "10.7.0.0/24"],
    "peers": [
        {"public_key": KEY, "endpoint": "192.0.2.9:1", "persistent_keepalive": 25, "allowed_ips": ["10.7.0.0/24"]},
        {"public_key": OTHER_KEY, "endpoint": "192.0.2.8:1", "persistent_keepalive": 0, "allowed_ips": ["10.5.0.0/24"]},
    ],
}


class Host:
    """One node with what survives in it."""

    def __init__(self, node, wait_for):
        self.node, self.wait_for = node, wait_for
        for folder in ("/var/lib", "/usr/local/lib", "/etc/systemd/system"):
            node.run("mount", "-t", "tmpfs", "tmpfs", folder)

    def run(self, desired, check=False):
        return self.node.flow("dataplane", desired, check)

    def seen(self):
        """Kernel and files, without counters, handshakes and what changes by itself."""
        links = json.loads(self.node.run("ip", "-j", "-d", "address"))
        for link in links:
            link.pop("ifindex")
            link.pop("stats64", None)
            # the kernel gives a new link a new link-local address
            link["addr_info"] = [address for address in link["addr_info"] if not address["local"].startswith("fe80:")]
        wg = sorted(
            line.split("\t")[:5] + line.split("\t")[8:9]
            for line in self.node.run("wg", "show", "all", "dump").splitlines()
        )
        files = self.node.run(
            "sh",
            "-c",
            "cd / && find var/lib usr/local/lib etc/systemd/system -type f -o -type l | sort | xargs -r sha256sum",
        )
        routes = [
            line
            for option in ("-4", "-6")
            for line in self.node.run("ip", option, "route", "show", "table", "all").splitlines()
            if "fe80:" not in line
        ]
        steering = [self.node.run(*words.split()) for words in ("nft list ruleset", "ip rule", "ip -6 rule")]
        return links, wg, sorted(routes), steering, files

    def pending(self):
        return self.node.run("sh", "-c", f"cat {STATE}/transaction.json 2>/dev/null || true") != ""

    def outcome(self):
        return json.loads(self.node.run("cat", "/run/multicluster-network/mesh.json"))["outcome"]

    def reboot(self):
        """Everything that runs ends, the kernel's objects and /run go, files stay; then the boot unit, where there is one."""
        self.node.end_processes()
        self.node.run(
            "sh",
            "-c",
            """
            for link in $(ls /sys/class/net); do [ $link = lo ] || ip link del $link || true; done
            nft flush ruleset
            for option in -4 -6; do
                ip $option rule del pref 32500 2>/dev/null || true
                ip $option route flush table 180 2>/dev/null || true
            done
            rm -rf /run/multicluster-network
        """,
            check=False,
        )
        for unit in self.node.run(
            "sh", "-c", "grep -h ExecStart= /etc/systemd/system/*.service | grep -v ' watch ' || true"
        ).splitlines():
            self.node.run(sys.executable, "-B", *unit.split("=", 1)[1].split()[1:])

    def settled(self):
        assert self.wait_for(lambda: not self.pending(), PATIENCE), "the host never put back what it had"

    def decide(self, ident, how="confirm"):
        """What the module does for state confirmed or reverted."""
        driver = DRIVER.replace("run(flow, ", f"flow.{how}(")
        assert driver != DRIVER
        done = subprocess.run(
            self.node.command(sys.executable, "-B", "-c", driver),
            input=json.dumps({"flow": MODULE_UTILS + "_flows.node.dataplane", "arguments": ["mesh", ident]}),
            capture_output=True,
            text=True,
            check=False,
            env=flow_environment(),
            timeout=PATIENCE,
        )
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise FlowFailed(answer)
        return answer["result"]


@pytest.fixture(name="host")
def host_fixture(node, wait_for):
    return Host(node, wait_for)


def test_a_first_mesh_that_nobody_confirms_leaves_nothing(host):
    before = host.seen()
    made = host.run(wish(rollback_seconds=2))
    assert made["transaction"]["armed"] == "process" and host.pending()
    assert "wireguard.b" in host.node.run("wg", "show")
    host.settled()
    assert host.outcome() == "rolled_back"
    assert host.seen() == before
    with pytest.raises(FlowFailed, match="put back what it had"):
        host.decide(made["transaction"]["id"])


def test_confirmed_once_or_twice_it_stays(host):
    made = host.run(wish(rollback_seconds=600))
    assert not host.node.run("sh", "-c", f"ls {STATE}/dataplane.json 2>/dev/null || true"), (
        "the confirmed state is not changed before"
    )
    for dummy in range(2):
        assert host.decide(made["transaction"]["id"])["outcome"] == "confirmed"
    good = host.seen()
    again = host.run(wish(rollback_seconds=600))
    assert not again["changed"] and "transaction" not in again, again["diff"]
    assert not host.pending() and host.seen() == good
    assert host.node.run("ls", "-A", STATE).split() == ["dataplane.json"]


def test_every_object_is_put_back(host):
    host.run(wish())
    host.node.run("ip", "link", "set", "wireguard.b", "mtu", "1400")  # also what was not as confirmed
    before = host.seen()
    made = host.run(wish(rollback_seconds=2, remove_keys=True, **CHANGED))
    assert made["plan"]["update"] >= 3 and host.seen() != before
    host.settled()
    assert host.seen() == before


def test_a_node_that_left_comes_back_with_its_key(host):
    host.run(wish())
    before = host.seen()
    host.run(wish(devices=[], remove_keys=True, rollback_seconds=2))
    assert "wireguard.b" not in host.node.run("ip", "link")
    host.settled()
    assert host.seen() == before
    gone = host.run(wish(devices=[], remove_keys=True, rollback_seconds=600))
    assert "mesh.json" in host.node.run("ls", "/run/multicluster-network")  # how the last one ended
    host.decide(gone["transaction"]["id"])
    assert host.node.run("sh", "-c", "find /var/lib /usr/local/lib /etc/systemd/system -mindepth 1 -not -type d") == ""
    assert host.node.run("sh", "-c", "ls -d /run/multicluster-network 2>/dev/null || true") == ""
    again = host.run(wish(devices=[], remove_keys=True, rollback_seconds=600))
    assert not again["changed"] and "transaction" not in again


def test_what_an_earlier_change_left_in_run_goes_with_the_node(host):
    host.run(wish(rollback_seconds=2))
    host.settled()
    assert host.outcome() == "rolled_back"
    host.run(wish(devices=[]))
    assert host.node.run("sh", "-c", "ls -d /run/multicluster-network 2>/dev/null || true") == ""
    assert not host.run(wish(devices=[]))["changed"]


def test_an_adopted_device_is_given_back(host):
    made = host.run(wish())
    host.node.run(
        "sh", "-c", "ip link set wireguard.b alias '' && ip link set wireguard.b down && ip link set wireguard.b up"
    )
    host.node.run("ip", "route", "add", "10.5.0.0/24", "dev", "wireguard.b", "proto", "boot")
    before = host.seen()
    host.run(wish(rollback_seconds=2, adopt=True))
    assert host.seen() != before
    host.settled()
    assert host.seen() == before, made


def test_the_play_can_take_it_back_at_once_and_the_next_run_does(host):
    host.run(wish())
    before = host.seen()
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    assert host.decide(made["transaction"]["id"], "revert")["changed"] and not host.decide(None, "revert")["changed"]
    assert host.seen() == before and host.outcome() == "rolled_back"
    host.run(wish(rollback_seconds=600, **CHANGED))
    checked = host.run(wish(), check=True)
    assert checked["changed"] and any("waits for its confirmation" in text for text in checked["warnings"])
    again = host.run(wish(rollback_seconds=600))
    assert not again["changed"] and any("never confirmed" in text for text in again["warnings"])
    assert host.seen() == before


def test_what_fails_half_way_is_put_back_at_once(host):
    host.run(wish())
    before = host.seen()
    script = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 51999)); print(1, flush=True); time.sleep(600)"
    taker = subprocess.Popen(host.node.command(sys.executable, "-c", script), stdout=subprocess.PIPE, text=True)
    try:
        assert taker.stdout.readline()
        with pytest.raises(
            FlowFailed, match="taken by another program.*set wireguard_port of the cluster.*everything was put back"
        ):
            host.run(wish(rollback_seconds=600, **CHANGED))
    finally:
        taker.kill()
        taker.communicate()
    assert not host.pending() and host.seen() == before


SQUATTER = (
    "import os, socket, sys, time; os.setuid(int(sys.argv[2])); s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); "
    "print('held', flush=True); time.sleep(600)"
)
HOLDER = (
    "import time; from ansible_collections.multicluster.network.plugins.module_utils._linux.host.lock import HostLock; "
    "HostLock('multicluster.network/mesh', 60).__enter__(); print('held', flush=True); time.sleep(600)"
)


@contextlib.contextmanager
def alongside(host, code, *words):
    """A program that runs in the node until the block ends."""
    words = host.node.command(sys.executable, "-B", "-c", code, *words)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=flow_environment()) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_no_user_of_the_host_can_keep_it_from_taking_a_change_back(host):
    """Whoever is in the host's network namespace can have any name of the socket space, so none of them is the lock."""
    host.run(wish())
    before = host.seen()
    with alongside(host, SQUATTER, "multicluster.network/mesh", "65534"):
        made = host.run(wish(rollback_seconds=2, **CHANGED))
        assert not made["warnings"], made["warnings"]
        host.settled()
        assert host.seen() == before and host.outcome() == "rolled_back"
        made = host.run(wish(rollback_seconds=600, **CHANGED))
        assert host.decide(made["transaction"]["id"])["outcome"] == "confirmed"


def test_who_holds_the_lock_for_ever_does_not_keep_the_host_from_taking_a_change_back(host):
    host.run(wish())
    before = host.seen()
    host.run(wish(rollback_seconds=5, **CHANGED))
    with alongside(host, HOLDER) as holder:
        host.settled()
        assert host.seen() == before and host.outcome() == "rolled_back"
        reported = host.node.run("cat", "/run/multicluster-network/mesh.json")
        assert "was not waited for any longer" in reported and f"process {holder.pid} " in reported
        assert holder.poll() is None


WRITER = HOLDER.replace(
    "print(",
    "import json, os, sys; from ansible_collections.multicluster.network.plugins.module_utils._linux.host import deadman; "
    "path = sys.argv[1]; journal = json.load(open(path)); journal['id'] = 'ab' * 8; "
    "journal['writer'] = [os.getpid(), deadman.process_started(os.getpid())]; json.dump(journal, open(path, 'w')); print(",
    1,
)


def test_the_dead_man_of_an_earlier_change_leaves_the_run_of_a_later_one_alone(host):
    """It wakes when that change is over already, and the next one is being written by a run that holds the lock for a while."""
    host.run(wish())
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    (program,) = host.node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    with alongside(host, WRITER, STATE + "/transaction.json") as writer:
        host.node.run(sys.executable, "-B", program, "rollback", "mesh", made["transaction"]["id"])
        assert writer.poll() is None, "the run of the later change was ended"
        assert host.pending()


def test_a_run_that_writes_its_journal_long_after_arming_is_neither_ended_nor_taken_back(host):
    """On a machine that many nodes share, what comes between the two took longer than five seconds; 1,800 were allowed."""
    host.run(wish())
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    (program,) = host.node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    with alongside(host, WRITER, STATE + "/transaction.json") as writer:
        after = host.seen()  # with the journal as the writer has written it
        written = host.node.run("cat", STATE + "/transaction.json")
        host.node.run("sh", "-c", "rm " + STATE + "/transaction.json")
        words = host.node.command(sys.executable, "-B", program, "rollback", "mesh", "ab" * 8, "--after", "600")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as dead_man:
            try:
                time.sleep(7)
                host.node.run(
                    "sh", "-c", f"cat > {STATE}/transaction.json && chmod 600 {STATE}/transaction.json", stdin=written
                )
                time.sleep(4)
                assert writer.poll() is None, "the run that writes the change was ended"
                writer.kill()
                time.sleep(4)
                assert dead_man.poll() is None, "nobody waits any more: " + dead_man.stdout.read().decode()
                assert host.pending() and host.seen() == after, made
            finally:
                dead_man.kill()


def test_a_change_that_is_kept_but_not_tidied_up_after_is_reported(host):
    """The decision is one rename. What comes after it may fail; then nobody may be notified that the old state is back."""
    host.run(wish())
    made = host.run(dict(wish(rollback_seconds=600), devices=[]))
    host.node.run("mount", "-o", "remount,ro", "/etc/systemd/system")
    for dummy in range(2):
        with pytest.raises(
            FlowFailed, match="the change is kept.*[Rr]ead-only.*/etc/systemd/system.*the next run"
        ) as error:
            host.decide(made["transaction"]["id"])
        assert error.value.fields == {"outcome": "confirmed", "rolled_back": False}
    assert host.pending() and "wireguard.b" not in host.node.run("ip", "link")
    with pytest.raises(FlowFailed, match="[Rr]ead-only.*/etc/systemd/system"):
        host.run(wish(rollback_seconds=600))
    host.node.run("mount", "-o", "remount,rw", "/etc/systemd/system")
    again = host.run(dict(wish(), devices=[]))
    assert again["warnings"] == ["an earlier change was kept, and what it still had to do is done now"]
    assert not host.pending() and not again["changed"], again["diff"]


BROKEN = pathlib.Path(__file__).parents[1] / "fixtures" / "hostile" / "journals.json"


@pytest.mark.parametrize("row", json.loads(BROKEN.read_text())["journals"][::4], ids=lambda row: row["name"])
def test_a_journal_that_cannot_be_read_is_kept_alongside_and_the_node_goes_on(host, row):
    """Whoever finds it reports it by name: a play, a confirmation, the boot unit, the timer. None of them shows a traceback."""
    host.run(wish())
    before = host.seen()
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    text = row["text"].encode("utf-8", "surrogatepass")

    def put(content=text):
        host.node.run(
            "sh", "-c", f"cat > {STATE}/transaction.json && chmod 600 {STATE}/transaction.json", stdin=content.decode()
        )

    put()
    checked = host.run(wish(), check=True)
    assert any(
        "journal_invalid" in text and row["says"] in text or "not JSON" in text for text in checked["warnings"]
    ), checked["warnings"]
    with pytest.raises(FlowFailed, match="journal_invalid"):
        host.decide(made["transaction"]["id"])
    again = host.run(wish())
    assert any("transaction.invalid.json" in text for text in again["warnings"]), again["warnings"]
    assert not host.pending() and host.node.run("stat", "-c", "%a %U", STATE + "/transaction.invalid.json").split() == [
        "600",
        "root",
    ]
    host.node.run("rm", STATE + "/transaction.invalid.json")
    assert host.seen() == before
    (unit,) = host.node.run("sh", "-c", "grep ExecStart= /etc/systemd/system/*.service").split("=", 1)[1:]
    program = unit.split()[1]
    for words in (unit.split()[1:], [program, "rollback", "mesh", made["transaction"]["id"]]):
        made = host.run(wish(rollback_seconds=600, **CHANGED))
        put()
        if "rollback" in words:
            words = [*words[:3], made["transaction"]["id"]]
        host.node.run(sys.executable, "-B", *words)
        assert not host.pending() and "transaction.invalid.json" in host.node.run(
            "cat", "/run/multicluster-network/mesh.json"
        )
        host.node.run("rm", STATE + "/transaction.invalid.json")
        assert host.seen() == before
    host.run(wish(rollback_seconds=600, **CHANGED))
    put()
    assert host.decide(None, "revert")["outcome"] == "rolled_back" and not host.pending()
    host.run(wish(devices=[], remove_keys=True))
    places = "/var/lib /usr/local/lib /etc/systemd/system /run/multicluster-network"
    assert host.node.run("sh", "-c", f"find {places} -mindepth 1 -not -type d 2>/dev/null || true") == ""


def test_a_journal_that_another_user_wrote_is_not_believed(host):
    host.run(wish())
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    host.node.run("chown", "65534", STATE + "/transaction.json")
    with pytest.raises(FlowFailed, match="no file that root alone can have written"):
        host.decide(made["transaction"]["id"])
    assert any("root alone" in text for text in host.run(wish())["warnings"])


UNIT = "multicluster-network-mesh.service"


def test_what_surrounds_the_mesh_is_drift_and_what_is_owned_is_repaired(host):
    """Folders that others may write into and our device's settings are repaired; a drop-in and the host's settings are refused by name."""
    host.run(wish())
    assert not host.run(wish(), check=True)["changed"]
    host.node.run(
        "sh",
        "-c",
        f"""
        chmod 777 {STATE} /var/lib/multicluster-network /usr/local/lib/multicluster-network /usr/local/lib/multicluster-network/mesh /var/lib/wg
        mkdir -p /etc/systemd/system/{UNIT}.d && printf '[Service]\nExecStart=\n' > /etc/systemd/system/{UNIT}.d/10-off.conf
        echo 1 > /proc/sys/net/ipv4/conf/wireguard.b/rp_filter
        echo 0 > /proc/sys/net/ipv4/conf/wireguard.b/forwarding
    """,
    )
    found = host.run(wish(), check=True)
    changes = {(change["kind"], change["id"]) for change in found["plan"]["changes"]}
    assert changes == {
        ("folder", STATE),
        ("folder", "/var/lib/multicluster-network"),
        ("folder", "/usr/local/lib/multicluster-network"),
        ("folder", "/usr/local/lib/multicluster-network/mesh"),
        ("folder", "/var/lib/wg"),
        ("setting", "net/ipv4/conf/wireguard.b/rp_filter"),
        ("setting", "net/ipv4/conf/wireguard.b/forwarding"),
    }
    drop_in = f"/etc/systemd/system/{UNIT}.d/10-off.conf"
    assert [(row["object"], row["reason"]) for row in found["refused"]] == [
        (drop_in, "not_ours")
    ] and "belongs to root" in found["refused"][0]["message"]
    made = host.run(wish(rollback_seconds=600))
    assert host.decide(made["transaction"]["id"])["outcome"] == "confirmed"
    modes = host.node.run(
        "stat",
        "-c",
        "%a",
        STATE,
        "/var/lib/multicluster-network",
        "/usr/local/lib/multicluster-network/mesh",
        "/var/lib/wg",
    )
    assert modes.split() == ["700", "755", "755", "755"]
    assert host.node.run("sh", "-c", "cd /proc/sys/net/ipv4/conf/wireguard.b; cat rp_filter forwarding").split() == [
        "2",
        "1",
    ]
    again = host.run(wish())
    assert not again["changed"] and again["refused"]
    assert not host.run(wish(accepted=[drop_in]))["refused"]
    host.node.run("rm", drop_in)
    host.node.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
    (refusal,) = host.run(wish())["refused"]
    assert (refusal["object"], refusal["reason"]) == (
        "net.ipv4.ip_forward",
        "forwarding_off",
    ) and "no file of the host sets it" in refusal["message"]
    host.node.run(
        "sh", "-c", "mkdir -p /run/sysctl.d && echo 'net.ipv4.ip_forward = 0' > /run/sysctl.d/99-hardened.conf"
    )
    assert "/run/sysctl.d/99-hardened.conf sets 0" in host.run(wish())["refused"][0]["message"]
    assert not host.run(wish(accepted=["net.ipv4.ip_forward"]))["refused"]
    assert host.node.run("cat", "/proc/sys/net/ipv4/ip_forward") == "0\n", (
        "what is another owner's is reported, not fought over"
    )


SIX = {
    "public_key": KEY,
    "endpoint": "192.0.2.2:51821",
    "persistent_keepalive": 0,
    "allowed_ips": ["10.5.0.0/24", "fd00:5::/64"],
}


def test_a_host_without_ipv6_keeps_its_mesh_of_ipv4(host):
    """A usual hardening, and any other cluster with an IPv6 range: the family is refused alone, by the name of the setting."""
    both = {"routes": ["10.5.0.0/24", "fd00:5::/64"], "peers": [SIX]}
    host.node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
    planned = host.run(wish(**both), check=True)
    made = host.run(wish(**both))
    for result in (planned, made, host.run(wish(**both))):
        (refusal,) = result["refused"]
        assert (refusal["object"], refusal["reason"]) == ("net.ipv6.conf.all.disable_ipv6", "family_off")
        assert "fd00:5::/64" in refusal["message"] and "no file of the host sets it" in refusal["message"]
    assert (
        made["changed"]
        and "10.5.0.0/24 dev wireguard.b" in host.node.run("ip", "route")
        and "fd00:5" not in host.node.run("ip", "-6", "route")
    )
    assert (
        not host.run(wish(**both))["changed"]
        and not host.run(wish(accepted=["net.ipv6.conf.all.disable_ipv6"], **both))["refused"]
    )
    host.node.run(
        "sh",
        "-c",
        "mkdir -p /run/sysctl.d && echo 'net.ipv6.conf.all.disable_ipv6 = 1' > /run/sysctl.d/99-hardened.conf",
    )
    assert "/run/sysctl.d/99-hardened.conf sets 1" in host.run(wish(**both))["refused"][0]["message"]
    host.node.run(
        "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
    )
    assert not host.run(wish(**both))["refused"] and "fd00:5::/64 dev wireguard.b" in host.node.run("ip", "-6", "route")
    # switched off on a node that is set up: what the kernel has taken away is not put back, and the rest goes on
    host.node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
    again = host.run(wish(mtu=1300, **both))
    assert again["changed"] and [row["reason"] for row in again["refused"]] == ["family_off"]
    assert "mtu 1300" in host.node.run("ip", "link", "show", "wireguard.b")


def test_programs_that_take_links_in_hand_are_kept_away_from_owned_ones(host):
    """Where they run, and as files of the node's plan: they come with the change and go with the mesh."""
    host.node.run(
        "sh",
        "-c",
        """
        mkdir /run/over && mount -t tmpfs tmpfs /run/over && mkdir /run/over/upper /run/over/work
        mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/over/upper,workdir=/run/over/work /etc
        mkdir -p /run/systemd/netif /run/NetworkManager
        touch /run/systemd/netif/state
    """,
    )
    find = "find /etc -name '*multicluster-network-mesh*' -path '*etwork*' -not -name '*.service' | sort"
    assert host.node.run("sh", "-c", find) == ""
    planned = host.run(wish(), check=True)
    made = host.run(wish(rollback_seconds=600))
    paths = host.node.run("sh", "-c", find).split()
    assert not paths and host.decide(made["transaction"]["id"])["outcome"] == "confirmed"
    paths = host.node.run("sh", "-c", find).split()
    assert paths == [
        "/etc/NetworkManager/conf.d/50-multicluster-network-mesh.conf",
        "/etc/systemd/network/00-multicluster-network-mesh.network",
        "/etc/systemd/networkd.conf.d/50-multicluster-network-mesh.conf",
    ]
    assert set(paths) <= {change["id"] for change in planned["plan"]["changes"]}
    manager, link, settings = (host.node.run("cat", path) for path in paths)
    assert (
        "unmanaged-devices+=interface-name:wireguard.b\n" in manager
        and "Name=wireguard.b\n" in link
        and "Unmanaged=yes" in link
    )
    assert "ManageForeignRoutes=no" in settings and not host.run(wish())["changed"]
    host.node.run("rm", paths[1])
    assert [change["id"] for change in host.run(wish(), check=True)["plan"]["changes"]] == [paths[1]]
    assert host.run(wish(devices=[]))["changed"] and host.node.run("sh", "-c", find) == ""


def renamed(**change):
    """The same device under the name that a new device_alias, or a new name of the cluster, gives it: with the same port."""
    found = wish(**change)
    found["devices"][0].update(name="wireguard.a", private_key_file="/var/lib/wg/other")
    return found


@pytest.mark.parametrize("name", ["wireguard.a", "wireguard.z"])
def test_a_device_of_another_name_takes_the_port_of_the_former_one(host, name):
    host.run(wish())
    before = host.seen()
    new = renamed(rollback_seconds=600, routes=["10.7.0.0/24", "10.5.0.0/24"])
    new["devices"][0]["name"] = name
    opened = host.run(new)["transaction"]["id"]
    assert "wireguard.b" not in host.node.run("ip", "link") and "10.5.0.0/24 dev " + name in host.node.run(
        "ip", "route"
    )
    assert host.decide(opened, "revert")["outcome"] == "rolled_back"
    assert host.seen() == before
    made = host.run(new)
    assert host.decide(made["transaction"]["id"])["outcome"] == "confirmed"
    assert (
        host.node.run("wg", "show", name, "listen-port") == "51821\n"
        and not host.run(dict(new, rollback_seconds=0))["changed"]
    )
    # and back, without a route that the other one needs
    assert host.run(wish(routes=["10.5.0.0/24"]))["changed"] and not host.run(wish())["changed"]


def test_files_and_folders_of_another_user_are_not_believed(host):
    host.run(wish())
    host.node.run("chown", "-R", "65534", STATE)
    found = host.run(wish())
    assert [(row["object"], row["reason"]) for row in found["refused"]] == [(STATE, "not_ours")]
    assert STATE + "/dataplane.json" in {change["id"] for change in found["plan"]["changes"]}
    assert host.node.run("stat", "-c", "%u", STATE + "/dataplane.json").split() == ["0"]


def test_a_machine_under_two_names_of_the_inventory_is_not_written_to(host):
    """Whichever comes second is refused, also while the change of the first one waits for its confirmation."""
    names = {"hosts": ["a", "b"], "persist": True}
    made = host.run(wish(rollback_seconds=600, node="a", **names))
    other = host.run(wish(node="b", mtu=1300, **names))
    assert not other["changed"] and other["plan"]["changes"] == [] and other["public_keys"] == {}
    (refusal,) = other["refused"]
    assert (refusal["object"], refusal["reason"]) == ("b", "claimed_twice") and "host a of the inventory" in refusal[
        "message"
    ]
    assert host.pending() and host.decide(made["transaction"]["id"])["outcome"] == "confirmed"
    before = host.seen()
    assert host.run(wish(node="b", mtu=1300, **names))["refused"] and host.seen() == before
    assert not host.run(wish(node="a", **names))["changed"]
    renamed = host.run(wish(node="b", hosts=["b"]))
    assert not renamed["refused"], "a host that has another name now is the same host"


def test_a_late_confirmation_reports_how_late_it_was(host):
    host.run(wish())
    made = host.run(wish(rollback_seconds=2, **CHANGED))
    host.settled()
    with pytest.raises(
        FlowFailed, match="it waited 2 s .node_dataplane_rollback_seconds., and the confirmation arrived [0-9]+ s after"
    ):
        host.decide(made["transaction"]["id"])
    made = host.run(wish(rollback_seconds=600, **CHANGED))
    assert host.decide(made["transaction"]["id"])["waited_seconds"] >= 0


def test_a_reboot_in_between_boots_the_confirmed_state(host):
    host.run(wish())
    before = host.seen()
    (unit,) = host.node.run("sh", "-c", "grep ExecStart= /etc/systemd/system/*.service").split("=", 1)[1:]
    host.run(wish(rollback_seconds=600, **CHANGED))
    host.node.run("ip", "link", "del", "wireguard.b")
    host.node.run(sys.executable, "-B", *unit.split()[1:])
    assert host.seen() == before and not host.pending()


def kill_after(host, desired, seconds):
    """Run the flow and end it with SIGKILL; True when it was still running."""
    process = subprocess.Popen(
        host.node.command(sys.executable, "-B", "-c", DRIVER),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=flow_environment(),
        start_new_session=True,
    )
    process.stdin.write(
        json.dumps({"flow": MODULE_UTILS + "_flows.node.dataplane", "arguments": [desired, False]}).encode()
    )
    process.stdin.close()
    time.sleep(seconds)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running


def mesh_wish(**change):
    """One node of a KubeSpan mesh; its peers are only announced."""
    given = dict(
        MESH,
        cluster="c",
        node_name="alpha",
        mac="52:54:00:aa:00:01",
        affiliates=AFFILIATES,
        complete=True,
        cluster_networks=["10.244.0.0/16"],
        pod_cidrs=["10.244.1.0/24"],
        config={"advertiseKubernetesNetworks": True},
        implementation="auto",
        watcher=False,
    )
    desired = {
        "fabric": "mesh",
        "persist": True,
        "max_deletes": -1,
        "rollback_seconds": change.pop("rollback_seconds", 0),
        "devices": [],
    }
    return dict(desired, tables=change.pop("tables", []), kubespan=dict(given, **change))


def other_mesh(rollback_seconds):
    return mesh_wish(
        rollback_seconds=rollback_seconds,
        affiliates=AFFILIATES[:1],
        generation="v1.3",
        config={"advertiseKubernetesNetworks": True, "mtu": 1300},
        mesh_secret="AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        tables=guard("tcp dport 22 drop"),
    )


KILLED = {
    "devices": (wish, lambda seconds: wish(rollback_seconds=seconds, **CHANGED)),
    "kubespan": (mesh_wish, other_mesh),
}


@pytest.mark.parametrize("name", sorted(KILLED))
def test_killed_at_any_moment_it_is_in_the_old_state(host, name):
    """Twenty moments, spread over the time that a whole run takes; after every third one a reboot instead of waiting for the timer.

    The new state needs a confirmation, so it is always the old one.
    """
    good, changed = KILLED[name]
    host.run(good())
    before = host.seen()
    started = time.monotonic()
    host.run(changed(600))
    whole = time.monotonic() - started
    assert host.seen() != before
    host.run(good())
    generator = random.Random(34)
    for number in range(int(os.environ.get("MCN_TRANSACTION_KILLS", "3"))):
        running = kill_after(host, changed(2 if number % 3 < 2 else 600), generator.uniform(0.2, 1.0) * whole)
        killed = time.monotonic()
        if number % 3 == 2:
            host.reboot()
            assert not host.pending()
        host.settled()
        print(
            f"{name} {number}: settled {time.monotonic() - killed:.1f} s after {'a reboot' if number % 3 == 2 else 'the kill'}"
        )
        left = host.run(good())  # spare files of a dead writer are all that may be left
        assert host.seen() == before, (number, running)
        assert {change["kind"] for change in left["plan"]["changes"]} <= {"file"}, left["diff"]


def guard(*rules):
    """A table with one chain of input."""
    return [{"name": "guard", "chains": [{"name": "in", "hook": "input", "rules": list(rules)}], "sets": []}]


def test_a_drop_rule_is_put_back_and_goes_with_the_node(host):
    """Tables given with the node's mesh are part of its change: undone, restored at boot, gone when they are not given any more."""
    host.run(wish())

    def rules():
        return host.node.run("nft", "list", "ruleset")

    assert rules() == ""
    made = host.run(wish(tables=guard("tcp dport 22 drop"), rollback_seconds=2))
    assert {change["kind"] for change in made["plan"]["changes"]} >= {"nftables table"} and "drop" in rules()
    host.settled()
    assert rules() == "" and host.outcome() == "rolled_back"
    good = wish(tables=guard("udp dport 51821 accept"))
    host.run(good)
    before = rules()
    again = host.run(good)
    assert not again["changed"] and "accept" in before and again["stats"]["netlink_writes"] == 0, again["diff"]
    host.run(wish(tables=guard("udp dport 51821 accept", "tcp dport 22 drop"), rollback_seconds=2))
    assert "drop" in rules()
    host.settled()
    assert rules() == before
    host.node.run("nft", "flush", "ruleset")
    (unit,) = host.node.run("sh", "-c", "grep ExecStart= /etc/systemd/system/*.service").split("=", 1)[1:]
    host.node.run(sys.executable, "-B", *unit.split()[1:])
    assert rules() == before
    host.run(wish(rollback_seconds=2))
    assert rules() == ""
    host.settled()
    assert rules() == before
    # also where the node has forgotten what it had
    host.node.run("rm", STATE + "/dataplane.json")
    host.node.run("nft", "add table inet unowned")
    host.run(wish(devices=[]))
    assert rules() == "table inet unowned {\n}\n"


def test_tables_that_are_none_are_refused_before_anything_is_written(host):
    before = host.seen()
    for tables in (
        guard("drop ; add table x"),
        [{"name": "talos_kubespan"}],
        guard() + guard(),
        [{"name": "x", "owner": "y"}],
    ):
        with pytest.raises(FlowFailed):
            host.run(wish(tables=tables))
    host.node.run("nft", "add table inet guard")
    made = host.run(wish(tables=guard("accept")))
    assert [refusal["reason"] for refusal in made["refused"]] == ["adoptable"]
    assert host.node.run("nft", "list", "ruleset") == "table inet guard {\n}\n" and host.seen() != before
