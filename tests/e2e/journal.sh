#!/usr/bin/env bash
# A log whose flushes go to a journal of its own, which gives errors under fio: no client notices, it
# is said loudly, the journal comes back beside the clients, and a kill after that loses nothing.
source "$(dirname "$0")/lib.sh"
begin journal log
need fio nbdkit jq
need_filter error

load=
cleanup() {
    [ -z "$load" ] || kill -KILL "$load" 2>/dev/null
}

# Every read and write of the journal fails while there is a file "bad".
truncate -s 64M "$dir/journal.img"
backing --filter=error file "$dir/journal.img" error-pread=EIO \
    error-pwrite=EIO error-rate=100% "error-file=$dir/bad"
journal="nbd+unix:///?socket=$dir/back.sock&timeout=4"
"$hostftl" create "$dir/v.toml" --device "$dir/rows" --journal "$journal" --layer log --size 128M

state() { "$hostftl" status "$dir/v.toml" --json >"$dir/status.json" || [ $? = 4 ]; }
written() { jq '.traffic.write_path[] | select(.step == "journal") | .bytes' "$dir/status.json"; }

# content BYTE: what a load writes, so that an older load's blocks are not taken for it.
content() { echo --bs=4k --size=6M --verify=pattern "--verify_pattern=0x$1%o"; }

# begin_load BYTE: writes each block of 6 MiB with a flush after it, in the background, for a second;
# verified at the end.
begin_load() {
    # shellcheck disable=SC2046
    fio "${fio_base[@]}" $(content "$1") --rw=randwrite --iodepth=4 --rate_iops=1500 --fsync=1 \
        --end_fsync=1 >"$dir/fio.out" 2>&1 &
    load=$!
}

end_load() {
    wait "$load" || { tail -n 20 "$dir/fio.out"; fail "$1: a client saw an error"; }
    load=
}

serve v 2>"$dir/serve.err"
begin_load 11
sleep 0.5
touch "$dir/bad"
end_load "errors of the journal"
grep -q 'DEGRADED: device 1 .* was lost' "$dir/serve.err" || fail "serve does not say what it lost"
state
jq -e '.degraded and .devices[1].role == "journal" and .devices[1].health == "lost"' \
    "$dir/status.json" || fail "the status does not tell of the lost journal"

# It works again: an operator says so, while a client writes.
rm "$dir/bad"
begin_load 22
sleep 0.3
"$hostftl" device online "$dir/v.toml" "$journal" || fail "the journal is not taken back"
end_load "the journal comes back"
state
jq -e '(.degraded | not) and .devices[1].health == "online"' "$dir/status.json" ||
    fail "the status does not say that the journal is back"
before=$(written)
begin_load 33
end_load "with the journal again"
# fio leaves out the flush at its end when the last thing that it sent was one, which need not cover
# the writes under way then. So there is one more, behind a write that is answered.
nbd_fio --bs=4k --offset=8M --size=4k --rw=write --iodepth=1 --end_fsync=1 ||
    fail "the last flush is not answered"
state
[ "$(written)" -gt "$before" ] || fail "flushes do not go to the journal that is back"

crash
serve v
# shellcheck disable=SC2046
nbd_fio $(content 33) --rw=read --iodepth=16 --verify_only ||
    fail "what was flushed is not there after a kill"
stop
"$hostftl" check --data "$dir/v.toml" || fail "what is there is not sound after a kill"
ok "errors under a client, back beside a client, and a kill after that"
