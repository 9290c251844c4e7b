#!/usr/bin/env bash
# The NBD server beside others, in the same run: requests a second, MB/s, and CPU time a request.
#
# fio (its nbd engine, one connection over a unix socket) is the client. `nbdkit null`, which neither
# reads nor writes anything, is the ceiling that client and socket set. Each figure is the median
# (lowest–highest) of BENCH_RUNS runs (5), BENCH_SECONDS (2) each, in turn over all servers, so that a
# noisy minute hits all of them. CPU time is the server's own, user and system.
set -euo pipefail
cd "$(dirname "$0")/.."
hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
runs=${BENCH_RUNS:-5}
seconds=${BENCH_SECONDS:-2}
size=256M
work=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/hostftl-bench.XXXXXX")
declare -A pids=()

cleanup() {
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

# start NAME COMMAND…: a server on $work/NAME.sock, in the background.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    pids[$name]=$!
    for _ in $(seq 100); do
        [ -S "$work/$name.sock" ] && return 0
        sleep 0.1
    done
    echo "bench: $name did not start:" >&2
    cat "$work/$name.log" >&2
    return 1
}

# CPU time that a process has used, in microseconds.
cpu() {
    awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000000 / hz }' "/proc/$1/stat"
}

# measure NAME CASE FIO-ARGUMENTS…: appends what one run came to.
measure() {
    local name=$1 case=$2 before after
    shift 2
    before=$(cpu "${pids[$name]}")
    fio --name=bench --ioengine=nbd "--uri=nbd+unix:///?socket=$work/$name.sock" --size=$size \
        --random_generator=tausworthe64 --norandommap --time_based --runtime="$seconds" "$@" \
        --output-format=json --output="$work/fio.json" >/dev/null 2>&1
    after=$(cpu "${pids[$name]}")
    jq -r --argjson cpu "$((${after%.*} - ${before%.*}))" '.jobs[0] | [.read, .write]
        | map(select(.total_ios > 0))[0]
        | "\(.iops) \(.bw_bytes / 1e6) \($cpu / .total_ios)"' "$work/fio.json" >>"$work/$name.$case"
}

# spread COLUMN DIGITS <FILE: the median and the spread of a column.
spread() {
    awk -v c="$1" '{ print $c }' | sort -g | awk -v digits="$2" '{ v[NR] = $1 } END {
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        f = "%." digits "f"
        printf f " (" f "–" f ")", m, v[1], v[NR] }'
}

# compare TITLE COLUMN FIO-ARGUMENTS…: all servers, in turn.
compare() {
    local title=$1 column=$2 case=${1// /-} name
    shift 2
    printf '\n%s\n' "$title"
    for _ in $(seq "$runs"); do
        for name in "${names[@]}"; do
            measure "$name" "$case" "$@"
        done
    done
    for name in "${names[@]}"; do
        printf '  %-22s %-32s CPU µs/request %s\n' "$name" \
            "$(spread "$column" 0 <"$work/$name.$case")" "$(spread 3 1 <"$work/$name.$case")"
    done
}

for tool in fio nbdkit qemu-nbd jq; do
    command -v "$tool" >/dev/null || { echo "nbd: SKIPPED: needs $tool (make setup)"; exit 0; }
done
echo "NBD server: requests of 4 KiB a second, 128 KiB in MB/s; file: $(df -T "$work" | awk 'END { print $2 }')"
echo "$runs runs of $seconds s each, in turn: median (lowest–highest); load average $(cut -d' ' -f1 /proc/loadavg)"

truncate -s 320M "$work/qemu.img"
fio --name=fill --filename="$work/qemu.img" --rw=write --bs=1M --size=320M --end_fsync=1 >/dev/null
cp "$work/qemu.img" "$work/file.img"
start nbdkit-null nbdkit -f -U "$work/nbdkit-null.sock" null 320M
start nbdkit-memory nbdkit -f -U "$work/nbdkit-memory.sock" memory 320M
start qemu-file qemu-nbd -f raw --cache=none --aio=io_uring -t -e 4 -k "$work/qemu-file.sock" "$work/qemu.img"
for name in passthrough-memory hard-memory passthrough-file; do
    device=mem:384M
    [ $name != passthrough-file ] || device=$work/file.img
    "$hostftl" create "$work/$name.toml" --device "$device" --layer "${name%-*}" --force >/dev/null
    start $name "$hostftl" serve "$work/$name.toml" --nbd "unix:$work/$name.sock"
done
names=(nbdkit-null nbdkit-memory passthrough-memory hard-memory qemu-file passthrough-file)
for name in nbdkit-memory passthrough-memory hard-memory; do
    # Memory that was never written would read too fast.
    fio --name=fill --ioengine=nbd "--uri=nbd+unix:///?socket=$work/$name.sock" --rw=write --bs=1M \
        --size=$size >/dev/null 2>&1
done
for depth in 1 32; do
    compare "random writes, QD $depth" 1 --rw=randwrite --bs=4k --iodepth=$depth
    compare "random reads, QD $depth" 1 --rw=randread --bs=4k --iodepth=$depth
done
compare "sequential writes, 128 KiB, QD 8" 2 --rw=write --bs=128k --iodepth=8
compare "sequential reads, 128 KiB, QD 8" 2 --rw=read --bs=128k --iodepth=8
