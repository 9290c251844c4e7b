#!/usr/bin/env bash
# The verdict of `hostftl advise` beside running everything: cases drawn from a seed (BENCH_SEED; the
# time of day unless given), each asked of advise and of a comparison with more layers and
# parameters. The layer that advise names may not program 3 % more than the best of all, and where
# it does the line says MISSED.
#
#     bench/advise.sh [CASES]     30 unless given: an hour on two cores
set -euo pipefail
cd "$(dirname "$0")/.."

hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
cases=${1:-30}
seed=${BENCH_SEED:-$(date +%s)}
all=none,hard,mhatl,mhatl:leaves=8192,shatl,shatl:hidden=8m,hatl-auto,hatl-auto:budget=2m
all=$all,log,log:separation=rate,log:separation=two,log:gc=greedy:separation=none
all=$all,log:superpage=128k,log:superpage=512k
all=$all,log:superpage=256k:separation=none
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
RANDOM=$seed

# Sets $picked. A subshell would begin a sequence of its own, whatever the seed is.
pick() {
    local list=("$@")
    picked=${list[RANDOM % ${#list[@]}]}
}

echo "seed $seed: verdict, its waf, the best of all and its waf"
missed=0
for _ in $(seq "$cases"); do
    pick uniform zipf hotcold moving mix sequential; load="synth:$picked"
    pick 4k 4k 8k 16k; load+=":size=$picked"
    pick 64m 128m 256m; load+=",span=$picked"
    pick 0 0 20 100; load+=",flush=$picked"
    pick "" "" ,compress=2 ,compress=2.9; load+=",count=60000$picked"
    pick hatl-1g qlc-64k tlc sata-mlc; drive="$picked:capacity=512m"
    pick 40 60 80; fill=$picked
    if ! "$hostftl" --json advise "$load" --load 1TB/day --drive "$drive" --fill "$fill%" --export 70% --seeds 1 \
        >"$work/advice.json" 2>"$work/said" ||
        ! "$hostftl" --json compare "$load" --drive "$drive" --warm "self=$fill%" --export 70% \
            --layers "$all" --csv "$work/rows.csv" >/dev/null 2>"$work/said"; then
        echo "  MISSED: $(grep -v -e '^$' -e 'rows done' "$work/said" | head -1)  $load on $drive, $fill %"
        missed=$((missed + 1))
        continue
    fi
    verdict=$(grep -m1 -o '"verdict": "[^"]*"' "$work/advice.json" | cut -d'"' -f4)
    own=$(grep -m1 -A2 "\"layer\": \"$verdict\"" "$work/advice.json" | grep -o '"waf": [0-9.]*' |
        cut -d' ' -f2)
    line=$(tail -n +2 "$work/rows.csv" | sed "s/^\"[^\"]*\"/workload/" |
        awk -F, -v head="$(head -1 "$work/rows.csv")" -v verdict="$verdict" -v own="$own" '
            BEGIN { n = split(head, names, ","); for (i = 1; i <= n; i++) at[names[i]] = i }
            $at["waf_total"] != "" {
                waf = $at["waf_total"]
                if (best == "" || waf < best) { best = waf; name = $at["layer"] }
            }
            END { printf "%-20s %6.2f  %-24s %6.2f %s", verdict, own, name, best,
                (own == "" || own > 1.03 * best) ? "MISSED" : "" }')
    echo "  $line  $load on $drive, $fill %"
    case $line in *MISSED*) missed=$((missed + 1)) ;; esac
done
echo "$((cases - missed)) of $cases within 3 % of the best"
[ "$missed" = 0 ]
