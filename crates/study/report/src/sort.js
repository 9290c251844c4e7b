// Sorting: a click on a head sorts its table by that column, a second click the other way round.
// Without this script the page shows the same, in the order in which it was written.
"use strict";
(() => {
  // What a unit is worth; units of one column are of one kind.
  const UNITS = {
    "": 1, "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "TiB": 2 ** 40, "PiB": 2 ** 50,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "k": 1e3, "M": 1e6, "G": 1e9,
    "ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400,
    "%": 1, "J": 1, "mJ": 1e-3, "times": 1,
  };

  // The number that a cell begins with, in its unit; nothing where it begins with none.
  const number = (text) => {
    const found = /^[×+]?(-?\d[\d,]*(?:\.\d+)?)\s*([^\d\s(,;]*)/.exec(text.trim());
    if (!found) return null;
    return Number(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1);
  };

  // Numbers before words, and what says nothing always last.
  const compare = (one, other, sign) => {
    const empty = (text) => text === "" || text === "–";
    if (empty(one) || empty(other)) return empty(one) - empty(other);
    const [a, b] = [number(one), number(other)];
    if (a !== null && b !== null) return sign * (a - b);
    if (a !== null || b !== null) return (a === null) - (b === null);
    return sign * one.localeCompare(other);
  };

  const sort = (table, head) => {
    const heads = [...head.parentElement.children];
    const column = heads.indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const text = (row) => row.children[column].textContent;
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => compare(text(one), text(other), up ? 1 : -1));
    table.tBodies[0].append(...rows);
  };

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    for (const head of table.querySelectorAll("th")) {
      if (head.textContent === "") continue;
      const button = document.createElement("button");
      button.append(...head.childNodes);
      button.title = "Sort by this column";
      button.addEventListener("click", () => sort(table, head));
      head.append(button);
    }
  }

  // On paper nothing is hidden.
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
})();
