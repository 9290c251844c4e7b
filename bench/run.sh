#!/usr/bin/env bash
# Figures with their spread: five runs each, median (lowest–highest). What is compared with another
# system is measured against it in the same run, because machines differ more than programs do.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
bin=$(scripts/cargo.sh where)
hostftl=$bin/hostftl
runs=${BENCH_RUNS:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

machine() {
    echo "machine   $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)"
    echo "memory    $(awk '/MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)"
    echo "system    $(uname -sr), $(rustc --version 2>/dev/null | cut -d' ' -f1,2)"
    echo "runs      $runs each: median (lowest–highest)"
}

# Prints requests a second of one comparison, and with what results it was bought.
simulate() {
    local layer=$1 requests=1000000
    for _ in $(seq "$runs"); do
        local from to
        from=$(date +%s%N)
        "$hostftl" --json compare "synth:uniform:size=4k,span=64m,count=$requests" \
            --drive hatl-2g --warm new --layers "$layer" --closed-loop 16 >"$work/row.json"
        to=$(date +%s%N)
        echo $((requests * 1000000 / ((to - from) / 1000)))
    done | spread
    echo "   $(grep -oE '"(waf_total|conserved|digest)": [^,]*' "$work/row.json" | xargs)"
}

machine
printf '\nsimulation, requests of 4 KiB a second of real time (drive hatl-2g, closed loop of 16)\n'
for layer in passthrough hard; do
    printf '  %-24s %s\n' "$layer" "$(simulate "$layer")"
done

printf '\ndrive, counts only (16,384 × 256 pages, utilisation 0.742, greedy, uniform writes, one core)\n'
printf '  %-24s %s\n' pool "$(scripts/cargo.sh run --release --quiet -p hostftl-drives \
    --example pool_speed -- "$runs")"

echo
bench/sim.sh

echo
bench/separation.sh

echo
bench/place.sh 2>/dev/null || echo "  SKIPPED: placement in Python (no Python 3.11 with venv, or no PyPI)"

echo
bench/trace.sh

echo
bench/nbd.sh

echo
bench/acks.sh

echo
bench/log.sh
printf '\n'
BENCH_SIZES='16g' BENCH_REAL= bench/start.sh
printf '\n'
bench/hatl.sh
