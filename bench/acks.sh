#!/usr/bin/env bash
# What `--ack buffer`, `memfd` and `media` cost: random writes of 4 KiB by fio over NBD, one after the
# other and 32 at a time, to three servers with a volume of `log` each, by turns. No flushes. Medians of
# BENCH_RUNS runs (5).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
hostftl=$(scripts/cargo.sh where)/hostftl
runs=${BENCH_RUNS:-5}
acks=(buffer memfd media)
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-bench.XXXXXX")
servers=()
finish() {
    [ ${#servers[@]} -eq 0 ] || { kill "${servers[@]}" && wait "${servers[@]}"; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

for ack in "${acks[@]}"; do
    "$hostftl" create "$work/$ack.toml" --device "$work/$ack.img" --size 512M --layer log >/dev/null
    "$hostftl" serve "$work/$ack.toml" --nbd "unix:$work/$ack.sock" --ack "$ack" >"$work/$ack.out" 2>/dev/null &
    servers+=($!)
done
for ack in "${acks[@]}"; do until grep -qs '^ready' "$work/$ack.out"; do sleep 0.1; done; done
for _ in $(seq "$runs"); do
    for depth in 1 32; do
        for ack in "${acks[@]}"; do
            fio --name=f --ioengine=nbd --uri="nbd+unix:///?socket=$work/$ack.sock" --rw=randwrite --bs=4k \
                --iodepth="$depth" --size=256m --norandommap --time_based --runtime="${BENCH_SECONDS:-2}" \
                --output-format=json --output="$work/fio.json" >/dev/null
            awk '/"write" : \{/ { w = 1 } w && /"iops" :/ && !n++ { print int($3) }' "$work/fio.json" \
                >>"$work/$depth.$ack"
        done
    done
done
echo "random writes of 4 KiB a second over NBD, $runs runs by turns: median (lowest–highest)"
for depth in 1 32; do
    for ack in "${acks[@]}"; do
        printf '  QD %-2s %-6s %s\n' "$depth" "$ack" "$(spread <"$work/$depth.$ack")"
    done
done
