#!/usr/bin/env bash
# fio writes at random with several jobs, trims among it, and verifies every block.
source "$(dirname "$0")/lib.sh"
begin fio "$@"
need fio

create
serve
nbd_fio --rw=randwrite --bs=4k --iodepth=32 --numjobs=2 --size=64M --offset_increment=64M \
    --verify=crc32c --fsync=512 || fail "random 4 KiB writes do not verify"
nbd_fio --rw=randwrite --bssplit=512/10:4k/60:16k/20:128k/10 --blockalign=512 --iodepth=16 \
    --size=48M --offset=128M --verify=crc32c --fsync=128 || fail "mixed sizes do not verify"
nbd_fio --rw=randtrimwrite --bs=16k --iodepth=4 --size=32M --offset=128M --verify=crc32c ||
    fail "blocks trimmed and written again do not verify"
nbd_fio --rw=randrw --bs=4k --iodepth=16 --size=64M --io_size=64M --verify=crc32c ||
    fail "overwriting and reading do not verify"
stop
check
serve
nbd_fio --rw=read --bs=4k --iodepth=32 --size=64M --offset=64M --verify=crc32c --verify_only ||
    fail "blocks differ after a clean stop"
stop
ok "four kinds of load verified, and again after a clean stop"
