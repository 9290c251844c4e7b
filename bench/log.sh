#!/usr/bin/env bash
# The log array over four files beside RAID 5 over the same files and one file alone, in the same run.
#
# Random: 4 KiB writes that compress by 67 %, 32 under way. Sequential: 1 MiB writes of what does not
# compress, beside what fio writes to all four files at once. No network block device is between.
# BENCH_RUNS runs (5) of BENCH_SECONDS (3) each, in turn: median (lowest–highest).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
runs=${BENCH_RUNS:-5}
seconds=${BENCH_SECONDS:-3}
size=${BENCH_SIZE:-512M}
command -v fio >/dev/null || { echo "log: SKIPPED: needs fio (make setup)"; exit 0; }
scripts/cargo.sh build --release --quiet -p hostftl-io --example array
array=$(scripts/cargo.sh where)/examples/array
work=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/hostftl-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

files=()
for index in 0 1 2 3; do
    files+=("$work/d$index")
    # Holes would be read too fast, and written too slowly.
    fio --name=fill --filename="$work/d$index" --rw=write --bs=1M --size="$size" --end_fsync=1 \
        >/dev/null
done
all=$(IFS=:; echo "${files[*]}")

for _ in $(seq "$runs"); do
    "$array" log random "$seconds" "${files[@]}" >>"$work/log"
    "$array" raid5 random "$seconds" "${files[@]}" >>"$work/raid5"
    "$array" passthrough random "$seconds" "${files[0]}" >>"$work/one"
    "$array" log sequential "$seconds" "${files[@]}" >>"$work/sequential"
    "$array" log random "$seconds" mem:"$size" mem:"$size" mem:"$size" mem:"$size" >>"$work/memory"
    fio --name=raw --filename="$all" --file_service_type=roundrobin:1 --rw=write --bs=64k \
        --iodepth=32 --ioengine=io_uring --direct=1 --time_based --runtime="$seconds" \
        --output-format=terse 2>/dev/null | awk -F';' '{ print 0, 0, $48 / 1e3 * 1.024 }' >>"$work/raw"
done

# column FILE COLUMN DIGITS: the median of a column and its spread.
column() { awk -v c="$2" '{ print $c }' "$work/$1" | spread "$3"; }
median() { column "$1" "$2" 3 | cut -d' ' -f1; }
# times ONE OTHER COLUMN: how much more the first is.
times() { awk -v a="$(median "$1" "$3")" -v b="$(median "$2" "$3")" 'BEGIN { printf "%.2f", a / b }'; }

echo "log array, 3 + 1 files of $size on $(df -T "$work" | awk 'END { print $2 }'), $runs runs of $seconds s"
echo "  random 4 KiB writes/s, 67 % compressible, QD 32"
printf '    %-22s %-28s sent %s MB/s\n' "log, lz4, parity" "$(column log 1 0)" "$(column log 3 0)"
printf '    %-22s %-28s sent %s MB/s\n' "RAID 5" "$(column raid5 1 0)" "$(column raid5 3 0)"
printf '    %-22s %-28s sent %s MB/s\n' "passthrough, one file" "$(column one 1 0)" "$(column one 3 0)"
echo "    log over RAID 5: $(times log raid5 1) (bar 3); over one file: $(times log one 1) (bar 1)"
echo "    on memory, with LZ4, checksums and parity: $(column memory 4 0) a second of processor time (bar 150,000)"
echo "  sequential, incompressible, MB/s"
printf '    %-22s sent %-24s host %s\n' "log, lz4, parity" "$(column sequential 3 0)" \
    "$(column sequential 2 0)"
printf '    %-22s %s\n' "fio on the files" "$(column raw 3 0)"
echo "    sent over raw: $(times sequential raw 3) (bar 0.8)"
echo "  the layer alone, every command over at once, random 4 KiB writes, one core (bar 1 M/s)"
scripts/cargo.sh run --release --quiet -p hostftl-layers --example log_core -- "$runs" | sed 's/^/    /'
