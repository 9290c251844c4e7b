#!/usr/bin/env bash
# A log array of 3 + 1 is scrubbed and rebuilt under fio while the server is killed again and again:
# rot is mended, two devices die one after the other, a new one comes, and everything verifies.
source "$(dirname "$0")/lib.sh"
begin heal log
need fio jq

load=
members=()
cleanup() {
    [ -z "$load" ] || kill -KILL "$load" 2>/dev/null
    for it in "${members[@]}"; do kill -KILL "$it"; wait "$it"; done 2>/dev/null
}

# member NUMBER: a server behind a device, so that the device can die.
member() {
    "$hostftl" create "$dir/m$1.toml" --device "$dir/m$1.img" --size 100M --layer passthrough
    "$hostftl" serve "$dir/m$1.toml" --nbd "unix:$dir/m$1.sock" >"$dir/m$1.out" &
    members[$1]=$!
    await "the server of a device is not ready" grep -qs '^ready' "$dir/m$1.out"
}

# die NUMBER: a device dies.
die() {
    kill -KILL "${members[$1]}"
    wait "${members[$1]}" 2>/dev/null || true
    unset "members[$1]"
}

old=(--bs=64k --iodepth=4 --offset=32M --size=32M --verify=crc32c)

# Writes beside what goes on, and verifies what it wrote.
begin_load() {
    fio "${fio_base[@]}" --rw=randwrite --bs=4k --iodepth=8 --size=24M --io_size=48M \
        --verify=crc32c --fsync=128 --rate_iops=6000 >"$dir/fio.out" 2>&1 &
    load=$!
}

end_load() {
    wait "$load" || { tail -n 20 "$dir/fio.out"; fail "$1: writes do not verify"; }
    load=
    all "$1"
}

# What was written when the server was killed is not asked for. fio may wait forever for a reply.
drop_load() {
    kill -KILL "$load" || true
    wait "$load" || true
    load=
}

# What is old is there.
all() {
    nbd_fio --rw=read "${old[@]}" --verify_only || fail "$1: what was written is not read"
}

status() {
    "$hostftl" status "$dir/vol.toml" --json >"$dir/status.json" || [ $? = 4 ]
    jq -e "$1" "$dir/status.json" >/dev/null
}

# until_so FILTER REASON: waits until the status matches the filter.
until_so() {
    await "$2" status "$1"
}

member 1
member 2
"$hostftl" create "$dir/vol.toml" --device "$dir/d0" \
    --device "nbd+unix:///?socket=$dir/m1.sock&timeout=6" \
    --device "nbd+unix:///?socket=$dir/m2.sock&timeout=6" --device "$dir/d3" --size 96M \
    --layer log:parity=yes
serve
nbd_fio --rw=write "${old[@]}" --do_verify=0 --end_fsync=1
stop

# Rot on one device, and a scrub that is killed three times.
for at in $(seq 8 2 40); do
    printf '\xff\x00\xff' | dd of="$dir/d3" bs=1 seek=$((at * 1048576 + 777)) conv=notrunc status=none
done
serve
"$hostftl" set "$dir/vol.toml" rebuild-share=1
begin_load
"$hostftl" scrub "$dir/vol.toml"
for round in 1 2 3; do
    [ -n "$load" ] || begin_load
    sleep 0.2
    crash
    drop_load
    serve
    # It goes on by itself, unless it was over already.
    status '(.tasks // []) | map(.task) | index("scrub")' || grep -q 'vol: scrub complete' "$log" ||
        fail "the scrub is forgotten in round $round"
done
until_so '(.tasks // []) == []' "the scrub is not over"
"$hostftl" scrub "$dir/vol.toml" --wait || fail "a scrub finds what can't be mended"
all "after the scrubs"

# One device dies under load; the server is killed while the others make up for it.
begin_load
sleep 0.3
die 1
end_load "the first loss"
for round in 1 2 3; do
    crash
    serve vol --degraded --wait-devices 0
done
until_so '.space.degraded_bytes == 0 and .space.failures_tolerated == 1' "nothing protects the volume"
"$hostftl" wait "$dir/vol.toml" rebuild

# A second one dies, and a new one comes for it.
begin_load
sleep 0.3
die 2
end_load "the second loss"
stop
"$hostftl" device replace "$dir/vol.toml" 2 "$dir/new" || fail "the device can't be replaced"
serve vol --wait-devices 0
for round in 1 2 3; do
    crash
    serve vol --wait-devices 0
done
begin_load
end_load "the new device"
until_so '.space.degraded_bytes == 0 and .space.failures_tolerated == 1' "the new device gets nothing"
"$hostftl" scrub "$dir/vol.toml" --wait || fail "a scrub finds damage after the rebuild"
stop
# One device is still missing.
"$hostftl" check "$dir/vol.toml" --data || [ $? = 4 ] || fail "hostftl check found something"
ok "rot, two losses, a new device and nine kills, and all verifies"
