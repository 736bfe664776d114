# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pictures of every page of the documentation as a browser shows it, light and dark, at 375 and 1,280 pixels, and what is wrong with its form.

Usage: pictures.py SITE FOLDER [PAGE...]: SITE has the HTML; PAGE is a name without .html, by default all. A page that is wider than its window, asks for
anything outside of the site, or has a picture that is wider than its column is named, and the exit code is 1 then.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "browser"))

from chromium import Chromium  # pylint: disable=wrong-import-position

WIDTHS = (375, 1280)
#: What reaches beyond the window although nothing around it scrolls.
WIDE = """JSON.stringify([...document.querySelectorAll('.rst-content *')].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || box.right <= innerWidth + 1) return false;
  for (let p = e; p && p !== document.body; p = p.parentElement)
    if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX)) return false;
  return true;
}).slice(0, 3).map(e => e.tagName + ': ' + e.textContent.trim().slice(0, 60)))"""
#: Text with too little difference to what is behind it, by the contrast of WCAG 2 (4.5 is what it asks of text).
FAINT = """JSON.stringify((() => {
  const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const parse = t => (t.match(/[\\d.]+/g) || []).map(Number);
  const behind = e => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0.5) return c; }
    return [255, 255, 255];
  };
  const found = {};
  for (const e of document.querySelectorAll('.rst-content *, .wy-nav-side *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width || !box.height || style.visibility === 'hidden' || style.opacity === '0' || box.width < 3 || e.closest('.sr-only')) continue;
    const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 3) found[e.tagName + '.' + e.className + ' ' + ratio.toFixed(1)] = e.textContent.trim().slice(0, 40);
  }
  return Object.entries(found).slice(0, 4);
})())"""


def main(site: str, folder: str, *names: str) -> int:
    """Write the pictures; 1 where a page is not as it should be."""
    root, out = pathlib.Path(site).resolve(), pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    pages = [root / f"{name}.html" for name in names] or sorted([*root.glob("*.html"), *root.glob("docsite/*.html")])
    wrong = 0
    browser = Chromium()
    try:
        for page in pages:
            for width in WIDTHS:
                for dark in (False, True):
                    with browser.page(page.as_uri(), width, 900, dark) as opened:
                        outside = [url for url in opened.requests() if not url.startswith(root.as_uri())]
                        size = opened.value("document.documentElement.scrollWidth")
                        said = [f"asks for {outside[:2]}"] if outside else []
                        said += [f"is {size} pixels wide"] if size > width else []
                        said += [
                            f"{title}: {text}"
                            for title, text in (("too wide", opened.value(WIDE)), ("faint", opened.value(FAINT)))
                            if text != "[]"
                        ]
                        place = f"{page.relative_to(root).with_suffix('')} at {width}{' dark' if dark else ''}"
                        for text in said:
                            print(f"{place}: {text}", flush=True)
                        wrong += bool(said)
                        opened.picture(str(out / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png"))
    finally:
        browser.close()
    print(f"{len(pages) * 4} pictures in {out}; {wrong} screens of them with something to look at")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
