#!/usr/bin/env bash
# Several clients at once do not disturb each other, and one that dies harms nobody.
source "$(dirname "$0")/lib.sh"
begin clients "$@"
need fio nbdcopy

clients=()
cleanup() {
    kill -KILL "${clients[@]}" 2>/dev/null
}

create
serve
fio "${fio_base[@]}" --rw=randwrite --bs=4k --iodepth=16 --size=32M --verify=crc32c --fsync=256 \
    --time_based --runtime=4 &
clients+=($!)
fio "${fio_base[@]}" --rw=randwrite --bs=16k --iodepth=8 --size=48M --offset=32M \
    --verify=crc32c --time_based --runtime=4 &
clients+=($!)
fio "${fio_base[@]}" --rw=randrw --bs=128k --iodepth=32 --size=64M --offset=128M --time_based \
    --runtime=60 &
victim=$!
nbdcopy "$uri" "$dir/out.img" &
clients+=($!)
sleep 1.5
kill -KILL "$victim"
wait "$victim" || true
for client in "${clients[@]}"; do
    wait "$client" || fail "a client failed while others were at work"
done
clients=()

# Written through one connection, flushed through another, seen by a third.
nbdcopy --connections=4 --flush "$dir/out.img" "$uri"
nbdcopy --connections=1 "$uri" "$dir/back.img"
cmp "$dir/out.img" "$dir/back.img" || fail "four connections wrote something else than one read"
stop
check
ok "four clients at once, one killed, three verified"
