# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who set a setting of the kernel, and who changes an owned unit: as sysctl.d(5) and systemd.unit(5) read the host's files."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.guard import folder_mode
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import settings


@pytest.fixture(name="host")
def host_fixture(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("etc", "run", "lib")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(settings, "SETTING_FOLDERS", tuple(map(str, folders)))
    monkeypatch.setattr(settings, "SETTING_FILES", (str(tmp_path / "sysctl.conf"),))
    monkeypatch.setattr(settings, "UNIT_FOLDERS", tuple(map(str, folders)))
    return tmp_path


FORWARD = ("net", "ipv4", "ip_forward")


@pytest.mark.parametrize(
    "line, value",
    [
        ("net.ipv4.ip_forward = 0", "0"),
        ("net/ipv4/ip_forward=1", "1"),
        ("-net.ipv4.ip_forward=0", "0"),
        ("net.ipv4.*=0", "0"),
        ("# net.ipv4.ip_forward = 0", None),
        ("; net.ipv4.ip_forward = 0", None),
        ("net.ipv4.ip_forwards = 0", None),
        ("net.ipv4.ip_forward", None),
        ("", None),
        ("=", None),
        ("\0\0 = \u212a", None),
    ],
)
def test_lines_of_settings(host, line, value):
    (host / "etc" / "90-x.conf").write_text(line + "\n", "utf-8")
    assert settings.set_by(*FORWARD) == ([] if value is None else [f"{host}/etc/90-x.conf sets {value}"])


def test_a_device_with_dots_in_its_name(host):
    lines = (
        "net.ipv4.conf.wireguard/gcp.rp_filter = 1",
        "net/ipv4/conf/wireguard.aws/rp_filter = 2",
        "net.ipv4.conf.*.rp_filter = 1",
    )
    (host / "etc" / "a.conf").write_text("\n".join(lines) + "\n")
    assert [
        text.rsplit(" ", 1)[1] for text in settings.set_by("net", "ipv4", "conf", "wireguard.gcp", "rp_filter")
    ] == ["1", "1"]
    assert [
        text.rsplit(" ", 1)[1] for text in settings.set_by("net", "ipv4", "conf", "wireguard.aws", "rp_filter")
    ] == ["2", "1"]
    assert (
        settings.name_of("net", "ipv4", "conf", "wireguard.gcp", "rp_filter") == "net/ipv4/conf/wireguard.gcp/rp_filter"
    )
    assert settings.name_of(*FORWARD) == "net.ipv4.ip_forward"


def test_files_in_the_order_in_which_they_are_applied(host):
    (host / "lib" / "10-a.conf").write_text("net.ipv4.ip_forward = 1\n")
    (host / "lib" / "50-b.conf").write_text("net.ipv4.ip_forward = 1\n")
    (host / "etc" / "50-b.conf").write_text("net.ipv4.ip_forward = 0\n")  # replaces the one below it
    (host / "etc" / "60-no.txt").write_text("net.ipv4.ip_forward = 0\n")
    (host / "sysctl.conf").write_text("net.ipv4.ip_forward = 1\n")
    places = [text.split(" ")[0] for text in settings.set_by(*FORWARD)]
    assert places == [str(host / "lib" / "10-a.conf"), str(host / "etc" / "50-b.conf"), str(host / "sysctl.conf")]


def test_drop_ins_of_a_unit_and_of_its_prefixes(host):
    unit = "multicluster-network-demo.service"
    for folder, name in (
        ("etc/" + unit + ".d", "a.conf"),
        ("run/multicluster-.service.d", "b.conf"),
        ("lib/service.d", "c.conf"),
        ("etc/multicluster-network-other.service.d", "d.conf"),
        ("lib/" + unit + ".d", "readme.txt"),
    ):
        (host / folder).mkdir(parents=True, exist_ok=True)
        (host / folder / name).write_text("[Service]\n")
    found = settings.drop_ins(unit)
    assert [path for path, unused in found] == [
        str(host / "etc" / (unit + ".d") / "a.conf"),
        str(host / "run/multicluster-.service.d/b.conf"),
    ]
    assert all(owner for unused, owner in found) and not settings.drop_ins("other.service")


def test_what_is_not_there_is_none():
    assert settings.read("net", "ipv4", "conf", "no-such-device", "rp_filter") is None
    assert not settings.write(1, "net", "ipv4", "conf", "no-such-device", "rp_filter")


@pytest.mark.parametrize(
    "mode, private, desired",
    [
        (0o700, True, 0o700),
        (0o755, True, 0o700),
        (0o777, True, 0o700),
        (0o755, False, 0o755),
        (0o777, False, 0o755),
        (0o775, False, 0o755),
        (0o1777, False, None),
        (0o2775, False, 0o2755),
        (0o700, False, 0o700),
    ],
)
def test_modes_of_folders(mode, private, desired):
    assert folder_mode(mode, private) == desired
