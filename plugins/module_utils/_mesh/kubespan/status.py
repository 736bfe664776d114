# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer statuses for people and for Prometheus (kubespan 8, 22.15)."""

from __future__ import annotations

import typing as t

from .states import DOWN, UNKNOWN, UP, Status

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


def _plain(text: str) -> str:
    """A label came from another node: nothing of it may move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text[:63])


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
