#!/usr/bin/env bash
# The table of docs/RESULTS.md: each layer on three drives in four states, and on a slice sixteen times
# as large in three of them, with the losses. Prints Markdown; with the name of a file, puts it
# there between the marks. Takes long: `log` on the large slice most of it.
#
#     bench/honest.sh [FILE]
set -euo pipefail
cd "$(dirname "$0")/.."

hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
trace=traces/mariadb-oltp-head.csv.zst
drives=${DRIVES:-hatl-2g,qlc-64k:capacity=2g,tlc:capacity=2g}
layers=${LAYERS:-none,hard,mhatl,shatl,hatl-auto,log}
large=${LARGE:-qlc-64k}
large_layers=none,shatl,hatl-auto,log
states=new,fill=70%,steady,self=70%
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compare TRACE DRIVES LAYERS STATES FILE: adds rows to a file.
compare() {
    "$hostftl" compare "$1" --compact --drive "$2" --layers "$3" --warm "$4" \
        --csv "$work/rows" >/dev/null
    cat "$work/rows" >>"$work/$5"
    rm "$work/rows"
}

# Random overwrites of all of a large slice take longer than all else together: that state is left
# out there.
compare "$trace" "$drives" "$layers" "$states" plain.csv
compare "$trace" "$large" "$large_layers" "${states/steady,/}" plain.csv
# The same with data that compresses as a database's does: only a layer that compresses gains.
compare "$trace:compress=2.9" "$drives" none,log "$states" compressed.csv
compare "$trace:compress=2.9" "$large" none,log "${states/steady,/}" compressed.csv

# A line for each drive and layer, a column for each state: waf, and the drive's work relative to no
# layer; bold where that is less by 5 % or more.
lines() {
    awk -F, -v states="$states" -v note="$2" -v skip="$3" '
        $2 == "drive" { delete at; for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["layer"] == skip { next }
        {
            key = $at["drive"] "|" $at["layer"]
            if (!(key in seen)) { seen[key] = 1; order[++count] = key }
            state = $at["warm"]
            mark = sub(/ \(not reached\)$/, "", state) ? "?" : ""
            waf = $at["waf_total"]
            ratio = $at["busy_ratio"]
            text = waf == "" ? "–" : sprintf("%.2f%s", waf, mark)
            if (waf != "" && ratio != "" && $at["layer"] != "passthrough")
                text = text sprintf(ratio < 0.95 ? " **×%.2f**" : " ×%.2f", ratio)
            cell[key, state] = text
        }
        END {
            n = split(states, all, ",")
            for (i = 1; i <= count; i++) {
                split(order[i], name, "|")
                layer = name[2] == "passthrough" ? "no layer" : "`" name[2] "`"
                line = "| " name[1] " | " layer note " |"
                for (s = 1; s <= n; s++) {
                    text = cell[order[i], all[s]]
                    line = line " " (text == "" ? "·" : text) " |"
                }
                print line
            }
        }' "$work/$1"
}

{
    echo "| drive | layer | ${states//,/ | } |"
    echo "|---|---|---|---|---|---|"
    { lines plain.csv "" ""; lines compressed.csv ", data 2.9:1" passthrough; } | sort -s -t'|' -k2,2
} >"$work/table"

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
