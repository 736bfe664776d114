# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes docs/docsite/rst/images/key_rotation.svg: the states of a pair of nodes while a key changes. Run: tests/run rotation_picture."""

from __future__ import annotations

import pathlib

PICTURE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst" / "images" / "key_rotation.svg"
#: (state, what sends, what the device has, what the bypass device has); what receives is drawn, what sends is bold.
STATES = (
    ("1 as ever", "device", "old key", ""),
    ("2 prepared", "device", "old key", "old key too, handshakes"),
    ("3 aside", "bypass", "old key, receives", "sends and receives"),
    ("4 renewed", "bypass", "new key, handshakes", "sends and receives"),
    ("5 back", "device", "new key", "receives, drains"),
)
STEPS = ("prepare", "aside", "renew", "back", "done: as ever, with the new key")
_WIDTH, _ROW, _TOP = 820, 74, 54


def svg() -> str:
    """The picture."""
    height = _TOP + _ROW * len(STATES) + 12
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        'font-family="DejaVu Sans, Arial, sans-serif" font-size="13">',
        "<title>The five states of a pair of nodes while a key changes</title>",
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        '<path d="M0 0 10 5 0 10z" fill="#0a6e4f"/></marker></defs>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="150" y="30" font-weight="bold" fill="#37474f">aws-node-1</text>',
        '<text x="690" y="30" text-anchor="end" font-weight="bold" fill="#37474f">gcp-node-1</text>',
    ]
    for number, (state, sends, device, bypass) in enumerate(STATES):
        top = _TOP + _ROW * number
        rows.append(f'<text x="14" y="{top + 24}" font-weight="bold">{state}</text>')
        rows.append(f'<text x="14" y="{top + 46}" font-size="11" fill="#666">then {STEPS[number].split(":")[0]}</text>')
        rows += _tunnel(top, "wireguard.gcp", "wireguard.aws", device, sends == "device", "#2b6cb0", "#e7f0fd")
        if bypass:
            rows += _tunnel(top + 32, "wg-rotate.gcp", "wg-rotate.aws", bypass, sends == "bypass", "#b7791f", "#fff6dd")
    return "\n".join([*rows, "</svg>", ""])


def _tunnel(top: int, left: str, right: str, text: str, sends: bool, line: str, fill: str) -> list[str]:
    mono = 'font-family="DejaVu Sans Mono, monospace" font-size="11.5"'
    rows = []
    for x, name in ((150, left), (560, right)):
        rows.append(
            f'<rect x="{x}" y="{top}" width="130" height="28" rx="6" fill="{fill}" stroke="{line}" stroke-width="1.5"/>'
        )
        rows.append(f'<text x="{x + 65}" y="{top + 18}" text-anchor="middle" {mono}>{name}</text>')
    style = (
        'stroke="#0a6e4f" stroke-width="4" marker-start="url(#a)" marker-end="url(#a)"'
        if sends
        else 'stroke="#9aa5b1" stroke-width="1.5" stroke-dasharray="5 4"'
    )
    rows.append(f'<line x1="284" y1="{top + 14}" x2="556" y2="{top + 14}" {style}/>')
    rows.append(f'<text x="420" y="{top + 10}" text-anchor="middle" font-size="11">{text}</text>')
    return rows


def main() -> None:
    """Write it."""
    PICTURE.write_text(svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
