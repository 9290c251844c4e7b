#!/usr/bin/env bash
# An NBD server as the device of a volume: what is completed stays when the server dies and forgets,
# errors stay with their requests, slow and dead servers are noticed, other exports are refused.
source "$(dirname "$0")/lib.sh"
begin backing "$@"
need fio nbdkit nbdinfo qemu-io jq nbdcopy
need_filter log delay error cache

device="nbd+unix:///?socket=$dir/back.sock&timeout=4"
# What is not flushed is lost with the server, because it lies in a file that nobody else has.
forgetful=(--filter=log --filter=delay --filter=cache file "$dir/back.img" "logfile=$dir/back.log"
    cache=writeback rdelay=1ms wdelay=1ms)
truncate -s 256M "$dir/back.img"
backing "${forgetful[@]}"
"$hostftl" create "$dir/vol.toml" --device "$device" --layer "$layer"
grep -q 'Write ' "$dir/back.log" || fail "the filter saw no write"
check
serve vol --on-failure serve-errors
"$hostftl" create "$dir/other.toml" --device "$device" --layer "$layer" --force 2>"$dir/err" &&
    fail "two volumes have one export"
grep -q "is in use by process $server" "$dir/err" || fail "the error does not name the holder"

# Dies twice under load, flushed and unflushed writes in flight.
fio "${fio_base[@]}" --rw=randwrite --bs=4k --iodepth=16 --size=24M --io_size=96M \
    --verify=crc32c --fsync=200 &
load=$!
for _ in 1 2; do
    sleep 0.7
    lose_backing
    sleep 0.3
    backing "${forgetful[@]}"
done
wait "$load" || fail "writes do not verify over two deaths of the server"
nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M --verify=crc32c --verify_only || fail "lost writes"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json" || [ $? = 4 ]
jq -e '.devices[0] | .reconnects >= 1 and .connection_error == null and .kind == "NBD export"' \
    "$dir/status.json" || fail "the status does not tell of the reconnects"

# Gone for longer than its time-out: errors, and none afterwards.
lose_backing
timeout "$patience" qemu-io -f raw -t none -c 'read 4M 1M' "$uri" >"$dir/io.out" 2>&1 || true
grep -qi 'error' "$dir/io.out" || fail "a device that is gone reads"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json" || [ $? = 4 ]
jq -e '.devices[0].connection_error | contains("reconnecting")' "$dir/status.json" ||
    fail "the status does not tell that the server is gone"
backing "${forgetful[@]}"
is_back() {
    "$hostftl" status "$dir/vol.toml" --json >"$dir/status.json" || [ $? = 4 ]
    jq -e '.devices[0].connection_error == null' "$dir/status.json"
}
await "the status still shows the server as gone" is_back
nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M --verify=crc32c --verify_only ||
    fail "it does not go on when the server is there again"
# A layer that was writing then has failed for good, and says so at its end.
kill -TERM "$server"
status=0
ended "$server" || status=$?
[ $status -le 1 ] || fail "the server ended with status $status after SIGTERM"
server=
go_on=(--reuse-export-name)
check
lose_backing

# Errors reach the requests that they concern, and no others.
backing --filter=error file "$dir/back.img" error-pread=EIO error-pread-rate=100% \
    "error-pread-file=$dir/bad"
serve
touch "$dir/bad"
qemu-io -f raw -t none -c 'read 0 4k' "$uri" >"$dir/io.out" 2>&1 || true
grep -qi 'input/output error' "$dir/io.out" || fail "a read that failed is no error"
rm "$dir/bad"
nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M --verify=crc32c --verify_only ||
    fail "an error did not end with its request"
stop
check
lose_backing

# Another export in its place is not written to.
backing "${forgetful[@]}"
serve
lose_backing
backing memory 256M
qemu-io -f raw -t none -c 'write -f -P 7 0 4k' "$uri" >"$dir/io.out" 2>&1 || true
grep -qi 'error' "$dir/io.out" || fail "it writes to another export"
nbdcopy "nbd+unix:///?socket=$dir/back.sock" "$dir/other.img"
cmp -n $((256 << 20)) "$dir/other.img" /dev/zero || fail "another export was written to"
crash
lose_backing

# import finds the volume again.
backing file "$dir/back.img"
"$hostftl" import "$device" --output "$dir/again.toml"
"$hostftl" check "$dir/again.toml" || fail "the imported volume is not sound"
ok "two deaths with amnesia, a long absence, errors, another export, import"
