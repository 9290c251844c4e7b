#!/usr/bin/env bash
# What operating a `log` volume costs, goal by goal of docs/OPERATING.md: four files as devices, data
# that does not pack, BENCH_RUNS runs (5) with BENCH_SIZE (1G) of each device. Each line is a figure of
# ours: median (lowest–highest). What mdadm and vendors say of theirs stands beside it, as published.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
source bench/volume.sh
size=${BENCH_SIZE:-1G}

# fill PERCENT: a volume of which so much is filled.
fill() {
    local bytes
    volume "$size"
    serve
    bytes=$(of .exported_bytes)
    load --rw=write --bs=256k --iodepth=8 --size=$((bytes / 100 * $1 / 1048576))M --end_fsync=1 >/dev/null
    end TERM
}

# heal: puts a new device in the place of one, and serves until nothing is exposed: seconds, bytes
# that were live where a chunk was missing, bytes sent and read for it.
heal() {
    "$hostftl" device replace "$work/v.toml" 1 "$work/new" >/dev/null
    rm -f "$work/d1"
    serve "$@"
    local begun exposed
    begun=$(date +%s.%N)
    exposed=$(of .space.degraded_bytes)
    # A question every few milliseconds would take a core from the rebuild.
    "$hostftl" wait "$work/v.toml" >/dev/null
    echo "$begun $(date +%s.%N) $exposed $(of .traffic.device_write_bytes.total) $(of '[.devices[].read_bytes] | add')" |
        awk '{ print $2 - $1, $3, $4, $5 }'
}

# raw ARGUMENTS…: what fio says of four files like those of the volume.
raw() {
    fio --name=raw --directory="$work" --size=256M --iodepth=8 --ioengine=io_uring --direct=1 --numjobs=4 \
        --group_reporting --output-format=json --end_fsync=1 "$@" | sed -n '/^{/,$p'
}

# 1 and 3: what is moved, and how fast. Beside each rebuild what fio reads in the mix of a rebuild: three
# chunks are read for each that is written.
full() {
    fill 60
    heal >>"$work/full"
    end TERM
    raw --rw=rw --rwmixread=75 --bs=64k | jq '.jobs[0].read.bw_bytes / 1e6' >>"$work/mix"
    rm -f "$work"/raw.*
}
few() {
    fill 6
    heal >>"$work/few"
    end TERM
}
each full
each few
awk '{ print $3 / ($2 * 4 / 3) }' "$work/full" | spread 2 >"$work/sent"
awk '{ print $4 / $2 }' "$work/full" | spread 2 >"$work/read"
echo "1. bytes sent for each live byte with its parity   $(cat "$work/sent")   goal 1.05; read $(cat "$work/read")"
paste <(awk '{ print $1 }' "$work/few") <(awk '{ print $1 }' "$work/full") |
    awk '{ print 100 * $1 / $2 }' | spread 0 >"$work/share"
echo "1. a tenth of the data takes % of the time          $(cat "$work/share")   goal 12"
awk '{ print $2 / $1 / 1e6 }' "$work/full" | spread 0 >"$work/rate"
raw --rw=write --bs=256k | jq '.jobs[0].write.bw_bytes / 1e6' | spread 0 >"$work/raw"
paste "$work/full" "$work/mix" | awk '{ print $4 / $1 / 1e6 / $5 }' | spread 2 >"$work/ofmix"
rm -f "$work"/raw.*
echo "3. live MB/s made anew, idle                        $(cat "$work/rate")   fio writes $(cat "$work/raw") to such files,"
echo "3. read for that, of what fio reads in the same mix  $(cat "$work/ofmix")   goal 0.8; fio: $(spread 0 <"$work/mix") MB/s"
echo "   published for one 61 TB drive: mdraid idle 315 MB/s (53 h 40), xiRAID idle 3,150 MB/s (5 h 22)"

