#!/usr/bin/env bash
# The start of a full volume of `log` after a kill, when replay is longest: seconds to the first read's
# answer, and MiB read until the volume is ready.
#
# BENCH_SIZES (16g 128g 1t) as the emitters write them, with the data as holes (`xtask fill`), and
# BENCH_REAL (16g; empty for none) by real writes. BENCH_RUNS runs (3): median (lowest–highest).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
scripts/cargo.sh build --release --quiet -p hostftl-volume --example start
start=$(scripts/cargo.sh where)/examples/start
work=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/hostftl-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

# measure HOW SIZE KIND
measure() {
    : >"$work/rows"
    for _ in $(seq "${BENCH_RUNS:-3}"); do
        "$start" "$1" "$work/v.toml" "$2" "$3" >/dev/null
        "$start" open "$work/v.toml" >>"$work/rows"
        rm -f "$work"/v.*
    done
    local seconds mib
    seconds=$(awk '{ print $1 }' "$work/rows" | spread 2)
    mib=$(awk '{ print $2 }' "$work/rows" | spread 1)
    printf '%-6s %-5s %-7s %22s s %24s MiB read %5s MiB of map\n' "$1" "$2" "$3" "$seconds" "$mib" \
        "$(awk 'NR == 1 { print $4 }' "$work/rows")"
}

for kind in random hot; do
    for size in ${BENCH_SIZES-16g 128g 1t}; do measure fill "$size" "$kind"; done
    for size in ${BENCH_REAL-16g}; do measure write "$size" "$kind"; done
done
