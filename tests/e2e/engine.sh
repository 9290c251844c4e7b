#!/usr/bin/env bash
# Where io_uring is refused, worker threads do the same: data in, out, and there after kill -9.
source "$(dirname "$0")/lib.sh"
begin engine "$@"
need fio jq nbdcopy
export HOSTFTL_ENGINE=pread

create
serve
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e '.engine != "io_uring"' "$dir/status.json" || fail "the server uses io_uring all the same"
head -c 16M /dev/urandom >"$dir/in.img"
nbdcopy --flush "$dir/in.img" "$uri"
nbd_fio --rw=randwrite --bs=4k --iodepth=16 --size=32M --offset=32M --verify=crc32c --fsync=64 ||
    fail "random writes do not verify"
crash
serve
nbdcopy "$uri" "$dir/out.img"
cmp -n $((16 << 20)) "$dir/in.img" "$dir/out.img" || fail "flushed data is gone after kill -9"
stop
check
ok "copied, verified, and intact after kill -9 without io_uring"
