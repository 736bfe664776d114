# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our section in Corefiles as they are found: where it listens, where it sends what no rule matches, and that taking it away leaves the same bytes.

What a real CoreDNS makes of the same files is tests/api/test_coredns_wild.py.
"""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_merge as merging
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    owned_blocks,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import example, given, strategies as st

WILD = yaml.safe_load((pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "corefiles.yml").read_text("utf-8"))
WILD["tabs and CR LF"] = dict(
    WILD["kubespray"], corefile=WILD["kubespray"]["corefile"].replace("    ", "\t").replace("\n", "\r\n")
)


def section(text):
    """(the whole, our section's blocks) of a Corefile with the section in it."""
    around = {
        "ports": merging.root_ports(text, "t"),
        "forwards": merging.root_forwards(text, "t"),
        "binds": merging.root_binds(text, "t"),
    }
    options = Options("gcp", ("aws",), "sys-semaphore", **around)
    return merging.merge(text, "t", owned_blocks(options)), owned_blocks(options)


@pytest.mark.parametrize("name", sorted(WILD))
def test_the_section_fits_the_corefile_around_it(name):
    row = WILD[name]
    whole, blocks = section(row["corefile"])
    assert list(merging.root_ports(whole, "t")) == row["ports"] and merging.root_ports(row["corefile"], "t") == tuple(
        row["ports"]
    )
    rewriting, alias = blocks
    expected = ["cluster.aws" if port == "53" else "cluster.aws:" + port for port in row["ports"]]
    assert list(rewriting.zones) == expected and len(alias.zones) == len(row["ports"])
    plugins = [plugin.name for plugin in rewriting.plugins]
    assert "loop" not in plugins and plugins.count("forward") == row["forwards"]
    assert merging.merge(whole, "t", []) == row["corefile"], "not one byte is other when it is taken away"
    assert section(whole)[0] == whole, "the second run changes nothing"


def test_there_are_enough_of_them():
    assert len(WILD) >= 40


@pytest.mark.parametrize(
    "text, lines",
    [
        (
            ".:53 {\n    forward . 10.0.0.2 10.0.0.3 {\n        policy sequential\n        except a.example\n    }\n}\n",
            ["    forward . 10.0.0.2 10.0.0.3 {", "        policy sequential", "        except a.example", "    }"],
        ),
        (
            "(up) {\n    forward . tls://9.9.9.9 {\n        tls_servername dns.example\n    }\n}\n. {\n    import up\n}\n",
            ["    forward . tls://9.9.9.9 {", "        tls_servername dns.example", "    }"],
        ),
        (". {\n    proxy . /etc/resolv.conf\n}\n", ["    proxy . /etc/resolv.conf"]),
        (". {\n    forward corp.example 10.0.0.9\n}\n", []),
        ("corp.example {\n    forward . 10.0.0.9\n}\n. {\n    errors\n}\n", []),
        (". {\n    import /etc/coredns/custom/*.override\n}\n", []),
    ],
)
def test_upstreams_come_with_all_of_their_options(text, lines):
    assert [line for plugin in merging.root_forwards(text, "t") for line in plugin.lines()] == lines


def test_a_circle_of_snippets_ends():
    text = "(a) {\n    import b\n}\n(b) {\n    import a\n    forward . 10.0.0.2\n}\n. {\n    import a\n}\n"
    assert [plugin.arguments for plugin in merging.root_forwards(text, "t")] == [(".", "10.0.0.2")]


@pytest.mark.parametrize(
    "text, ports",
    [
        ("tls://.:853 .:53 {\n}\n", ("53",)),
        (".:53 https://.:443 {\n}\n", ("53",)),
        ("dns://.:1053 {\n}\n", ("1053",)),
        (".:{$DNS_PORT} {\n}\n", ("{$DNS_PORT}",)),
        (".:{$DNS_PORT:1053} {\n}\n", ("{$DNS_PORT:1053}",)),
        (".:{%DNS_PORT%} {\n}\n", ("{%DNS_PORT%}",)),
        (".:053 {\n}\n", ("53",)),
        ("x {\n}\n", ()),
        (". {\n}\n.:1053 {\n}\n", ("53", "1053")),
    ],
)
def test_zones_listen_where_the_root_is_asked_by_plain_dns(text, ports):
    assert merging.root_ports(text, "t") == ports


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (".:53 {\n  bind 127.0.0.1 169.254.20.10\n}\n", ["    bind 127.0.0.1 169.254.20.10"]),
        (
            ".:53 {\n  bind eth0 {\n    except 10.0.0.1\n  }\n}\n",
            ["    bind eth0 {", "        except 10.0.0.1", "    }"],
        ),
        ("(here) {\n  bind lo\n}\n.:53 {\n  import here\n}\n", ["    bind lo"]),
        ("example.org {\n  bind 127.0.0.1\n}\n.:53 {\n}\n", []),
        (".:53 {\n  bind 127.0.0.1\n}\n.:1053 {\n}\n", []),
        (".:53 {\n  bind 127.0.0.1\n}\n.:1053 {\n  bind 127.0.0.2\n}\n", ["    bind 127.0.0.1", "    bind 127.0.0.2"]),
    ],
)
def test_zones_listen_on_the_addresses_of_the_root(text, lines):
    """A server with an address of its own gets what comes to it: zones on all addresses would never be asked."""
    assert [line for plugin in merging.root_binds(text, "t") for line in plugin.lines()] == lines
    options = Options(
        "gcp", ("aws",), "sys-semaphore", binds=merging.root_binds(text, "t"), multicluster="clusterset.local"
    )
    for block in owned_blocks(options):
        assert [line for plugin in block.plugins if plugin.name == "bind" for line in plugin.lines()] == lines


def test_a_root_by_tls_alone_is_refused_by_name():
    with pytest.raises(ValueRefused) as refused:
        merging.root_ports("tls://.:853 {\n}\n", "t")
    assert refused.value.reason == "corefile_broken" and "add .:53" in refused.value.message


WORDS = st.sampled_from(
    [
        ".",
        ".:53",
        "forward",
        "import",
        "(a)",
        "a",
        "{",
        "}",
        "\n",
        "#x\n",
        '"q q"',
        "loop",
        "cluster.local",
        "{$P}",
        ".:{$P}",
        "tls://.:853",
        "x,",
        "\t",
    ]
)


@given(st.lists(WORDS, max_size=25))
@example([".", "{", "\n", "forward", ".", '"', "\n", "}"])
def test_no_text_breaks_the_readers(words):
    text = " ".join(words)
    try:
        merging.server_blocks(text)
    except ValueRefused as error:
        assert error.reason == "corefile_broken"
        return
    try:
        merging.root_forwards(text, "t")
        merging.root_ports(text, "t")
        merging.root_binds(text, "t")
    except ValueRefused as error:
        assert error.reason == "corefile_broken"
