#!/usr/bin/env bash
# How fast studies are: the timed drive, the clock that counts, ageing, and a whole trace over four
# drives. Five runs each, median (lowest–highest). The bar for the timed drive is 6 M page operations a
# second on a quiet machine; docs/STUDIES.md says what there is, and where the time goes.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
hostftl=$(scripts/cargo.sh where)/hostftl
runs=${BENCH_RUNS:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

echo "studies (mlc-32g, utilisation 0.742, greedy, passthrough, 8 KiB uniform writes, 64 under way,"
echo "one core, by processor time)"
scripts/cargo.sh run --release --quiet -p hostftl-sim --example sim_speed -- "$runs" | sed 's/^/  /'

trace=${HOSTFTL_TRACES:-}/mariadb-oltp.csv.zst
if [ ! -e "$trace" ]; then
    echo "  SKIPPED: the whole trace (HOSTFTL_TRACES names no folder with mariadb-oltp.csv.zst)"
    exit 0
fi
for _ in $(seq "$runs"); do
    from=$(date +%s%N)
    "$hostftl" --json compare "$trace" --compact --layers none --warm steady --threads 2 \
        --drive mlc-32g,qlc-16k,tlc,hatl-32g >"$work/rows.json" 2>/dev/null
    to=$(date +%s%N)
    echo $(((to - from) / 1000000)) | awk '{ print $1 / 1000 }'
done >"$work/seconds"
echo "  trace      $(spread 1 <"$work/seconds") s: mariadb-oltp, whole, × 4 drives, aged, 2 threads"
echo "             $(grep -oE '"(waf_total|conserved)": [^,]*' "$work/rows.json" | xargs)"
