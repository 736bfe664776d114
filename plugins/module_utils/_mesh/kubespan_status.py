# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Peer statuses for people and for Prometheus (kubespan 8, 22.15)."""

from __future__ import annotations

import typing as t

from .kubespan_states import DOWN, UNKNOWN, UP, Status

HEADERS = ("PEER", "ENDPOINT", "STATE", "RX", "TX", "HANDSHAKE", "CHANGED")
STATES = (UP, DOWN, UNKNOWN)
_PREFIX = "multicluster_kubespan_peer"


def status_rows(statuses: t.Mapping[str, Status], now: float) -> t.List[t.Dict[str, t.Any]]:
    """One plain map a peer, sorted by label and key; ages in whole seconds, None: never."""
    rows = []
    for key, status in sorted(statuses.items(), key=_label):
        rows.append(
            {
                "public_key": key,
                "label": status.label,
                "endpoint": status.endpoint,
                "state": status.state,
                "rx_bytes": status.rx_bytes,
                "tx_bytes": status.tx_bytes,
                "handshake_age": _age(status.last_handshake, now),
                "last_used_endpoint": status.last_used,
                "endpoint_change_age": _age(status.changed_at, now),
            }
        )
    return rows


def _label(item: t.Tuple[str, Status]) -> t.Tuple[str, str]:
    return item[1].label, item[0]


def _age(moment: t.Optional[float], now: float) -> t.Optional[int]:
    return None if not moment else max(0, int(now - moment))


def status_lines(statuses: t.Mapping[str, Status], now: float) -> t.List[str]:
    """The table that ``verify`` shows: a header and one line a peer."""
    table = [HEADERS]
    for row in status_rows(statuses, now):
        ages = [_shown_age(row["handshake_age"]), _shown_age(row["endpoint_change_age"])]
        name = row["label"] or row["public_key"]
        table.append(
            (_plain(name), row["endpoint"] or "-", row["state"], shown_bytes(row["rx_bytes"]), shown_bytes(row["tx_bytes"]), *ages)
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADERS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]


def _plain(text: str) -> str:
    """A label came from another node: nothing of it may move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text[:63])


def _shown_age(age: t.Optional[int]) -> str:
    return "never" if age is None else "{0}s".format(age)


def shown_bytes(count: int) -> str:
    """A counter as wg shows it."""
    if count < 1024:
        return "{0} B".format(count)
    value, unit = float(count), "B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024:
            break
    return "{0:.2f} {1}".format(value, unit)


def metrics(statuses: t.Mapping[str, Status]) -> str:
    """Text for node-exporter's textfile collector."""
    families: t.List[t.Tuple[str, str, str, t.Callable[[Status], t.Any]]] = [
        ("last_handshake_seconds", "gauge", "Time of the last handshake, 0 for never.", _handshake),
        ("receive_bytes_total", "counter", "Bytes received from the peer.", _rx),
        ("transmit_bytes_total", "counter", "Bytes sent to the peer.", _tx),
    ]
    lines = ["# HELP {0}_state 1 for the state that the peer is in.".format(_PREFIX), "# TYPE {0}_state gauge".format(_PREFIX)]
    ordered = sorted(statuses.items(), key=_label)
    for key, status in ordered:
        for state in STATES:
            lines.append('{0}_state{{{1},state="{2}"}} {3}'.format(_PREFIX, _labels(key, status), state, int(status.state == state)))
    for name, kind, text, value in families:
        lines.append("# HELP {0}_{1} {2}".format(_PREFIX, name, text))
        lines.append("# TYPE {0}_{1} {2}".format(_PREFIX, name, kind))
        lines.extend("{0}_{1}{{{2}}} {3}".format(_PREFIX, name, _labels(key, status), value(status)) for key, status in ordered)
    return "\n".join(lines) + "\n"


def _labels(key: str, status: Status) -> str:
    return 'peer="{0}",public_key="{1}"'.format(_escaped(_plain(status.label)), _escaped(_plain(key)))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _handshake(status: Status) -> float:
    return status.last_handshake or 0


def _rx(status: Status) -> int:
    return status.rx_bytes


def _tx(status: Status) -> int:
    return status.tx_bytes
