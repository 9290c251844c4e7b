#!/usr/bin/env bash
# Whether layers pay on aged drives: each bar beside what was measured, no layer in the same run and
# with the same export. A line ends with MISSED where a bar is not met, and so does the script then,
# with exit code 1. On two cores hot takes half a minute, drive 5 minutes, stack and database one;
# auto one and a half hours.
#
#     bench/pays.sh [PART…]     hot, drawn, drive, stack, database, auto; all unless given
#
# `drawn` takes CASES (50) drawn workloads, each on a drive, with a share of hot data and a fill that
# BENCH_SEED (1) determines: about half a minute each. SLICE=32g is how much of a drive is modelled in `drive` and `database`, TRACE the database's trace,
# BENCH_SEEDS=1 the seeds, of which the means are shown.
set -euo pipefail
cd "$(dirname "$0")/.."

hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
trace=${TRACE:-traces/mariadb-oltp-head.csv.zst}
slice=${SLICE:-32g}
seeds=${BENCH_SEEDS:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=$work/missed

# rows ARGUMENTS…: a comparison; a line for each row: layer, state, then waf of the layer, of the
# drive and of both, busy time relative to no layer, requests/s, p99 of writes in ns. Where a row
# can't be, "–" stands for its figures.
rows() {
    # No row at all, or a broken law of conservation.
    if ! "$hostftl" compare "$@" --seeds "$seeds" --csv "$work/rows.csv" >"$work/said" 2>&1; then
        cat "$work/said" >&2
        exit 2
    fi
    python3 - "$work/rows.csv" <<'PY'
import collections, csv, sys
names = "waf_layer waf_drive waf_total busy_ratio iops write_p99_ns".split()
found = collections.OrderedDict()
for row in csv.DictReader(open(sys.argv[1])):
    state = row["warm"].split(" ")[0].split("=")[0] + "?" * row["warm"].endswith("(not reached)")
    found.setdefault((row["layer"], state), []).append(row)
for (layer, state), rows in found.items():
    figures = [[float(row[name]) for row in rows if row[name]] for name in names]
    print(layer, state, *(sum(all) / len(all) if all else "–" for all in figures))
PY
    rm -f "$work/rows.csv"
}

# bar WHAT FIGURE most|least BAR
bar() {
    local said
    said=$(awk -v what="$1" -v figure="$2" -v kind="$3" -v bar="$4" 'BEGIN {
        if (figure == "–") { printf "  %-64s %8s   bar %s %s  NOT MADE", what, "–", kind, bar; exit }
        bad = kind == "most" ? figure > bar + 5e-4 : figure < bar - 5e-4
        printf "  %-64s %8.3f   bar %s %s%s", what, figure, kind, bar, bad ? "  MISSED" : "" }')
    echo "$said"
    case $said in *MISSED | *"NOT MADE") echo "$1" >>"$missed" ;; esac
}

# What the drive programs for each byte that log sends it.
drive() {
    echo "the drive under log, $slice: waf of the drive alone"
    local name ids layer state rest figure
    for name in hatl-32g mlc-32g qlc-16k qlc-64k sata-mlc tlc; do
        for ids in 1 8; do
            rows "$trace" --compact --drive "$name:capacity=$slice:placements=$ids" \
                --layers none,log --warm "fill=70%,self=70%" >"$work/rows"
            while read -r layer state _ figure rest; do
                [ "$layer" = log ] || continue
                bar "$name, $ids placement ids, $state" "$figure" most "$([ $ids = 1 ] && echo 1.2 || echo 1.05)"
            done <"$work/rows"
        done
    done
}

