#!/usr/bin/env bash
# What clients ask is written down as a trace that can be read again, also when the disk is full.
source "$(dirname "$0")/lib.sh"
begin trace "$@"
need fio qemu-io jq

create
volume=$dir/vol.toml
rm -f "$dir/serve.out"
"$hostftl" serve "$volume" --nbd "unix:$sock" --record-trace "$dir/t.hft.zst" >"$dir/serve.out" &
server=$!
ready
qemu-io -f raw -t none -c 'write -P 1 1M 64k' -c 'read -P 1 1M 64k' -c 'discard 2M 1M' -c flush "$uri"
nbd_fio --rw=randrw --bs=4k --iodepth=16 --size=16M --io_size=16M
stop
"$hostftl" trace info "$dir/t.hft.zst" --json >"$dir/info.json"
cat "$dir/info.json" "$dir/serve.out"
jq -e '.requests >= 4096 + 4' "$dir/info.json" ||
    fail "the trace misses requests"
grep -q "trace .* requests" "$dir/serve.out" || fail "the last lines do not name the trace"

if [ "$(id -u)" = 0 ] && mkdir "$dir/small" && mount -t tmpfs -o size=64k tmpfs "$dir/small"; then
    cleanup() { umount "$dir/small"; }
    rm -f "$dir/serve.out"
    "$hostftl" serve "$volume" --nbd "unix:$sock" --record-trace "$dir/small/t.csv" \
        >"$dir/serve.out" 2>"$dir/serve.err" &
    server=$!
    ready
    nbd_fio --rw=randrw --bs=4k --iodepth=16 --size=32M --io_size=32M --verify=crc32c ||
        fail "a full disk under the trace disturbs clients"
    kill -TERM "$server"
    wait "$server" && fail "a trace that was not written is no error"
    server=
    grep -q 'trace recording stopped' "$dir/serve.err" || fail "no warning that the disk is full"
fi
check
ok "$(jq .requests "$dir/info.json") requests written down, and a full disk"
