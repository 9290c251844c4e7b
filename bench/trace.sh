#!/usr/bin/env bash
# How fast traces are read: millions of requests for each second of processor time, all threads
# together, in five runs each: median (lowest–highest).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
hostftl=$(scripts/cargo.sh where)/hostftl
runs=${BENCH_RUNS:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-bench-trace.XXXXXX")
trap 'rm -rf "$work"' EXIT
trace=traces/mariadb-oltp-head.csv.zst
rounds=8

scan() { scripts/cargo.sh run --release --quiet -p hostftl-trace --example scan -- "$@"; }

printf 'traces, read: M requests/s of processor time (a database, %s rounds of %s)\n' \
    "$rounds" "$(basename "$trace")"
for kind in csv csv.zst hft hft.zst; do
    "$hostftl" trace convert "$trace:loop=$rounds" "$work/t.$kind" >/dev/null 2>&1
    for _ in $(seq "$runs"); do scan "$work/t.$kind"; done >"$work/paces"
    printf '  %-24s %s   %s requests, %s bytes\n' "$kind" \
        "$(cut -d' ' -f2 "$work/paces" | spread 1)" "$(head -n1 "$work/paces" | cut -d' ' -f1)" \
        "$(stat -c %s "$work/t.$kind")"
done
