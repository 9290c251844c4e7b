#!/usr/bin/env bash
# The table of docs/RESULTS.md: each layer on slices of drives on which the data of the shipped trace
# is 5 % or 30 % of the export, or all of the data. Prints Markdown; with the name of a file, it
# replaces the table there. Takes about half an hour on two cores.
#
#     bench/honest.sh [FILE]
set -euo pipefail
cd "$(dirname "$0")/.."

hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
trace=${TRACE:-traces/mariadb-oltp-head.csv.zst}
drives=${DRIVES:-qlc-64k qlc-16k tlc solidigm-d5-p5316-15t}
layers=${LAYERS:-none,hard,mhatl,shatl,hatl-auto,log}
states=new,self=70%
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rows DRIVE HOT: the rows of one slice; of data that compresses, only those of layers that gain.
rows() {
    local common=(--drive "$1" --hot "$2" --warm "$states" --export 75%)
    "$hostftl" compare "$trace" "${common[@]}" --layers "$layers" \
        --csv "$work/$1.$2.plain.csv" >/dev/null
    "$hostftl" compare "$trace:compress=2.9" "${common[@]}" --layers none,log \
        --csv "$work/$1.$2.compressed.csv" >/dev/null
}

# table: a line for each drive and layer, with a column for each share and state: waf, and the bytes
# programmed relative to no layer, in bold if a layer saves 5 % or more.
table() {
    python3 - "$work" "$drives" <<'PY'
import csv
import pathlib
import sys

folder, drives = pathlib.Path(sys.argv[1]), sys.argv[2].split()
shares = {"5%": "hot 5 %", "30%": "hot 30 %", "70%": "all hot"}
columns = [(hot, state) for hot in shares for state in ("new", "self=70%")]
heads = [f"{shares[hot]}, {state}" for hot, state in columns]
print("| drive | layer |", " | ".join(heads), "|")
print("|---|---|" + "---|" * len(columns))
for drive in drives:
    lines, none = {}, {}
    for data, suffix in (("plain", ""), ("compressed", ", data 2.9:1")):
        for hot, state in columns:
            for row in csv.DictReader(open(folder / f"{drive}.{hot}.{data}.csv")):
                settled = not row["warm"].endswith("(not reached)")
                if row["warm"].split(" ")[0] != state:
                    continue
                waf, is_none = row["waf_total"], row["layer"] == "passthrough"
                if is_none and data == "compressed":
                    continue
                if is_none:
                    none[hot, state] = float(waf)
                name = "no layer" if is_none else f"`{row['layer']}`{suffix}"
                text = f"{float(waf):.2f}" + "?" * (not settled) if waf else "–"
                if waf and not is_none:
                    ratio = float(waf) / none[hot, state]
                    text += f" **×{ratio:.2f}**" if ratio < 0.95 else f" ×{ratio:.2f}"
                lines.setdefault(name, {})[hot, state] = text
    for name, cells in lines.items():
        print(f"| {drive} | {name} |", " | ".join(cells.get(at, "–") for at in columns), "|")
PY
}

for drive in $drives; do
    for hot in 5% 30% 70%; do rows "$drive" "$hot"; done
done
table >"$work/table"

if [ $# = 0 ]; then
    cat "$work/table"
else
    awk -v table="$work/table" '
        /<!-- bench\/honest.sh -->/ { print; print ""; while ((getline line <table) > 0) print line
            print ""; inside = 1; next }
        /<!-- end -->/ { inside = 0 }
        !inside { print }' "$1" >"$work/new"
    cat "$work/new" >"$1"
fi
