#!/usr/bin/env bash
# What placement and the choice of victims do to write amplification: the rules of a quick model beside
# the optimum of rates (BENCH_SEEDS seeds, median and spread), then `log` itself without a drive.
# BENCH_SPARES (15.5 and 26.6): the spare of `log`, in percent.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/cargo.sh run --release --quiet -p hostftl-lab-placement --example placement -- "${BENCH_SEEDS:-3}"
layers=()
for spare in ${BENCH_SPARES:-15.5 26.6}; do
    for rule in "" :gc=declining-cost :separation=rate :gc=declining-cost:separation=rate; do
        layers+=("log:compress=none:spare=$spare$rule")
    done
done
scripts/cargo.sh run --release --quiet -p hostftl-layers --example log_waf -- "${layers[@]}"
