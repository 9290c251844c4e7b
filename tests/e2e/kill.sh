#!/usr/bin/env bash
# kill -9 under load, ten times: what was flushed is there, and no sector is torn or misplaced.
#
# fio overwrites a region that it has filled before: afterwards each sector must verify, old or new.
# The verified writer knows what it flushed: each sector must be one of the versions that the
# promises allow.
source "$(dirname "$0")/lib.sh"
begin kill "$@"
need fio
rounds=${ROUNDS:-10}
writer=$("$root/scripts/cargo.sh" where)/examples/verified_writer
"$root/scripts/cargo.sh" build --release --quiet --workspace \
    --example verified_writer
load=
cleanup() {
    [ -z "$load" ] || kill -KILL "$load" 2>/dev/null
}

# A write that was not flushed may be torn, but only between sectors.
region=(--bs=4k --size=32M --verify=crc32c --verify_interval=512)
create vol 160M
serve
nbd_fio --rw=write --iodepth=32 "${region[@]}" --do_verify=0 --end_fsync=1
for round in $(seq "$rounds"); do
    fio "${fio_base[@]}" --rw=randwrite --iodepth=16 "${region[@]}" --do_verify=0 --fsync=64 \
        --time_based --runtime=60 --randseed="$round" >"$dir/fio.out" 2>&1 &
    load=$!
    "$writer" run "$sock" "$dir/state" "$round" &
    flushes=$!
    sleep 0.$((RANDOM % 6 + 3))
    crash
    wait "$load" || true
    load=
    wait "$flushes" || fail "round $round: the writer saw wrong data or an error before the kill"
    serve
    "$writer" check "$sock" "$dir/state" || fail "round $round: a sector broke the promise"
    nbd_fio --rw=read --iodepth=32 "${region[@]}" --verify_only ||
        fail "round $round: a sector is torn or misplaced"
done
stop
check
ok "$rounds kills: $("$writer" sum "$dir/state")"
