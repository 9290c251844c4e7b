#!/usr/bin/env bash
# A tier over a log: the slow device of one volume is the export of another. Each of the two servers is
# killed under fio; no client sees an error, nothing that was flushed is lost, and the log gets far less
# than what clients overwrite.
source "$(dirname "$0")/lib.sh"
begin stacked tier
need fio jq

# serve_slow ARGUMENTS…: the log, on the socket of a device.
serve_slow() {
    rm -f "$dir/slow.out"
    "$hostftl" serve "$dir/slow.toml" --nbd "unix:$dir/back.sock" "$@" >"$dir/slow.out" &
    back=$!
    await "the log is not ready" grep -qs '^ready ' "$dir/slow.out"
}

sent() { "$hostftl" status "$dir/slow.toml" --json | jq '[.devices[].written_bytes] | add'; }
content() { echo --bs=4k --size=48M --verify=pattern "--verify_pattern=0x$1%o"; }

"$hostftl" create "$dir/slow.toml" --device "$dir/d0" --device "$dir/d1" --device "$dir/d2" \
    --parity 1 --layer log --size 128M
serve_slow
"$hostftl" create "$dir/both.toml" --device "$dir/fast" --size 16M \
    --device "nbd+unix:///?socket=$dir/back.sock" --layer tier:page=4k:policy=writes
serve both

# Most of what is overwritten stays on the fast device.
nbd_fio --rw=write --bs=1M --size=48M --end_fsync=1
before=$(sent)
nbd_fio --rw=randwrite --bs=4k --size=48M --io_size=96M --iodepth=8 --random_distribution=zipf:1.2 \
    --end_fsync=1
gained=$((($(sent) - before) >> 20))
[ "$gained" -lt 48 ] || fail "of 96 MiB that were overwritten the log's devices got $gained MiB"

# shellcheck disable=SC2046
fio "${fio_base[@]}" $(content 44) --rw=randwrite --iodepth=8 --rate_iops=4000 --fsync=64 --end_fsync=1 \
    >"$dir/fio.out" 2>&1 &
load=$!
sleep 1
lose_backing
# What the tier sent and had not flushed is sent again, so the log's client may go on.
serve_slow --reuse-export-name
wait "$load" || { tail -n 20 "$dir/fio.out"; fail "a client saw the death of the log's server"; }

crash
serve both
# shellcheck disable=SC2046
nbd_fio $(content 44) --rw=read --iodepth=16 --verify_only || fail "what was flushed is lost"
stop
kill -TERM "$back"
ended "$back" || fail "the log's server ended with status $?"
back=
"$hostftl" check --data "$dir/slow.toml" || fail "what is in the log is not sound"
ok "the log's devices got $gained MiB of 96 MiB overwritten; both servers killed, nothing lost"
