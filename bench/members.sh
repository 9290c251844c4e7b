#!/usr/bin/env bash
# What a change of members of a `log` volume costs: a loss without a spare and then another one, a
# device that comes back, more devices, one that leaves. Four files as devices, data that does not pack,
# BENCH_RUNS runs (5) with BENCH_SIZE (512M) of each device: median (lowest–highest). All data is read
# back and compared after each part; a wrong block ends the run with an error.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
source bench/volume.sh
size=${BENCH_SIZE:-512M}

# made PERCENT: a volume of which so much is filled with what can be checked, and served.
made() {
    volume "$size"
    serve
    filled=$(($(of .exported_bytes) / 100 * $1 / 1048576))M
    checked --rw=write --do_verify=0 --end_fsync=1
}

# checked ARGUMENTS…: fio over what is filled, each block of which has its checksum.
checked() {
    load --bs=256k --iodepth=8 --size="$filled" --verify=crc32c --verify_fatal=1 "$@" >/dev/null
}

compare() {
    checked --rw=read --verify_only=1
}

# What lies on each of four devices: a fourth of what is live and its parity, which is a third more.
on_one() { echo $(($(of .space.physical_bytes) / 3)); }

# 2: two losses, no spare.
losses() {
    local begun live
    made 30
    live=$(of .space.physical_bytes)
    begun=$(date +%s.%N)
    "$hostftl" device offline "$work/v.toml" 1 >/dev/null
    until [ "$(of '.space.degraded_bytes == 0 and .space.failures_tolerated == 1')" = true ]; do sleep 0.02; done
    echo "$live $begun $(date +%s.%N)" | awk '{ print $3 - $2, $1 / ($3 - $2) / 1e6 }' >>"$work/losses"
    "$hostftl" device offline "$work/v.toml" 2 >/dev/null
    compare
    end TERM
}
each losses
echo "2. seconds until all has parity on three of four     $(awk '{ print $1 }' "$work/losses" | spread 2)"
echo "2. the same in live MB/s                             $(awk '{ print $2 }' "$work/losses" | spread 0)"
echo "2. blocks wrong after one more loss                  0 in ${BENCH_RUNS:-5} runs   goal 0"

# 7: one is away for a while, from a root on, and comes back beside its host: it gets what came since
# the last root that it has.
away() {
    local begun written sent
    made 50
    end TERM
    serve
    "$hostftl" device offline "$work/v.toml" 1 >/dev/null
    load --rw=write --bs=256k --iodepth=8 --size=16M --verify=crc32c --do_verify=0 --end_fsync=1 >/dev/null
    written=$((16 << 20))
    begun=$(date +%s.%N)
    "$hostftl" device online "$work/v.toml" 1 >/dev/null
    until [ "$(of '.events["device-joined"] == 1 and .space.degraded_bytes == 0')" = true ]; do sleep 0.02; done
    sent=$(of '.devices[1].written_bytes')
    echo "$begun $(date +%s.%N) $sent $written $(on_one)" |
        awk '{ print $2 - $1, $3 / $4, 100 * $3 / $5 }' >>"$work/away"
    compare
    end TERM
}
each away
echo "7. seconds until a device is back that missed 16 MiB $(awk '{ print $1 }' "$work/away" | spread 2)"
echo "7. bytes sent to it for each that it missed          $(awk '{ print $2 }' "$work/away" | spread 2)   goal 1"
echo "7. the same in % of what lies on it                  $(awk '{ print $3 }' "$work/away" | spread 1)"

# 8: one more.
more() {
    local said got sent
    made 50
    end TERM
    said=$("$hostftl" device add "$work/v.toml" "$work/more" --dry-run --json | jq .usable_bytes)
    "$hostftl" device add "$work/v.toml" "$work/more" >/dev/null
    serve
    got=$(of .exported_bytes)
    until [ "$(of '.devices | length == 5 and all(.health == "online")')" = true ]; do sleep 0.02; done
    sent=$(of .traffic.device_write_bytes.total)
    echo "$said $got $sent $(of .space.physical_bytes)" |
        awk '{ print ($1 == $2) ? 0 : 1, $3 / 1024, 100 * $3 / $4 }' >>"$work/more-said"
    compare
    end TERM
}
each more
echo "8. runs in which the size is not what was said       $(awk '{ n += $1 } END { print n }' "$work/more-said")   goal 0"
echo "8. KiB sent until the fifth device belongs           $(awk '{ print $2 }' "$work/more-said" | spread 0)   roots alone"

# 9: one leaves, after it was to leave and stayed.
leaves() {
    local begun sent
    made 30
    "$hostftl" device remove "$work/v.toml" 3 >/dev/null
    "$hostftl" device remove "$work/v.toml" 3 --cancel >/dev/null
    [ "$(of '.space.degraded_bytes == 0 and .space.failures_tolerated == 1')" = true ]
    sent=$(of .traffic.device_write_bytes.total)
    begun=$(date +%s.%N)
    "$hostftl" device remove "$work/v.toml" 3 --wait >/dev/null
    echo "$begun $(date +%s.%N) $(($(of .traffic.device_write_bytes.total) - sent)) $(of .space.physical_bytes)" |
        awk '{ print $2 - $1, $3 / ($4 * 3 / 2) }' >>"$work/leaves"
    compare
    end TERM
    made 90
    if "$hostftl" device remove "$work/v.toml" 3 >"$work/said" 2>&1; then
        echo "a device left that was needed" >&2
        exit 1
    fi
    compare
    end TERM
}
each leaves
echo "9. seconds until one of four has left                $(awk '{ print $1 }' "$work/leaves" | spread 2)"
echo "9. bytes sent for each that lives, with its parity   $(awk '{ print $2 }' "$work/leaves" | spread 2)   goal 1.05"
echo "9. and where the others are too small: $(sed 's/^hostftl: [^:]*: //' "$work/said")"
