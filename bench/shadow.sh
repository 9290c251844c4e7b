#!/usr/bin/env bash
# The shadow of serve --shadow against full counted studies of the same requests, on drawn workloads
# and on the shipped trace: both write amplifications, those relative to no layer, and the deviations.
# Ends with the number of figures within 5 % (WAF) and 10 % (relative). Twenty minutes on two cores.
#
#     bench/shadow.sh [CASES]      drawn workloads on qlc-64k and on qlc-16k each, 10 unless given
#
# Other workloads are drawn from seed BENCH_SEED on.
set -euo pipefail
cd "$(dirname "$0")/.."

cases=${1:-10}
first=${BENCH_SEED:-1}
trace=${TRACE:-traces/mariadb-oltp-head.csv.zst}
scripts/cargo.sh build --release -q -p hostftl-frontend --example shadow_study
study=$(scripts/cargo.sh where)/examples/shadow_study
out=$(mktemp)
trap 'rm -f "$out"' EXIT

for ((seed = first; seed < first + cases; seed++)); do
    "$study" qlc-64k 0.4 0.7 0 "synth:drawn:seed=$seed,span=4g,count=100000"
    "$study" qlc-16k 0.6 0.8 1 "synth:drawn:seed=$((seed + cases)),span=4g,count=100000"
done | tee "$out"
# A volume as small as this trace's data is modelled as a whole.
"$study" qlc-64k 0.7 0.7 0 "$trace" | tee -a "$out"

awk '/ shadow .* ±/ && / % / && /^ / {
    waf = $(NF - 3) + 0; relative = $(NF - 1) + 0; all++
    if (waf <= 5 && waf >= -5) good++
    if ($1 != "passthrough") { others++; if (relative <= 10 && relative >= -10) close_by++ }
} END {
    printf "within 5 %% of WAF: %d of %d; within 10 %% relative to no layer: %d of %d\n",
        good, all, close_by, others
}' "$out"
