#!/usr/bin/env bash
# hatl-auto beside the better of mhatl and shatl: the cells of the HATL papers at 2 GiB, and ten
# workloads drawn from a seed (BENCH_SEED; the time of day unless given). Ratios of busy time to the
# drive without a layer. mhatl has twice its share of leaves, hatl-auto the budget of so large a
# part of 32 GiB. What the last column tells may not be more than 1.05.
set -euo pipefail
cd "$(dirname "$0")/.."
hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
seed=${BENCH_SEED:-$(date +%s)}
layers=none,hard,mhatl:leaves=8192,shatl:hidden=8m,hatl-auto:budget=256k
RANDOM=$seed

# Sets $picked. A subshell would begin a sequence of its own, whatever the seed is.
pick() {
    local list=("$@")
    picked=${list[RANDOM % ${#list[@]}]}
}

row() {
    local workload=$1
    shift
    "$hostftl" --json compare "$workload" --drive hatl-2g --warm new --layers $layers "$@" 2>/dev/null |
        grep -o '"busy_ratio": [0-9.]*' | cut -d' ' -f2 | tr '\n' ' ' |
        awk -v work="${workload#synth:}" '{ best = $3 < $4 ? $3 : $4
            printf "  %-62s %6.3f %6.3f %6.3f %6.3f   %5.2f%s\n", work, $2, $3, $4, $5,
                $5 / best, (best * 1.05 < $5) ? "  MISSED" : "" }'
}

echo "busy time                                                          hard  mhatl  shatl   auto    auto/best"
for work in uniform:span=64m uniform:span=256m skew:span=256m,hot=5,share=90 \
    uniform:span={16m,32m,128m,512m,1g}; do
    row "synth:$work,size=4k,count=300000" --closed-loop 16
done
row traces/mariadb-oltp-head.csv.zst --compact
echo "  drawn from seed $seed"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    pick uniform zipf skew moving mix sequential; pattern=$picked
    pick 4k 4k 4k 8k 16k; options="size=$picked"
    pick 16m 64m 128m 256m 512m; options+=",span=$picked"
    pick 0 0 20 100; options+=",flush=$picked"
    pick 2 5 20; options+=",hot=$picked"
    pick 60 80 90; options+=",share=$picked"
    row "synth:$pattern:$options,count=100000" --closed-loop 16
done