# 4: beside a host.
beside() {
    fill 60
    serve
    load --rw=randwrite --bs=4k --iodepth=4 --size=64M --time_based --runtime=5 --rate_iops=2000 |
        jq '.jobs[0].write.clat_ns.percentile["99.000000"]' >"$work/quiet"
    "$hostftl" device replace "$work/v.toml" 1 "$work/new" >/dev/null
    local before
    before=$(of .space.degraded_bytes)
    load --rw=randwrite --bs=4k --iodepth=4 --size=64M --time_based --runtime=5 --rate_iops=2000 |
        jq '.jobs[0].write.clat_ns.percentile["99.000000"]' >"$work/busy"
    echo "$(cat "$work/quiet" "$work/busy" | tr '\n' ' ') $(((before - $(of .space.degraded_bytes)) / 5))" >>"$work/beside"
    end TERM
}
each beside
awk '{ print $2 / $1 }' "$work/beside" | spread 2 >"$work/p99"
awk '{ print $3 / 1e6 }' "$work/beside" | spread 0 >"$work/busyrate"
echo "4. live MB/s made anew beside 2,000 writes/s        $(cat "$work/busyrate")   goal a quarter of the idle rate"
echo "4. the host's p99, times that of quiet              $(cat "$work/p99")   goal 2;"
echo "   published under load: mdraid 10.5 MB/s, xiRAID 316 MB/s"

# 6: killed in the middle, twice.
killed() {
    fill 60
    "$hostftl" device replace "$work/v.toml" 1 "$work/new" >/dev/null
    serve
    local all left again
    all=$(of .space.degraded_bytes)
    until [ "$(of .space.degraded_bytes)" -lt $((all / 2)) ]; do sleep 0.02; done
    left=$(of .space.degraded_bytes)
    end KILL
    serve
    again=$(of .space.degraded_bytes)
    echo "$all $left $again" | awk '{ r = 100 * ($3 - $2) / $1; print r < 0 ? 0 : r }' >>"$work/killed"
    end TERM
}
each killed
echo "6. % of the work that a kill makes again            $(spread 1 <"$work/killed")   goal 1"

# 10: the time that is left, when 5 % are done and some more, of which 5 s beside this host.
told() {
    fill 60
    "$hostftl" device replace "$work/v.toml" 1 "$work/new" >/dev/null
    serve
    # Slow, because the time is told in whole seconds.
    "$hostftl" set "$work/v.toml" rebuild-share=5 >/dev/null
    load --rw=randread --bs=4k --iodepth=1 --size=64M --time_based --runtime=600 --rate_iops=50 >/dev/null &
    local client=$! eta begun
    # What was done before the host came is no measure of what comes.
    sleep 5
    until [ "$(of '[.tasks[]? | select(.task != "scrub") | .done_bytes / (.done_bytes + .remaining_bytes) > 0.07][0]')" = true ]; do
        sleep 0.05
    done
    eta=$(of '.tasks[0]?.eta_seconds')
    begun=$(date +%s.%N)
    until [ "$(of '.space.degraded_bytes == 0')" = true ]; do sleep 0.02; done
    echo "$eta $begun $(date +%s.%N)" | awk '{ t = $3 - $2; e = 100 * ($1 - t) / t; print e < 0 ? -e : e }' >>"$work/eta"
    end KILL
    kill "$client" 2>/dev/null || true
    wait "$client" || true
}
each told
echo "10. error of the time that is left, %               $(spread 0 <"$work/eta")   goal 20"

# A scrub.
scrub() {
    fill 60
    serve
    local all begun
    all=$(of .space.physical_bytes)
    begun=$(date +%s.%N)
    "$hostftl" scrub "$work/v.toml" --wait >/dev/null
    echo "$all $begun $(date +%s.%N)" | awk '{ print $1 / ($3 - $2) / 1e6 }' >>"$work/scrub"
    end TERM
}
each scrub
echo "5. live MB/s that a scrub checks, idle              $(spread 0 <"$work/scrub")"
