#!/usr/bin/env bash
# The shadow of a block device without a layer: the writes that the kernel sends to a loop device.
source "$(dirname "$0")/lib.sh"
begin device log
need fio jq losetup unshare

[ "$(id -u)" = 0 ] || skip "only root can read the kernel's block events"
truncate -s 80M "$dir/disk"
loop=$(losetup --find --show "$dir/disk") || skip "no loop device"
shadow=
cleanup() {
    [ -z "$shadow" ] || kill -KILL "$shadow"
    losetup --detach "$loop"
}
# Runs a command with tracefs mounted, which other processes do not see.
traced=(unshare --mount bash -c '[ -e /sys/kernel/tracing/events ] ||
    mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"' bash)
"${traced[@]}" test -e /sys/kernel/tracing/events/block || skip "the kernel has no block events"

"${traced[@]}" "$hostftl" shadow "$loop" --drive tlc --layers none --json >"$dir/figures" 2>"$dir/err" &
shadow=$!
# Requests before the recording starts are missed.
sleep 2
for _ in 1 2 3 4; do
    fio --name=load --filename="$loop" --ioengine=psync --direct=1 --rw=randwrite --bs=64k \
        --size=60M --io_size=120M --end_fsync=1
done
progress() { grep -q "of writes" "$dir/err"; }
await "no progress" progress
kill -TERM "$shadow"
wait "$shadow" || fail "it failed: $(cat "$dir/err")"
cat "$dir/err" "$dir/figures"
jq -e '.kind == "shadow" and .exported_bytes == 67108864' "$dir/figures" || fail "wrong capacity"
jq -e '.candidates[0] | .layer == "passthrough" and .waf >= 0.99 and .waf < 20' "$dir/figures" ||
    fail "no figure without a layer"
jq -e '.since_unix_ms > 0 and .host_bytes > 100000000' "$dir/figures" ||
    fail "writes of the device are missing"

"$hostftl" shadow "$dir/disk" 2>"$dir/err" && fail "a file is accepted"
grep -q "not a block device" "$dir/err" || fail "the error does not say what is wrong"
"$hostftl" shadow "$loop" --drive nosuch 2>"$dir/err" && fail "an unknown drive is accepted"
grep -q "nosuch" "$dir/err" || fail "the error does not name the drive"
ok "figures of a device without a layer"
