#!/usr/bin/env python3
"""Looks at pages in a browser, as on a desk and on a phone: look.py [--shots FOLDER] PAGE…

Each page must hold what checks.js says, be silent on the console, ask nobody for anything, and sort its
tables by a click. Then each check is tried on a page that is broken on purpose: a check that finds
nothing there is a failure too. Exit code 77: there is no browser.
"""

import argparse
import base64
import pathlib
import re
import sys
import tempfile

import devtools

WIDTHS = [1400, 400]
SCHEMES = ["light", "dark"]
HEIGHT = 900
CHECKS = (pathlib.Path(__file__).parent / "checks.js").read_text()

# The cells of each table that can be sorted, and where its heads are.
TABLES = """[...document.querySelectorAll("table")].map((table) => ({
    heads: [...table.querySelectorAll("th")].map((head) => head.textContent),
    rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
}))"""
# Brings a head into view and says where its middle is.
HEAD = """(() => {
    const head = document.querySelectorAll("table")[%d].querySelectorAll("th")[%d];
    head.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = (head.firstElementChild ?? head).getBoundingClientRect();
    return [box.left + Math.min(box.width, 20) / 2, box.top + box.height / 2];
})()"""
# Whether the page is scrolled sideways while its details are folded.
OVERFLOW = """document.documentElement.scrollWidth > document.documentElement.clientWidth
    ? [["overflow", "with folded details"]] : []"""
# Sizes and times, in bytes and in seconds.
UNITS = {
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "GB": 1e9, "TB": 1e12,
    "ns": 1e-9, "µs": 1e-6, "ms": 1e-3,
}
# A page is broken on purpose so that this check must find it: what is looked for, what takes its place.
PLANTED = [
    ("overflow", "</h1>", "</h1><div style='width:1500px'>wide</div>"),
    ("clipped", "</style>", "figcaption { width: 3em; overflow: hidden; white-space: nowrap }</style>"),
    ("clipped", "</style>", "h2 { width: 2000px }</style>"),
    ("squeezed", "</style>", "td { display: block; min-width: 0 !important; width: 1rem; overflow-wrap: anywhere; white-space: normal }</style>"),
    ("cut", "</figcaption>", " and mo…</figcaption>"),
    ("outside", r"</svg>\n", "<text x='420' y='20'>far to the right</text></svg>\n"),
    ("overlap", r"</svg>\n", "<text x='50' y='50'>one</text><text x='52' y='52'>two</text></svg>\n"),
    ("colour", r'(<ul class="legend">.*?class=")[fs]\d', r"\1f7"),
    ("colour", r'(role="img".*?<rect class=")f\d', r"\1f7"),
    ("colour", r"--c1: #d55e00;", "--c1: #0072b2;"),
    ("sort", r"table\.tBodies\[0\]\.append\(\.\.\.rows\);", ""),
    ("sort", r"sign \* \(a - b\)", "one.localeCompare(other)"),
    ("console", "</body>", "<script>nobody()</script></body>"),
    ("console", "</body>", "<script>console.error('no')</script></body>"),
    ("request", "</body>", "<img src='http://127.0.0.1:9/a.png'></body>"),
    ("request", "</body>", "<script>fetch('https://example.org').catch(() => 0)</script></body>"),
]


def number(cell):
    """What a cell is worth, or None of one without a number."""
    found = re.match(r"[×+]?(-?[\d,]*\.?\d+)\s*([^\W\d]*)", cell.strip())
    return found and float(found[1].replace(",", "")) * UNITS.get(found[2], 1)


def in_order(cells, falling):
    """Whether numbers, without those cells that say nothing, come in this order."""
    values = [number(cell) for cell in cells if number(cell) is not None]
    return values == sorted(values, reverse=falling)


def unsorted(browser):
    """What is wrong with sorting: the columns of figures of each table, twice clicked."""
    faults = []
    for at, table in enumerate(browser.run(TABLES)):
        for column, head in enumerate(table["heads"]):
            cells = [row[column] for row in table["rows"]]
            worth = {number(cell) for cell in cells}
            if len(worth - {None}) < 2 or not all(c in ("", "–") or number(c) is not None for c in cells):
                continue
            for falling in [False, True]:
                browser.click(*browser.run(HEAD % (at, column)))
                rows = browser.run(TABLES)[at]["rows"]
                cells = [row[column] for row in rows]
                if not in_order(cells, falling) or sorted(rows) != sorted(table["rows"]):
                    faults.append(["sort", f"by {head}: {cells}"])
            break
    return faults


def noise(browser, url):
    """What the page said on the console, and whom it asked."""
    faults = []
    for event in browser.events:
        told, method = event.get("params", {}), event.get("method")
        if method == "Runtime.exceptionThrown":
            faults.append(["console", told["exceptionDetails"]["text"]])
        elif method == "Runtime.consoleAPICalled":
            faults.append(["console", str([it.get("value") for it in told["args"]])])
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            faults.append(["console", told["entry"]["text"]])
        elif method == "Network.requestWillBeSent" and told["request"]["url"] != url:
            faults.append(["request", told["request"]["url"]])
    return faults


def capture(browser, width, shots, stem):
    """Writes a picture of the page at a width for each colour scheme."""
    for scheme in SCHEMES:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.call("Emulation.setEmulatedMedia", features=[feature])
        size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
        told = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path = shots / f"{stem}-{width}-{scheme}.png"
        path.write_bytes(base64.b64decode(told["data"]))
    browser.call("Emulation.setEmulatedMedia", features=[])


def look(browser, page, width, shots=None):
    """Returns the faults of a page at a width, first with folded and then with opened details."""
    url = page.resolve().as_uri()
    browser.show(url, width, HEIGHT)
    if shots:
        capture(browser, width, shots, page.stem)
    faults = browser.run(OVERFLOW)
    browser.run("for (const it of document.querySelectorAll('details')) it.open = true")
    faults += browser.run(CHECKS)
    if shots:
        capture(browser, width, shots, f"{page.stem}-open")
    return faults + unsorted(browser) + noise(browser, url)


def planted(browser, page, folder):
    """The planted faults that nobody found."""
    text, missed = page.read_text(), []
    for index, (check, wanted, instead) in enumerate(PLANTED):
        broken, count = re.subn(wanted, instead, text, count=1, flags=re.DOTALL)
        path = pathlib.Path(folder) / f"{index}.html"
        path.write_text(broken)
        if count == 0 or check not in {fault[0] for fault in look(browser, path, 400)}:
            missed.append(f"{check}: {wanted} → {instead}")
    return missed


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--shots", type=pathlib.Path)
    args.add_argument("pages", type=pathlib.Path, nargs="+")
    args = args.parse_args()
    path = devtools.find()
    if path is None:
        sys.exit(77)
    bad = 0
    with devtools.Browser(path) as browser, tempfile.TemporaryDirectory() as folder:
        for page in args.pages:
            for width in WIDTHS:
                for check, what in look(browser, page, width, args.shots):
                    bad += 1
                    print(f"{page.name} at {width} px: {check}: {what}")
        for missed in planted(browser, args.pages[0], folder):
            bad += 1
            print(f"a planted fault was not found: {missed}")
    print(f"{len(args.pages)} pages at {' and '.join(map(str, WIDTHS))} px, "
          f"{len(PLANTED)} planted faults")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