# A drive whose data is all in use, without placement ids, on a slice with 512 reclaim units.
hot() {
    local drive=qlc-64k:capacity=2g:pages=8 total waf rate
    echo "$drive, $trace on 70 % of it, aged by itself, export 75 %: log"
    rows "$trace" --compact --drive "$drive" --layers none,log --warm self=70% --export 75% \
        --closed-loop 32 >"$work/rows"
    read -r waf total rate < <(awk '
        $1 == "passthrough" { rate = $7 }
        $1 == "log" { print $4, $5, $7 == "–" ? "–" : $7 / rate }' "$work/rows")
    bar "waf of the drive" "$waf" most 1.10
    bar "waf of the whole stack" "$total" most 1.75
    bar "requests/s relative to no layer" "$rate" least 1.0
}

# Drawn workloads on slices with 512 reclaim units: how many the drive copies little of, and on how
# many the rule of docs/RESULTS.md names the side that programs less, or both are within 3 %.
drawn() {
    local cases=${CASES:-50} seed=${BENCH_SEED:-1} number case few=0 right=0
    echo "drawn workloads without placement ids, export 75 %, aged by themselves: log"
    for number in $(seq "$seed" $((seed + cases - 1))); do
        RANDOM=$number
        pick qlc-64k qlc-16k tlc solidigm-d5-p5316-15t; local drive=$picked
        pick 50 70 90; local fill=$picked
        pick 5 30 "$fill"; local hot=$picked
        local slice=1024
        case $drive in qlc-64k | solidigm-*) slice=4096 ;; esac
        local span=$((slice * 3 / 4 * hot / 100))
        rows "synth:drawn:seed=$number,span=$((span < 16 ? 16 : span))m,count=300000" \
            --drive "$drive" --hot "$hot%" --warm "self=$fill%" --export 75% --layers none,log \
            --closed-loop 32 >"$work/rows"
        case=$(awk -v hot="$hot" -v fill="$fill" '
            $1 == "passthrough" { none = $5; rate = $7 }
            $1 == "log" && $5 != "–" {
                limit = hot == 5 ? 1.15 : fill < 70 ? 1.3 : fill < 90 ? 1.4 : 1.6
                near = $5 / none < 1.03 && $5 / none > 0.97
                right = near || (none > limit) == ($5 < none)
                printf "%d %d drive %.2f, total %.2f of %.2f, requests/s x%.2f", $4 <= 1.15,
                    right, $4, $5, none, $7 / rate
            }' "$work/rows")
        case=${case:-0 0 log cannot have this export}
        few=$((few + ${case:0:1})) right=$((right + ${case:2:1}))
        echo "  seed $number on $drive, $hot % hot, fill $fill %: ${case:4}"
    done
    bar "share of the cases with a waf of the drive of at most 1.15" \
        "$(awk "BEGIN { print $few / $cases }")" least 0.95
    bar "share of the cases in which the rule is right" \
        "$(awk "BEGIN { print $right / $cases }")" least 0.95
}

# Sets $picked. A subshell would start a sequence of its own, whatever the seed is.
pick() {
    local list=("$@")
    picked=${list[RANDOM % ${#list[@]}]}
}

# Random overwrites of all that is exported, with much spare.
stack() {
    echo "qlc-64k, uniform 4 KiB, steady, spare 30 %: waf of the whole stack"
    local size span most layer state total rest
    while read -r size span most; do
        rows "synth:uniform:size=4k,span=$span,count=600000" --drive "qlc-64k:capacity=$size" \
            --layers none,log:compress=none:spare=30 --warm steady --export 62% --closed-loop 32 \
            >"$work/rows"
        while read -r layer state _ _ total rest; do
            [ "$layer" = passthrough ] && echo "  $size, no layer: $total" && continue
            bar "$size" "$total" most "$most"
        done <"$work/rows"
    done <<<"4g 2g 3.3
32g 16g 2.4"
}

# A database on a drive that is 70 % full and was aged by the database itself.
database() {
    echo "qlc-64k, $slice, $trace at fill=70 %, aged by itself: log relative to no layer"
    local ratio most
    while read -r ratio most; do
        rows "$trace:compress=$ratio" --compact --drive "qlc-64k:capacity=$slice" --layers none,log \
            --warm self=70% --closed-loop 32 >"$work/rows"
        read -r waf rate p99 busy < <(awk '
            $1 == "passthrough" { waf = $5; rate = $7; p99 = $8 }
            $1 == "log" && $5 == "–" { print "– – – –" }
            $1 == "log" && $5 != "–" { print $5 / waf, $7 / rate, $8 / p99, $6 }' "$work/rows")
        bar "data $ratio:1, waf of the whole stack" "$waf" most "$most"
        bar "data $ratio:1, requests/s" "$rate" least 1.0
        bar "data $ratio:1, p99 of writes" "$p99" most 1.5
        bar "data $ratio:1, time of the dies" "$busy" most 1.0
    done <<<"1 0.8
2.9 0.35"
}

# hatl-auto beside the better of no layer and its family, by the drive's work. Of 512 MiB the models
# of QLC erase an eighth at once: such a slice says more of that than of the layers.
auto() {
    echo "hatl-auto relative to the better of none, hard, mhatl and shatl: time of the drive"
    local name load state busy
    for name in hatl-1g qlc-64k qlc-16k tlc; do
        for load in uniform:span={128m,512m,2g} zipf:span={512m,2g} skew:span=2g,hot={2,5},share=90 \
            hotcold:span=1g moving:span=1g mix:span=1g sequential:span=1g uniform:span=512m,flush=20; do
            rows "synth:$load,size=4k,count=300000" --drive "$name:capacity=4g" --export 70% \
                --layers none,hard,mhatl,shatl,hatl-auto --warm "new,fill=70%,steady,self=70%" \
                --closed-loop 16 >"$work/rows"
            while read -r state busy; do
                bar "$name, $load, $state" "$busy" most 1.05
            done < <(awk '
                $1 == "hatl-auto" { own[$2] = $6; next }
                $6 == "–" { next }
                !($2 in best) || $6 < best[$2] { best[$2] = $6 }
                END { for (state in own) print state, own[state] == "–" ? "–" : own[state] / best[state] }' "$work/rows")
        done
    done
}

[ $# -gt 0 ] || set -- hot drawn drive stack database auto
for part in "$@"; do
    case $part in
    hot | drawn | drive | stack | database | auto) $part ;;
    *) echo "pays: there are: hot, drawn, drive, stack, database, auto" >&2; exit 2 ;;
    esac
done
[ ! -s "$missed" ] || { echo "$(wc -l <"$missed") bars are missed"; exit 1; }
