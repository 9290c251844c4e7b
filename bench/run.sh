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
servers=()

cleanup() {
    for server in "${servers[@]}"; do
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

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
            --drive hatl-2g --layers "$layer" --closed-loop 16 >"$work/row.json"
        to=$(date +%s%N)
        echo $((requests * 1000000 / ((to - from) / 1000)))
    done | spread
    echo "   $(grep -oE '"(waf_total|conserved|digest)": [^,]*' "$work/row.json" | xargs)"
}

# Starts a server in the background and waits for its socket.
start() {
    local socket=$1
    shift
    "$@" >"$work/server.log" 2>&1 &
    servers+=($!)
    for _ in $(seq 100); do
        [ -S "$socket" ] && return 0
        sleep 0.1
    done
    echo "bench: $1 did not start:" >&2
    cat "$work/server.log" >&2
    return 1
}

# Random 4 KiB writes a second that the server behind a socket takes.
fio_iops() {
    fio --name=bench --ioengine=nbd "--uri=nbd+unix:///?socket=$1" --rw=randwrite --bs=4k \
        --iodepth="$2" --size=256M --time_based --runtime=4 --output-format=terse \
        --terse-version=3 2>/dev/null | awk -F';' '$1 == 3 { print $49 }'
}

# Alternates between the servers, so that a noisy minute hits all of them.
serve() {
    local depth=$1 name
    for _ in $(seq "$runs"); do
        for name in nbdkit passthrough hard; do
            fio_iops "$work/$name.sock" "$depth" >>"$work/$name.$depth"
        done
    done
    for name in nbdkit passthrough hard; do
        printf '  %-24s %s\n' "$name, QD $depth" "$(spread <"$work/$name.$depth")"
    done
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
bench/trace.sh

printf '\nserver, random 4 KiB writes a second (fio over a unix socket, devices in memory)\n'
if ! command -v fio >/dev/null || ! command -v nbdkit >/dev/null; then
    echo "  SKIPPED: needs fio and nbdkit (make setup)"
    exit 0
fi
start "$work/nbdkit.sock" nbdkit -f -U "$work/nbdkit.sock" memory 320M
for layer in passthrough hard; do
    "$hostftl" create "$work/$layer.toml" --device mem:384M --layer "$layer" >/dev/null
    start "$work/$layer.sock" "$hostftl" serve "$work/$layer.toml" --nbd "unix:$work/$layer.sock"
done
serve 1
serve 32
